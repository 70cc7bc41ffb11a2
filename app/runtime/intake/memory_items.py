"""Items of a key-value store, kept as memory records: one in force for each key of a namespace, under the tenant.

A Memory named `store` says how they are found, what the policy is and how long they are kept; without one they are
found by their words. Leaves to the memory room: every rule about records; to the protocols: how items are spelled.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

from app.core import json
from app.core.clock import iso
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.value import value
from app.memory.contract import MemoryCandidate, RecordFilter, RunIdentity
from app.memory.decisions import MAX_RECORD
from app.memory.index_entries import slot_key
from app.memory.service import MemoryService
from app.runtime.workspaces import CurrentWorkspace
from app.views.memory_record import MemoryRecord
from app.workspace.compiled import CompiledMemory
from app.workspace.namespaces import segment
from app.workspace.specs.others import MemorySpec

MEMORY: Final = "store"
MAX_ITEM: Final = 64 * 1024
"""Characters of an item as JSON."""
MAX_LABEL: Final = 200
"""Characters of one part of a namespace as it is stored, in which most others than letters and digits take three."""
MAX_DEPTH: Final = 16
_PAGE: Final = 1000
_MAX_LOOKED_AT: Final = 20_000
"""Records that one search looks at."""
_MAX_SEARCHED: Final = 200
"""Namespaces that one search by words looks into."""
_PLAIN: Final = CompiledMemory(MEMORY, "", {}, MemorySpec())


@value(frozen=True, slots=True)
class MemoryItem:
    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    created_at: str
    updated_at: str
    score: float | None = None


@value(frozen=True, slots=True)
class NewItem:
    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    indexed: Sequence[str] | None = None
    """The fields by whose words it is found; None for all."""
    expires_at: str | None = None


class MemoryItems:
    def __init__(self, memory: MemoryService, workspace: CurrentWorkspace) -> None:
        self._memory, self._workspace = memory, workspace

    async def put(self, who: Principal, new: NewItem) -> str | Failure:
        """`accepted`, or `asked` if the memory's policy wants a person to decide."""
        place = _place(who.tenant, new.namespace)
        if isinstance(place, Failure):
            return place
        text = json.canonical(dict(new.value)).decode()
        if len(text) > MAX_ITEM:
            return Failure("BODY_TOO_LARGE", f"An item may have {MAX_ITEM} characters.")
        before = await self._found(who.tenant, place, new.key)
        created = None if before is None else (await self._items(who.tenant, [before]))[before.id].created_at
        attributes = {"key": new.key, "value": dict(new.value)} | ({} if created is None else {"since": created})
        # A record that says the same as another is merged with it; items with different keys or values never are.
        tag = sha256(f"{new.key}\n{text}".encode()).hexdigest()[:24]
        words = _words(new.value if new.indexed is None else {name: new.value.get(name) for name in new.indexed})
        said = f"{new.key} {words}"[: MAX_RECORD - len(tag) - 1] + f"\n{tag}"
        memory, identity = self._declared(), RunIdentity(who.tenant, "-", who.id, "-", None, who.actor)
        candidate = MemoryCandidate(
            said, memory.spec.type, "operator", 1.0, attributes, slot=_slot(new.key), room=2 * MAX_ITEM
        )
        learned = await self._memory.submit(identity, memory, [candidate], new_id("memory"), namespace=place)
        (submitted,) = learned.submitted
        if submitted.record_id is None:
            return Failure("MEMORY_REJECTED", f"The memory did not accept the item: {submitted.reason}.")
        if new.expires_at is not None:
            record = await self._memory.table.record(who.tenant, submitted.record_id)
            if record is not None:
                failure = await self._memory.governance.change(
                    who.tenant, record, confidence=None, expires_at=new.expires_at, by=who.actor
                )
                if failure is not None:
                    return failure
        return "asked" if submitted.outcome == "asked" else "accepted"

    async def get(self, who: Principal, namespace: tuple[str, ...], key: str, now: int) -> MemoryItem | Failure | None:
        place = _place(who.tenant, namespace)
        if isinstance(place, Failure):
            return place
        record = await self._found(who.tenant, place, key)
        if record is None or not _lasts(record, now):
            return None
        return (await self._items(who.tenant, [record])).get(record.id)

    async def delete(self, who: Principal, namespace: tuple[str, ...], key: str) -> Failure | None:
        """The text of the item and of all it has been is deleted."""
        place = _place(who.tenant, namespace)
        if isinstance(place, Failure):
            return place
        known = [record async for record in self._records(who.tenant, RecordFilter(namespace=place))]
        held = await self._items(who.tenant, known)
        gone = [record for record in known if record.id in held and held[record.id].key == key]
        if gone:
            forgotten = await self._memory.forget(who.tenant, gone, reason="a caller asked for it", by=who.actor)
            await self._memory.trim_indexes(who.tenant, {MEMORY: self._declared()}, forgotten)
        return None

    async def all(self, who: Principal, prefix: tuple[str, ...], now: int) -> list[MemoryItem] | Failure:
        """Those under a namespace, the ones that changed last first."""
        place = _place(who.tenant, prefix)
        if isinstance(place, Failure):
            return place
        filter_ = RecordFilter(prefix=place, status="accepted")
        found = [record async for record in self._records(who.tenant, filter_) if _within(record.namespace, place)]
        kept = [record for record in found if _lasts(record, now)]
        items = await self._items(who.tenant, kept)
        return [items[record.id] for record in reversed(kept) if record.id in items]

    async def search(
        self, who: Principal, prefix: tuple[str, ...], query: str, limit: int, now: int
    ) -> list[MemoryItem] | Failure:
        """The best of those under a namespace, best first."""
        place = _place(who.tenant, prefix)
        if isinstance(place, Failure):
            return place
        memory = self._declared()
        spaces = [one for one in await self._memory.table.counts(who.tenant) if _within(one, place)]
        if len(spaces) > _MAX_SEARCHED:
            message = f"A search by words looks into {_MAX_SEARCHED} namespaces at most: name a longer prefix."
            return Failure("INVALID_REQUEST", message)
        ranked = [
            one
            for space in spaces
            for one in await self._memory.recollection.search(who.tenant, memory, space, query, limit)
        ]
        best = sorted(ranked, key=lambda one: one.score, reverse=True)
        scores = {one.record.id: round(one.score, 6) for one in best if _lasts(one.record, now)}
        items = await self._items(who.tenant, [one.record for one in best if one.record.id in scores], scores)
        return [items[one] for one in scores if one in items]

    async def namespaces(self, who: Principal) -> list[tuple[str, ...]]:
        root = _place(who.tenant, ())
        assert isinstance(root, str)
        found = [one for one in await self._memory.table.counts(who.tenant) if _within(one, root)]
        return sorted(_labels(one) for one in found)

    # -- within ----------------------------------------------------------------------------------------

    def _declared(self) -> CompiledMemory:
        return self._workspace.current.memories.get(MEMORY, _PLAIN)

    async def _found(self, tenant: str, place: str, key: str) -> MemoryRecord | None:
        slot = slot_key(_slot(key))
        standing = await self._memory.table.standing(tenant, place, (), [("", slot)])
        return next(iter(standing.by_slot.get(slot or "", ())), None)

    async def _records(self, tenant: str, filter_: RecordFilter) -> Any:
        after, seen = 0, 0
        while seen < _MAX_LOOKED_AT:
            page = await self._memory.table.records(tenant, filter_, after, _PAGE)
            for record in page:
                yield record
            if len(page) < _PAGE:
                return
            after, seen = page[-1].seq, seen + len(page)

    async def _items(
        self, tenant: str, records: Sequence[MemoryRecord], scores: Mapping[str, float] | None = None
    ) -> dict[str, MemoryItem]:
        """By the record's id; without what is no item, or was forgotten."""
        contents = await self._memory.recollection.contents(tenant, records)
        made: dict[str, MemoryItem] = {}
        for record in records:
            held = (contents.get(record.id) or {}).get("attributes") or {}
            if "key" in held and "value" in held:
                since, changed = held.get("since") or iso(record.created_at), iso(record.created_at)
                score = None if scores is None else scores[record.id]
                labels = _labels(record.namespace)
                made[record.id] = MemoryItem(labels, held["key"], held["value"], since, changed, score)
        return made


def _place(tenant: str, namespace: tuple[str, ...]) -> str | Failure:
    parts = [segment(label) for label in namespace]
    # A label that is too long is shortened to a hash, from which nobody could read it again.
    if len(parts) > MAX_DEPTH or any(not label or unquote(segment(label)) != label for label in namespace):
        return Failure("INVALID_REQUEST", f"A namespace has 1 to {MAX_DEPTH} labels of 1 to {MAX_LABEL} characters.")
    return "/".join((segment(tenant), MEMORY, *parts))


def _labels(place: str) -> tuple[str, ...]:
    return tuple(unquote(part) for part in place.split("/")[2:])


def _within(namespace: str, place: str) -> bool:
    return namespace == place or namespace.startswith(f"{place}/")


def _lasts(record: MemoryRecord, now: int) -> bool:
    return record.expires_at is None or record.expires_at > iso(now)


def _slot(key: str) -> str:
    return f"item {sha256(key.encode()).hexdigest()}"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(filter(None, (_words(item) for item in value.values())))
    if isinstance(value, list):
        return " ".join(filter(None, map(_words, value)))
    return "" if value is None or isinstance(value, bool) else str(value)
