"""Brings an exported thread into an empty place of this store, event for event, hash for hash.

The chain is verified first; what was exported is what is stored. Nothing is published: the events are old news.
"""

from collections.abc import Mapping, Sequence

from app.core.errors import HoldfastError
from app.events import ports
from app.events.chain import Broken, Head, verify
from app.events.envelope import Event
from app.events.ports import BlobDraft, Command, Draft
from app.store import materialize
from app.store.engine import Database, Tx
from app.store.heads import Needs, load_heads
from app.views.records import Records
from app.views.thread import Thread


class ImportRefused(HoldfastError):
    pass


async def import_thread(
    database: Database, events: Sequence[Event], blobs: Mapping[str, tuple[str, bytes]], head: Head | None
) -> Head:
    """Raises `ImportRefused` for a broken chain or when the thread exists already."""
    checked = verify(events, head)
    if isinstance(checked, Broken):
        raise ImportRefused("CHAIN_BROKEN", f"Seq {checked.seq}: {checked.reason}.")
    if not events:
        raise ImportRefused("EXPORT_INVALID", "The export holds no event.")
    tenant, thread_id = events[0].tenant, events[0].thread_id

    async def work(tx: Tx) -> None:
        needs = Needs()
        needs.threads[tenant].add(thread_id)
        place = (await load_heads(tx, needs, {}))[tenant, thread_id]
        if place.exists or place.purged:
            raise ImportRefused("THREAD_EXISTS", f"There is a thread {thread_id} already.")
        place.records = Records(Thread(thread_id))
        for event in events:
            sibling = place.records.apply(event).sibling
            if sibling is not None:
                place.moves.add(sibling)
            if event.run_id is not None:
                place.touched_runs[event.run_id] = True
        place.moved = place.state_dirty = True
        carried = tuple(BlobDraft(digest, data, mime) for digest, (mime, data) in blobs.items())
        holder = Draft("import", {}, blobs=carried)
        conditions: tuple[ports.Condition, ...] = ()
        command = Command(tenant, thread_id, [holder], conditions)
        await materialize.write(tx, [(place, command, events)], [place])

    await database.write(work)
    return checked
