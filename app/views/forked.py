"""What a fork took over of its source: the turns and the transcript up to the fork, recorded in its first event.

The new chain is self-contained, so the rows are in it and not in the source alone, which may be deleted. Leaves to
others: the history that a model is sent (`history`), and everything that happened after the fork.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.events.catalog import thread as facts
from app.events.envelope import Event
from app.views.records import replay
from app.views.run import Run
from app.views.state_updates import updated_state
from app.views.transcript import Entry, entry_json

Rows = list[dict[str, Any]]


def taken_over(thread_id: str, events: Sequence[Event]) -> tuple[Rows, Rows]:
    """Turns and rows of a source, for `runtime.thread.forked`; `events` are its first, with large values in place."""
    records = replay(thread_id, events)
    first = events[0].payload if events and events[0].type == facts.ThreadForked.type else {}
    runs = sorted((run for run in records.runs.values() if run.parent_run_id is None), key=lambda run: run.first_seq)
    # What was under way at the fork goes on in the source alone.
    turns = [
        {"id": run.id, "status": run.status if run.terminal else "cancelled"}
        | ({"error": run.error} if run.error else {})
        for run in runs
    ]
    own = sorted(records.entries.values(), key=lambda entry: (entry.position, entry.message_id))
    rows = [_row(entry) for entry in with_earlier(_entries(first), own)]
    return [*(first.get("turns") or []), *turns], rows


def states(events: Sequence[Event]) -> dict[str, Any]:
    """What the source's runs had left for later ones, by agent; a large one is a reference to its blob."""
    found: dict[str, Any] = {}
    for event in events:
        if event.type == facts.ThreadForked.type:
            found |= event.payload.get("states") or {}
        elif event.type == facts.ThreadStateSaved.type:
            found[event.payload["agent"]] = event.payload["state"]
        elif event.type == facts.ThreadStateUpdated.type and event.payload.get("agent") is not None:
            agent = event.payload["agent"]
            found[agent] = updated_state(found.get(agent), event.payload)
    return found


def earlier(thread_id: str, first: Event) -> tuple[list[Run], list[Entry]]:
    """Turns and entries that a fork began with; `first` is its first event, with large values in place."""
    turns: Rows = first.payload.get("turns") or []
    runs = [
        Run(turn["id"], thread_id, status=turn["status"], error=turn.get("error"), first_seq=number - len(turns))
        for number, turn in enumerate(turns)
    ]
    return runs, _entries(first.payload)


def with_earlier(first: Sequence[Entry], own: Sequence[Entry]) -> list[Entry]:
    """One transcript: a row that was changed after the fork stays in its place."""
    changed = {entry.message_id: entry for entry in own}
    before = [replace(changed.pop(entry.message_id, entry), position=entry.position) for entry in first]
    return [*before, *(entry for entry in own if entry.message_id in changed)]


def _entries(first: dict[str, Any]) -> list[Entry]:
    return [
        Entry(
            row["messageId"],
            1,
            row["turnId"],
            row["role"],
            row["type"],
            row["content"],
            row["status"],
            row.get("details"),
            row.get("startedAt"),
            row.get("completedAt"),
            bool(row.get("supplemental")),
        )
        for row in first.get("transcript") or []
    ]


def _row(entry: Entry) -> dict[str, Any]:
    made = {name: value for name, value in entry_json(entry).items() if value is not None}
    if made["status"] == "streaming":
        made["status"] = "complete" if entry.supplemental else "canceled"
    return made | ({"supplemental": True} if entry.supplemental else {})
