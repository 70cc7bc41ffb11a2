"""From an ask to the segment of a run that answers it: a new run, one that goes on with the client's tool outputs, or
one that an earlier try of the same request already began.

Leaves to others: what the body meant (`client_request`), frames (`segment_stream` and the dialects), and running.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject, canonical
from app.core.principal import Principal
from app.core.value import value
from app.events.catalog import Payload
from app.events.catalog.execution import CommandInjected
from app.events.catalog.request import RequestQueued
from app.events.envelope import Event
from app.events.hub import Subscription
from app.events.ports import BlobDraft
from app.events.recorder import PayloadEntry
from app.protocols.context import ServerContext
from app.protocols.dialects.openai_responses import PREVIOUS
from app.protocols.dialects.openai_segment import WORKFLOW, SegmentReading, response_id
from app.protocols.http.errors import HttpProblem
from app.protocols.http.parts import by_reference
from app.protocols.openai.client_request import ClientRequest
from app.protocols.openai.errors import Refusal
from app.protocols.openai.messages import after_last_answer
from app.protocols.openai.segment_stream import QUIET
from app.runtime.intake.commands import steering
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission, Taken
from app.views.interrupt import Interrupt
from app.views.run import Run

API: Final = "openai.api"
REQUEST: Final = "openai.request"
RETRY_WINDOW_MS: Final = 10 * 60 * 1000
MAX_OUTPUTS: Final = 256
_PAGE: Final = 200
_MAX_LOOKED_AT: Final = 2000
"""Runs that are looked through for an earlier try; only retries look."""


@value(frozen=True, slots=True)
class Segment:
    run: Run
    number: int = 0
    heard: Subscription | None = None
    """Listens since before the run was accepted."""


async def open_segment(
    server: ServerContext, caller: Principal, ask: ClientRequest, *, retry: bool, trace: Mapping[str, str] | None
) -> Segment:
    """`retry`: the client says that it asked the same before. `trace` ties a new run to the request."""
    fresh = after_last_answer(ask.messages)
    outputs = {message["tool_call_id"]: message["content"] for message in fresh if message["role"] == "tool"}
    if len(outputs) > MAX_OUTPUTS:
        raise Refusal("INVALID_REQUEST", f"at most {MAX_OUTPUTS} tool outputs may follow an answer", param="messages")
    if outputs and (asked := await server.reader.interrupts_of_calls(caller.tenant, list(outputs))):
        said = [it for it in fresh if it["role"] == "user" and (it["content"].strip() or "parts" in it)]
        return await _go_on(server, caller, ask, asked, outputs, said)
    if retry and (earlier := await _earlier_try(server, caller, ask.fingerprint)) is not None:
        return Segment(earlier)
    heard: Subscription | None = None

    def listen(thread_id: str) -> None:
        nonlocal heard
        heard = server.hub.subscribe(caller.tenant, (thread_id,))
        if ask.stream and ask.api == "chat":
            heard.quiet = QUIET

    wanted = await _submission(server, caller, ask, trace, listen)
    answer: Taken | Rejected | None = None
    try:
        answer = await server.service.enqueue(caller, wanted)
    finally:
        if heard is not None and not isinstance(answer, Taken):
            heard.close()
    if isinstance(answer, Rejected):
        more = {"runId": answer.winner} if answer.failure.code in ("THREAD_BUSY", "QUEUE_FULL") else {}
        raise HttpProblem(answer.failure, None, **more)
    return Segment(answer.run, heard=heard)


# -- a new run ----------------------------------------------------------------------------------------


async def _submission(
    server: ServerContext,
    caller: Principal,
    ask: ClientRequest,
    trace: Mapping[str, str] | None,
    announce: Callable[[str], None],
) -> Submission:
    thread_id = ask.thread_id
    labels = {API: ask.api, REQUEST: ask.fingerprint}
    if ask.previous is not None:
        run_id, number = ask.previous
        before = await server.reader.run(caller.tenant, run_id)
        if before is None:
            raise Refusal("RESPONSE_NOT_FOUND", "there is no such response", param="previous_response_id", status=404)
        thread_id = before.thread_id
        labels[PREVIOUS] = response_id(run_id, number)
    history, fresh = _split(ask.messages, continued=thread_id is not None)
    blobs: list[BlobDraft] = []
    stored = [*history, *fresh]
    for place, message in enumerate(stored):
        if "parts" in message:
            stored[place] = await _stored(server, caller, message, blobs)
    named = ask.agent.removeprefix(WORKFLOW) if ask.agent.startswith(WORKFLOW) else None
    return Submission(
        agent=ask.agent if named is None else None,
        workflow=named,
        input=_input(stored[len(history) :]),
        thread_id=thread_id,
        metadata=dict(ask.metadata),
        labels=labels,
        history=stored[: len(history)],
        instructions=ask.instructions,
        client_tools=ask.client_tools,
        response_schema=ask.response_schema,
        parameters=ask.parameters,
        tool_choice=None if ask.tool_choice == "none" else ask.tool_choice,  # then no tool of the client is offered
        blobs=tuple(blobs),
        announce=announce,
        trace_context=trace,
    )


def _split(messages: Sequence[JsonObject], *, continued: bool) -> tuple[list[JsonObject], list[JsonObject]]:
    """(history, input). A thread that exists knows what was before; outputs of calls it never made mean nothing."""
    if continued:
        fresh = [message for message in after_last_answer(messages) if message["role"] == "user"]
        if not fresh:
            raise Refusal("INVALID_REQUEST", "there is no user message after the last answer", param="messages")
        return [], fresh
    # From the end: the input is what the user said last, with nothing of anybody else in between.
    start = len(messages)
    while start > 0 and messages[start - 1]["role"] == "user":
        start -= 1
    history, said = list(messages[:start]), list(messages[start:])
    if not said and history[-1]["role"] == "assistant":
        raise Refusal("INVALID_REQUEST", "the last message must be the user's or a tool's", param="messages")
    return history, said


def _input(said: Sequence[JsonObject]) -> Any:
    texts: list[str] = []
    for message in said:
        if "parts" in message:
            return _parts(said)
        texts.append(message["content"])
    return "\n\n".join(texts)


def _parts(said: Sequence[JsonObject]) -> list[JsonObject]:
    parts: list[JsonObject] = []
    for message in said:
        parts += message.get("parts") or [{"type": "text", "text": message["content"]}]
    return parts


async def _stored(server: ServerContext, caller: Principal, message: JsonObject, blobs: list[BlobDraft]) -> JsonObject:
    """The message with its media by reference; the content is stored in the commit of the run's first event."""
    parts = [
        part
        if part["type"] == "text"
        else await by_reference(server.files, caller.tenant, part, part.get("data"), blobs)
        for part in message["parts"]
    ]
    return message | {"parts": parts}


