"""From an ask to the segment of a run that answers it: a new run, one that goes on with the client's tool outputs, or
one that an earlier try of the same request already began.

Leaves to others: what the body meant (`asking`), frames (`streaming` and the dialects), running (the runtime).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.events.hub import Subscription
from app.events.ports import BlobDraft
from app.protocols.context import Server
from app.protocols.dialects.openai_reading import Reading, response_id
from app.protocols.dialects.openai_responses import PREVIOUS
from app.protocols.http.errors import Problem
from app.protocols.openai.asking import Ask
from app.protocols.openai.errors import Refusal
from app.protocols.openai.messages import after_last_answer
from app.runtime.interrupts import NotAnswered
from app.runtime.service import Rejected, Submission
from app.views.interrupt import Interrupt
from app.views.run import Run

API: Final = "openai.api"
REQUEST: Final = "openai.request"
RETRY_WINDOW_MS: Final = 10 * 60 * 1000
_PAGE: Final = 200
_MAX_LOOKED_AT: Final = 2000
"""Runs that are looked through for an earlier try; only retries look."""


@dataclass(frozen=True, slots=True)
class Segment:
    run: Run
    number: int = 0
    heard: Subscription | None = None
    """Listens since before the run was accepted."""


async def open_segment(server: Server, caller: Principal, ask: Ask, retry: bool, now_ms: int) -> Segment:
    outputs = {
        message["tool_call_id"]: message["content"]
        for message in after_last_answer(ask.messages)
        if message["role"] == "tool"
    }
    if outputs:
        asked = await server.reader.interrupts_of_calls(caller.tenant, list(outputs))
        if asked:
            return await _go_on(server, caller, asked, outputs)
    if retry:
        earlier = await _earlier_try(server, caller, ask.fingerprint, now_ms)
        if earlier is not None:
            return Segment(earlier)
    return await _begin(server, caller, await _submission(server, caller, ask))


async def _begin(server: Server, caller: Principal, wanted: Submission) -> Segment:
    heard = server.hub.subscribe(caller.tenant, ())
    try:
        answer = await server.service.submit(caller, replace(wanted, announce=lambda thread: heard.listen_to([thread])))
    except BaseException:
        heard.close()
        raise
    if isinstance(answer, Rejected):
        heard.close()
        more = {"runId": answer.winner} if answer.failure.code in ("THREAD_BUSY", "QUEUE_FULL") else {}
        raise Problem(answer.failure, None, **more)
    return Segment(answer, heard=heard)


# -- a new run ----------------------------------------------------------------------------------------


async def _submission(server: Server, caller: Principal, ask: Ask) -> Submission:
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
    return Submission(
        agent=ask.agent,
        input=_input([_stored(message, blobs) for message in fresh]),
        thread_id=thread_id,
        metadata=dict(ask.metadata),
        labels=labels,
        history=[_stored(message, blobs) for message in history],
        instructions=ask.instructions,
        client_tools=ask.client_tools,
        response_schema=ask.response_schema,
        blobs=tuple(blobs),
        trace_context=ask.trace_context,
    )


def _split(messages: Sequence[JsonObject], *, continued: bool) -> tuple[list[JsonObject], list[JsonObject]]:
    """(history, input). A thread that exists knows what was before; outputs of calls it never made mean nothing."""
    fresh = [message for message in after_last_answer(messages) if message["role"] == "user"]
    if continued:
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
    if not any("parts" in message for message in said):
        return "\n\n".join(message["content"] for message in said)
    parts: list[JsonObject] = []
    for message in said:
        parts += message.get("parts") or [{"type": "text", "text": message["content"]}]
    return parts


def _stored(message: JsonObject, blobs: list[BlobDraft]) -> JsonObject:
    """The message with its media by reference; the content is stored in the commit of the run's first event."""
    if "parts" not in message:
        return message
    parts: list[JsonObject] = []
    for part in message["parts"]:
        data = part.get("data")
        if data is not None:
            digest = sha256(data).hexdigest()
            blobs.append(BlobDraft(digest, data, part["mime"]))
            reference = {"sha256": digest, "size": len(data), "mime": part["mime"]}
            part = {key: value for key, value in part.items() if key != "data"} | {"blob": reference}
        parts.append(part)
    return message | {"parts": parts}


# -- a run that goes on -------------------------------------------------------------------------------


async def _go_on(server: Server, caller: Principal, asked: Sequence[Interrupt], outputs: Mapping[str, str]) -> Segment:
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
    for interrupt in asked:
        await _give(server, caller, interrupt, {"output": outputs[interrupt.call_id or ""]})
    run = await server.reader.run(caller.tenant, run_id)
    if run is None:
        raise Problem(Failure("RUN_NOT_FOUND", "the run is gone"))
    pauses = await _pauses(server, caller, run)
    return Segment(run, 1 + max(pauses.get(interrupt.call_id or "", 0) for interrupt in asked))


async def _give(server: Server, caller: Principal, interrupt: Interrupt, answer: JsonObject) -> None:
    """Giving the same output again is a retry; another one comes too late."""
    if interrupt.status == "open":
        given = await server.interrupts.answer(caller, interrupt.id, answer)
        if not isinstance(given, NotAnswered):
            return
        if given.failure.code != "INTERRUPT_NOT_OPEN":
            raise Problem(given.failure, given.issues)
        found = await server.reader.interrupt(caller.tenant, interrupt.id)
        interrupt = found or interrupt
    if interrupt.answer != answer:
        raise Refusal("INTERRUPT_NOT_OPEN", "the call has another output already, or expired", status=409)


async def _pauses(server: Server, caller: Principal, run: Run) -> dict[str, int]:
    """The client's calls of the run, each with the segment that it ended."""
    reading, after = Reading(segment=-1), run.first_seq - 1
    while page := await server.reader.run_events(caller.tenant, run.id, after, 1000):
        for event in page:
            reading.feed(event)
        after = page[-1].seq
    return reading.paused_at


# -- an earlier try -----------------------------------------------------------------------------------


async def _earlier_try(server: Server, caller: Principal, fingerprint: str, now_ms: int) -> Run | None:
    before: str | None = None
    for _ in range(_MAX_LOOKED_AT // _PAGE):
        page = await server.reader.runs(caller.tenant, thread_id=None, status=None, before=before, limit=_PAGE)
        for run in page:
            if run.created_at < now_ms - RETRY_WINDOW_MS:
                return None
            if run.labels.get(REQUEST) == fingerprint:
                return run
        if len(page) < _PAGE:
            return None
        before = page[-1].id
    return None
