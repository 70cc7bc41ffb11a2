"""/v1: models, chat completions, responses. Thin: an ask becomes a segment, a segment becomes frames or an answer."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from app.core import json
from app.core.principal import Principal
from app.events.blobs import stored_blobs
from app.protocols.auth.shown import Headers
from app.protocols.context import ServerContext
from app.protocols.dialects import openai_chat, openai_responses
from app.protocols.dialects.openai_chat import ChatAnswer, ChatChunks
from app.protocols.dialects.openai_responses import ResponseEvents
from app.protocols.dialects.openai_segment import parse_response_id
from app.protocols.http.answers import header_text
from app.protocols.http.body import LARGE_BYTES, off_loop, parsed, read_body
from app.protocols.http.caller import Caller
from app.protocols.http.correlation import correlation, headers_of
from app.protocols.http.lookups import amendments_of
from app.protocols.http.parts import MAX_TEXT, refuse_long_text
from app.protocols.http.straight import straight
from app.protocols.openai import embeddings
from app.protocols.openai.client_request import (
    ClientRequest,
    OnDisconnect,
    chat_ask,
    fingerprint_of,
    policy_named,
    responses_ask,
    text_size,
)
from app.protocols.openai.errors import OpenAiRoute, Refusal, failed_run
from app.protocols.openai.parameters import EFFORTS, MAX_STOPS
from app.protocols.openai.segment_stream import Listening, segment_stream, sse_error, wait_for, whole_event
from app.protocols.openai.segments import Segment, open_segment
from app.protocols.wire.connection import connection_of
from app.protocols.wire.sse import EventStream
from app.views.dropped import compactions, dropped_text_deltas
from app.views.run import Run

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Bodies here may carry images and files."""
_ON_DISCONNECT: Final = b"x-holdfast-on-disconnect"
_EVENTS: Final = b"x-holdfast-events"
_RETRIES: Final = b"x-stainless-retry-count"


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["openai"], route_class=OpenAiRoute, responses=_REFUSALS)
    _add_models(router, server)
    _add_chat(router, server)
    embeddings.add_to(router, server)
    _add_responses(router, server)
    return router


def _add_models(router: APIRouter, server: ServerContext) -> None:
    @router.get("/models", summary="The agents, workflows and exposed models, as models")
    async def models(_caller: Caller) -> Response:
        names = server.workspace.current.everyone_acting  # with `workflow:NAME` and `model:NAME`
        return _json({"object": "list", "data": [_model(server, name) for name in names]})

    @router.get("/models/{model}", summary="One of them")
    async def model(model: str, _caller: Caller) -> Response:
        if model not in server.workspace.current.everyone_acting:
            raise Refusal("AGENT_NOT_FOUND", "There is no such model.", param="model", status=404)
        return _json(_model(server, model))


def _add_chat(router: APIRouter, server: ServerContext) -> None:
    @router.post("/chat/completions", summary="A chat completion by an agent", openapi_extra=_CHAT_BODY, responses=_SSE)
    @straight
    async def chat(request: Request, caller: Caller) -> Response:
        raw, headers = await read_body(request, MAX_BODY_BYTES), headers_of(request)
        ask = await _asked(chat_ask, raw, caller) if len(raw) > LARGE_BYTES else _read(chat_ask, raw, caller)
        leaving = _on_disconnect(server, ask, headers)
        segment = await open_segment(server, caller, ask, retry=_is_retry(headers), trace=correlation(request))
        listening = _listening(server, caller, segment, headers, ask, leaving)
        if ask.stream:
            chunks = ChatChunks(segment.number, include_usage=ask.include_usage)
            return segment_stream(listening, chunks, _chat_error, _id_headers(segment.run))
        reading = ChatAnswer(segment.number)
        if not await wait_for(listening, reading, connection_of(request.scope)):
            return Response(status_code=499)
        if reading.error is not None:
            return failed_run(reading.error, segment.run.id)
        return _json(reading.answer(), _id_headers(segment.run))


