"""Reads threads and runs for LangGraph's shapes: their folds from the stored log, whole values in place.

Leaves to others: the folds themselves (`dialects`), and the routes.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.blobs import stored_blobs, with_blobs
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.dialects import langgraph_segments, langgraph_values
from app.protocols.dialects.langgraph_segments import RunSegment, RunSegments, parse_segment_id
from app.protocols.dialects.langgraph_states import thread_object
from app.protocols.dialects.langgraph_values import ThreadValues
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import MAX_EVENTS_OF_A_VIEW
from app.protocols.langgraph.errors import Declined
from app.views.run import Run
from app.views.thread import Thread

_PAGE: Final = 2000


async def _events(
    server: ServerContext, tenant: str, thread_id: str, types: Sequence[str], after: int, up_to: int
) -> AsyncIterator[Event]:
    load, read = stored_blobs(server.reader, tenant, thread_id), 0
    while after < up_to:
        page = await server.reader.events_of(tenant, thread_id, types, after, up_to, _PAGE)
        for event in page:
            yield await with_blobs(event, load)
        if len(page) < _PAGE:
            return
        after, read = page[-1].seq, read + len(page)
        if read > MAX_EVENTS_OF_A_VIEW:
            message = f"The thread has more than {MAX_EVENTS_OF_A_VIEW} events."
            raise HttpProblem(Failure("VIEW_TOO_LARGE", message))


async def thread_values(server: ServerContext, tenant: str, thread_id: str, up_to: int) -> ThreadValues:
    """The state of the thread as it stood after that `seq`."""
    values = ThreadValues()
    async for event in _events(server, tenant, thread_id, langgraph_values.TYPES, 0, up_to):
        values.apply(event)
    return values


async def run_segments(server: ServerContext, tenant: str, run: Run) -> RunSegments:
    segments = RunSegments(run.id)
    types = langgraph_segments.TYPES
    async for event in _events(server, tenant, run.thread_id, types, run.first_seq - 1, run.last_seq):
        segments.apply(event)
    return segments


async def root_run(server: ServerContext, caller: Principal, thread_id: str | None, run_id: str) -> tuple[Run, int]:
    """The run that an id names, and which of its segments; of that thread, if one is given."""
    named = parse_segment_id(run_id)
    run = None if named is None else await server.reader.run(caller.tenant, named[0])
    if named is None or run is None or run.parent_run_id is not None or thread_id not in (None, run.thread_id):
        raise Declined("There is no such run.", code="RUN_NOT_FOUND", status=404)
    return run, named[1]


async def existing_segment(
    server: ServerContext, caller: Principal, thread_id: str | None, run_id: str
) -> tuple[Run, RunSegment]:
    run, number = await root_run(server, caller, thread_id, run_id)
    return run, nth_segment(await run_segments(server, caller.tenant, run), number)


def nth_segment(segments: RunSegments, number: int) -> RunSegment:
    if number >= len(segments.segments):
        raise Declined("There is no such run.", code="RUN_NOT_FOUND", status=404)
    return segments.segments[number]


async def last_run(server: ServerContext, tenant: str, thread_id: str) -> Run | None:
    """The newest run of the thread that no other run began."""
    for run in await server.reader.runs(tenant, thread_id=thread_id, status=None, before=None, limit=50):
        if run.parent_run_id is None and run.undo_of is None:
            return run
    return None


async def shown_thread(
    server: ServerContext, caller: Principal, thread: Thread, *, with_values: bool = True
) -> dict[str, object]:
    last = await last_run(server, caller.tenant, thread.id) if thread.used else None
    values = await thread_values(server, caller.tenant, thread.id, thread.last_seq) if with_values else None
    return thread_object(thread, last, values)
