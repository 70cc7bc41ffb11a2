"""The words of the UI event standard: its envelope, its bounds, and which class of event needs which scope.

Leaves to others: what our own events are called there (the dialect), checking (`validation`), folding (`projection`).
"""

import re
from typing import Any, Final

SCHEMA_VERSION: Final = "lime-runtime-event/v0.1"
RUNTIME_ID: Final = "holdfast"

UiEvent = dict[str, Any]

TEXTS: Final = ("id", "schemaVersion", "runtimeId", "kind", "status", "title", "createdAt")
"""Fields that every event has, as texts that are not empty; and `sequence`, an integer."""
OPTIONAL_TEXTS: Final = (
    "eventClass",
    "owner",
    "threadId",
    "turnId",
    "taskId",
    "subagentId",
    "runId",
    "stepId",
    "toolCallId",
    "actionId",
    "workerId",
    "channelId",
    "handoffId",
    "reviewId",
    "traceId",
    "spanId",
    "attemptId",
    "artifactId",
    "evidenceId",
    "phase",
    "detail",
    "model",
    "completedAt",
)
TEXT_LISTS: Final = ("refIds", "artifactRefs", "evidenceRefs")

FORBIDDEN_CLASSES: Final = frozenset(
    {"done", "final_done", "cancelled", "turn.done", "turn.final_done", "turn.cancelled"}
)
TURN_ENDS: Final = frozenset({"turn.completed", "turn.failed", "turn.canceled"})
ACTION_ENDS: Final = frozenset({"action.resolved", "action.cancelled", "action.canceled", "action.expired"})

DELTA_CLASSES: Final = frozenset({"model.delta", "reasoning.delta", "tool.arguments.delta"})
"""Pieces of something: each alone is nothing that a list would show."""

MAX_PAYLOAD_UNITS: Final = 32_000
"""UTF-16 code units of a payload as compact JSON; what is larger belongs behind a reference."""
SECRET_KEY: Final = re.compile(r"api[-_]?key|authorization|password|secret|token", re.IGNORECASE)
"""Keys of a payload that may lead to a secret, at any depth."""


def utf16_units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)
