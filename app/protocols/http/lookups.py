"""Finds what an address names, for this caller: unknown and foreign ids are 404, deleted ones 410."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.blobs import Load, restored, stored_blobs, with_blobs
from app.events.catalog.memory import MEMORY_THREAD
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.http.errors import HttpProblem
from app.views.amendments import stored_amendments
from app.views.forked import earlier, with_earlier
from app.views.interrupt import Interrupt
from app.views.journal import AFTER_THE_END, KINDS, Journal
from app.views.ports import Tombstone
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry, as_text

MAX_EVENTS_OF_A_VIEW: Final = 200_000
"""A view is computed in memory; a run of this length takes about 150 MB for a moment."""
_PAGE: Final = 2000


async def existing_run(server: ServerContext, caller: Principal, run_id: str) -> Run:
    run = await server.reader.run(caller.tenant, run_id)
    if run is None and await server.reader.is_run_of_deleted_thread(caller.tenant, run_id):
        raise HttpProblem(Failure("THREAD_DELETED", "The run's thread was deleted."))
    if run is None:
        raise HttpProblem(Failure("RUN_NOT_FOUND", "There is no such run."))
    return run


async def existing_thread(server: ServerContext, caller: Principal, thread_id: str) -> Thread:
    thread = await server.reader.thread(caller.tenant, thread_id)
    if thread is None:
        raise HttpProblem(Failure("THREAD_NOT_FOUND", "There is no such thread."))
    if isinstance(thread, Tombstone) or thread.deleted_at is not None:
        raise HttpProblem(Failure("THREAD_DELETED", "The thread was deleted."))
    return thread


async def existing_interrupt(server: ServerContext, caller: Principal, interrupt_id: str) -> Interrupt:
    interrupt = await server.reader.interrupt(caller.tenant, interrupt_id)
    if interrupt is None:
        raise HttpProblem(Failure("INTERRUPT_NOT_FOUND", "There is no such interrupt."))
    await existing_thread(server, caller, interrupt.thread_id)
    return interrupt


async def whole_run(server: ServerContext, caller: Principal, run: Run) -> list[Event]:
    """Every event of the run, for a view of it."""
    _refuse_if_longer(run.run_seq)
    events: list[Event] = []
    after = 0
    while page := await server.reader.run_events(caller.tenant, run.id, after, _PAGE):
        events += page
        after = page[-1].seq
        _refuse_if_longer(len(events))
    return events


async def whole_journal(server: ServerContext, caller: Principal, run: Run) -> Journal:
    """What the run changed, and what was recorded about it after its end."""
    thread = await existing_thread(server, caller, run.thread_id)
    found, read = Journal(run.id), 0
    spans = [(tuple(KINDS), run.first_seq - 1, run.last_seq), (AFTER_THE_END, run.last_seq, thread.last_seq)]
    for types, after, until in spans:
        while page := await server.reader.events_of(caller.tenant, run.thread_id, types, after, until, _PAGE):
            for event in page:
                found.apply(event)
            after, read = page[-1].seq, read + len(page)
            _refuse_if_longer(read)
    return found


async def amendments_of(server: ServerContext, caller: Principal, thread_id: str) -> Callable[[Event], Event]:
    """Gives an event of the thread as views show it."""
    thread = await existing_thread(server, caller, thread_id)
    if not thread.amended:
        return _as_recorded
    load = stored_blobs(server.reader, caller.tenant, thread_id)
    return (await stored_amendments(server.reader, caller.tenant, thread_id, thread.amended, load)).amended


def _as_recorded(event: Event) -> Event:
    return event


async def whole_thread(server: ServerContext, caller: Principal, thread: Thread) -> list[Event]:
    _refuse_if_longer(thread.last_seq)
    events: list[Event] = []
    after = 0
    while page := await server.reader.events(caller.tenant, thread.id, after, _PAGE):
        events += page
        after = page[-1].seq
        _refuse_if_longer(len(events))
    return events


async def whole_transcript(server: ServerContext, caller: Principal, thread: Thread) -> tuple[list[Run], list[Entry]]:
    """What was said in the thread; of a fork also what it took over, with the turns that this was said in."""
    load = stored_blobs(server.reader, caller.tenant, thread.id)
    own = [await _whole_entry(entry, load) for entry in await server.reader.transcript(caller.tenant, thread.id)]
    first = None if thread.forked_from is None else await server.reader.events(caller.tenant, thread.id, 0, 1)
    if not first:  # no fork, or one that was deleted a moment ago
        return [], own
    turns, taken_over = earlier(thread.id, await with_blobs(first[0], load))
    return turns, with_earlier(taken_over, own)


async def _whole_entry(entry: Entry, load: Load) -> Entry:
    """A message over 16 KiB is stored as a reference."""
    if isinstance(entry.content, str) and (entry.details is None or isinstance(entry.details, str)):
        return entry
    return replace(
        entry, content=as_text(await restored(entry.content, load)), details=await restored(entry.details, load)
    )


def _refuse_if_longer(length: int) -> None:
    if length > MAX_EVENTS_OF_A_VIEW:
        raise HttpProblem(Failure("VIEW_TOO_LARGE", f"There are more than {MAX_EVENTS_OF_A_VIEW} events."))


async def whole_interrupt(server: ServerContext, caller: Principal, found: Interrupt) -> Interrupt:
    """With the text of a memory candidate, which is stored as a reference so that it can be forgotten."""
    if found.thread_id != MEMORY_THREAD:
        return found
    load = stored_blobs(server.reader, caller.tenant, MEMORY_THREAD)
    return replace(found, arguments=await restored(found.arguments, load))
