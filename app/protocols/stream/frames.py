"""The frames of `/api/stream`: control frames, and one frame per event."""

from typing import Any, Final

from app.core import json
from app.events.envelope import Event, iso_at
from app.events.hub import EVERYWHERE

PONG: Final = '{"type":"pong"}'
INVALID: Final = '{"type":"error","message":"invalid websocket command"}'
SYSTEM_PREFIX: Final = "sys_"
"""Threads of the system's own: only sockets subscribed to exactly that thread hear them."""


def ready(thread_id: str | None) -> str:
    return json.dumps({"type": "ready", "threadId": thread_id}).decode()


def is_global(event: Event) -> bool:
    """Goes to every socket of the tenant, whatever it is subscribed to."""
    return event.type in EVERYWHERE


def event_frame(event: Event) -> str:
    frame: dict[str, Any] = {
        "type": event.type,
        "threadId": None if is_global(event) else event.thread_id,
        "seq": event.seq,
        "part": 0,
        "last": True,
        "id": event.id,
        "runId": event.run_id,
        "at": iso_at(event.at),
        "actor": event.actor,
        "payload": json.Fragment(event.payload_bytes),
    }
    return json.dumps(frame).decode()
