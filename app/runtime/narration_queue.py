"""Asks the narrator of an installed package about committed events and records what it says.

Never in the way of a run: the events are stored before it is asked, and a narrator that is slow, fails or says too much
loses its words. A run that has ended gets no more of them. Leaves to the recorder: the narrator that ships.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from app.events.catalog import adapter, log, request
from app.events.envelope import Event
from app.events.observers import Observer, called
from app.events.ports import RunNotTerminal
from app.events.recorder import Recorder, Scope
from app.workspace.catalog import Kind

MAX_MESSAGE: Final = 2000
"""Characters of one sentence."""


class PackageNarrator(Protocol):
    """Says in a sentence what an event means; None for what needs no words. The method may be async."""

    def narrate(self, event: Mapping[str, Any], style: str) -> Awaitable[str | None] | str | None:
        """`event` has `id`, `type`, `runId`, `threadId`, `seq` and `payload`; `style` is `concise` or `detailed`."""
        ...


@dataclass(frozen=True, kw_only=True)
class NarratorKind(Kind):
    make: Callable[[], PackageNarrator]


class NarrationQueue:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._narrator: PackageNarrator | None = None
        self._provider, self._style = "", "concise"
        self.observer = Observer("narrator", self._narrate)

    def follow(self, narrator: PackageNarrator | None, provider: str, style: str) -> None:
        """The narrator of the workspace in use; None for none."""
        self._narrator, self._provider = narrator, provider
        self._style = "concise" if style == "brief" else style

    def committed(self, events: Sequence[Event]) -> None:
        if self._narrator is not None and (asked := [event for event in events if _may_have_words(event)]):
            self.observer.offer(asked)

    async def close(self) -> None:
        await self.observer.close()

    async def _narrate(self, events: Sequence[Event]) -> None:
        for event in events:
            if self._narrator is not None:
                message = await called(self._narrator.narrate, _shown(event), self._style)
                if isinstance(message, str) and message.strip():
                    await self._record(event, message.strip()[:MAX_MESSAGE])

    async def _record(self, event: Event, message: str) -> None:
        assert event.run_id is not None
        narration = log.ProgressNarration(
            message=message,
            provider=self._provider,
            style=self._style,
            source_event_types=[event.type],
            source_event_ids=[event.id],
        )
        scope = Scope(event.tenant, event.thread_id, event.run_id)
        await self._recorder.record(scope, narration, conditions=[RunNotTerminal(event.run_id)])


def _may_have_words(event: Event) -> bool:
    if event.run_id is None or event.type in request.TERMINAL or event.type == log.ProgressNarration.type:
        return False
    return event.type != adapter.AdapterEvent.type or event.payload["event"]["phase"] not in adapter.DELTAS


def _shown(event: Event) -> dict[str, Any]:
    return {
        "id": event.id,
        "type": event.type,
        "runId": event.run_id,
        "threadId": event.thread_id,
        "seq": event.seq,
        "payload": event.payload,
    }
