"""What a client wants of a run's answering model calls, within what the agent and its models allow.

`requested` is JSON as the run's first event has it: the knobs of an agent's `parameters`, `effort` and `parallelTools`.
Pure. Leaves to others: whether the values make sense (the protocols), what a provider knows of them (the models room).
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core.value import value
from app.models.completion import ReasoningLevel
from app.models.negotiate import ModelChoice
from app.workspace.specs.agent import AgentSpec
from app.workspace.specs.base import Parameters, Reasoning

_KNOBS: Final = {
    "temperature": "temperature",
    "topP": "top_p",
    "maxTokens": "max_tokens",
    "stop": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}


@value(frozen=True, slots=True)
class RequestedParameters:
    """The agent's own settings with the client's in their place."""

    parameters: Parameters
    reasoning: Reasoning
    parallel: bool
    bounded: bool
    """Whether the agent says how many tokens an answer may have; else its models' own settings do."""

    def within(self, plan: ModelChoice) -> Parameters:
        """No model of the plan is asked for more tokens than the workspace set for it."""
        if self.bounded or self.parameters.max_tokens is None:
            return self.parameters
        set_for = (model.parameters.max_tokens for model in (plan.primary, *plan.fallbacks))
        most = min((limit for limit in set_for if limit is not None), default=None)
        if most is None or most >= self.parameters.max_tokens:
            return self.parameters
        return self.parameters.model_copy(update={"max_tokens": most})


def requested_parameters(spec: AgentSpec, requested: Mapping[str, Any]) -> RequestedParameters:
    given = {name: requested[key] for key, name in _KNOBS.items() if key in requested}
    own = spec.parameters.max_tokens
    if own is not None and "max_tokens" in given:
        given["max_tokens"] = min(own, given["max_tokens"])
    if "stop" in given:
        given["stop"] = tuple(given["stop"])
    reasoning = spec.reasoning
    if (effort := requested.get("effort")) is not None:
        # The agent's number of tokens still bounds the thinking, unless there is to be none.
        changed = {"effort": effort, "budget_tokens": None} if effort == "none" else {"effort": effort}
        reasoning = reasoning.model_copy(update=changed)
    parallel = spec.parallel_tools and requested.get("parallelTools", True)
    return RequestedParameters(spec.parameters.model_copy(update=given), reasoning, parallel, own is not None)


def sampling(knobs: Parameters) -> dict[str, Any]:
    """The knobs as a completion request names them."""
    return {
        "max_tokens": knobs.max_tokens,
        "temperature": knobs.temperature,
        "top_p": knobs.top_p,
        "stop": knobs.stop,
        "seed": knobs.seed,
        "presence_penalty": knobs.presence_penalty,
        "frequency_penalty": knobs.frequency_penalty,
    }


def reasoning_level(wanted: Reasoning) -> ReasoningLevel | None:
    if wanted.effort is None and wanted.budget_tokens is None:
        return None
    return ReasoningLevel(wanted.effort, wanted.budget_tokens)
