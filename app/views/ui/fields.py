"""An event as the projection reads it: whatever a foreign event contains, each field here has its type.

What does not fit is as if it were absent, so that no event can break a projection.
"""

from collections.abc import Mapping
from typing import Any

from app.views.ui import standard


class UiFields:
    """Typed access to one event."""

    __slots__ = ("_event", "id", "kind", "name", "payload", "sequence", "status", "title")

    def __init__(self, event: Mapping[str, Any], sequence: int) -> None:
        payload = event.get("payload")
        self._event = event
        self.sequence = sequence
        self.id = _text(event.get("id")) or f"event-{sequence}"
        self.name = _text(event.get("eventClass")) or ""
        self.kind = _text(event.get("kind")) or "state"
        self.status = _text(event.get("status")) or "completed"
        self.title = _text(event.get("title")) or self.name or "Event"
        self.payload: dict[str, Any] = payload if isinstance(payload, dict) else {}

    def text(self, name: str) -> str | None:
        """A field of the envelope."""
        return _text(self._event.get(name))

    def said(self, *names: str) -> str | None:
        """The first of these fields of the payload that is a text; an empty one counts."""
        for name in names:
            if isinstance(self.payload.get(name), str):
                return str(self.payload[name])
        return None

    def scope(self, name: str) -> str | None:
        """An id that the standard has in the envelope and older events have in the payload."""
        return self.text(name) or _text(self.payload.get(name))

    def refs(self, name: str) -> list[str]:
        value = self._event.get(name)
        return [item for item in value if isinstance(item, str) and item] if isinstance(value, list) else []

    @property
    def all_refs(self) -> list[str]:
        return list(dict.fromkeys(ref for name in standard.TEXT_LISTS for ref in self.refs(name)))

    @property
    def created_at(self) -> str | None:
        return self.text("createdAt")

    def is_of(self, family: str) -> bool:
        return self.name.startswith(family + ".")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def present(**fields: Any) -> dict[str, Any]:
    """A record without what is not known."""
    return {name: value for name, value in fields.items() if value is not None}
