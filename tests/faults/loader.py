"""The process that is killed: writes under load and notes what was acknowledged and what was published.

    python -m tests.faults.loader --data-dir D [--database-url U] --notes D2 [--point P] [--producers N]

Notes are plain files: what was written to one stays after the process is gone.
"""

import argparse
import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.envelope import Event
from app.wiring.store import Store, open_store
from tests.faults.audit import SeenEvent
from tests.faults.load import Producer, create_thread
from tests.faults.points import KilledDatabase, Moment, open_wrapped

SHARED = ("thr_shared_a", "thr_shared_b")
WARM_UP_WRITES = 20
"""Transactions before a named point kills, so that there is something to lose."""


def note(path: Path) -> Callable[[Event], None]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return lambda event: (os.write(file, SeenEvent.of(event).line()), None)[1]


async def _watch(store: Store, published: Callable[[Event], None]) -> None:
    """A subscriber to everything. Its room is large: what it is to show is that nothing unstored reaches it."""
    subscription = store.hub.subscribe(DEFAULT_TENANT, None, max_events=10**6, max_bytes=10**9)
    while True:
        await subscription.wait()
        for event in subscription.take():
            published(event)


async def _load(store: Store, acknowledged: Callable[[Event], None], producers: int) -> None:
    for thread in SHARED:
        await create_thread(store.recorder, thread, acknowledged)
    print("loading", flush=True)
    async with asyncio.TaskGroup() as tasks:
        for number in range(producers):
            shared = SHARED[number % 4] if number % 4 < len(SHARED) else None
            tasks.create_task(Producer(store.recorder, acknowledged, shared).produce())


async def _main(given: Any) -> None:
    settings = Settings(data_dir=given.data_dir, database_url=given.database_url)
    given.notes.mkdir(parents=True, exist_ok=True)
    acknowledged, published = note(given.notes / "acknowledged"), note(given.notes / "published")
    if given.point is None:
        async with open_store(settings) as store:
            watching = asyncio.create_task(_watch(store, published))
            await _load(store, acknowledged, given.producers)
            watching.cancel()
        return
    moment = Moment(given.point, WARM_UP_WRITES)

    def after(events: Any) -> None:
        for event in events:
            published(event)
        moment.reached("after_publish")

    def before(_events: Any) -> None:
        moment.reached("before_publish")

    async with open_wrapped(settings, lambda inner: KilledDatabase(inner, moment), before, after) as store:
        await _load(store, acknowledged, given.producers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--database-url")
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--point")
    parser.add_argument("--producers", type=int, default=12)
    asyncio.run(_main(parser.parse_args()))
