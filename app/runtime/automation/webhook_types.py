"""The events that webhooks can be sent: a run ended, something waits for a person, jobs, workflows."""

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
