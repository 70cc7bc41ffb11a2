"""A run for an AG-UI client: one stretch of it as server-sent events.

Leaves to others: the address (`routes`), which run it is (`stretches`), what its events are (`dialects.agui`), and
following it (`wire`).
"""

from typing import Final

from fastapi import Request, Response

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.blobs import has_references, stored_blobs, with_blobs
from app.events.catalog.adapter import AdapterEvent
from app.events.catalog.request import RequestQueued
from app.events.envelope import Event
from app.protocols.agui.agent_input import RunAgentInput
from app.protocols.agui.stretches import WORKFLOW, Stretch, open_stretch
from app.protocols.context import ServerContext
from app.protocols.dialects.agui import AguiReading
from app.protocols.dialects.agui_state import FLOW_TYPES, AguiState
from app.protocols.http.answers import header_text
from app.protocols.http.body import read_body, validated
from app.protocols.http.correlation import correlation
from app.protocols.http.errors import HttpProblem
from app.protocols.wire.follower import End
from app.protocols.wire.sse import COMMENT, EventStream, Following
from app.views.todos import FOLDED

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
_PAGE: Final = 1000
_OF_OTHERS: Final = frozenset({RequestQueued.type, *FOLDED})
"""What other runs of the thread do that the page's state shows: they begin for a step, and change what is to do."""


async def run_agent(server: ServerContext, caller: Principal, agent: str, request: Request) -> Response:
    """`agent` is the name of an agent, or `workflow:NAME`."""
    _existing(server, agent)
    raw = await read_body(request, MAX_BODY_BYTES)
    given = await validated(raw, RunAgentInput)
    stretch = await open_stretch(server, caller, agent, given, raw, correlation(request))
    run = stretch.run
    state = AguiState(run.id, run.workflow, given.state, server.todos.tools)
    if run.workflow is not None and stretch.after >= run.first_seq:
        await _before(server, caller.tenant, stretch, state)
    reading = AguiReading(given.thread_id, given.run_id, stretch.client_tools, state)
    reading.begin(given.parent_run_id)
    return _stream(server, caller.tenant, stretch, reading, state)


async def _before(server: ServerContext, tenant: str, stretch: Stretch, state: AguiState) -> None:
    """Where the steps of a workflow stand when it goes on."""
    run, after = stretch.run, stretch.run.first_seq - 1
    types = tuple(FLOW_TYPES)
    while page := await server.reader.events_of(tenant, run.thread_id, types, after, stretch.after, _PAGE):
        for event in page:
            state.before(event)
        after = page[-1].seq


def _existing(server: ServerContext, agent: str) -> None:
    workspace = server.workspace.current
    if agent.startswith(WORKFLOW):
        if agent.removeprefix(WORKFLOW) not in workspace.workflows:
            raise HttpProblem(Failure("WORKFLOW_NOT_FOUND", "There is no such workflow."))
    elif agent not in workspace.agents:
        raise HttpProblem(Failure("AGENT_NOT_FOUND", "There is no such agent."))


class AguiFrames:
    keep_alive = COMMENT

    def __init__(self, server: ServerContext, tenant: str, run_id: str, reading: AguiReading, state: AguiState) -> None:
        self._server, self._tenant, self._run_id, self._reading = server, tenant, run_id, reading
        self._state = state
        self.ended = False

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed:
            return b""
        if event.type == AdapterEvent.type:
            return self._read(event) if event.run_id == self._run_id else b""
        if self._state.needs_todos(event):
            return None
        if event.run_id != self._run_id and event.type not in _OF_OTHERS:
            return b""
        return None if has_references(event) else self._read(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        if not followed:
            return b""
        if self._state.needs_todos(event):
            before = await self._server.todos.folded(self._tenant, event.thread_id, event.seq - 1)
            self._state.begin_todos(before)
        return self._read(await with_blobs(event, stored_blobs(self._server.reader, self._tenant, event.thread_id)))

    def closing(self, end: End, failure: Failure | None) -> bytes:
        if failure is None:
            overflowed = end is End.OVERFLOWED
            message = "the stream was read too slowly" if overflowed else "the server stops; the run goes on"
            failure = Failure("QUEUE_OVERFLOW" if overflowed else "NOT_READY", message)
        self._reading.fail(failure.code, failure.message)
        return self._reading.take()

    def close(self) -> None: ...

    def _read(self, event: Event) -> bytes:
        if event.run_id == self._run_id:
            self._reading.feed(event)
        else:
            self._reading.feed_state(event)
        self.ended = self._reading.ended
        return self._reading.take()


def _stream(
    server: ServerContext, tenant: str, stretch: Stretch, reading: AguiReading, state: AguiState
) -> EventStream:
    run = stretch.run
    frames = AguiFrames(server, tenant, run.id, reading, state)
    subscription = server.hub.subscribe(tenant, [run.thread_id])
    following = Following(subscription, server.reader.events, run.thread_id, stretch.after)
    ids = {"x-holdfast-run-id": header_text(run.id), "x-holdfast-thread-id": header_text(run.thread_id)}
    return EventStream(following, frames, ids)
