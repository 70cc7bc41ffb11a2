"""From a request to the run that answers it: a new one, or one that goes on with the answers to its questions.

Leaves to others: what the body meant (`run_request`), frames (`run_streams` and the dialects), and running.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.value import value
from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog.thread import ThreadStateUpdated, ThreadUpdated
from app.events.hub import Subscription
from app.events.ports import BlobDraft, ThreadIdleSince
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_interrupts import (
    UPDATES,
    AnswerNotMapped,
    answer_of,
    is_breakpoint,
    takes_updates,
)
from app.protocols.dialects.langgraph_segments import RunSegment
from app.protocols.dialects.langgraph_states import TEMPORARY
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.http.parts import by_reference
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.inputs import GraphInput, split
from app.protocols.langgraph.run_request import GraphRunRequest, run_labels
from app.protocols.langgraph.state_updates import StateUpdates
from app.protocols.langgraph.thread_reading import run_segments, thread_values
from app.protocols.langgraph.thread_states import checkpoint_number
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.submission import Busy, JobRequest, Submission
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.views.thread import Thread

_WORKFLOW: Final = "workflow:"
_MAX_UPDATES: Final = 1000
"""Of the state, while a run waits at a node."""


@value(frozen=True, slots=True)
class StartedRun:
    """The run, which of its segments was begun, and who listens since before it was accepted."""

    run: Run
    segment: RunSegment
    heard: Subscription | None = None


async def start(
    server: ServerContext,
    caller: Principal,
    thread_id: str | None,
    wanted: GraphRunRequest,
    trace: Mapping[str, str] | None,
    *,
    listens: bool,
) -> StartedRun:
    thread = await _thread(server, caller, thread_id, wanted)
    if wanted.resume is not None:
        if thread is None:
            raise Declined("There is no thread to resume.", code="THREAD_NOT_FOUND", status=404)
        return await resume(server, caller, thread, wanted.resume.value)
    update: ThreadStateUpdated | None = None
    if thread is not None and wanted.checkpoint is not None:
        wanted, update = await _travelled(server, caller, thread, wanted, wanted.checkpoint)
    if wanted.given is None:
        return await _go_on(server, caller, thread)
    return await _begin(server, caller, thread_id, thread, wanted, trace, update, listens=listens)


async def _thread(
    server: ServerContext, caller: Principal, thread_id: str | None, wanted: GraphRunRequest
) -> Thread | None:
    if thread_id is None:
        return None
    if wanted.create_thread and await server.reader.thread(caller.tenant, thread_id) is None:
        return None
    return await existing_thread(server, caller, thread_id)


async def _travelled(
    server: ServerContext, caller: Principal, thread: Thread, wanted: GraphRunRequest, named: str
) -> tuple[GraphRunRequest, ThreadStateUpdated | None]:
    """A run from a checkpoint, and what the thread is set back to. Without an input, what was asked there is asked
    again."""
    values = await thread_values(server, caller.tenant, thread.id, thread.last_seq)
    number = checkpoint_number(values, named)
    if number == len(values.checkpoints) - 1 and (wanted.given is not None or thread.status == "waiting"):
        return wanted, None
    if thread.status == "busy":
        message = "The thread has a run at work: a run from an earlier checkpoint starts when that has ended."
        raise Declined(message, code="THREAD_BUSY", status=409)
    updates, point = StateUpdates(server, caller, thread, values), values.checkpoints[number]
    if wanted.given is not None:
        return wanted, await updates.restoration(point)
    kept = values.messages(point.seq)
    asked = list(takewhile(lambda one: one["type"] == "human", reversed(kept)))[::-1]
    if not asked:
        raise Declined("input is required: at this checkpoint nothing was asked that has no answer.")
    said = [{k: v for k, v in one.items() if k != "id"} for one in await updates.as_history(asked)]
    again = replace(wanted, given=GraphInput(said, [one["id"] for one in asked]))
    return again, await updates.restoration(point, without=len(asked))


async def _go_on(server: ServerContext, caller: Principal, thread: Thread | None) -> StartedRun:
    """A run that stopped at a node goes on, with what its client set of the state meanwhile."""
    if thread is not None and thread.status == "waiting":
        found = await server.reader.interrupts(caller.tenant, thread_id=thread.id, status="open")
        asked = {one.id: one for one in found if is_breakpoint(one.kind, one.questions)}
        if asked:
            return await respond(server, caller, asked, dict.fromkeys(asked, True))
    raise Declined("input is required unless a command resumes the thread or its run stopped at a node.")


async def _set_meanwhile(server: ServerContext, caller: Principal, asked: Sequence[Interrupt]) -> list[JsonObject]:
    """What was set of the state since a run stopped at a node, or since its graph asked by itself."""
    stopped = {one.id for one in asked if takes_updates(one.kind, one.questions)}
    thread = await server.reader.thread(caller.tenant, asked[0].thread_id) if stopped else None
    if not isinstance(thread, Thread):
        return []
    values = await thread_values(server, caller.tenant, thread.id, thread.last_seq)
    since = min([point.seq for point in values.checkpoints if point.interrupts.keys() & stopped], default=0)
    types = (ThreadStateUpdated.type,)
    found = await server.reader.events_of(caller.tenant, thread.id, types, since, thread.last_seq, _MAX_UPDATES)
    load = stored_blobs(server.reader, caller.tenant, thread.id)
    whole = [(await with_blobs(event, load)).payload for event in found]
    return [{"values": one["values"], "asNode": one.get("asNode")} for one in whole if one.get("values")]


# -- a new run ----------------------------------------------------------------------------------------


async def _begin(
    server: ServerContext,
    caller: Principal,
    thread_id: str | None,
    thread: Thread | None,
    wanted: GraphRunRequest,
    trace: Mapping[str, str] | None,
    update: ThreadStateUpdated | None,
    *,
    listens: bool,
) -> StartedRun:
    heard: Subscription | None = None

    def listen(named: str) -> None:
        nonlocal heard
        heard = server.hub.subscribe(caller.tenant, (named,))

    submission = await _submission(server, caller, thread_id, thread, wanted, trace, listen if listens else None)
    if update is not None and thread is not None:
        seen = thread.updated_at
        submission.state_update, submission.conditions = update, (lambda _run: ThreadIdleSince(seen),)
    answer: Any = None
    try:
        answer = await server.service.submit(caller, submission)
    finally:
        if heard is not None and not isinstance(answer, Run):
            heard.close()
    if not isinstance(answer, Run):
        raise HttpProblem(answer.failure)
    return StartedRun(
        answer, RunSegment(0, answer.first_seq, answer.last_seq, answer.created_at, answer.created_at), heard
    )


async def _submission(
    server: ServerContext,
    caller: Principal,
    thread_id: str | None,
    thread: Thread | None,
    wanted: GraphRunRequest,
    trace: Mapping[str, str] | None,
    announce: Callable[[str], None] | None,
) -> Submission:
    given = wanted.given
    assert given is not None  # a request without an input resumes
    blobs: list[BlobDraft] = []
    continued = thread is not None and thread.used
    history: list[JsonObject] = []
    content: Any = given.data
    if given.data is None:
        history, said = split(given.messages, continued=continued)
        stored = [await _stored(server, caller, message, blobs) for message in (*history, *said)]
        history, content = stored[: len(history)], _content(stored[len(history) :])
    if history and thread is not None:
        raise Declined("Earlier messages can only be sent with the run that creates its thread; this one exists.")
    named = wanted.graph_id.removeprefix(_WORKFLOW) if wanted.graph_id.startswith(_WORKFLOW) else None
    temporary = ThreadUpdated(labels={TEMPORARY: "1"}) if thread_id is None else None
    return Submission(
        agent=wanted.graph_id if named is None else None,
        workflow=named,
        input=content,
        thread_id=thread_id,
        create_thread=thread is None and thread_id is not None,
        metadata=wanted.metadata,
        labels=run_labels(wanted),
        busy=_busy(thread, wanted.strategy),
        history=history,
        instructions=given.instructions,
        blobs=tuple(blobs),
        announce=announce,
        trace_context=trace,
        thread_change=temporary,
        webhook=await run_webhook(server, caller, wanted.webhook),
        job=None if not wanted.after_seconds else _delayed(server, wanted.after_seconds),
    )


async def run_webhook(server: ServerContext, caller: Principal, named: str | None) -> str | None:
    """Who is sent a run's end; only hosts that the workspace lists."""
    if named is None:
        return None
    found = await server.webhooks.for_run(caller, named)
    if isinstance(found, Failure):
        raise HttpProblem(found)
    return found


