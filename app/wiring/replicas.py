"""The servers on one Postgres, joined by the bus that the settings name; a server on SQLite is always alone."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

from app.bus.replicas import Replicas
from app.core.clock import Clock
from app.runtime.schedule.executor import Executor
from app.store.thread_positions import ThreadPositionReader
from app.wiring.kinds import make_bus
from app.wiring.store import Store


def make_replicas(store: Store, clock: Clock) -> Replicas | None:
    url = store.settings.database_url
    if url is None:
        return None
    from app.store.notifications import open_channel

    kind, bus = make_bus(store.settings.bus or "postgres", partial(open_channel, url))
    return Replicas(bus, kind, store.hub, store.relay, ThreadPositionReader(store.database), clock)


@contextlib.asynccontextmanager
async def joined(replicas: Replicas | None, store: Store, executor: Executor) -> AsyncIterator[None]:
    """Hears and says what concerns the others, until the runs of this server are given back."""
    if replicas is None:
        yield
        return
    executor.others, replicas.find_owner = replicas, store.leases.owner
    replicas.waiting = lambda: executor.waiting
    replicas.on_work, replicas.on_ended = executor.has_work, executor.ended_elsewhere
    replicas.on_command, replicas.on_poll = executor.look_for_commands, executor.look_for_all_commands
    await replicas.start(executor.owner)
    try:
        yield
    finally:
        await replicas.close()
