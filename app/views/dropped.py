"""What the `runtime.log.compacted` events of a thread say about one run: the numbers and the deltas that it lost.

They come after the run's end. Leaves to others: whether they are right (`events.gaps`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from app.events.catalog.log import LogCompacted
from app.events.envelope import Event
from app.views.ports import Reader
from app.views.run import Run

_PAGE: Final = 1000
_EVER: Final = 2**62


async def compactions(reader: Reader, tenant: str, run: Run) -> list[Event]:
    """The events that may be about the run. One that has not ended lost nothing."""
    found: list[Event] = []
    after, full = run.last_seq, run.terminal
    while full:
        page = await reader.events_of(tenant, run.thread_id, (LogCompacted.type,), after, _EVER, _PAGE)
        found += page
        after, full = page[-1].seq if page else after, len(page) == _PAGE
    return found


def dropped_numbers(events: Iterable[Event], run_id: str) -> dict[int, int]:
    """How many numbers of the run were dropped, by the first `runSeq` of each stretch. Not one by one: an imported
    thread may say that any number of them were."""
    return {
        run["runSeq"]: run["count"]
        for event in events
        for dropped in event.payload["ranges"]
        for run in dropped["runs"]
        if run["runId"] == run_id
    }


def dropped_text_deltas(events: Iterable[Event]) -> Counter[str]:
    """By message: how many deltas of its text were dropped."""
    counts: Counter[str] = Counter()
    for event in events:
        for dropped in event.payload["ranges"]:
            for message in dropped["messages"]:
                counts[message["messageId"]] += message["textDeltas"]
    return counts
