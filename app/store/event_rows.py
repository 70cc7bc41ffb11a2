"""An event as a row, and back: wide in `events`, or tight in `deltas`; the bytes that come out are those that went in.

A streamed answer is hundreds of events that differ in a few characters. The first delta of a message is stored wide; it
is the base of those that follow. They are stored as what differs: id, text and hash. Anything that does not fit this
form exactly is stored wide. Leaves to others: the statements that write the rows (the dialects) and who reads what.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from app.core.value import mutable
from app.events.catalog import adapter
from app.events.envelope import GENESIS, Event
from app.store.engine import Row, Sql, Tx

DELTA: Final = adapter.AdapterEvent.type
"""The only type with tight rows: a query for other types need not look at them."""
MAX_PREFIX_BYTES: Final = 1024
MAX_BASES: Final = 8
"""Of one run, and runs of one thread: what is kept in memory stays small whatever a backend sends."""
_NO_DIGEST: Final = bytearray()
_TIMES: Final = (-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999: other times cannot be written."""
_MAX_BACK: Final = 2**31 - 1
_MAX_SHIFT: Final = 2**62
"""What the columns have room for."""

# In a string of JSON each quote is escaped, so these bytes are never part of one: what is found is a member.
_TEXT: Final = b',"text":"'
_END: Final = b'"}}'
fromhex: Final = bytearray.fromhex
"""Not bytes: sqlite3 would look for somebody who adapts them, which costs several times the rest of binding them."""

WIDE: Final = (
    "e.seq, e.hash, e.run_seq, e.at, e.payload, e.prev_hash, e.id, e.run_id, e.type, e.actor, e.parent_id, "
    "CAST(NULL AS INTEGER)"
)
TIGHT: Final = "d.seq, d.hash, d.run_shift, d.at_shift, d.text, d.uuid, NULL, NULL, NULL, NULL, NULL, d.back"
"""Side by side with the columns of a wide row that have the same type."""
_OUTSIDE: Final = Sql(
    f"SELECT {WIDE} FROM events e WHERE e.thread_key = $1 AND e.seq {{in:$2}} UNION ALL "
    "SELECT e.seq, e.hash, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM events e "
    "WHERE e.thread_key = $1 AND e.seq {in:$3} UNION ALL "
    "SELECT d.seq, d.hash, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM deltas d "
    "WHERE d.thread_key = $1 AND d.seq {in:$3}"
)

_TIGHT_ROWS: Final = Sql(f"SELECT {TIGHT} FROM deltas d WHERE d.thread_key = $1 AND d.seq {{in:$2}} ORDER BY d.seq")
_DROP: Final = tuple(
    Sql(f"DELETE FROM {table} WHERE thread_key = $1 AND seq >= $2 AND seq <= $3") for table in ("deltas", "events")
)


@mutable(slots=True)
class BaseDelta:
    """A delta that is stored wide, as far as the next ones are compared with it."""

    seq: int
    actor: str
    parent_id: str | None
    shift: int | None
    """By how much its `seq` is ahead of its `runSeq`; None without a run."""
    prefix: bytes
    """Its payload up to the text."""


Bases: TypeAlias = dict[str | None, list[BaseDelta]]
"""By run, the newest first."""


def add_rows(key: int | None, events: Sequence[Event], bases: Bases, wide: list[Row], tight: list[Row]) -> None:
    """Adds each event of a thread to the rows of one table or the other, and what may become a base to the bases."""
    before: Event | None = None
    known, digest = "", _NO_DIGEST
    """The hash of the wide event before, as text and as the bytes of its row: the next one begins with it, mostly."""
    for event in events:
        if event.type == DELTA:
            row = _tight_row(key, event, bases)
            # A tight row has the hash before it from the row before it, which an imported thread may not have.
            if row is not None and (before is None or before.seq == event.seq - 1):
                tight.append(row)
                before = event
                continue
        elif bases:
            # Its message has ended, mostly: whatever comes later does not refer to deltas that may be dropped by then.
            bases.pop(event.run_id, None)
        prev_digest = digest if event.prev_hash is known else fromhex(event.prev_hash)
        known, digest = event.hash, fromhex(event.hash)
        wide.append(_wide_row(key, event, prev_digest, digest))
        before = event


