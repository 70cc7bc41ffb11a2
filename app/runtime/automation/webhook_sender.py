"""Sends webhooks: notes what each is to be sent, and sends it, in order, until it arrives or its day is over.

A consumer of the log (`app.events.followed`), so a crash loses nothing; a receiver may get a delivery twice, with the
same `webhook-id`. Of all servers, the one that has the consumer's lease sends. Leaves to `webhook_desk`: who gets what.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from app.core import json
from app.core.clock import Clock, iso
from app.core.errors import HoldfastError
from app.events.catalog import request
from app.events.envelope import Event
from app.events.ports import StoreError
from app.events.webhook_types import WEBHOOK_TYPES
from app.outside.http import Deadlines, HttpClient, OutgoingRequest
from app.runtime.automation.follower import LEASE_SECONDS, LogFollower
from app.runtime.automation.push_desk import Parcel, PushDesk
from app.runtime.automation.webhook_desk import WebhookDesk
from app.runtime.automation.webhook_signature import signed_headers
from app.views.ports import Reader
from app.views.push_config import is_push
from app.views.run import Run, run_json
from app.views.webhook import Delivery, Webhook, Webhooks, is_address

FIRST_PAUSE_SECONDS: Final = 5.0
MAX_PAUSE_SECONDS: Final = 3600.0
GIVE_UP_MS: Final = 24 * 3600 * 1000
"""After a day a delivery is dead, and is sent again only if somebody asks for it."""
BLOCKING_MS: Final = 3600 * 1000
"""A delivery that has failed for an hour no longer holds up those behind it."""
ANSWER_SECONDS: Final = 15.0
MAX_ANSWER_BYTES: Final = 64 * 1024
AT_ONCE: Final = 16
"""Receivers that are written to at the same time."""
DUE_AT_ONCE: Final = 200
"""Deliveries that are looked at together."""
PURGE_MS: Final = 3600 * 1000
KEPT_MS: Final = 30 * 24 * 3600 * 1000
"""How long a delivery that has ended can be listed and repeated."""
LOOK_SECONDS: Final = 1.0
_GONE: Final = 410
_ANSWERED_GONE: Final = "the receiver answered 410 Gone"

log = structlog.get_logger("holdfast.webhooks")


class WebhookSender:
    name = "webhooks"
    types = WEBHOOK_TYPES

    def __init__(
        self,
        desk: WebhookDesk,
        table: Webhooks,
        reader: Reader,
        client: HttpClient,
        clock: Clock,
        follower: LogFollower,
        pushes: PushDesk,
    ) -> None:
        self._desk, self._table, self._reader, self._pushes = desk, table, reader, pushes
        self._client, self._clock, self._follower = client, clock, follower
        self._news = asyncio.Event()
        self._wanted = False
        self._purged_at = 0
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._beginning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        desk.on_pending = self._news.set

    async def start(self) -> None:
        self._follower.attach(self)
        self._task = asyncio.create_task(self._send_forever(), name="holdfast-webhooks")

    async def close(self) -> None:
        tasks = [*self._sending.values(), *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- what is to be sent ---------------------------------------------------------------------------

    async def handle(self, events: Sequence[Event]) -> None:
        webhooks: dict[str, list[Webhook]] = {}
        for webhook, _ in await self._desk.everywhere():
            webhooks.setdefault(webhook.tenant, []).append(webhook)
        rows: list[tuple[str, str, str, str, bytes]] = []
        for event in events:
            ended = event.type in request.TERMINAL
            if ended or event.tenant in webhooks:
                run = await self._reader.run(event.tenant, event.run_id) if event.run_id is not None else None
                wanted = [one for one in webhooks.get(event.tenant, ()) if one.wants(event, run)]
                if ended and run is not None and run.webhook is not None and is_address(run.webhook):
                    wanted.append(Webhook(event.tenant, run.webhook, run.webhook))
                body = _body(event, run) if wanted else b""
                rows += [(event.tenant, one.id, event.id, event.type, body) for one in wanted]
            # What A2A clients are sent is read at that moment, so nothing of it is kept here.
            rows += [(event.tenant, one, event.id, event.type, b"") for one in await self._pushes.wanting(event)]
        if rows:
            await self._table.put(rows, self._clock.now_ms())
            self._news.set()

    # -- sending ---------------------------------------------------------------------------------------

    async def _send_forever(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._want_events()
                await self._begin_due()
                await self._purge()
            except StoreError as error:
                log.warning("webhooks.store_failed", code=error.code)
            except Exception:
                log.exception("webhooks.failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._news.wait()

    async def _want_events(self) -> None:
        """As soon as any host is allowed, and not only with the first webhook: by then every server must take note."""
        if not self._wanted and self._desk.policy().only:
            await self._follower.want(self.name, self.types)
            self._wanted = True

    async def _purge(self) -> None:
        now = self._clock.now_ms()
        if now - self._purged_at >= PURGE_MS:
            self._purged_at = now
            await self._table.purge(now - KEPT_MS)
            await self._pushes.purge(now - KEPT_MS)

    async def send_due(self) -> int:
        """Sends what is due now, one delivery to each webhook, and waits for it; how many attempts have ended."""
        await self._begin_due()
        under_way = list(self._sending.values())
        await asyncio.gather(*under_way)
        return len(under_way)

    async def _begin_due(self) -> None:
        """A slow receiver holds up nobody else: each has an attempt of its own under way, and at most one."""
        async with self._beginning:
            now = self._clock.now_ms()
            due = await self._table.due(now, now - BLOCKING_MS, DUE_AT_ONCE)
            if not due or not await self._follower.take_lease(self.name, LEASE_SECONDS):
                return
            # Before the read: an attempt that ends meanwhile is still due in what was read, and would be made twice.
            busy = set(self._sending)
            for delivery in await self._table.due(now, now - BLOCKING_MS, DUE_AT_ONCE):
                place = (delivery.tenant, delivery.webhook_id)
                if place not in busy and len(self._sending) < AT_ONCE:
                    busy.add(place)
                    task = self._sending[place] = asyncio.create_task(self._send(delivery), name="holdfast-webhook")
                    task.add_done_callback(partial(self._sent, place))

    def _sent(self, place: tuple[str, str], task: "asyncio.Task[None]") -> None:
        del self._sending[place]
        self._news.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("webhooks.failed", error=type(error).__name__)

    async def _send(self, delivery: Delivery) -> None:
        found = await self._parcel(delivery)
        if found is None or not found.webhook.enabled:
            reason = "the webhook is disabled" if found is not None else "the webhook is gone"
            await self._table.settle(delivery, "dead", self._clock.now_ms(), 0, reason)
            return
        webhook = found.webhook
        status, answer = await self._attempt(found, delivery)
        now = self._clock.now_ms()
        if 200 <= status < 300:
            await self._table.settle(delivery, "delivered", now, 0, answer)
        elif status == _GONE and is_push(delivery.webhook_id):
            await self._pushes.gone(delivery, _ANSWERED_GONE)
        elif status == _GONE:
            await self._desk.disable(webhook, _ANSWERED_GONE)
        elif now - delivery.created_at >= GIVE_UP_MS:
            await self._table.settle(delivery, "dead", now, 0, answer)
        else:
            pause = min(FIRST_PAUSE_SECONDS * 2.0**delivery.attempts, MAX_PAUSE_SECONDS)
            await self._table.settle(delivery, "pending", now, now + round(pause * 1000), answer)

    async def _parcel(self, delivery: Delivery) -> Parcel | None:
        if is_push(delivery.webhook_id):
            return await self._pushes.parcel(delivery)
        found = await self._desk.find(delivery.tenant, delivery.webhook_id)
        return None if found is None else Parcel(*found, {}, delivery.body)

    async def _attempt(self, parcel: Parcel, delivery: Delivery) -> tuple[int, str]:
        """The status, 0 for none, and what to show of the answer. A redirect is not followed: it is a failure."""
        if not parcel.secrets:
            return 0, "the secret cannot be decrypted with the server's secret"
        headers = signed_headers(parcel.secrets, delivery.event_id, self._clock.now_ms(), parcel.body)
        outgoing = OutgoingRequest(
            "POST",
            parcel.webhook.url,
            {**headers, **parcel.headers},
            parcel.body,
            policy=self._desk.policy(),
            deadlines=Deadlines(connect=10.0, idle=ANSWER_SECONDS, total=ANSWER_SECONDS),
            max_bytes=MAX_ANSWER_BYTES,
        )
        try:
            async with await self._client.send(outgoing) as reply:
                return reply.status, str(reply.status)
        except HoldfastError as error:
            return 0, f"{error.code}: {error.failure.message}"[:500]


def _body(event: Event, run: Run | None) -> bytes:
    """As the standard-webhooks specification has it: type, timestamp and data. Blobs stay references."""
    data = {
        "eventId": event.id,
        "threadId": event.thread_id,
        "runId": event.run_id,
        "seq": event.seq,
        "actor": event.actor,
        "payload": event.payload,
        "run": None if run is None else _run(run),
    }
    return json.dumps({"type": event.type, "timestamp": iso(event.at), "data": data})


def _run(run: Run) -> dict[str, object]:
    """Without input and output: what has ended carries its output in the event."""
    kept = ("id", "threadId", "agent", "tool", "workflow", "status", "metadata", "labels", "createdAt")
    shown = run_json(run)
    return {name: shown[name] for name in kept}
