"""One message of MCP over streamable HTTP and its answer, which may be a stream.

No session is kept: what an older client's session needs is in its id, and its calls are labelled runs. Leaves to
others: methods (`methods`), calls (`calls`), and what a stream says (`call_stream`).
"""

from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REFUSED,
    RequestId,
    RpcError,
    RpcMessage,
    error_message,
    failure_data,
    read_message,
    result_message,
)
from app.protocols.dialects.mcp import answer_of, waiting_result
from app.protocols.dialects.retry_after import wait_seconds
from app.protocols.http.body import off_loop, parsed, read_body
from app.protocols.http.correlation import correlation, headers_of
from app.protocols.http.errors import HttpProblem, status_of
from app.protocols.mcp import methods, tasks
from app.protocols.mcp.call_stream import CallView, EventPlace, call_stream, sent_before, wait_for_result
from app.protocols.mcp.calls import CALL, PROGRESS, REQUEST, progress_token, request_label, require, take_call
from app.protocols.mcp.offer import Offered, offered
from app.protocols.mcp.terms import (
    HANDSHAKES,
    NEWEST_HANDSHAKE,
    SESSION_HEADER,
    ClientTerms,
    new_session,
    terms_of,
    unsupported,
)
from app.protocols.wire.connection import connection_of
from app.views.ports import RunFilter

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_ACCEPT: Final = b"accept"
_STATUS: Final = {METHOD_NOT_FOUND: 404, REFUSED: 200}
"""HTTP status of an error; others are 400."""
_PAGES: Final = 20
"""Of runs that are looked through for the one that a client cancels by its request's id."""


def refusal_of(error: Exception) -> Response | None:
    """The answer to a request that failed before its message was read; None for what is no failure of the request."""
    match error:
        case RpcError():
            return _error(None, error)
        case HttpProblem():
            return _refusal(None, error.failure, error.more)
        case HoldfastError():
            return _refusal(None, error.failure)
        case RequestValidationError():
            return _error(None, RpcError(INVALID_REQUEST, "The request cannot be read."))
    return None


async def take_message(server: ServerContext, caller: Principal, request: Request) -> Response:
    raw = await read_body(request, MAX_BODY_BYTES)
    try:
        message = read_message(await off_loop(len(raw), lambda: parsed(raw)))
    except json.JsonError as error:
        raise RpcError(PARSE_ERROR, error.failure.message, failure_data(error.failure)) from None
    terms: ClientTerms | None = None
    try:
        terms = terms_of(message, headers_of(request))
        if message.method is None:
            return await _take_response(server, caller, message)
        if message.is_notification:
            return await _take_notification(server, caller, message, terms)
        if message.method == "tools/call":
            return await _call(server, caller, request, message, terms)
        result = await methods.answer(methods.McpRequest(server, caller, message, terms))
        headers = {SESSION_HEADER: new_session(message.params)} if message.method == "initialize" else None
        return _answer(result_message(message.id, result), headers=headers)
    except RpcError as error:
        return _error(message.id, error, plain=_is_plain(terms))
    except HttpProblem as problem:
        return _refusal(message.id, problem.failure, problem.more, plain=_is_plain(terms))


async def resume_stream(server: ServerContext, caller: Principal, request: Request) -> Response:
    """The stream of a call, after the event that `Last-Event-ID` names."""
    headers = headers_of(request)
    last = headers.get(b"last-event-id")
    if last is None:
        # There is nothing that the server says of its own accord.
        return Response(status_code=405, headers={"allow": "POST"})
    return await _resume(server, caller, last.decode("latin-1"), headers)


# -- calls --------------------------------------------------------------------------------------------


