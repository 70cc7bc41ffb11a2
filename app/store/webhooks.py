"""Webhooks and what is to be sent to them. Leaves to the log: storing a webhook with the event that says so."""

from collections.abc import Mapping, Sequence
from typing import Final

from app.core import json
from app.events.ports import WebhookStored
from app.store.engine import Database, Row, Sql, Tx
from app.views.webhook import OF_RUNS, Delivery, Webhook

_PUT: Final = Sql(
    "INSERT INTO webhooks (tenant, id, state, secrets) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (tenant, id) DO UPDATE SET state = excluded.state, secrets = excluded.secrets"
)
_PUT_NEW: Final = Sql(
    "INSERT INTO webhooks (tenant, id, state, secrets) VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, id) DO NOTHING"
)
_CHANGE: Final = Sql("UPDATE webhooks SET state = $3 WHERE tenant = $1 AND id = $2")
_DELETE: Final = Sql("DELETE FROM webhooks WHERE tenant = $1 AND id = $2")
_DROP_DELIVERIES: Final = Sql("DELETE FROM deliveries WHERE tenant = $1 AND webhook_id = $2")
_ALL: Final = Sql("SELECT tenant, id, state, secrets FROM webhooks ORDER BY tenant, id")
_OF_TENANT: Final = Sql("SELECT tenant, id, state, secrets FROM webhooks WHERE tenant = $1 ORDER BY id")
_FIND: Final = Sql("SELECT tenant, id, state, secrets FROM webhooks WHERE tenant = $1 AND id = $2")

_COLUMNS: Final = (
    "d.id, d.tenant, d.webhook_id, d.event_id, d.type, d.body, d.status, d.attempts, d.created_at, d.next_at, "
    "d.failing_since, d.ended_at, d.answer"
)
_PUT_DELIVERY: Final = Sql(
    "INSERT INTO deliveries (tenant, webhook_id, event_id, type, body, status, attempts, created_at, next_at) "
    "VALUES ($1, $2, $3, $4, $5, 'pending', 0, $6, $7) ON CONFLICT (tenant, webhook_id, event_id) DO NOTHING"
)
# In order per webhook: one waits for those before it, unless they have failed for so long that nobody waits for them.
_DUE: Final = Sql(
    f"SELECT {_COLUMNS} FROM deliveries d WHERE d.status = 'pending' AND d.next_at <= $1 AND "
    "((d.failing_since IS NOT NULL AND d.failing_since <= $2) OR NOT EXISTS (SELECT 1 FROM deliveries p "
    "WHERE p.status = 'pending' AND p.tenant = d.tenant AND p.webhook_id = d.webhook_id AND p.id < d.id "
    "AND (p.failing_since IS NULL OR p.failing_since > $2))) ORDER BY d.id LIMIT $3"
)
_SETTLE: Final = Sql(
    "UPDATE deliveries SET status = $2, attempts = attempts + 1, next_at = $4, answer = $5, "
    "failing_since = CASE WHEN $2 = 'pending' THEN COALESCE(failing_since, CAST($3 AS BIGINT)) ELSE failing_since END, "
    "ended_at = CASE WHEN $2 = 'pending' THEN NULL ELSE CAST($3 AS BIGINT) END WHERE id = $1 AND status = 'pending'"
)
_GIVE_UP: Final = Sql(
    "UPDATE deliveries SET status = 'dead', ended_at = $3, answer = $4 "
    "WHERE tenant = $1 AND webhook_id = $2 AND status = 'pending'"
)
_LIST: Final = (
    f"SELECT {_COLUMNS} FROM deliveries d WHERE d.tenant = $1 AND d.webhook_id {{which}} "
    "AND (CAST($3 AS TEXT) IS NULL OR d.status = $3) AND d.id < $4 ORDER BY d.id DESC LIMIT $5"
)
_AGAIN: Final = (
    "UPDATE deliveries SET status = 'pending', attempts = 0, created_at = $3, next_at = $3, failing_since = NULL, "
    "ended_at = NULL WHERE tenant = $1 AND webhook_id {which}"
)
_ONE_AGAIN: Final = f"{_AGAIN} AND id = $4 AND status <> 'pending' RETURNING id"
_DEAD_AGAIN: Final = f"{_AGAIN} AND status = 'dead' RETURNING id"


