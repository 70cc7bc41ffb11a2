"""Plans made from a compiled workspace, down to the demo that ships."""

from typing import Any

from app.core.resources import shipped
from app.models.completion import CompletionRequest, Message, ToolDef
from app.models.plans import ModelPlans
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled, CompiledWorkspace, Named
from app.workspace.files import read_folder
from app.workspace.specs.agent import ModelPlan
from app.workspace.specs.model import ModelSpec
from tests.models.provider_setup import open_provider_setup


def a_workspace(name: str) -> CompiledWorkspace:
    compiled = compile(read_folder(shipped("workspaces") / name), kind_catalog())
    assert isinstance(compiled, Compiled)
    return compiled.workspace


def some_models(**fallbacks: list[str]) -> dict[str, Named[ModelSpec]]:
    return {
        name: Named(
            name, "", {}, ModelSpec.model_validate({"provider": "scripted", "model": name, "fallbacks": tuple(others)})
        )
        for name, others in fallbacks.items()
    }


def test_a_plans_own_stand_ins_come_before_those_of_its_models() -> None:
    plans = ModelPlans(some_models(a=["c"], b=["a", "d"], c=[], d=["c"]))
    plan = plans.plan(
        ModelPlan.model_validate({"primary": "a", "fallbacks": ("b",), "requiredCapabilities": ("tools",)})
    )
    assert [plan.primary.name, *(model.name for model in plan.fallbacks)] == ["a", "b", "c", "d"]
    assert plan.required == {"tools"}


def test_plans_that_differ_in_what_they_demand_are_kept_apart() -> None:
    plans = ModelPlans(some_models(a=[]))
    wanted: list[dict[str, Any]] = [{}, {"minProviderApiVersion": "2024-01-01"}, {"strictCapabilityNegotiation": True}]
    made = [plans.plan(ModelPlan.model_validate({"primary": "a", **more})).constraints for more in wanted]
    assert [(it.min_api_version, it.strict) for it in made] == [(None, False), ("2024-01-01", False), (None, True)]


async def test_the_demos_model_answers_by_its_script() -> None:
    workspace = a_workspace("demo")
    wanted = workspace.agents["assistant"].model_plan
    assert wanted is not None
    plan = ModelPlans(workspace.models).plan(wanted)
    async with open_provider_setup("scripted", in_turn=False) as setup:
        said = await setup.answer(CompletionRequest((Message("user", "whatever"),)), plan)
        assert said.text == "You said: whatever"
        request = CompletionRequest((Message("user", "hello"),), tools=(ToolDef("echo"),))
        assert (await setup.answer(request, plan)).tool_calls[0].name == "echo"
        again = await setup.answer(CompletionRequest((Message("user", "try again please"),)), plan)
        assert again.text == "It worked at the second attempt."


def test_every_shipped_workspace_has_models_that_we_know() -> None:
    for name in ("demo", "openai", "local"):
        workspace = a_workspace(name)
        plans = ModelPlans(workspace.models)
        for model in workspace.models:
            assert plans.config(model).provider in ("openai", "ollama", "scripted")
