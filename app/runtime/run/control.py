"""What reaches a run from outside while it is worked on: its cancel, and commands that wait to be taken up.

The executor holds one per run and its steps look at it. Leaves to the log: making any of it durable first.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any

from app.core.signal import CancelSignal
from app.core.value import mutable
from app.events.catalog import Payload
from app.events.catalog.builders import BuiltStepCompleted
from app.events.catalog.execution import CommandInjected, StepCompleted
from app.events.catalog.interrupt import InterruptExpired, InterruptRaised, InterruptResolved
from app.events.envelope import Event
from app.events.placed import PlacedEvent
from app.events.ports import Draft, EvaluationDue
from app.views.run import MUST_BE_SEEN


class RunCancellation(CancelSignal):
    """Set when the run's cancel was committed. While tools act, they are given their grace to end."""

    def __init__(self) -> None:
        super().__init__()
        self.acting = 0
        """How many batches of tool calls are at work."""


@mutable(slots=True)
class Control:
    cancelled: RunCancellation = field(default_factory=RunCancellation)
    commands: list[dict[str, Any]] = field(default_factory=list)
    """Committed commands since the run was entered, oldest first."""
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id: the commands that the run must have seen before it may complete."""
    taken: set[str] = field(default_factory=set)
    """Ids of commands that were followed, refused by a hook, or made void by a later one."""
    replays: bool = False
    """Whether the run can be entered again to follow what came late."""
    held: list[Draft] = field(default_factory=list)
    """Events that are ready and go with whatever the run records next: see `RunLog.hold`."""
    sending: bool = False
    """Whether what is held is about to be recorded, as soon as the run waits for anything."""
    flushing: list[PlacedEvent] = field(default_factory=list)
    """What was held and is being stored by itself, because the run did not get to record anything else at once."""
    draining: bool = False
    """The server stops: no tool begins any more whose repetition could do harm."""
    pausing: str | None = None
    """The interrupt of the pause that this entry of the run has come to; its branches wait for the same one."""
    artifacts: asyncio.Lock = field(default_factory=asyncio.Lock)
    versions: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """By name: the number and the id of the thread's newest artifact, as far as they were looked up."""
    children: set[str] = field(default_factory=set)
    """Runs of subagents that have begun and not ended; they end with their parent."""

    asked: dict[str, bool] = field(default_factory=dict)
    """The open interrupts that this entry of the run knows of, in order, and whether other branches go on meanwhile."""

    evaluations: list[EvaluationDue] = field(default_factory=list)
    """Noted with the run's end, if it completes: its shadow gates judge it afterwards."""

    on_step: Callable[[], None] | None = None
    """Called once when a step was completed; only of a run that is suspected of killing the server."""
    awaken: Callable[[str], None] = lambda _run_id: None
    """Called when a run of the thread may go on, because what it lacked is stored."""
    progress: Callable[[dict[str, Any]], Payload] | None = None
    """Of a job: what reports that it has come further."""
    steps: int = 0
    """Steps that were completed since the run was entered."""
    outside: Callable[[], AbstractContextManager[None]] = nullcontext
    """A scope in which the run only waits, for example for a provider that is down: others may use its place."""

    @property
    def waits(self) -> bool:
        """Whether this entry of the run has raised an interrupt that the whole run waits for. Calls that it began
        earlier may still be at work."""
        return self.pausing is not None or not all(self.asked.values())

    def note(self, command: Mapping[str, Any]) -> None:
        if command["command"] in MUST_BE_SEEN:
            self.known.setdefault(command["commandId"], dict(command))
        elif command["command"] == "resume":
            self.settle_pauses()

    def settle_pauses(self) -> None:
        """Nothing is left to do about the pauses that are known."""
        self.taken |= {name for name, command in self.known.items() if command["command"] == "pause"}

    def note_stored(self, run_id: str, events: Iterable[Event]) -> None:
        """What the log says about commands and what became of them."""
        for event in events:
            payload = event.payload
            if event.type == InterruptRaised.type:
                self.asked[payload["interruptId"]] = bool(payload.get("background"))
            elif event.type in (InterruptResolved.type, InterruptExpired.type):
                self.asked.pop(payload["interruptId"], None)
            if event.type == CommandInjected.type and event.run_id == run_id:
                self.note(payload)
            elif event.type == StepCompleted.type and payload["step"] == "commands" and event.run_id == run_id:
                self.taken |= {command["commandId"] for command in payload["result"]}
            elif event.type == InterruptRaised.type and payload["kind"] == "paused":
                self.taken.add(payload["arguments"]["commandId"])

    def unanswered(self) -> list[dict[str, Any]]:
        return [command for name, command in self.known.items() if name not in self.taken]

    async def take_held(self) -> list[Draft]:
        """For whoever records next. What went ahead is stored by then, or its failure is raised."""
        if self.flushing:
            flushing, self.flushing = self.flushing, []
            for placed in flushing:
                await placed
        held, self.held = self.held, []
        return held


def too_late(commands: Sequence[Mapping[str, Any]]) -> list[BuiltStepCompleted]:
    """What is recorded of commands that the run was sent and could not follow any more."""
    if not commands:
        return []
    reason = "too late: the run had its answer and no turn left"
    result = [dict(command) | {"arguments": {"denied": reason}} for command in commands]
    return [BuiltStepCompleted(step="commands", key="commands:late", result=result)]