def _add_responses(router: APIRouter, server: ServerContext) -> None:
    @router.post("/responses", summary="A response by an agent", openapi_extra=_RESPONSES_BODY, responses=_SSE)
    @straight
    async def respond(request: Request, caller: Caller) -> Response:
        raw, headers = await read_body(request, MAX_BODY_BYTES), headers_of(request)
        ask = await _asked(responses_ask, raw, caller) if len(raw) > LARGE_BYTES else _read(responses_ask, raw, caller)
        leaving = _on_disconnect(server, ask, headers)
        segment = await open_segment(server, caller, ask, retry=_is_retry(headers), trace=correlation(request))
        reading = ResponseEvents(segment.number)
        if ask.background and not ask.stream:
            if segment.heard is not None:
                segment.heard.close()
            await _read_stored(server, caller, segment.run, reading)
            return _json(reading.response(), _id_headers(segment.run))
        listening = _listening(server, caller, segment, headers, ask, leaving)
        if ask.stream:
            return _response_stream(listening, reading, segment.run)
        if not await wait_for(listening, reading, connection_of(request.scope)):
            return Response(status_code=499)
        return _json(reading.response(), _id_headers(segment.run))

    @router.get("/responses/{response_id}", summary="The response as it stands, or its stream", responses=_SSE)
    async def show(
        response_id: str,
        request: Request,
        caller: Caller,
        stream: Annotated[bool, Query()] = False,
        starting_after: Annotated[int, Query(ge=-1, le=2**53)] = -1,
        include_events: Annotated[bool, Query()] = False,
    ) -> Response:
        segment = await _existing(server, caller, response_id)
        if stream:
            dropped = dropped_text_deltas(await compactions(server.reader, caller.tenant, segment.run))
            reading = ResponseEvents(segment.number, after=starting_after, dropped=dropped)
            extra = include_events or _wants_events(headers_of(request))
            listening = Listening(server, caller.tenant, segment.run, include_events=extra)
            return _response_stream(listening, reading, segment.run)
        reading = ResponseEvents(segment.number)
        await _read_stored(server, caller, segment.run, reading)
        return _json(reading.response(), _id_headers(segment.run))

    @router.post("/responses/{response_id}/cancel", summary="Cancel the run behind a response")
    async def cancel(response_id: str, caller: Caller) -> Response:
        segment = await _existing(server, caller, response_id)
        await server.lifecycle.cancel(caller, segment.run.id, "cancelled by a client of the responses API")
        reading = ResponseEvents(segment.number)
        await _read_stored(server, caller, segment.run, reading)
        return _json(reading.response(), _id_headers(segment.run))


# -- asks ---------------------------------------------------------------------------------------------


Read = Callable[[dict[str, Any], str], ClientRequest]


async def _asked(read: Read, raw: bytes, caller: Principal) -> ClientRequest:
    """Of a large body, which the loop does not wait for."""
    return await off_loop(len(raw), lambda: _read(read, raw, caller))


def _read(read: Read, raw: bytes, caller: Principal) -> ClientRequest:
    body = parsed(raw)
    if not isinstance(body, dict):
        raise Refusal("INVALID_REQUEST", "The body must be an object.")
    ask = read(body, fingerprint_of(caller.id, raw))
    if len(raw) > MAX_TEXT:  # only then can there be more text than that
        refuse_long_text(text_size(ask))
    return ask


def _is_retry(headers: Headers) -> bool:
    count = headers.get(_RETRIES)
    return count is not None and count.isdigit() and int(count[:6]) > 0


def _wants_events(headers: Headers) -> bool:
    wanted = headers.get(_EVENTS)
    return wanted is not None and wanted.lower() in (b"1", b"true", b"yes")


def _listening(
    server: ServerContext,
    caller: Principal,
    segment: Segment,
    headers: Headers,
    ask: ClientRequest,
    leaving: OnDisconnect,
) -> Listening:
    async def cancel() -> None:
        await server.lifecycle.cancel(caller, segment.run.id, "the client disconnected")

    on_gone = cancel if leaving == "cancel" and not ask.background else None
    extra = ask.include_events or _wants_events(headers)
    return Listening(server, caller.tenant, segment.run, segment.heard, on_gone, extra)


def _on_disconnect(server: ServerContext, ask: ClientRequest, headers: Headers) -> OnDisconnect:
    """What the header says wins over the metadata, and that over the server's settings."""
    header = headers.get(_ON_DISCONNECT)
    if header is not None:
        return policy_named(header.decode("latin-1"), _ON_DISCONNECT.decode())
    return ask.on_disconnect or server.on_disconnect


# -- responses ----------------------------------------------------------------------------------------


async def _existing(server: ServerContext, caller: Principal, response_id: str) -> Segment:
    named = parse_response_id(response_id)
    run = None if named is None else await server.reader.run(caller.tenant, named[0])
    if named is None or run is None:
        raise Refusal("RESPONSE_NOT_FOUND", "There is no such response.", param="response_id", status=404)
    if named[1] > 0:
        reading = ResponseEvents(named[1])
        await _read_stored(server, caller, run, reading)
        # The next segment may be asked for as soon as the last one ended: its client is about to answer.
        if not reading.begun and reading.segments_ended < named[1]:
            raise Refusal("RESPONSE_NOT_FOUND", "There is no such response.", param="response_id", status=404)
    return Segment(run, named[1])


