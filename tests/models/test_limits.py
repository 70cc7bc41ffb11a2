"""Turns between tenants, and rates that hold in any minute."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.core.clock import ManualClock
from app.core.errors import Failure
from app.models.config import ModelConfig
from app.models.limits import Limiter, Slot
from app.workspace.specs.model import ModelLimits
from tests.models.provider_setup import a_model


def limited(name: str = "m", **limits: Any) -> ModelConfig:
    return a_model(name, "scripted", "test", limits=ModelLimits.model_construct(**limits))


class Later:
    """Timers that fire when the test says so."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, action: Callable[[], None]) -> "Later":
        self.due.append((seconds, action))
        return self

    def cancel(self) -> None:
        self.due.clear()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.requirement("HK-31")
async def test_tenants_take_turns_however_many_calls_one_of_them_waits_with() -> None:
    limiter, order = Limiter(ManualClock(), concurrency=1), list[str]()
    first = await limiter.acquire(limited(), "noisy", 1)
    assert isinstance(first, Slot)

    async def call(tenant: str) -> None:
        slot = await limiter.acquire(limited(), tenant, 1)
        assert isinstance(slot, Slot)
        order.append(tenant)
        slot.release()

    calls = [asyncio.create_task(call("noisy")) for _ in range(10)]
    await settle()
    calls += [asyncio.create_task(call("quiet")) for _ in range(2)]
    await settle()
    first.release()
    await asyncio.gather(*calls)
    assert order[:4] == ["noisy", "quiet", "noisy", "quiet"]
    assert limiter.running == limiter.waiting == 0


async def test_a_model_that_is_full_does_not_hold_up_another() -> None:
    limiter = Limiter(ManualClock(), concurrency=10)
    full = limited("full", concurrency=1)
    assert isinstance(await limiter.acquire(full, "t", 1), Slot)
    waiting = asyncio.create_task(limiter.acquire(full, "t", 1))
    await settle()
    assert isinstance(await asyncio.wait_for(limiter.acquire(limited("free"), "t", 1), 30), Slot)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert limiter.waiting == 0


async def test_no_more_requests_start_in_any_minute_than_allowed() -> None:
    clock, later = ManualClock(), Later()
    limiter = Limiter(clock, later=later)
    model = limited(requests_per_minute=3)
    for _ in range(3):
        assert isinstance(await limiter.acquire(model, "t", 1), Slot)
        clock.advance(10)
    fourth = asyncio.create_task(limiter.acquire(model, "t", 1))
    await settle()
    [(seconds, wake)] = later.due
    assert not fourth.done() and seconds == pytest.approx(30)
    clock.advance(seconds)
    wake()
    assert isinstance(await asyncio.wait_for(fourth, 30), Slot)


async def test_tokens_are_counted_as_estimated_and_corrected_to_what_was_used() -> None:
    clock, later = ManualClock(), Later()
    limiter = Limiter(clock, later=later)
    model = limited(tokens_per_minute=1000)
    slot = await limiter.acquire(model, "t", 900)
    assert isinstance(slot, Slot)
    waiting = asyncio.create_task(limiter.acquire(model, "t", 500))
    await settle()
    assert not waiting.done()
    slot.release(used_tokens=100)
    assert isinstance(await asyncio.wait_for(waiting, 30), Slot)


async def test_a_call_larger_than_the_minute_runs_alone_instead_of_never() -> None:
    limiter = Limiter(ManualClock(), later=Later())
    assert isinstance(await limiter.acquire(limited(tokens_per_minute=10), "t", 5000), Slot)


@pytest.mark.requirement("G13")
async def test_a_full_queue_refuses() -> None:
    limiter = Limiter(ManualClock(), concurrency=1, max_waiting=1)
    await limiter.acquire(limited(), "t", 1)
    waiting = asyncio.create_task(limiter.acquire(limited(), "t", 1))
    await settle()
    refused = await limiter.acquire(limited(), "t", 1)
    assert isinstance(refused, Failure) and refused.code == "MODEL_QUEUE_FULL" and refused.retryable
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_slot_released_twice_counts_once() -> None:
    limiter = Limiter(ManualClock())
    slot = await limiter.acquire(limited(), "t", 1)
    assert isinstance(slot, Slot)
    slot.release()
    slot.release()
    assert limiter.running == 0