def _delayed(server: ServerContext, seconds: float) -> JobRequest:
    return JobRequest(not_before_ms=server.clock.now_ms() + round(seconds * 1000))


def _busy(thread: Thread | None, strategy: Busy) -> Busy:
    """There a thread whose run waits for an answer is not busy: a new input leaves the question behind."""
    if thread is not None and thread.status == "waiting" and strategy != "rollback":
        return "interrupt"
    return strategy


def _content(said: list[JsonObject]) -> Any:
    if not any("parts" in message for message in said):
        return "\n\n".join(message["content"] for message in said)
    parts: list[JsonObject] = []
    for message in said:
        parts += message.get("parts") or [{"type": "text", "text": message["content"]}]
    return parts


async def _stored(server: ServerContext, caller: Principal, message: JsonObject, blobs: list[BlobDraft]) -> JsonObject:
    """The message with its media by reference; the content is stored in the commit of the run's first event."""
    if "parts" not in message:
        return message
    parts = [
        part
        if part["type"] == "text"
        else await by_reference(server.files, caller.tenant, part, part.get("data"), blobs)
        for part in message["parts"]
    ]
    return message | {"parts": parts}


# -- a run that goes on -------------------------------------------------------------------------------


async def resume(server: ServerContext, caller: Principal, thread: Thread, value: Any) -> StartedRun:
    """Answers the open questions of the thread: the only one with the value itself, several with one by id each."""
    found = await server.reader.interrupts(caller.tenant, thread_id=thread.id, status="open")
    asked = {one.id: one for one in found if one.kind != "timer" and one.run_id is not None}
    if not asked:
        raise Declined("The thread has no open interrupt to resume.", code="INTERRUPT_NOT_OPEN", status=409)
    if isinstance(value, dict) and value and value.keys() <= asked.keys():
        answers = dict(value)
    elif len(asked) == 1:
        answers = {next(iter(asked)): value}
    else:
        names = ", ".join(sorted(asked))
        raise Declined(f"{len(asked)} interrupts are open: resume with an object that has the value by id ({names}).")
    return await respond(server, caller, asked, answers)