async def _read_stored(server: ServerContext, caller: Principal, run: Run, reading: ResponseEvents) -> None:
    """The thread's events rather than the run's alone, because its subagents are runs of their own."""
    after, last = run.first_seq - 1, run.last_seq if run.terminal else None
    load = stored_blobs(server.reader, caller.tenant, run.thread_id)
    amended = await amendments_of(server, caller, run.thread_id)
    while not reading.ended and (last is None or after < last):
        page = await server.reader.events(caller.tenant, run.thread_id, after, 1000)
        if not page:
            break
        for event in page:
            if event.run_id != run.id:
                reading.feed_sibling(event)
            else:
                reading.feed(amended(await whole_event(event, load)))
        after = page[-1].seq
    reading.take()


def _response_stream(listening: Listening, reading: ResponseEvents, run: Run) -> EventStream:
    def error_frame(code: str, message: str) -> bytes:
        return openai_responses.error_frame(reading.last_number, code, message)

    return segment_stream(listening, reading, error_frame, _id_headers(run))


# -- answers ------------------------------------------------------------------------------------------


def _chat_error(code: str, message: str) -> bytes:
    return sse_error(openai_chat.error_object(code, message)) + openai_chat.DONE


def _model(server: ServerContext, name: str) -> dict[str, Any]:
    created = (server.workspace.status.loaded_at_ms or 0) // 1000
    return {"id": name, "object": "model", "created": created, "owned_by": "holdfast"}


def _id_headers(run: Run) -> dict[str, str]:
    """The ids that are ours, for clients that want to go on by them."""
    return {"x-holdfast-run-id": header_text(run.id), "x-holdfast-thread-id": header_text(run.thread_id)}


def _json(value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(value), 200, headers, "application/json")


def _body(required: list[str], properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": required, "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_ERROR: Final = {
    "type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {
        "message": {"type": "string"},
        "type": {"type": "string"},
        "param": {"type": ["string", "null"]},
        "code": {"type": "string"},
    },
}
_PROBLEM: Final = {"type": "object", "required": ["error"], "properties": {"error": _ERROR}}
_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": description, "content": {"application/json": {"schema": _PROBLEM}}}
    for status, description in {
        400: "The request cannot be served as it is.",
        404: "There is no such model, thread or response.",
        409: "The thread is busy, the run waits for a person or was cancelled.",
        410: "The thread was deleted.",
        413: "The body is too large.",
        422: "A value cannot be used.",
        429: "A limit or a budget is used up.",
        500: "The run failed.",
        502: "No model answered.",
        503: "Not now.",
    }.items()
}
_SSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The answer, or its events with `stream`.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    },
}
_STRING: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_OBJECT: Final = {"type": "object"}
_TOKENS: Final = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
_PENALTY: Final = {"type": "number", "minimum": -2, "maximum": 2}
_EFFORT: Final = {"enum": list(EFFORTS)}
_SAMPLING: Final = {
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "parallel_tool_calls": _FLAG,
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "tool_choice": {"oneOf": [{"enum": ["auto", "none", "required"]}, _OBJECT]},
}
_CHAT_BODY: Final = _body(
    ["model", "messages"],
    {
        "model": _STRING,
        "messages": {"type": "array", "items": _OBJECT},
        "stream": _FLAG,
        "stream_options": _OBJECT,
        "tools": {"type": "array", "items": _OBJECT},
        "response_format": _OBJECT,
        "metadata": _OBJECT,
        **_SAMPLING,
        "max_completion_tokens": _TOKENS,
        "max_tokens": _TOKENS,
        "seed": {"type": "integer"},
        "reasoning_effort": _EFFORT,
        "stop": {"oneOf": [_STRING, {"type": "array", "maxItems": MAX_STOPS, "items": _STRING}]},
        "presence_penalty": _PENALTY,
        "frequency_penalty": _PENALTY,
    },
)
_RESPONSES_BODY: Final = _body(
    ["model", "input"],
    {
        "model": _STRING,
        "input": {"oneOf": [_STRING, {"type": "array", "items": _OBJECT}]},
        "stream": _FLAG,
        "instructions": _STRING,
        "previous_response_id": _STRING,
        "background": _FLAG,
        "text": _OBJECT,
        "tools": {"type": "array", "items": _OBJECT},
        "metadata": _OBJECT,
        **_SAMPLING,
        "max_output_tokens": _TOKENS,
        "reasoning": {"type": "object", "properties": {"effort": _EFFORT}},
    },
)
