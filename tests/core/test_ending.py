"""A scope that is ended from outside."""

import asyncio

import pytest

from app.core.ending import Ending


async def test_a_scope_that_is_ended_raises_a_timeout_and_the_task_goes_on() -> None:
    scope = Ending()
    asyncio.get_running_loop().call_soon(scope.end)
    with pytest.raises(TimeoutError):
        with scope:
            await asyncio.Event().wait()
    assert scope.ended
    await asyncio.sleep(0)  # not cancelled any more


async def test_a_cancel_of_the_task_passes_through_although_the_scope_is_ended_as_well() -> None:
    scope, inside = Ending(), asyncio.Event()

    async def work() -> None:
        with scope:
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    scope.end()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_ending_a_scope_that_was_left_does_nothing() -> None:
    with Ending() as scope:
        pass
    scope.end()
    await asyncio.sleep(0)
    assert not scope.ended


async def test_what_fails_inside_fails_as_it_is() -> None:
    with pytest.raises(ValueError, match="mine"):
        with Ending():
            raise ValueError("mine")


async def test_a_scope_that_is_left_before_it_can_be_ended_leaves_nothing_behind() -> None:
    with Ending() as scope:
        scope.end()
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # would be cancelled here
    assert not scope.ended
