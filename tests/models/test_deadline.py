"""Deadlines of several calls at once: each has its own time, although one timer looks at all of them."""

import asyncio
import time

import pytest

from app.models.deadline import Alarm, Deadline, Ended


async def never_answered(alarm: Alarm, seconds: float) -> None:
    with Deadline(alarm, total=60) as deadline:
        deadline.bound(60, "first token", seconds)
        await asyncio.Event().wait()


async def ended_after(alarm: Alarm, seconds: float) -> float:
    began = time.monotonic()
    with pytest.raises(Ended, match="first token"):
        await never_answered(alarm, seconds)
    return time.monotonic() - began


@pytest.mark.parametrize("waits", [(0.05, 0.15), (0.15, 0.05), (0.1, 0.1)])
async def test_each_of_several_deadlines_ends_its_own_call_in_its_own_time(waits: tuple[float, float]) -> None:
    alarm = Alarm()
    took = await asyncio.wait_for(asyncio.gather(*(ended_after(alarm, seconds) for seconds in waits)), 10)
    assert all(waited >= seconds - 0.01 for seconds, waited in zip(waits, took, strict=True))
    assert not alarm.deadlines


async def test_a_timer_that_was_set_for_a_call_that_is_over_does_not_end_another() -> None:
    alarm = Alarm()
    with Deadline(alarm, total=0.01):
        pass
    with Deadline(alarm, total=60):
        await ended_after(alarm, 0.05)  # by then that timer has looked at both
    assert not alarm.deadlines


async def test_what_happened_in_time_is_expected_anew_and_never_while_it_is_held() -> None:
    now = asyncio.get_running_loop().time()
    with Deadline(Alarm(), total=60) as deadline:
        deadline.expect("idle", 5)
        assert deadline.look(now) == pytest.approx(now + 5, abs=1)
        deadline.hold()
        assert deadline.look(now + 20) == pytest.approx(now + 25, abs=1)
        deadline.beat()
        assert deadline.look(now) == pytest.approx(now + 5, abs=1)
        assert deadline.look(now + 4) < now + 60
