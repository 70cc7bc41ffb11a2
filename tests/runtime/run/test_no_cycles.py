"""A run that ends is freed at once: it leaves no cycle of references for the garbage collector, whose pauses delay the
streams of all other runs."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.core.resources import shipped
from app.core.settings import Settings
from tests.runs import ended, opened, submit


@contextmanager
def collected() -> Iterator[Counter[str]]:
    """The classes of ours whose instances only a collection finds afterwards."""
    found = Counter[str]()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(f"{type(it).__module__}.{type(it).__qualname__}" for it in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        pytest.param("echo", "hello", id="words"),
        pytest.param("assistant", "please calculate this", id="tool"),
        pytest.param("assistant", "hello", id="model"),
    ],
)
async def test_a_run_that_ends_leaves_no_cycle(settings: Settings, agent: str, text: str) -> None:
    async with opened(settings, Path(shipped("workspaces")) / "demo") as holdfast:
        for _ in range(2):  # what is made once for all runs
            await ended(holdfast, await submit(holdfast, agent, text))
        await holdfast.executor.idle()
        with collected() as found:
            for _ in range(3):
                await ended(holdfast, await submit(holdfast, agent, text))
            await holdfast.executor.idle()
            await asyncio.sleep(0)
        assert not {name: times for name, times in found.items() if name.startswith("app.")}
