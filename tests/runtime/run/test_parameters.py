"""What a client wants of the model, put in the place of the agent's own settings and held within them."""

from typing import Any

import pytest

from app.models.negotiate import ModelChoice
from app.runtime.run.parameters import requested_parameters
from app.workspace.specs.agent import AgentSpec
from app.workspace.specs.base import Parameters
from tests.models.provider_setup import a_model


def agent(**fields: Any) -> AgentSpec:
    return AgentSpec.model_validate(fields)


def plan(*most: int | None) -> ModelChoice:
    """A primary model and its stand-ins, each with the tokens that the workspace sets for it."""
    models = [a_model(f"m{n}", "openai", "m", parameters=Parameters(maxTokens=one)) for n, one in enumerate(most)]
    return ModelChoice(models[0], tuple(models[1:]))


def test_what_is_wanted_takes_the_place_of_the_agent_s_own() -> None:
    made = requested_parameters(agent(parameters={"temperature": 0.1, "seed": 1}), {"temperature": 0.9, "stop": ["a"]})
    assert (made.parameters.temperature, made.parameters.seed, made.parameters.stop) == (0.9, 1, ("a",))


@pytest.mark.parametrize(
    ("own", "models", "wanted", "most"),
    [
        (100, (None,), 500, 100), (100, (None,), 50, 50), (100, (20,), 500, 100), (None, (None,), 500, 500),
        (None, (80, None), 500, 80), (None, (80, 30), 500, 30), (None, (80,), 10, 10),
    ],
)  # fmt: skip
def test_tokens_are_only_ever_lowered(own: int | None, models: tuple[int | None, ...], wanted: int, most: int) -> None:
    spec = agent(parameters={} if own is None else {"maxTokens": own})
    assert requested_parameters(spec, {"maxTokens": wanted}).within(plan(*models)).max_tokens == most


def test_an_effort_leaves_the_agent_s_bound_on_thinking_unless_there_is_to_be_none() -> None:
    spec = agent(reasoning={"effort": "low", "budgetTokens": 2000})
    high, none = (
        requested_parameters(spec, {"effort": "high"}).reasoning,
        requested_parameters(spec, {"effort": "none"}).reasoning,
    )
    assert (high.effort, high.budget_tokens) == ("high", 2000)
    assert (none.effort, none.budget_tokens) == ("none", None)


@pytest.mark.parametrize(
    ("own", "wanted", "parallel"), [(True, False, False), (False, True, False), (True, True, True)]
)
def test_calls_at_once_are_only_ever_taken_away(own: bool, wanted: bool, parallel: bool) -> None:
    assert requested_parameters(agent(parallelTools=own), {"parallelTools": wanted}).parallel is parallel
