"""The newest messages of a thread, without reading the thread from its beginning: pages from the end.

Leaves to `histories` what a run gets, and to the views what a conversation is.
"""

from collections.abc import Sequence
from typing import Final

from app.core.json import JsonObject
from app.runtime.run.histories import fold
from app.runtime.run.inlined import stored_blobs
from app.views.amendments import stored_amendments
from app.views.history import History
from app.views.ports import Reader
from app.views.thread import Thread

_END: Final = 2**62
_RUNS_AT_ONCE: Final = 50
"""A run leaves two messages or more, so that most pages need one look."""


async def newest_messages(
    reader: Reader, tenant: str, thread: Thread, limit: int, before: int | None
) -> tuple[list[JsonObject], int | None]:
    """At most `limit` messages unless one run has more, oldest first; and where the page before this one ends.

    The messages of a run stay together: a model's call of a tool means nothing without its result.
    """
    amendments = None
    if thread.amended:
        load = stored_blobs(reader, tenant, thread.id)
        amendments = await stored_amendments(reader, tenant, thread.id, thread.amended, load)
    end, parts = before or _END, list[tuple[int, list[JsonObject]]]()
    while True:
        count = min(_RUNS_AT_ONCE, limit)
        spans = await reader.root_runs(tenant, thread.id, end, count + 1)
        # What the thread began with belongs to the page that holds its first run.
        first = spans[count - 1][0] if len(spans) > count else 0
        # A run may end long after the next one was queued.
        until = max((last for _, last in spans[:count]), default=1)
        history = History(amendments=amendments)
        history.seq = max(0, first - 1)
        await fold(reader, tenant, thread.id, history, until)
        parts = [part for part in history.by_run() if part[0] < end] + parts
        if not first or sum(len(messages) for _, messages in parts) >= limit:
            return _cut(parts, limit, more=first > 0)
        end = first


def _cut(
    parts: Sequence[tuple[int, list[JsonObject]]], limit: int, *, more: bool
) -> tuple[list[JsonObject], int | None]:
    """As many of the newest parts as there is room for, one at least."""
    taken = 0
    kept = len(parts)
    for _, messages in reversed(parts):
        if taken and taken + len(messages) > limit:
            break
        taken += len(messages)
        kept -= 1
    found = [message for _, messages in parts[kept:] for message in messages]
    oldest = parts[kept][0] if kept < len(parts) else None
    return found, oldest if oldest is not None and (more or kept) else None
