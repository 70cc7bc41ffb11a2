"""Streams of a task: as it stands first, then its updates, until it has ended or asks something.

Leaves to `wire`: following the thread; to `dialects.a2a`: what the updates are.
"""

from collections.abc import Callable
from typing import Final

from starlette.responses import Response

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.blobs import has_references, stored_blobs, with_blobs
from app.events.catalog.adapter import AdapterEvent
from app.events.envelope import Event
from app.protocols.a2a.tasks import AgentDesk
from app.protocols.dialects.a2a import TaskReading, output_artifact
from app.protocols.dialects.a2a_errors import A2aError, of_failure
from app.protocols.http.errors import status_of
from app.protocols.wire.follower import End
from app.protocols.wire.sse import COMMENT, EventStream, Following, OneFrame
from app.views.run import Run

_PAGE: Final = 1000
Spell = Callable[[JsonObject | A2aError], JsonObject]
"""One update, or an error, as the client's binding has it."""


class TaskFrames:
    keep_alive = COMMENT

    def __init__(self, desk: AgentDesk, run: Run, spell: Spell, error_name: bytes) -> None:
        self._desk, self._run_id, self._spell, self._error_name = desk, run.id, spell, error_name
        self._reading = TaskReading(run, desk.base_url)
        self.ended = False

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed or event.run_id != self._run_id:
            return b""
        if event.type != AdapterEvent.type and has_references(event):
            return None
        return self._read(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        if not followed:
            return b""
        load = stored_blobs(self._desk.server.reader, self._desk.caller.tenant, event.thread_id)
        return self._read(await with_blobs(event, load))

    async def before(self, run: Run) -> JsonObject:
        """Reads what the client is not sent any more. Gives the task as it stands, with the output so far: the next
        piece is appended to it."""
        desk = self._desk
        after = run.last_seq if run.terminal else run.first_seq - 1
        load = stored_blobs(desk.server.reader, desk.caller.tenant, run.thread_id)
        while after < run.last_seq and (
            page := await desk.server.reader.run_events(desk.caller.tenant, run.id, after, _PAGE)
        ):
            for event in page:
                if event.seq <= run.last_seq:
                    self._reading.ended = False  # it may have paused before
                    self._reading.feed(await with_blobs(event, load) if has_references(event) else event)
            after = page[-1].seq
        self._reading.ended = False
        self._reading.take()
        shown = await desk.shown(run)
        if self._reading.said:
            made = output_artifact(run.id, [{"text": self._reading.said}])
            shown["artifacts"] = [made, *shown.get("artifacts", ())]
        return shown

    def closing(self, end: End, failure: Failure | None) -> bytes:
        if failure is None:
            failure = Failure("NOT_READY", "The stream ended; the task goes on. Subscribe to it again.")
        return self._error_name + self.frame(of_failure(failure, status_of(failure.code)))

    def close(self) -> None: ...

    def frame(self, value: JsonObject | A2aError) -> bytes:
        return b"data: %b\n\n" % json.dumps(self._spell(value))

    def _read(self, event: Event) -> bytes:
        self._reading.feed(event)
        self.ended = self._reading.ended
        return b"".join(map(self.frame, self._reading.take()))


async def task_stream(desk: AgentDesk, run: Run, spell: Spell, *, error_name: bytes = b"") -> Response:
    """`error_name` stands before a frame that is an error, where the binding wants one."""
    frames = TaskFrames(desk, run, spell, error_name)
    shown = await frames.before(run)
    first = frames.frame({"task": shown})
    if run.terminal or (run.status == "waiting" and shown["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"):
        return OneFrame(first)
    subscription = desk.server.hub.subscribe(desk.caller.tenant, [run.thread_id])
    following = Following(subscription, desk.server.reader.events, run.thread_id, run.last_seq)
    return EventStream(following, frames, first=first)