# -- a run that goes on -------------------------------------------------------------------------------


async def _go_on(
    server: ServerContext,
    caller: Principal,
    ask: ClientRequest,
    asked: Sequence[Interrupt],
    outputs: Mapping[str, str],
    said: Sequence[JsonObject],
) -> Segment:
    """Every open call of the run must be answered, and by one request; then the answer is the next segment."""
    runs = {interrupt.run_id for interrupt in asked}
    run_id = asked[-1].run_id
    if len(runs) != 1 or run_id is None:
        raise Refusal("INVALID_REQUEST", "the tool outputs belong to several runs", param="messages")
    everyone = await server.reader.interrupts(caller.tenant, thread_id=asked[0].thread_id, status="open")
    unanswered = [it for it in everyone if it.run_id == run_id and it.kind == "external"]
    missing = sorted(it.call_id or it.id for it in unanswered if it.call_id not in outputs)
    if missing:
        names = ", ".join(missing)
        raise Refusal("TOOL_OUTPUTS_MISSING", f"these calls have no output yet: {names}", param="messages")
    blobs: list[BlobDraft] = []
    stored = [await _stored(server, caller, it, blobs) if "parts" in it else it for it in said]
    words = _words(stored, [it.id for it in asked]) if stored else None
    sibling_events: list[Payload | PayloadEntry] = [] if words is None else [PayloadEntry(words, blobs=tuple(blobs))]
    if ask.parameters is not None or ask.tool_choice is not None:
        sibling_events += await _changes(server, caller, ask, run_id, [it.id for it in asked])
    for interrupt in asked:
        if await _give(server, caller, interrupt, {"output": outputs[interrupt.call_id or ""]}, sibling_events):
            sibling_events = []
    run = await server.reader.run(caller.tenant, run_id)
    if run is None:
        raise HttpProblem(Failure("RUN_NOT_FOUND", "The run is gone."))
    pauses, heard = await _segments_so_far(server, caller, run)
    if words is not None and words.command_id not in heard:
        raise Refusal("INTERRUPT_NOT_OPEN", "the calls were answered before, without these words", status=409)
    return Segment(run, 1 + max(pauses.get(interrupt.call_id or "", 0) for interrupt in asked))