async def _call(
    server: ServerContext, caller: Principal, request: Request, message: RpcMessage, terms: ClientTerms
) -> Response:
    call = await take_call(server, caller, message, terms, correlation(request))
    run = call.run
    if terms.tasks and run.tool is None:
        return _answer(result_message(message.id, tasks.created(run)))
    view = CallView(server, caller.tenant, run, call.tool, terms, message.id, progress_token(message))
    if call.unanswered and run.status == "waiting":
        return _answer(result_message(message.id, view.with_result_type(waiting_result(run))))
    if b"text/event-stream" not in headers_of(request).get(_ACCEPT, b""):
        result = await wait_for_result(view, connection_of(request.scope))
        return Response(status_code=499) if result is None else _answer(result_message(message.id, result))

    async def cancel() -> None:
        # Since 2026-07-28 leaving the stream is how a client cancels; before, a lost stream is only lost.
        await server.lifecycle.cancel(caller, run.id, "the MCP client left")

    resumable = terms.revision == NEWEST_HANDSHAKE and terms.session is not None
    return await call_stream(view, resumable=resumable, on_gone=cancel if terms.stateless else None)


async def _resume(server: ServerContext, caller: Principal, last: str, headers: Any) -> Response:
    require(caller, "runs:read")
    named = EventPlace.parse(last)
    run = None if named is None else await server.reader.run(caller.tenant, named.run_id)
    label = "" if run is None else run.labels.get(REQUEST, "")
    if named is None or run is None or not label:
        raise RpcError(INVALID_REQUEST, "Last-Event-ID is none of this server's.")
    version = headers.get(b"mcp-protocol-version", b"").decode("latin-1") or NEWEST_HANDSHAKE
    if version not in HANDSHAKES:
        raise unsupported(version)
    session, _, written = label.partition(":")
    terms = ClientTerms(version, elicits=session.endswith("e"), session=session)
    tool = (await offered(server)).get(run.labels.get(CALL, "")) or Offered(run.labels.get(CALL, ""), "", {})
    token = json.loads_strict(run.labels.get(PROGRESS, "null").encode())
    view = CallView(server, caller.tenant, run, tool, terms, json.loads_strict(written.encode()), token)
    seq = min(max(named.seq, run.first_seq - 1), run.last_seq)
    sent = await sent_before(server, caller.tenant, run, seq, named.asked)
    return await call_stream(view, resumable=True, sent=sent)


# -- what is no request -------------------------------------------------------------------------------


async def _take_response(server: ServerContext, caller: Principal, message: RpcMessage) -> Response:
    """The user's answer to a question that a stream asked: the question's id is the interrupt's."""
    require(caller, "interrupts:answer")
    asked = await server.reader.interrupt(caller.tenant, message.id) if isinstance(message.id, str) else None
    if asked is not None and (given := answer_of(asked, message.result)) is not None:
        await server.interrupts.answer(caller, asked.id, given)
    return Response(status_code=202)


async def _take_notification(
    server: ServerContext, caller: Principal, message: RpcMessage, terms: ClientTerms
) -> Response:
    if message.method == "notifications/cancelled" and terms.session is not None:
        require(caller, "runs:write")
        await _cancel(server, caller, terms.session, message.params.get("requestId"))
    return Response(status_code=202)


async def _cancel(server: ServerContext, caller: Principal, session: str, request_id: RequestId) -> None:
    wanted = RunFilter(labels={REQUEST: request_label(session, request_id)})
    place = None
    for _ in range(_PAGES):
        found, place = await server.reader.list_runs(caller.tenant, wanted, place, 10)
        for run in found:
            if not run.terminal:
                await server.lifecycle.cancel(caller, run.id, "cancelled by an MCP client")
            return
        if place is None:
            return


# -- answers ------------------------------------------------------------------------------------------


def _answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(body), status, headers, "application/json")


def _is_plain(terms: ClientTerms | None) -> bool:
    """Whether errors come with 200, as clients before 2026-07-28 expect them."""
    return terms is not None and not terms.stateless


def _error(request_id: RequestId, error: RpcError, *, plain: bool = False) -> Response:
    return _answer(error_message(request_id, error), 200 if plain else _STATUS.get(error.code, 400))


def _refusal(
    request_id: RequestId, failure: Failure, more: dict[str, Any] | None = None, *, plain: bool = False
) -> Response:
    """A failure of ours, which any route may answer with."""
    status = status_of(failure.code)
    error = RpcError(REFUSED, failure.message, failure_data(failure, more, status))
    waits = wait_seconds(failure, status)
    headers = None if waits is None else {"retry-after": str(waits)}
    return _answer(error_message(request_id, error), 200 if plain and status != 403 else status, headers)
