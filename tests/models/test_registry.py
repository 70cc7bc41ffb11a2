"""Provider kinds from installed packages."""

import sys
from collections.abc import AsyncGenerator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from app.models import registry
from app.models.completion import ToolCall
from app.models.config import ModelConfig
from app.models.contract import Batch, Completed, Provider, ProviderCall, ProviderDeps, Started, TextDelta
from app.models.negotiate import ModelPlan
from app.models.registry import Providers, installed_kinds
from tests.models.house import a_house


class Custom:
    capabilities = frozenset({"streaming"})

    def notes(self, call: ProviderCall) -> list[str]:
        return []

    async def stream(self, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        yield [Started("custom"), TextDelta("from a package"), ToolCall("c", "t", {}), Completed("tool_use")]


def a_kind(deps: ProviderDeps) -> Provider:
    return Custom()


@pytest.mark.requirement("HK-16")
async def test_a_kind_of_an_installed_package_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__].__name__
    points = [EntryPoint("custom", f"{module}:a_kind", registry.ENTRY_POINT_GROUP)]

    def offered(group: str) -> list[EntryPoint]:
        return points if group == "holdfast.providers" else []

    monkeypatch.setattr(registry, "entry_points", offered)
    async with a_house("scripted") as house:
        deps: Any = None
        house.router._providers = Providers(installed_kinds(), deps)
        answer = await house.answer(plan=ModelPlan(ModelConfig("m", "custom", "x")))
        assert answer.text == "from a package" and answer.tool_calls[0].name == "t"


async def test_a_kind_is_imported_only_when_used_and_one_that_cannot_be_disqualifies_its_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [EntryPoint("broken", "no_such_module:factory", registry.ENTRY_POINT_GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    deps: Any = None
    providers = Providers(installed_kinds(), deps)
    assert providers.names() == ["broken"]
    async with a_house("scripted") as house:
        house.router._providers = providers
        failure = await house.failure(plan=ModelPlan(ModelConfig("m", "broken", "x")))
        assert failure.detail["candidates"] == [{"model": "m", "lacks": ["provider:broken"]}]