async def respond(
    server: ServerContext, caller: Principal, asked: Mapping[str, Interrupt], answers: Mapping[str, Any]
) -> StartedRun:
    """Gives each question its answer, and to a graph what was set of the state meanwhile. All of them are checked
    before the first is given."""
    if not caller.may("interrupts:answer"):
        raise HttpProblem(Failure("FORBIDDEN", "The caller may not answer interrupts."))
    given: dict[str, JsonObject] = {}
    for name, said in answers.items():
        try:
            given[name] = answer_of(asked[name].kind, asked[name].questions, said)
        except AnswerNotMapped as error:
            raise Declined(str(error), code="ANSWER_INVALID") from None
    if updates := await _set_meanwhile(server, caller, [asked[name] for name in given]):
        first = next(name for name in given if takes_updates(asked[name].kind, asked[name].questions))
        given[first]["answers"][UPDATES] = updates
    for name, answer in given.items():
        done = await server.interrupts.answer(caller, name, answer)
        if isinstance(done, NotAnswered):
            raise HttpProblem(done.failure, done.issues)
    run_id = asked[next(iter(given))].run_id or ""
    run = await server.reader.run(caller.tenant, run_id)
    if run is None:
        raise Declined("The run is gone.", code="RUN_NOT_FOUND", status=404)
    segments = await run_segments(server, caller.tenant, run)
    return StartedRun(run, segments.current)
