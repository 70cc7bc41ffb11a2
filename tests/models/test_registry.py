"""Provider kinds from installed packages."""

from collections.abc import AsyncGenerator
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.models.completion import ToolCall
from app.models.contract import (
    Batch,
    Completed,
    Provider,
    ProviderCall,
    ProviderDeps,
    ProviderKind,
    Started,
    TextDelta,
)
from app.models.negotiate import ModelChoice
from app.models.registry import Providers
from app.wiring import kinds
from app.wiring.kinds import PROVIDERS
from app.workspace.catalog import Kinds
from tests.models.provider_setup import a_model, open_provider_setup


class Custom:
    capabilities = frozenset({"streaming"})

    def notes(self, call: ProviderCall) -> list[str]:
        return []

    async def stream(self, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        yield [Started("custom"), TextDelta("from a package"), ToolCall("c", "t", {}), Completed("tool_use")]


def a_kind(deps: ProviderDeps) -> Provider:
    return Custom()


KIND = ProviderKind(name="custom", make=a_kind)


def offered(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> Kinds[ProviderKind]:
    monkeypatch.setattr(kinds, "installed_points", lambda: EntryPoints(points))
    return kinds.with_installed("holdfast.providers", ProviderKind, PROVIDERS)


@pytest.mark.requirement("HK-16")
async def test_a_kind_of_an_installed_package_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = offered(monkeypatch, EntryPoint("custom", f"{__name__}:KIND", "holdfast.providers"))
    async with open_provider_setup("scripted") as setup:
        deps: Any = None
        setup.router._providers = Providers(found, deps)
        answer = await setup.answer(plan=ModelChoice(a_model("m", "custom", "x")))
        assert answer.text == "from a package" and answer.tool_calls[0].name == "t"


async def test_a_kind_is_imported_only_when_used_and_one_that_cannot_be_disqualifies_its_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deps: Any = None
    found = offered(monkeypatch, EntryPoint("broken", "no_such_module:KIND", "holdfast.providers"))
    providers = Providers(found, deps)
    assert "broken" in providers.names()
    async with open_provider_setup("scripted") as setup:
        setup.router._providers = providers
        failure = await setup.failure(plan=ModelChoice(a_model("m", "broken", "x")))
        assert failure.detail["candidates"] == [{"model": "m", "lacks": ["provider:broken"]}]


async def test_a_kind_whose_making_fails_disqualifies_its_models_alone() -> None:
    def fails(deps: ProviderDeps) -> Provider:
        raise RuntimeError("no licence")

    deps: Any = None
    providers = Providers(Kinds([ProviderKind(name="broken", make=fails), KIND]), deps)
    assert providers.get("broken") is None
    assert isinstance(providers.get("custom"), Custom)


def test_a_kind_that_ships_wins_over_one_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = offered(monkeypatch, EntryPoint("openai", f"{__name__}:KIND", "holdfast.providers"))
    with capture_logs() as logs:
        found = kinds.with_installed("holdfast.providers", ProviderKind, PROVIDERS)
    assert found["openai"] is PROVIDERS[0]
    assert [(entry["log_level"], entry["name"], entry["package"]) for entry in logs] == [
        ("warning", "openai", __name__)
    ]
