"""Places an event that moves counters and nothing else: what `place`, the fold and `add_rows` do for any event, in one.

Written out because most events of a server come through here, and each call would cost as much as what it does. A test
compares the results. Leaves to others: whether an event is such a one (`plain_batch`).
"""

from app.events.envelope import Event, seal
from app.events.ports import Draft
from app.store.decide import ThreadHead
from app.store.engine import Row
from app.store.event_rows import DELTA, add_rows, fromhex


def place_plain(draft: Draft, head: ThreadHead, wide: list[Row], tight: list[Row]) -> Event:
    """The event of an active run of the thread, with its row in one list or the other."""
    run_id = draft.run_id
    assert run_id is not None, "an event without a run is not plain"
    it, run = head.records.thread, head.records.runs[run_id]
    id, type, actor, at = draft.id, draft.type, draft.actor, draft.at
    payload_bytes, parent_id = draft.encoded, draft.parent_id
    tenant, thread_id = head.tenant, it.id
    prev_hash, seq, run_seq = it.head_hash, it.last_seq + 1, run.run_seq + 1
    hash = seal(
        prev_hash, id, tenant, thread_id, run_id, seq, run_seq, type, actor, at, payload_bytes, parent_id
    )  # fmt: skip
    event = Event(
        id, tenant, thread_id, run_id, seq, run_seq, type, actor, at, payload_bytes, parent_id, prev_hash, hash,
        draft.payload,
    )  # fmt: skip
    it.last_seq, it.head_hash, it.updated_at = seq, hash, at
    run.last_seq, run.run_seq = seq, run_seq
    head.touched_runs[run_id] = False
    if type == DELTA:
        add_rows(head.key, (event,), head.bases, wide, tight)
        return event
    if head.bases:
        head.bases.pop(run_id, None)
    known, digest = head.tail
    prev_digest = digest if known is prev_hash else fromhex(prev_hash)
    digest = fromhex(hash)
    head.tail = (hash, digest)
    wide.append((
        head.key, seq, id, run_id, run_seq, type, actor, at, parent_id, payload_bytes, prev_digest, digest
    ))  # fmt: skip
    return event
