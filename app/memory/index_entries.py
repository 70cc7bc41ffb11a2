"""What the search index gets of a record."""

from app.events.ports import MemoryIndexed
from app.memory.candidates import slot_of
from app.memory.terms import fingerprint, folded, terms


def index_entry(record_id: str, text: str, slot: str | None = None) -> MemoryIndexed:
    return MemoryIndexed(record_id, terms(text), fingerprint(text), slot_key(slot) or slot_of(text))


def slot_key(slot: str | None) -> str | None:
    """A slot as it is compared: without case and spaces around it."""
    return folded(slot).strip()[:200] or None if slot else None