def _wide_row(key: int | None, event: Event, prev_digest: bytearray, digest: bytearray) -> Row:
    return (
        key,
        event.seq,
        event.id,
        event.run_id,
        event.run_seq,
        event.type,
        event.actor,
        event.at,
        event.parent_id,
        event.payload_bytes,
        prev_digest,
        digest,
    )


def _tight_row(key: int | None, event: Event, bases: Bases) -> Row | None:
    """None for an event that has to be stored wide, which then is the base of its message if there was none."""
    payload, seq, run_seq = event.payload_bytes, event.seq, event.run_seq
    for base in bases.get(event.run_id, ()):
        prefix = base.prefix
        if payload.startswith(prefix) and base.actor == event.actor and base.parent_id == event.parent_id:
            break
    else:
        _add_base(bases, event)
        return None
    text, id, back = payload[len(prefix) : -3], event.id, seq - base.seq
    try:
        uuid = fromhex(id[4:])
    except ValueError:
        return None
    if run_seq is not None and base.shift is not None:
        run_shift = seq - run_seq - base.shift
    elif run_seq is base.shift:
        run_shift = 0
    else:
        return None
    at_shift = event.at - int.from_bytes(uuid[:6], "big")
    if (
        prefix + text + _END != payload
        or len(uuid) != 16
        or "evt_" + uuid.hex() != id
        or (at_shift and abs(at_shift) > _MAX_SHIFT)
        or (run_shift and abs(run_shift) > _MAX_SHIFT)
        or back > _MAX_BACK
    ):
        return None
    return (key, seq, back, uuid, run_shift or None, at_shift or None, text, fromhex(event.hash))


def _add_base(bases: Bases, event: Event) -> None:
    """If it has a text at its end, as a delta has."""
    before, mark, rest = event.payload_bytes.partition(_TEXT)
    if not mark or not rest.endswith(_END) or len(before) > MAX_PREFIX_BYTES:
        return
    shift = None if event.run_seq is None else event.seq - event.run_seq
    base = BaseDelta(event.seq, event.actor, event.parent_id, shift, before + mark)
    if event.run_id not in bases and len(bases) >= MAX_BASES:
        bases.clear()
    bases[event.run_id] = [base, *bases.get(event.run_id, ())[: MAX_BASES - 1]]


async def drop_rows(tx: Tx, key: int, ranges: Sequence[tuple[int, int]]) -> None:
    """Removes the events of these ranges, first and last included; no two overlap. Messages go as a whole, so that no
    delta loses its base. One that stays and comes right after a range becomes wide: the hash before it is dropped."""
    firsts = {first for first, _ in ranges}
    next_ = [last + 1 for _, last in ranges if last + 1 not in firsts]
    kept = events_from("", "", await read_page(tx, key, _TIGHT_ROWS, next_))
    gone = [*ranges, *((event.seq, event.seq) for event in kept)]
    for sql in _DROP:
        await tx.many(sql, [(key, first, last) for first, last in gone])
    if kept:
        await tx.append([_wide_row(key, event, fromhex(event.prev_hash), fromhex(event.hash)) for event in kept])


@mutable(slots=True)
class RowPage:
    """Rows of both tables in the order of `seq`, and what their tight ones refer to before it."""

    rows: Sequence[Row]
    outside: dict[int, Row]
    torn: bool = False
    """Something that a row refers to was not found: dropped between two statements, or somebody edited the tables."""


