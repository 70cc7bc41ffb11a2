"""What was said on a thread before a run, without reading all of it again for each run.

A thread's conversation is kept folded after it was asked for, and goes on from there the next time; only events that
make up a conversation are read. Everything is a function of the log: a run that is entered again gets the same,
whether its thread was in memory or not. Leaves to the views: what a conversation is; to the conductor: who asks.
"""

from collections.abc import Sequence
from typing import Any, Final

from cachetools import LRUCache

from app.core.json import JsonObject
from app.core.value import value
from app.events.blobs import restored
from app.events.catalog import request, thread
from app.events.envelope import Event
from app.runtime.run.inlined import inline, stored_blobs
from app.views.amendments import Amendments, stored_amendments
from app.views.history import MAX_SIZE, TYPES, History
from app.views.ports import Reader
from app.views.run import Run

_Key = tuple[str, str, str | None]
"""Tenant, thread, agent: agents get different summaries."""

_TYPES: Final = sorted(TYPES)
_CREATED: Final = thread.ThreadCreated.type
_PAGE: Final = 200
"""Events read at once: each may hold some tens of kilobytes."""
MAX_THREADS: Final = 1000
MAX_KEPT: Final = 2 * MAX_SIZE
"""Characters of all conversations that are kept in memory; each takes one to four bytes."""


@value(frozen=True, slots=True)
class Before:
    """What a run gets of its thread."""

    messages: Sequence[JsonObject]
    brought: bool
    """Whether they came with the run's own request, so that nobody has looked at them yet."""
    state: Any = None
    """What the thread's last run of the agent left."""


_NOTHING_BEFORE: Final = Before((), brought=True)


class Histories:
    def __init__(self, reader: Reader, max_kept: int = MAX_KEPT) -> None:
        self._reader = reader
        # Each with what it weighed when it was put here, and never less than makes MAX_THREADS of them.
        self._kept: LRUCache[_Key, History] = LRUCache(
            max_kept, getsizeof=lambda history: max(history.weight, max_kept / MAX_THREADS)
        )

    async def before(
        self, run: Run, tenant: str, family: Sequence[Event], events: Sequence[Event] | None = None
    ) -> Before:
        """`events` is the whole thread, where it is known without reading it.

        All runs before this one had ended when it was started, so that is where its history ends. What came later,
        such as a summary that the run made itself, is not what it was given.
        """
        if events and _begins_empty(run, events[0]):
            return _NOTHING_BEFORE
        if events:
            earlier = [event for event in events if event.seq < run.first_seq]
            found = History(run.agent, MAX_SIZE, Amendments(earlier))
            for event in earlier:
                found.apply(event)
        else:
            until = next(
                (event.seq for event in family if event.run_id == run.id and event.type == request.RequestStarted.type),
                run.first_seq,
            )
            key = tenant, run.thread_id, run.agent
            found = await fold(self._reader, tenant, run.thread_id, self._take(key, until), until)
            self._keep(key, found)
        # A thread that began with a history began with the run whose request brought it.
        brought = found.began_with == _CREATED and run.first_seq == 2
        state = found.state
        if isinstance(state, dict):
            state = await restored(state, stored_blobs(self._reader, tenant, run.thread_id))
        return Before(found.messages(run.first_seq), brought, state)

    def _take(self, key: _Key, until: int) -> History:
        """Out of the shelf while it is worked on: whoever else asks for it meanwhile begins at the beginning."""
        kept = self._kept.pop(key, None)
        return kept if kept is not None and kept.seq <= until else History(key[2], MAX_SIZE)

    def _keep(self, key: _Key, found: History) -> None:
        self._kept.pop(key, None)
        if found.weight <= self._kept.maxsize:
            self._kept[key] = found


def _begins_empty(run: Run, first: Event) -> bool:
    """Whether the run began its thread, and nothing was said before: so begins every single question."""
    if run.first_seq != 2 or first.type != _CREATED:
        return False
    return not first.payload.get("history") and not first.payload.get("states")


async def fold(reader: Reader, tenant: str, thread_id: str, history: History, until: int) -> History:
    """The conversation, brought up to that `seq`, which is stored; another one where something was amended since."""
    load = stored_blobs(reader, tenant, thread_id)
    full = True
    while full and not history.outdated:
        page = await reader.events_of(tenant, thread_id, _TYPES, history.seq, until, _PAGE)
        for event in page:
            history.apply(await inline(event, load))
        full = len(page) == _PAGE
    if history.outdated:
        amendments = await stored_amendments(reader, tenant, thread_id, until, load)
        return await fold(reader, tenant, thread_id, history.anew(amendments), until)
    history.seq = max(history.seq, until)
    return history