def _words(said: Sequence[JsonObject], answered: Sequence[str]) -> CommandInjected:
    """What the user says beside the outputs follows them in the conversation. It is named by what it says and what it
    stands beside, so that a retry says nothing twice."""
    given = _input(said)
    spelled = given if isinstance(given, str) else canonical(given).decode()
    name = sha256("\x00".join([*sorted(answered), spelled]).encode()).hexdigest()[:32]
    words = steering(given, f"said_{name}")
    if isinstance(words, Failure):
        raise Refusal("INVALID_REQUEST", words.message, param="messages")
    return words


async def _changes(
    server: ServerContext, caller: Principal, ask: ClientRequest, run_id: str, answered: Sequence[str]
) -> list[CommandInjected]:
    """What this request wants of the model that the run does not know yet. What it leaves away stays as it was."""
    queued: JsonObject = {}
    known: JsonObject = {}
    async for event in _of_run(server, caller, run_id):
        if event.type == RequestQueued.type:
            queued, known = event.payload, dict(event.payload.get("parameters") or {})
        elif event.type == CommandInjected.type and event.payload["command"] == "set_parameters":
            known |= event.payload["arguments"].get("parameters") or {}
    choice = ask.tool_choice
    if isinstance(choice, dict) and all(tool["name"] != choice["name"] for tool in queued.get("clientTools") or ()):
        raise Refusal("INVALID_REQUEST", "the run was begun without this function", param="tool_choice")
    agent = server.workspace.current.acting(queued.get("agent"))
    pinned = agent is not None and not agent.spec.client_parameters
    wanted = {} if pinned else {name: it for name, it in (ask.parameters or {}).items() if known.get(name) != it}
    arguments: JsonObject = ({"parameters": wanted} if wanted else {}) | ({"toolChoice": choice} if choice else {})
    if not arguments:
        return []
    name = sha256(b"\x00".join([*(it.encode() for it in sorted(answered)), canonical(arguments)])).hexdigest()[:32]
    return [CommandInjected(command="set_parameters", command_id=f"set_{name}", arguments=arguments)]


async def _of_run(server: ServerContext, caller: Principal, run_id: str, after: int = 0) -> AsyncIterator[Event]:
    while page := await server.reader.run_events(caller.tenant, run_id, after, 1000):
        for event in page:
            yield event
        after = page[-1].seq


async def _give(
    server: ServerContext,
    caller: Principal,
    interrupt: Interrupt,
    answer: JsonObject,
    sibling_events: Sequence[Payload | PayloadEntry],
) -> bool:
    """Giving the same output again is a retry; another one comes too late. Whether it was given now."""
    if interrupt.status == "open":
        given = await server.interrupts.answer(caller, interrupt.id, answer, sibling_events)
        if not isinstance(given, NotAnswered):
            return True
        if given.failure.code != "INTERRUPT_NOT_OPEN":
            raise HttpProblem(given.failure, given.issues)
        found = await server.reader.interrupt(caller.tenant, interrupt.id)
        interrupt = found or interrupt
    if interrupt.answer != answer:
        raise Refusal("INTERRUPT_NOT_OPEN", "the call has another output already, or expired", status=409)
    return False


async def _segments_so_far(server: ServerContext, caller: Principal, run: Run) -> tuple[dict[str, int], set[str]]:
    """The client's calls of the run, each with the segment that it ended; and the commands that it was given."""
    reading, heard = SegmentReading(segment=-1), set()
    async for event in _of_run(server, caller, run.id, run.first_seq - 1):
        reading.feed(event)
        if event.type == CommandInjected.type:
            heard.add(event.payload["commandId"])
    return reading.paused_at, heard


# -- an earlier try -----------------------------------------------------------------------------------


async def _earlier_try(server: ServerContext, caller: Principal, fingerprint: str) -> Run | None:
    before: str | None = None
    since = server.clock.now_ms() - RETRY_WINDOW_MS
    for _ in range(_MAX_LOOKED_AT // _PAGE):
        page = await server.reader.runs(caller.tenant, thread_id=None, status=None, before=before, limit=_PAGE)
        for run in page:
            if run.created_at < since:
                return None
            if run.labels.get(REQUEST) == fingerprint:
                return run
        if len(page) < _PAGE:
            return None
        before = page[-1].id
    return None
