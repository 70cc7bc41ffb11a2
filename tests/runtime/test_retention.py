"""What was deleted long enough ago is gone after the server's next start; what is younger is kept."""

import asyncio

import pytest

from app.core.clock import ManualClock
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.threads import NewThread
from app.views.ports import Tombstone
from app.views.thread import Thread
from app.wiring import Holdfast, open_holdfast

DAY_MS = 86_400_000


async def _kind(holdfast: Holdfast, thread_id: str) -> type:
    return type(await holdfast.store.reader.thread("default", thread_id))


@pytest.mark.requirement("G13")
async def test_a_deleted_thread_is_purged_when_its_days_are_over(settings: Settings) -> None:
    clock = ManualClock()
    async with open_holdfast(settings, clock=clock) as holdfast:
        made = await holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(made, Thread)
        await holdfast.threads.delete(LOCAL, made.id)
        await holdfast.store.retention.purge()
        assert await _kind(holdfast, made.id) is Thread
    clock.advance(31 * DAY_MS / 1000)
    async with open_holdfast(settings, clock=clock) as holdfast:
        async with asyncio.timeout(10):
            while await _kind(holdfast, made.id) is not Tombstone:  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the purge runs beside everything else and tells nobody
