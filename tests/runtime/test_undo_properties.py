"""Random sequences of calls that can be undone: an undo after any prefix restores a model of the world."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from app.core.settings import Settings
from tests.server import in_process
from tests.undo_world import Doer, World, do, make_workspace, payments, undo, write

_calls = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(["a", "b", "d/c"]), st.text("xyz\n\u00e4", max_size=4)),
        st.tuples(st.just("charge"), st.integers(1, 9), st.none()),
        st.tuples(st.just("book"), st.sampled_from(["1A", "2B", "3C"]), st.none()),
    ),
    max_size=7,
)


class _Model:
    """What the world should be."""

    def __init__(self, seen: dict[str, Any]) -> None:
        self.files = {name: content.decode() for name, content in seen["files"].items()}
        self.balance, self.seats = seen["balance"], set(seen["seats"])

    def step(self, call: tuple[str, Any, Any], number: int) -> tuple[str, Any] | None:
        """The call that does it, None for what is not possible in this world."""
        kind, subject, value = call
        if kind == "write":
            made = write(subject, value, self.files.get(subject))
            self.files[subject] = value
            return made
        if kind == "charge":
            self.balance += subject
            return "charge", {"amount": subject}
        seat = f"{subject}-{number}"
        self.seats.add(seat)
        return "book", {"seat": seat}

    def state(self) -> dict[str, Any]:
        files = {name: content.encode() for name, content in self.files.items()}
        return {"files": files, "balance": self.balance, "seats": sorted(self.seats)}


@pytest.mark.requirement("HK-37")
@pytest.mark.parametrize("examples", [12, pytest.param(150, marks=pytest.mark.faults)])
async def test_an_undo_after_any_prefix_restores_the_world(settings: Settings, tmp_path: Path, examples: int) -> None:
    async with payments() as shop:
        workspace = make_workspace(tmp_path / "workspace", shop)
        settings = settings.model_copy(update={"workspace": workspace})
        world = World(settings, workspace, shop)
        async with in_process(settings, {"native": Doer()}) as server:
            loop = asyncio.get_running_loop()

            async def example(calls: list[tuple[str, Any, Any]], keep: int) -> None:
                async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
                    await _example(world, client, calls, keep)

            @effort(
                max_examples=examples if not settings.is_postgres else max(4, examples // 3),
                deadline=None,
                database=None,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            )
            @given(_calls, st.integers(0, 7))
            def explore(calls: list[tuple[str, Any, Any]], keep: int) -> None:
                asyncio.run_coroutine_threadsafe(example(calls, keep), loop).result(60)

            await asyncio.to_thread(explore)
    assert set(shop.refunds.values()) <= {1}


async def _example(world: World, client: httpx2.AsyncClient, calls: list[tuple[str, Any, Any]], keep: int) -> None:
    model, before, kept = _Model(world.seen()), world.seen(), None
    steps: list[tuple[str, Any]] = []
    for number, call in enumerate(calls):
        if number == keep:
            kept = model.state()
            steps.append(("checkpoint", "kept"))
        made = model.step(call, number)
        if made is not None:
            steps.append(made)
    run = await do(client, *steps)
    assert world.seen() == model.state()
    if kept is not None:
        undone = await undo(client, run, "kept")
        assert (undone["output"]["verdict"], world.seen()) == ("done", kept)
    for _ in range(2):  # a second undo changes nothing
        undone = await undo(client, run)
        assert (undone["output"]["verdict"], world.seen()) == ("done", before)
    assert undone["output"]["executed"] == []
