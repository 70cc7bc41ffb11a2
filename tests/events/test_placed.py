"""An event on its way to the disk: whoever awaits it learns what became of it, and whoever leaves it hears nothing."""

import asyncio
import gc
from typing import Any

import pytest

from app.core.errors import Failure
from app.events.placed import PlacedEvent
from app.events.ports import Answer, Appended, Refused, StorageDown
from app.runtime.run.run_log import Superseded, expect


async def test_a_stored_event_is_awaited_without_a_turn_of_the_loop() -> None:
    stored: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    stored.set_result(Appended(()))
    turned: list[bool] = []
    asyncio.get_running_loop().call_soon(turned.append, True)
    await PlacedEvent(stored, expect)
    assert not turned


async def test_a_refusal_is_raised_to_whoever_awaits_it() -> None:
    stored: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(stored.set_result, Refused(Failure("STALE_EPOCH", "taken over"), None))
    with pytest.raises(Superseded):
        await PlacedEvent(stored, expect)


async def test_an_append_that_has_to_wait_for_its_place_begins_without_being_awaited() -> None:
    begun = asyncio.Event()

    async def waits() -> Answer:
        begun.set()
        return Appended(())

    placed = PlacedEvent(waits(), expect)
    await begun.wait()
    await placed


async def test_a_failed_commit_is_raised_to_whoever_awaits_it() -> None:
    stored: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(stored.set_exception, StorageDown())
    with pytest.raises(StorageDown):
        await PlacedEvent(stored, expect)


async def test_an_event_that_is_left_reports_nothing_that_was_never_retrieved() -> None:
    loop = asyncio.get_running_loop()
    reported: list[dict[str, Any]] = []
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    try:
        stored: asyncio.Future[Answer] = loop.create_future()
        PlacedEvent(stored, expect).leave()
        stored.set_exception(StorageDown())
        await asyncio.sleep(0)
        del stored
        gc.collect()
        assert not reported
    finally:
        loop.set_exception_handler(before)
