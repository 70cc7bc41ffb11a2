"""Which spelling of events a client asks for with `?dialect=`. Leaves to the dialects: the spelling itself."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Query, Response

from app.core.principal import Principal
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.dialects.lime_source import Lineage
from app.protocols.dialects.stable_harness import stable_event
from app.protocols.http.answers import events_answer, page_answer
from app.protocols.http.lineages import LineageFrames, Lineages
from app.protocols.http.sse import Ending, event_stream
from app.protocols.wire.sse import EventStream, Following

EventDialect = Annotated[
    Literal["native", "stable-harness"],
    Query(description="the spelling of the events: ours, or that of the stable-harness event model"),
]


class EventDialects:
    """Pages and streams of events in the spelling that a client asks for."""

    def __init__(self, server: ServerContext) -> None:
        self._server, self._lineages = server, Lineages(server.reader)

    async def page(self, events: list[Event], cursor: int | None, dialect: EventDialect) -> Response:
        if dialect == "native":
            return events_answer(events, cursor)
        return page_answer([stable_event(event, await self._agent(event)) for event in events], cursor)

    def stream(
        self,
        caller: Principal,
        thread_id: str,
        after: int,
        dialect: EventDialect,
        *,
        ending: Ending,
        keep: Callable[[Event], bool] | None = None,
    ) -> EventStream:
        if dialect == "native":
            return event_stream(self._server, caller, thread_id, after, ending=ending, keep=keep)
        subscription = self._server.hub.subscribe(caller.tenant, [thread_id])
        following = Following(subscription, self._server.reader.events, thread_id, after)
        return EventStream(following, LineageFrames(self._lineages, _stable_spelling, ending, keep), at_once=True)

    async def _agent(self, event: Event) -> str | None:
        line = await self._lineages.of(event)
        return None if line is None else line.name


def _stable_spelling(event: Event, line: Lineage | None) -> tuple[str, Any]:
    return event.type, stable_event(event, None if line is None else line.name)
