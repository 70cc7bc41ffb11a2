"""What is stored of a schedule besides its document: up to where it was dealt with, whether it is paused.

Leaves to `automation`: firing.
"""

from dataclasses import field
from typing import Any, Literal, Protocol

from app.core.value import mutable


@mutable(slots=True)
class ScheduledWith:
    """How the runs of a schedule are submitted that a client made for itself, besides its spec."""

    thread: str | None = None
    """None gives each run a thread of its own."""
    metadata: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    thread_labels: dict[str, str] = field(default_factory=dict)
    busy: Literal["enqueue", "reject", "interrupt", "rollback"] = "enqueue"
    webhook: str | None = None
    until: int | None = None
    """No due time after this one fires, in milliseconds."""
    payload: dict[str, Any] = field(default_factory=dict)
    """What the client asked for."""
    created_at: int = 0
    updated_at: int = 0


@mutable(slots=True)
class ScheduleState:
    tenant: str
    name: str
    cursor: int
    """Due times up to here were dealt with, in milliseconds."""
    paused: bool = False
    last_due: int | None = None
    last_run: str | None = None
    spec: dict[str, Any] | None = None
    """Of one that a client made; None of one that the workspace declares."""
    attached: dict[str, Any] | None = None
    """Of a `ScheduledWith`, if there is one."""


class Schedules(Protocol):
    """Creating, deleting and pausing one is part of the command that records it (`ScheduleStored`)."""

    async def all(self) -> list[ScheduleState]: ...

    async def add(self, state: ScheduleState) -> bool:
        """False if there is one of this name already."""
        ...

    async def advance(self, tenant: str, name: str, cursor: int, due: int | None, run: str | None) -> None:
        """Due times up to this one are dealt with; never backwards."""
        ...
