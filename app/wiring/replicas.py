"""The servers on one Postgres, joined by the bus that the settings name; a server on SQLite is always alone."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

from app.bus.messages import RateUse
from app.bus.replicas import Replicas
from app.core.clock import CorrectedClock
from app.protocols.auth.access import Access
from app.protocols.context import SharedRates
from app.runtime.intake.keys import Keys
from app.runtime.schedule.executor import Executor
from app.runtime.workspace_in_force import WorkspaceInForce
from app.store.shared_limits import RequestUses
from app.store.thread_positions import ThreadPositionReader
from app.wiring.kinds import make_bus
from app.wiring.store import Store


def make_replicas(store: Store, clock: CorrectedClock) -> Replicas | None:
    url = store.settings.direct_url
    if url is None:
        return None
    from app.store.notifications import open_channel

    kind, bus = make_bus(store.settings.bus or "postgres", partial(open_channel, url))
    replicas = Replicas(bus, kind, store.hub, store.relay, ThreadPositionReader(store.database), clock)
    replicas.count_rates = RequestUses(store.database).count
    return replicas


@contextlib.asynccontextmanager
async def joined(
    replicas: Replicas | None,
    store: Store,
    executor: Executor,
    access: Access,
    keys: Keys,
    in_force: WorkspaceInForce,
) -> AsyncIterator[None]:
    """Hears and says what concerns the others, until the runs of this server are given back."""
    if replicas is None:
        yield
        return
    executor.others, replicas.find_owner = replicas, store.leases.owner
    replicas.waiting, replicas.attention.works_on = lambda: executor.waiting, executor.works_on
    replicas.on_work, replicas.on_ended = executor.has_work, executor.ended_elsewhere
    replicas.on_command, replicas.on_workspace = executor.look_for_commands, in_force.look

    async def look() -> None:
        await executor.look_for_all_commands()
        await in_force.look()

    replicas.on_poll = look
    replicas.on_revoked, forget = access.forget, keys.on_revoked

    def revoked(key_id: str) -> None:
        forget(key_id)
        replicas.say_revoked(key_id)

    keys.on_revoked = revoked
    await replicas.start(executor.owner)
    try:
        yield
    finally:
        await replicas.close()


def share_rates(replicas: Replicas | None, rates: SharedRates) -> None:
    """What a caller uses at one server counts at all of them, as soon as they hear of it."""
    if replicas is None:
        return

    def used(message: RateUse) -> None:
        for tenant, caller, count in message.used:
            rates.used_elsewhere((tenant, caller), count)

    rates.on_use, replicas.on_rates = replicas.say_rate, used
