"""Where A2A clients want push notifications of their runs: kept sealed, and what each notification says.

Leaves to `webhook_sender`: sending it, in order, until it arrives; to `spell`: the words of the protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from yarl import URL

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.signing import Signer
from app.core.value import value
from app.events.catalog import interrupt, request
from app.events.catalog.ledger import WebhookChanged
from app.events.envelope import Event
from app.events.ports import PushStored, Refused
from app.runtime.automation.webhook_desk import WebhookDesk
from app.runtime.intake.ledger import Ledger
from app.views.ports import Reader
from app.views.push_config import PushConfig, PushConfigs, run_and_id, webhook_id
from app.views.run import Run
from app.views.webhook import Delivery, Webhook, Webhooks

MAX_OF_A_RUN: Final = 10
_PURPOSE: Final = "a2a push configs"
_LOOKED_AT: Final = 20
"""Events at the end of a run, of which one may be what its client is notified of."""
_HEADER: Final = "x-a2a-notification-token"

Spell = Callable[[str, Run, PushConfig], Awaitable[bytes]]
"""A run of a tenant as it stands, as the client's version has it."""


@value(frozen=True, slots=True)
class Parcel:
    """What is sent now, and to whom."""

    webhook: Webhook
    secrets: Sequence[str]
    headers: Mapping[str, str]
    body: bytes


class PushDesk:
    def __init__(
        self,
        table: PushConfigs,
        deliveries: Webhooks,
        webhooks: WebhookDesk,
        reader: Reader,
        ledger: Ledger,
        signer: Signer,
        clock: Clock,
        spell: Spell,
    ) -> None:
        self._table, self._deliveries, self._webhooks, self._reader = table, deliveries, webhooks, reader
        self._ledger, self._signer, self._clock, self._spell = ledger, signer, clock, spell
        self._storing = asyncio.Lock()  # so that many at once do not pass the limit together

    @property
    def possible(self) -> bool:
        """Whether the workspace lists any host that may be sent to."""
        return bool(self._webhooks.policy().only)

    # -- what clients ask for ------------------------------------------------------------------------

    async def put(self, who: Principal, config: PushConfig) -> Failure | None:
        """Stores it, or replaces the one with its id. What the run is at already, an end or a question, is sent too:
        it may have come about a moment before this was stored."""
        refused = self._webhooks.refusal(who.tenant, config.url)
        if refused is not None:
            return refused
        await self._webhooks.sign_urls(who)
        async with self._storing:
            there = [name for name, _ in await self._table.of_run(who.tenant, config.run_id)]
            if config.id not in there and len(there) >= MAX_OF_A_RUN:
                return Failure("PUSH_LIMIT", f"A task may have at most {MAX_OF_A_RUN} push notification configs.")
            sealed = self._signer.seal(_PURPOSE, json.dumps(config.to_state()))
            await self._record(who.tenant, config, "created", sealed, actor=who.actor)
        run = await self._reader.run(who.tenant, config.run_id)
        if run is not None and (run.terminal or run.waiting_on):
            last = await self._reader.run_events(who.tenant, run.id, run.last_seq - _LOOKED_AT, _LOOKED_AT)
            # By the event itself where it is found, so that what is noted for it anyway is not sent twice.
            news = next((one for one in reversed(last) if _tells(one)), last[-1] if last else None)
            event_id, kind = (news.id, news.type) if news is not None else (f"{run.id}:{run.last_seq}", "")
            rows = [(who.tenant, config.webhook_id, event_id, kind, b"")]
            await self._deliveries.put(rows, self._clock.now_ms())
            self._webhooks.on_pending()
        return None

    async def of_run(self, tenant: str, run_id: str) -> list[PushConfig]:
        """Without those that were sealed with a secret that the server no longer has."""
        found = [self._opened(run_id, name, sealed) for name, sealed in await self._table.of_run(tenant, run_id)]
        return [one for one in found if one is not None]

    async def find(self, tenant: str, run_id: str, config_id: str) -> PushConfig | None:
        return next((one for one in await self.of_run(tenant, run_id) if one.id == config_id), None)

    async def delete(self, who: Principal, config: PushConfig) -> None:
        """Nothing more is sent to it, also not what has been tried already."""
        await self._record(who.tenant, config, "deleted", None, actor=who.actor)
        await self._deliveries.give_up(who.tenant, config.webhook_id, self._clock.now_ms(), "the client deleted it")

    # -- what the sender asks for --------------------------------------------------------------------

    async def wanting(self, event: Event) -> list[str]:
        """Under which ids the event is to be noted for sending: a run ended, or asks something."""
        if event.run_id is None or not _tells(event):
            return []
        return [webhook_id(event.run_id, name) for name, _ in await self._table.of_run(event.tenant, event.run_id)]

    async def parcel(self, delivery: Delivery) -> Parcel | None:
        """None where nobody is notified any more: the client deleted it, or the run is deleted."""
        config = await self.find(delivery.tenant, *run_and_id(delivery.webhook_id))
        run = None if config is None else await self._reader.run(delivery.tenant, config.run_id)
        found = None if config is None else await self._webhooks.find(delivery.tenant, config.url)
        if config is None or run is None or found is None:
            return None
        headers = {_HEADER: config.token} if config.token else {}
        if config.scheme and config.credentials:
            headers["authorization"] = f"{config.scheme} {config.credentials}"
        return Parcel(found[0], found[1], headers, await self._spell(delivery.tenant, run, config))

    async def gone(self, delivery: Delivery, reason: str) -> None:
        """The receiver said so: the config is deleted."""
        config = await self.find(delivery.tenant, *run_and_id(delivery.webhook_id))
        await self._deliveries.give_up(delivery.tenant, delivery.webhook_id, self._clock.now_ms(), reason)
        if config is not None:
            await self._record(delivery.tenant, config, "deleted", None, reason=reason)

    async def purge(self, created_before: int) -> None:
        await self._table.purge(created_before)

    # -- within ------------------------------------------------------------------------------------------

    async def _record(
        self,
        tenant: str,
        config: PushConfig,
        change: Any,
        sealed: bytes | None,
        *,
        actor: str = "system",
        reason: str | None = None,
    ) -> None:
        changed = WebhookChanged(webhook_id=config.webhook_id, change=change, host=URL(config.url).host, reason=reason)
        stored = PushStored(config.run_id, config.id, self._clock.now_ms(), sealed)
        answer = await self._ledger.record(tenant, changed, actor=actor, conditions=[stored])
        assert not isinstance(answer, Refused), "storing a push config has no condition that could fail"

    def _opened(self, run_id: str, config_id: str, sealed: bytes) -> PushConfig | None:
        opened = self._signer.unseal(_PURPOSE, sealed)
        return None if opened is None else PushConfig(run_id, config_id, **json.loads(opened))


def _tells(event: Event) -> bool:
    if event.type == interrupt.InterruptRaised.type:
        return bool(event.payload["kind"] != "timer")
    return event.type in request.TERMINAL