async def read_page(tx: Tx, key: int, sql: Sql, *params: object) -> RowPage:
    """A statement that selects `WIDE` and `TIGHT` columns, with whatever else is needed to decode them."""
    rows = await tx.rows(sql, key, *params)
    wide: set[int] = set()
    bases: set[int] = set()
    previous: set[int] = set()
    before = 0
    for row in rows:
        seq, back = row[0], row[11]
        if back is None:
            wide.add(seq)
        elif isinstance(back, int):
            if seq - back not in wide:
                bases.add(seq - back)
            if before != seq - 1:
                previous.add(seq - 1)
        before = seq
    if not previous and not bases:
        return RowPage(rows, {})
    found = await tx.rows(_OUTSIDE, key, sorted(bases), sorted(previous))
    outside: dict[int, Row] = {}
    for row in found:
        if row[8] is not None or row[0] not in outside:  # a base has more than the hash that is needed of others
            outside[row[0]] = row
    return RowPage(rows, outside, torn=len(outside) < len(bases | previous))


def events_from(tenant: str, thread_id: str, page: RowPage) -> list[Event]:
    events: list[Event] = []
    wide: dict[int, Event] = {}
    """The deltas among them, each of which may be a base."""
    prefixes: dict[int, bytes] = {}
    last_seq, last_hash = 0, GENESIS
    for row in page.rows:
        if row[11] is None:
            event = _wide_event(tenant, thread_id, row)
            if event.type == DELTA:
                wide[event.seq] = event
        else:
            seq, back = row[0], row[11]
            of = seq - back if isinstance(back, int) else 0
            base = wide.get(of)
            if base is None and (outside := page.outside.get(of)) is not None and outside[8] == DELTA:
                base = wide[of] = _wide_event(tenant, thread_id, outside)
            if last_seq != seq - 1:
                before = page.outside.get(seq - 1)
                last_hash = GENESIS if before is None else _hex(before[1])
            event = _tight_event(tenant, thread_id, row, base, prefixes, last_hash)
        last_seq, last_hash = event.seq, event.hash
        events.append(event)
    return events


def _wide_event(tenant: str, thread_id: str, row: Row) -> Event:
    seq, hash, run_seq, at, payload, prev_hash, id, run_id, type, actor, parent_id, _ = row
    if not isinstance(payload, bytes):
        # SQLite keeps whatever was put into a column; somebody edited this one, and verifying will say so.
        payload = str(payload).encode()
    return Event(
        id, tenant, thread_id, run_id, seq, run_seq, type, actor, at, payload, parent_id, prev_hash.hex(), hash.hex()
    )


def _tight_event(
    tenant: str, thread_id: str, row: Row, base: Event | None, prefixes: dict[int, bytes], prev_hash: str
) -> Event:
    seq, hash, run_shift, at_shift, text, id, _, _, _, _, _, _ = row
    if base is None or not isinstance(text, bytes):
        return _unreadable(tenant, thread_id, row, prev_hash)
    prefix = prefixes.get(base.seq)
    if prefix is None:
        prefix = prefixes[base.seq] = base.payload_bytes.partition(_TEXT)[0] + _TEXT
    try:
        at = int.from_bytes(id[:6], "big") + (at_shift or 0)
        run_seq = None if base.run_seq is None else base.run_seq + seq - base.seq - (run_shift or 0)
        if not _TIMES[0] <= at <= _TIMES[1] or abs(run_shift or 0) > _MAX_SHIFT:
            return _unreadable(tenant, thread_id, row, prev_hash)
        return Event(
            f"evt_{id.hex()}",
            tenant,
            thread_id,
            base.run_id,
            seq,
            run_seq,
            base.type,
            base.actor,
            at,
            prefix + text + _END,
            base.parent_id,
            prev_hash,
            hash.hex(),
        )
    except (AttributeError, TypeError):
        return _unreadable(tenant, thread_id, row, prev_hash)


def _unreadable(tenant: str, thread_id: str, row: Row, prev_hash: str) -> Event:
    """A tight row that somebody edited or whose base is gone: verifying the thread names it."""
    return Event("", tenant, thread_id, None, row[0], None, DELTA, "", 0, b"null", None, prev_hash, _hex(row[1]))


def _hex(hash: object) -> str:
    return hash.hex() if isinstance(hash, bytes) else str(hash)
