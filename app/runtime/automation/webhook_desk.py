"""Webhooks as clients manage them: created, changed, given a new secret, deleted, their deliveries repeated.

Leaves to `webhook_sender`: sending. Leaves to the workspace: webhooks that documents declare, which are changed there.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from yarl import URL

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.signing import Signer
from app.events.catalog.ledger import WebhookChanged
from app.events.ports import Refused, WebhookStored
from app.events.webhook_types import WEBHOOK_TYPES
from app.outside.addresses import AddressPolicy, url_refusal
from app.runtime.automation.follower import LogFollower
from app.runtime.automation.webhook_signature import new_secret
from app.runtime.intake.ledger import Ledger
from app.views.push_config import is_push
from app.views.webhook import OF_RUNS, Delivery, Webhook, Webhooks, is_address
from app.workspace.compiled import CompiledWorkspace
from app.workspace.secrets import resolve_env

MAX_WEBHOOKS: Final = 100
"""Of one tenant."""
ROTATION_MS: Final = 24 * 3600 * 1000
"""How long deliveries are signed with the former secret as well."""
MAX_URL: Final = 2000
"""Characters of a URL that a run names, as it is sent: it is part of a database key."""
_PURPOSE: Final = "webhook secrets"


class WebhookDesk:
    def __init__(
        self,
        table: Webhooks,
        ledger: Ledger,
        signer: Signer,
        clock: Clock,
        follower: LogFollower,
        workspace: Callable[[], CompiledWorkspace | None],
    ) -> None:
        self._table, self._ledger, self._signer, self._clock = table, ledger, signer, clock
        self._follower, self._workspace = follower, workspace
        self.on_pending: Callable[[], None] = lambda: None
        """Called when something is to be sent."""

    # -- what is declared ----------------------------------------------------------------------------

    def policy(self) -> AddressPolicy:
        """Which addresses webhooks may be sent to: those of the Runtime's `outgoing.webhooks`, and none without."""
        workspace = self._workspace()
        outgoing = workspace.runtime.outgoing if workspace is not None else None
        if outgoing is None:
            return AddressPolicy(only=frozenset())
        return AddressPolicy(private=frozenset(outgoing.private), only=frozenset(outgoing.webhooks), proxied=True)

    def declared(self) -> list[tuple[Webhook, str]]:
        """Those of the workspace's documents, each with its secret; none whose secret is not set."""
        workspace = self._workspace()
        found: list[tuple[Webhook, str]] = []
        for name, named in (workspace.webhooks if workspace is not None else {}).items():
            spec, secret = named.spec, resolve_env(named.spec.secret, os.environ)
            if not isinstance(secret, Failure):
                webhook = Webhook(spec.tenant, name, spec.url, list(spec.events), declared=True, enabled=spec.enabled)
                webhook.agents, webhook.labels = list(spec.agents), dict(spec.labels)
                found.append((webhook, secret))
        return found

    async def everywhere(self) -> list[tuple[Webhook, Sequence[str]]]:
        """Every webhook of every tenant, with the secrets that sign for it now."""
        stored = [(webhook, self._secrets(sealed)) for webhook, sealed in await self._table.all()]
        return [*stored, *((webhook, (secret,)) for webhook, secret in self.declared())]

    async def find(self, tenant: str, webhook_id: str) -> tuple[Webhook, Sequence[str]] | None:
        """By its id; a URL that a run named is found as a webhook of its own, signed with the secret of all of them."""
        if is_address(webhook_id):
            secrets = await self._table.find(tenant, OF_RUNS)
            return Webhook(tenant, webhook_id, webhook_id), () if secrets is None else self._secrets(secrets[1])
        for webhook, secret in self.declared():
            if (webhook.tenant, webhook.id) == (tenant, webhook_id):
                return webhook, (secret,)
        found = await self._table.find(tenant, webhook_id)
        return None if found is None else (found[0], self._secrets(found[1]))

    # -- what clients ask for ------------------------------------------------------------------------

    async def of_tenant(self, tenant: str) -> list[Webhook]:
        declared = [webhook for webhook, _ in self.declared() if webhook.tenant == tenant]
        return [*declared, *await self._made(tenant)]

    async def for_run(self, who: Principal, named: str) -> str | Failure:
        """What a `Submission` is to carry as its `webhook`, for a client that named the id of a webhook or a URL.

        Nothing else is needed: the run's end is sent there, signed, in order, and again until it arrives. A URL is
        taken only if the workspace's `outgoing.webhooks` lists its host. Refused: an unknown id, any other URL.
        """
        if not is_address(named):
            found = None if named == OF_RUNS else await self.find(who.tenant, named)
            return Failure("WEBHOOK_NOT_FOUND", "The tenant has no such webhook.") if found is None else named
        refused = self._check(Webhook(who.tenant, named, named))
        if refused is not None:
            return refused
        url = str(URL(named).with_fragment(None))
        if len(url) > MAX_URL:
            return Failure("WEBHOOK_ADDRESS_REFUSED", f"The URL has more than {MAX_URL} characters.")
        if not self._ledger.keeps(WebhookChanged(webhook_id=OF_RUNS, change="created", host=url)):
            why = "The URL contains a credential, which a run does not store; create a webhook for it and name its id."
            return Failure("WEBHOOK_ADDRESS_REFUSED", why)
        await self._ensure_of_runs(who)
        return url

    def refusal(self, tenant: str, url: str) -> Failure | None:
        """Why nothing may be sent to the URL. It may contain a credential where it is stored sealed, and in no run."""
        refused = self._check(Webhook(tenant, url, url))
        if refused is None and len(str(URL(url))) > MAX_URL:
            refused = Failure("WEBHOOK_ADDRESS_REFUSED", f"The URL has more than {MAX_URL} characters.")
        return refused

    async def sign_urls(self, who: Principal) -> None:
        """From now on what is sent to URLs of the tenant can be signed."""
        await self._ensure_of_runs(who)

    async def create(self, who: Principal, given: Mapping[str, Any]) -> tuple[Webhook, str] | Failure:
        now = self._clock.now_ms()
        webhook = Webhook(who.tenant, new_id("webhook"), **given, created_at=now, updated_at=now)
        refused = self._check(webhook)
        if refused is None and len(await self._made(who.tenant)) >= MAX_WEBHOOKS:
            refused = Failure("WEBHOOK_LIMIT", f"A tenant may have at most {MAX_WEBHOOKS} webhooks.")
        if refused is not None:
            return refused
        # Before the webhook is there: from its first moment on nothing may be missed.
        await self._follower.want("webhooks", WEBHOOK_TYPES)
        secret = new_secret()
        await self._store(who, webhook, "created", [{"secret": secret}])
        return webhook, secret

    async def change(self, who: Principal, webhook_id: str, given: Mapping[str, Any]) -> Webhook | Failure:
        found = await self._own(who.tenant, webhook_id, changes=True)
        if isinstance(found, Failure):
            return found
        reason = None if given.get("enabled") else found.disabled_reason
        webhook = replace(found, **given, updated_at=self._clock.now_ms(), disabled_reason=reason)
        refused = self._check(webhook)
        if refused is None:
            await self._store(who, webhook, "updated")
            self.on_pending()
        return refused or webhook

    async def rotate(self, who: Principal, webhook_id: str) -> tuple[Webhook, str] | Failure:
        """The former secret signs along for a day."""
        if webhook_id == OF_RUNS:
            await self._ensure_of_runs(who)
        found = await self._own(who.tenant, webhook_id)
        if isinstance(found, Failure):
            return found
        now, secret = self._clock.now_ms(), new_secret()
        stored = await self._table.find(who.tenant, webhook_id)
        former = self._opened(stored[1])[:1] if stored is not None else []
        webhook = replace(found, updated_at=now)
        secrets: list[dict[str, Any]] = [{"secret": secret}]
        secrets += [{"secret": one["secret"], "until": now + ROTATION_MS} for one in former]
        await self._store(who, webhook, "rotated", secrets)
        return webhook, secret

    async def delete(self, who: Principal, webhook_id: str) -> Failure | None:
        found = await self._own(who.tenant, webhook_id, changes=True)
        if isinstance(found, Failure):
            return found
        changed = WebhookChanged(webhook_id=webhook_id, change="deleted", host=URL(found.url).host)
        await self._ledger.record(
            who.tenant, changed, actor=who.actor, conditions=[WebhookStored(webhook_id, state=None)]
        )
        return None

    async def disable(self, webhook: Webhook, reason: str) -> None:
        """The receiver said that it is gone: nothing is sent any more until somebody enables the webhook, or names
        the URL again."""
        now = self._clock.now_ms()
        if not webhook.declared and not is_address(webhook.id):
            off = replace(webhook, enabled=False, disabled_reason=reason, updated_at=now)
            changed = WebhookChanged(
                webhook_id=webhook.id, change="disabled", host=URL(webhook.url).host, reason=reason
            )
            stored = WebhookStored(webhook.id, json.dumps(off.to_state()))
            await self._ledger.record(webhook.tenant, changed, conditions=[stored])
        await self._table.give_up(webhook.tenant, webhook.id, now, reason)

    async def deliveries(
        self, tenant: str, webhook_id: str, status: str | None, before: int, limit: int
    ) -> list[Delivery] | Failure:
        if not is_push(webhook_id) and await self.find(tenant, webhook_id) is None:
            return _unknown()
        return await self._table.deliveries(tenant, webhook_id, status, before, limit)

    async def redeliver(self, tenant: str, webhook_id: str, delivery_id: int | None) -> int | Failure:
        if not is_push(webhook_id) and await self.find(tenant, webhook_id) is None:
            return _unknown()
        count = await self._table.again(tenant, webhook_id, delivery_id, self._clock.now_ms())
        if delivery_id is not None and not count:
            return Failure("DELIVERY_NOT_FOUND", "There is no such delivery that has ended.")
        self.on_pending()
        return count

    # -- within ------------------------------------------------------------------------------------------

    async def _made(self, tenant: str) -> list[Webhook]:
        return [one for one in await self._table.of_tenant(tenant) if one.id != OF_RUNS]

    async def _ensure_of_runs(self, who: Principal) -> None:
        """The secret that signs for URLs is made when it is first needed; of two that make it, one counts."""
        if await self._table.find(who.tenant, OF_RUNS) is None:
            await self._follower.want("webhooks", WEBHOOK_TYPES)
            now = self._clock.now_ms()
            webhook = Webhook(who.tenant, OF_RUNS, "", description="The URLs that runs name.", created_at=now)
            webhook.updated_at = now
            await self._store(who, webhook, "created", [{"secret": new_secret()}], if_new=True)

    async def _own(self, tenant: str, webhook_id: str, *, changes: bool = False) -> Webhook | Failure:
        """One that a client made."""
        if changes and webhook_id == OF_RUNS:
            return Failure("WEBHOOK_OF_RUNS", "This webhook stands for the URLs that runs name.")
        found = await self.find(tenant, webhook_id)
        if found is None:
            return _unknown()
        if found[0].declared:
            return Failure("WEBHOOK_DECLARED", "The webhook is declared by the workspace and is changed there.")
        return found[0]

    def _check(self, webhook: Webhook) -> Failure | None:
        refused = url_refusal(webhook.url, self.policy())
        return None if refused is None else Failure("WEBHOOK_ADDRESS_REFUSED", refused)

    async def _store(
        self,
        who: Principal,
        webhook: Webhook,
        change: Any,
        secrets: Sequence[Mapping[str, Any]] | None = None,
        *,
        if_new: bool = False,
    ) -> None:
        sealed = None if secrets is None else self._signer.seal(_PURPOSE, json.dumps(list(secrets)))
        changed = WebhookChanged(webhook_id=webhook.id, change=change, host=URL(webhook.url).host)
        stored = WebhookStored(webhook.id, json.dumps(webhook.to_state()), sealed, if_new)
        answer = await self._ledger.record(who.tenant, changed, actor=who.actor, conditions=[stored])
        assert not isinstance(answer, Refused), "storing a webhook has no condition that could fail"

    def _opened(self, sealed: bytes) -> list[dict[str, Any]]:
        opened = self._signer.unseal(_PURPOSE, sealed)
        secrets: list[dict[str, Any]] = [] if opened is None else json.loads(opened)
        return secrets

    def _secrets(self, sealed: bytes) -> Sequence[str]:
        now = self._clock.now_ms()
        return [one["secret"] for one in self._opened(sealed) if one.get("until", now + 1) > now]


def _unknown() -> Failure:
    return Failure("WEBHOOK_NOT_FOUND", "There is no such webhook.")
