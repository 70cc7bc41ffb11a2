"""What holds for UI events of any thread or run: valid by our own check and by an independent schema, and dense."""

from collections.abc import Sequence
from typing import Any, Final

import jsonschema_rs

from app.events.catalog.log import LogCompacted
from app.events.catalog.request import RequestQueued
from app.events.envelope import Event
from app.protocols.dialects.lime import ui_event
from app.protocols.dialects.lime_source import Lineage, task_id
from app.views.ui.sequence import sequence_violations
from app.views.ui.validation import event_issues

_TEXT: Final = {"type": "string", "minLength": 1}
_KINDS: Final = [
    "context",
    "source",
    "skill",
    "tool",
    "permission",
    "sandbox",
    "state",
    "model",
    "draft",
    "handoff",
    "action",
    "evidence",
    "note",
]
# The standard's own schema, read independently of the code under test.
_SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id", "schemaVersion", "runtimeId", "kind", "status", "title", "createdAt", "sequence"],
    "properties": {
        "id": _TEXT,
        "schemaVersion": {"const": "lime-runtime-event/v0.1"},
        "runtimeId": _TEXT,
        "kind": {"enum": _KINDS},
        "status": {"enum": ["pending", "running", "completed", "blocked", "canceled", "failed"]},
        "title": _TEXT,
        "createdAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        "completedAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"},
        "sequence": {"type": "integer", "minimum": 0},
        "payload": {"type": "object", "propertyNames": {"not": {"pattern": "[tT]oken|[sS]ecret|[pP]assword"}}},
        "refIds": {"type": "array", "items": _TEXT},
        "artifactRefs": {"type": "array", "items": _TEXT},
        "evidenceRefs": {"type": "array", "items": _TEXT},
    },
    "patternProperties": {"Id$": _TEXT},
    "additionalProperties": {"type": "string"},
}
_INDEPENDENT: Final = jsonschema_rs.Draft202012Validator(_SCHEMA)

CUT_OFF: Final = {"tool_unclosed_at_turn_end", "action_unresolved_at_turn_end"}
"""A run may end while a call or a question is open; the log says so and the UI events do."""


def assert_valid(events: Sequence[dict[str, Any]], *, gaps: bool = False) -> None:
    """`gaps` where retention dropped deltas."""
    for event in events:
        assert event_issues(event) == [], event
        assert [error.message for error in _INDEPENDENT.iter_errors(event)] == [], event
    if not gaps and events:
        first = events[0]["sequence"]
        assert [event["sequence"] for event in events] == list(range(first, first + len(events)))
    found = [violation for violation in sequence_violations(events) if violation.code not in CUT_OFF]
    assert found == []


def lineages(events: Sequence[Event]) -> dict[str | None, Lineage]:
    """Where each run of a thread comes from, from its events alone."""
    found: dict[str | None, Lineage] = {}
    for event in events:
        if event.type == RequestQueued.type:
            payload, run_id = event.payload, event.run_id
            assert run_id is not None
            name, parent = (
                payload.get("agent") or payload.get("tool") or payload.get("workflow"),
                payload.get("parentRunId"),
            )
            above = found.get(parent)
            if parent is None or above is None:
                found[run_id] = Lineage(run_id, name=name)
            else:
                task = task_id(parent) if above.parent_run_id is not None else None
                found[run_id] = Lineage(above.turn_id, parent, name, task)
    return found


def spelled(events: Sequence[Event]) -> list[dict[str, Any]]:
    lines = lineages(events)
    return [ui_event(event, lines.get(event.run_id), event.seq) for event in events]


def assert_thread_is_valid(events: Sequence[Event]) -> None:
    """A stored thread, as its own UI events and as those of each of its runs."""
    gaps = any(event.type == LogCompacted.type for event in events)
    assert_valid(spelled(events), gaps=gaps)
    lines = lineages(events)
    for run_id in lines:
        own = [event for event in events if event.run_id == run_id]
        numbered = [ui_event(event, lines[run_id], event.run_seq or 0) for event in own]
        assert_valid(numbered, gaps=gaps)