def _of_one_and_of_runs(text: str) -> Mapping[bool, Sql]:
    """The statement for one webhook, and (True) for all URLs that runs named, which are stored as they are."""
    return {False: Sql(text.format(which="= $2")), True: Sql(text.format(which="LIKE $2"))}


_URLS: Final = "http%://%"
_LISTS: Final = _of_one_and_of_runs(_LIST)
_ONES_AGAIN: Final = _of_one_and_of_runs(_ONE_AGAIN)
_DEADS_AGAIN: Final = _of_one_and_of_runs(_DEAD_AGAIN)
_OLD: Final = Sql("DELETE FROM deliveries WHERE status <> 'pending' AND ended_at < $1 RETURNING 1")


async def store_webhook(tx: Tx, tenant: str, it: WebhookStored) -> None:
    if it.state is None:
        await tx.rows(_DELETE, tenant, it.webhook_id)
        await tx.rows(_DROP_DELIVERIES, tenant, it.webhook_id)
    elif it.secrets is None:
        await tx.rows(_CHANGE, tenant, it.webhook_id, it.state)
    else:
        await tx.rows(_PUT_NEW if it.if_new else _PUT, tenant, it.webhook_id, it.state, it.secrets)


def _webhook(row: Row) -> tuple[Webhook, bytes]:
    return Webhook(row[0], row[1], **json.loads(row[2])), bytes(row[3])


class WebhookTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[tuple[Webhook, bytes]]:
        return [_webhook(row) for row in await self._database.look(lambda tx: tx.rows(_ALL))]

    async def of_tenant(self, tenant: str) -> list[Webhook]:
        return [_webhook(row)[0] for row in await self._database.look(lambda tx: tx.rows(_OF_TENANT, tenant))]

    async def find(self, tenant: str, webhook_id: str) -> tuple[Webhook, bytes] | None:
        rows = await self._database.look(lambda tx: tx.rows(_FIND, tenant, webhook_id))
        return _webhook(rows[0]) if rows else None

    async def put(self, rows: Sequence[tuple[str, str, str, str, bytes]], now: int) -> None:
        await self._database.write(lambda tx: tx.many(_PUT_DELIVERY, [(*row, now, now) for row in rows]))

    async def due(self, now: int, unblocked_before: int, limit: int) -> list[Delivery]:
        rows = await self._database.look(lambda tx: tx.rows(_DUE, now, unblocked_before, limit))
        return [_delivery(row) for row in rows]

    async def settle(self, delivery: Delivery, status: str, now: int, next_at: int, answer: str) -> None:
        await self._database.write(lambda tx: tx.rows(_SETTLE, delivery.id, status, now, next_at, answer))

    async def give_up(self, tenant: str, webhook_id: str, now: int, answer: str) -> None:
        await self._database.write(lambda tx: tx.rows(_GIVE_UP, tenant, webhook_id, now, answer))

    async def deliveries(
        self, tenant: str, webhook_id: str, status: str | None, before: int, limit: int
    ) -> list[Delivery]:
        of_runs = webhook_id == OF_RUNS
        which = _URLS if of_runs else webhook_id
        rows = await self._database.look(lambda tx: tx.rows(_LISTS[of_runs], tenant, which, status, before, limit))
        return [_delivery(row) for row in rows]

    async def again(self, tenant: str, webhook_id: str, delivery_id: int | None, now: int) -> int:
        of_runs = webhook_id == OF_RUNS
        which = _URLS if of_runs else webhook_id
        if delivery_id is None:
            return len(await self._database.write(lambda tx: tx.rows(_DEADS_AGAIN[of_runs], tenant, which, now)))
        one = _ONES_AGAIN[of_runs]
        return len(await self._database.write(lambda tx: tx.rows(one, tenant, which, now, delivery_id)))

    async def purge(self, ended_before: int) -> int:
        """Drop what was delivered or given up before that time."""
        return len(await self._database.write(lambda tx: tx.rows(_OLD, ended_before)))


def _delivery(row: Row) -> Delivery:
    id, tenant, webhook_id, event_id, type_, body, *rest = row
    return Delivery(id, tenant, webhook_id, event_id, type_, bytes(body), *rest)
