"""Reads what a run did, for evaluators: its events of the types that count, with large values in their places.

The reading is bounded. Leaves to the views: what the events add up to.
"""

from typing import Final

from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog import request, tool
from app.events.envelope import Event
from app.policy.evaluator import NotEvaluated
from app.views.ports import Reader
from app.views.run import Run
from app.views.run_record import RECORDED, RunRecord, run_record

MAX_EVENTS: Final = 20_000
"""Of one run and its subagents that evaluators look at."""
_PAGE: Final = 1000
_EVER: Final = 2**62
_WHOLE: Final = frozenset({request.RequestQueued.type, request.RequestCompleted.type, tool.ToolInvoked.type})


async def read_record(reader: Reader, tenant: str, run: Run, *, now_ms: int | None = None) -> RunRecord:
    """Raises `NotEvaluated` for a run that is too long to be looked at."""
    load = stored_blobs(reader, tenant, run.thread_id)
    events: list[Event] = []
    after, up_to = run.first_seq - 1, run.last_seq if run.terminal else _EVER
    while True:
        page = await reader.events_of(tenant, run.thread_id, RECORDED, after, up_to, _PAGE)
        events += [await with_blobs(event, load) if event.type in _WHOLE else event for event in page]
        if len(page) < _PAGE:
            break
        if len(events) >= MAX_EVENTS:
            raise NotEvaluated(f"the run has more than {MAX_EVENTS} events to look at")
        after = page[-1].seq
    return run_record(run.id, events, now_ms=now_ms)
