"""What was deleted long enough ago is gone after the server's next start; what is younger is kept."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.threads import NewThread, ThreadChange
from app.runtime.schedule.thread_expiry import ThreadExpiry
from app.store.idle_threads import IdleThreadReader
from app.views.ports import Tombstone
from app.views.thread import Thread
from app.wiring.runtime import Holdfast, open_holdfast

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
        async with asyncio.timeout(30):
            while await _kind(holdfast, made.id) is not Tombstone:  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the purge runs in the background and notifies nobody


def _workspace(folder: Path, retention: str) -> Path:
    (folder / "w.yaml").write_text(
        "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: r}\n"
        f"spec: {{retention: {retention}}}\n---\n"
        "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: echo}\nspec: {backend: echo}\n"
    )
    return folder


async def _becomes(holdfast: Holdfast, thread_id: str, done: Callable[[Thread | Tombstone | None], bool]) -> None:
    async with asyncio.timeout(30):
        while not done(await holdfast.store.reader.thread("default", thread_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # what runs in the background notifies nobody


@pytest.mark.requirement("G13")
async def test_workspace_may_purge_sooner_than_the_setting(settings: Settings, tmp_path: Path) -> None:
    clock = ManualClock()
    chosen = settings.model_copy(update={"workspace": _workspace(tmp_path, "{deletedDays: 2}")})
    async with open_holdfast(chosen, clock=clock) as holdfast:
        made = await holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(made, Thread)
        await holdfast.threads.delete(LOCAL, made.id)
    clock.advance(3 * DAY_MS / 1000)
    async with open_holdfast(chosen, clock=clock) as holdfast:
        await _becomes(holdfast, made.id, lambda found: isinstance(found, Tombstone))


@pytest.mark.requirement("G13")
async def test_thread_that_nobody_used_for_long_is_deleted_and_one_in_use_is_kept(
    settings: Settings, tmp_path: Path
) -> None:
    clock = ManualClock()
    chosen = settings.model_copy(update={"workspace": _workspace(tmp_path, "{threadsDays: 5}")})
    async with open_holdfast(chosen, clock=clock) as holdfast:
        old = await holdfast.threads.create(LOCAL, NewThread())
        used = await holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(old, Thread) and isinstance(used, Thread)
        clock.advance(4 * DAY_MS / 1000)
        await holdfast.threads.update(LOCAL, used.id, ThreadChange(title="still here"))
    clock.advance(2 * DAY_MS / 1000)
    async with open_holdfast(chosen, clock=clock) as holdfast:
        await _becomes(holdfast, old.id, lambda found: isinstance(found, Thread) and found.deleted_at is not None)
        kept = await holdfast.store.reader.thread("default", used.id)
        assert isinstance(kept, Thread) and kept.deleted_at is None
        last = (await holdfast.store.reader.events("default", old.id, 0, 100))[-1]
        assert (last.type, last.actor) == ("runtime.thread.deleted", "system")
        assert last.payload["reason"] == "retention: no event for 5 days"
        ledger = await holdfast.store.reader.thread("default", "sys_ledger")
        assert isinstance(ledger, Thread) and ledger.deleted_at is None


@pytest.mark.requirement("G13")
async def test_thread_that_gets_an_event_while_it_is_looked_at_is_kept(settings: Settings) -> None:
    clock = ManualClock()
    async with open_holdfast(settings, clock=clock) as holdfast:
        made = await holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(made, Thread)
        found = await IdleThreadReader(holdfast.store.database).idle_threads(clock.now_ms(), (0, 0), 1000)
        assert made.id in {thread_id for _, _, thread_id in found}
        seen, thread_id = clock.now_ms() - 1, made.id

        class Stale:
            async def idle_threads(
                self, before_ms: int, after: tuple[int, int], limit: int
            ) -> list[tuple[tuple[int, int], str, str]]:
                return [((1, 1), "default", thread_id)]

        clock.advance(DAY_MS / 1000 - 0.001)
        assert clock.now_ms() - DAY_MS == seen
        assert await ThreadExpiry(holdfast.store.recorder, Stale(), clock, lambda: 1).expire() == 0
        kept = await holdfast.store.reader.thread("default", made.id)
        assert isinstance(kept, Thread) and kept.deleted_at is None
