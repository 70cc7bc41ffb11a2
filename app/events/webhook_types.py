"""The events that webhooks can be sent: a run ended, something waits for a person, jobs, workflows."""

from fnmatch import fnmatchcase
from typing import Final

from app.events.catalog import EVENTS, interrupt, request

WEBHOOK_TYPES: Final = frozenset(
    {
        *request.TERMINAL,
        interrupt.InterruptRaised.type,
        interrupt.InterruptResolved.type,
        interrupt.InterruptExpired.type,
        *(name for name in EVENTS if name.startswith(("runtime.job.", "runtime.workflow."))),
    }
)
WEBHOOK_EVENTS: Final = (
    "runtime.request.completed, failed or cancelled; runtime.interrupt.raised, resolved or expired; runtime.job.*; "
    "runtime.workflow.*"
)
"""The same, for people."""


def matches_nothing(pattern: str) -> bool:
    """Whether a webhook that asks for these types would never be sent anything."""
    return not any(fnmatchcase(one, pattern) for one in WEBHOOK_TYPES)
