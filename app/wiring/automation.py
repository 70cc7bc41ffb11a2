"""What acts by itself on the log: its followers, webhooks and schedules."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

from app.core.clock import Clock
from app.core.signing import Signer
from app.core.value import value
from app.events.ports import StorageFull
from app.outside.http import HttpClient
from app.runtime.automation.follower import LogFollower
from app.runtime.automation.push_desk import PushDesk
from app.runtime.automation.schedule_desk import ScheduleDesk
from app.runtime.automation.webhook_desk import WebhookDesk
from app.runtime.automation.webhook_sender import WebhookSender
from app.runtime.intake.ledger import Ledger
from app.runtime.intake.ports import RunClient, RunLifecycle
from app.runtime.workspaces import CurrentWorkspace
from app.store.outbox import OutboxTable
from app.store.push_configs import PushConfigTable
from app.store.schedules import ScheduleTable
from app.store.webhooks import WebhookTable
from app.views.ports import Reader
from app.views.push_config import PushConfig
from app.views.run import Run
from app.wiring.store import Store


@value(frozen=True, slots=True)
class Automation:
    follower: LogFollower
    webhooks: WebhookDesk
    sender: WebhookSender
    pushes: PushDesk
    schedules: ScheduleDesk


async def _pushed(reader: Reader, tenant: str, run: Run, config: PushConfig) -> bytes:
    """Nothing of A2A is imported before a client asks for notifications."""
    from app.protocols.a2a.shown_task import push_body

    return await push_body(reader, tenant, run, config)


@contextlib.asynccontextmanager
async def open_automation(
    store: Store,
    workspace: CurrentWorkspace,
    client: HttpClient,
    signer: Signer,
    clock: Clock,
    service: RunClient,
    lifecycle: RunLifecycle,
) -> AsyncIterator[Automation]:
    outbox = OutboxTable(store.database)
    if not store.settings.is_postgres:
        with contextlib.suppress(StorageFull):
            await outbox.give_back_all()
    store.log.outbox = outbox
    follower = LogFollower(outbox, store.reader, alone=not store.settings.is_postgres)
    await follower.start()
    table, ledger = WebhookTable(store.database), Ledger(store.recorder)
    desk = WebhookDesk(table, ledger, signer, clock, follower, lambda: workspace.loaded)
    pushed = partial(_pushed, store.reader)
    pushes = PushDesk(PushConfigTable(store.database), table, desk, store.reader, ledger, signer, clock, pushed)
    sender = WebhookSender(desk, table, store.reader, client, clock, follower, pushes)
    await sender.start()
    times = ScheduleTable(store.database)
    schedules = ScheduleDesk(times, service, lifecycle, store.reader, ledger, clock, lambda: workspace.loaded)
    schedules.start()
    try:
        yield Automation(follower, desk, sender, pushes, schedules)
    finally:
        await schedules.close()
        await sender.close()
        await follower.close()
