"""One request of A2A and its answer, in both bindings: JSON-RPC and REST.

Leaves to others: addresses (`routes`), tasks (`tasks`), streams (`task_stream`), the card (`card`).
"""

from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.a2a.card import agent_card
from app.protocols.a2a.messages import read_agent_message
from app.protocols.a2a.push import check_push, perform_push, push_wanted, set_push
from app.protocols.a2a.task_stream import task_stream
from app.protocols.a2a.tasks import WAIT_SECONDS, AgentDesk
from app.protocols.auth.shown import Headers
from app.protocols.context import ServerContext
from app.protocols.dialects.a2a import as_v03
from app.protocols.dialects.a2a_errors import METHOD, PARAMS, REQUEST, UNSUPPORTED, VERSION, A2aError, of_failure
from app.protocols.dialects.jsonrpc import RequestId, RpcError, RpcMessage, error_message, read_message, result_message
from app.protocols.http.body import off_loop, parsed, read_body
from app.protocols.http.correlation import correlation, headers_of
from app.protocols.http.errors import HttpProblem, status_of
from app.protocols.http.submission import wait_for_end
from app.views.run import Run
from app.workspace.compiled import CompiledAgent

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_SHOWN_STATUS: Final = (403, 413, 429, 503)
_MEDIA: Final = "application/a2a+json"
_METHODS: Final = {
    "SendMessage": "send",
    "SendStreamingMessage": "stream",
    "GetTask": "get",
    "ListTasks": "list",
    "CancelTask": "cancel",
    "SubscribeToTask": "subscribe",
    "GetExtendedAgentCard": "card",
    "CreateTaskPushNotificationConfig": "push.set",
    "GetTaskPushNotificationConfig": "push.find",
    "ListTaskPushNotificationConfigs": "push.list",
    "DeleteTaskPushNotificationConfig": "push.delete",
}
_OLD_METHODS: Final = {
    "message/send": "send",
    "message/stream": "stream",
    "tasks/get": "get",
    "tasks/cancel": "cancel",
    "tasks/resubscribe": "subscribe",
    "agent/getAuthenticatedExtendedCard": "card",
    "tasks/pushNotificationConfig/set": "push.set",
    "tasks/pushNotificationConfig/get": "push.find",
    "tasks/pushNotificationConfig/list": "push.list",
    "tasks/pushNotificationConfig/delete": "push.delete",
}


def refusal_of(error: Exception) -> Response | None:
    """An error of the REST binding; None for a failure that every route may have, which is answered where all are."""
    match error:
        case A2aError():
            return _rest_error(error)
        case RequestValidationError():
            return _rest_error(A2aError(PARAMS, "A parameter is missing or invalid."))
    return None


# -- what is asked ------------------------------------------------------------------------------------


async def _perform(desk: AgentDesk, what: str, params: JsonObject, request: Request, *, old: bool) -> Any:
    """The answer's body, or the run whose stream is wanted."""
    task_id = params.get("id")
    match what:
        case "send" | "stream":
            message = read_agent_message(params, old=old)
            wanted = push_wanted(params)
            if wanted is not None:
                check_push(desk, wanted)
            run = await desk.send(message, correlation(request))
            if wanted is not None:
                await set_push(desk, run, wanted, old=old)
            if what == "stream":
                return run
            if message.wait:
                run = await wait_for_end(desk.server, desk.caller, run, WAIT_SECONDS)
            configuration = params.get("configuration") or {}
            return {"task": _with_history(await desk.shown(run), configuration.get("historyLength"))}
        case "get":
            return _with_history(await desk.shown(await desk.run(task_id)), params.get("historyLength"))
        case "list":
            return await desk.list_tasks(params)
        case "cancel":
            return await desk.shown(await desk.cancel(task_id))
        case "subscribe":
            run = await desk.run(task_id)
            if run.terminal:
                raise A2aError(UNSUPPORTED, "The task has ended; get it instead.")
            return run
        case "card":
            return agent_card(desk.server, _existing(desk.server, desk.agent), f"{desk.base_url}/a2a/{desk.agent}")
    return await perform_push(desk, what.removeprefix("push."), params, old=old)


def _with_history(task: JsonObject, length: Any) -> JsonObject:
    """A task's history is the message that started it, so that a length is either none of it or all of it."""
    if isinstance(length, str) and length.isdigit():  # of an address
        length = int(length[:9])
    if length is None or length == "":
        return task
    if not isinstance(length, int) or isinstance(length, bool) or length < 0:
        raise A2aError(PARAMS, "historyLength must be a number that is not negative.")
    return task if length > 0 else {name: value for name, value in task.items() if name != "history"}


async def answer_rest(
    server: ServerContext, caller: Principal, agent: str, request: Request, what: str, params: JsonObject
) -> Response:
    _version(server, headers_of(request), old_allowed=False)
    desk = _desk(server, caller, agent, request)
    made = await _perform(desk, what, params, request, old=False)
    if not isinstance(made, Run):
        return Response(json.dumps(made), 200, None, _MEDIA)

    def spell(value: JsonObject | A2aError) -> JsonObject:
        return value.rest if isinstance(value, A2aError) else value

    return await task_stream(desk, made, spell, error_name=b"event: error\n")


async def answer_rpc(server: ServerContext, caller: Principal, agent: str, request: Request) -> Response:
    request_id: RequestId = None
    try:
        raw = await read_body(request, MAX_BODY_BYTES)
        message = read_message(await off_loop(len(raw), lambda: parsed(raw)))
        request_id = message.id
        if message.method is None or message.is_notification:
            raise A2aError(REQUEST, "The body must be a request with an id.")
        return await _call(server, caller, agent, request, message)
    except RpcError as error:
        return _rpc_error(request_id, error)
    except A2aError as error:
        return _rpc_error(request_id, error.rpc)
    except HoldfastError as error:
        found = of_failure(error.failure, status_of(error.code))
        return _rpc_error(request_id, found.rpc, found.reason.status, found.retry_after)


async def _call(
    server: ServerContext, caller: Principal, agent: str, request: Request, message: RpcMessage
) -> Response:
    old = _version(server, headers_of(request), old_allowed=message.method in _OLD_METHODS)
    what = (_OLD_METHODS if old else _METHODS).get(message.method or "")
    if what is None:
        raise A2aError(METHOD, "There is no such method.")
    desk = _desk(server, caller, agent, request)
    made = await _perform(desk, what, message.params, request, old=old)

    def spell(value: JsonObject | A2aError) -> JsonObject:
        if isinstance(value, A2aError):
            return error_message(message.id, value.rpc)
        return result_message(message.id, as_v03(value) if old else value)

    if what == "card" or what.startswith("push."):
        return _json(result_message(message.id, made))
    if not isinstance(made, Run):
        return _json(spell(made))
    return await task_stream(desk, made, spell)


def _version(server: ServerContext, headers: Headers, *, old_allowed: bool) -> bool:
    """Whether the client speaks 0.3; raises for a version that is not served."""
    asked = headers.get(b"a2a-version", b"").decode("latin-1")
    if asked in ("1.0", "1") or (not asked and not old_allowed):
        return False
    if asked in ("", "0.3") and old_allowed and server.settings.a2a_v03:
        return True
    raise A2aError(VERSION, "This version of A2A is not served here.", {"supported": "1.0"})


def _desk(server: ServerContext, caller: Principal, agent: str, request: Request) -> AgentDesk:
    _existing(server, agent)
    return AgentDesk(server, caller, agent, str(request.base_url).rstrip("/"))


def _existing(server: ServerContext, agent: str) -> CompiledAgent:
    found = server.workspace.current.acting_agents.get(agent)
    if found is None:
        raise A2aError(METHOD, "There is no such agent.")
    return found


async def read_object(request: Request) -> JsonObject:
    raw = await read_body(request, MAX_BODY_BYTES)
    value = await off_loop(len(raw), lambda: parsed(raw))
    if not isinstance(value, dict):
        raise A2aError(PARAMS, "The body must be an object.")
    return value


# -- answers ------------------------------------------------------------------------------------------


def answer_card(server: ServerContext, request: Request, agent: str) -> Response:
    found = server.workspace.current.acting_agents.get(agent)
    if found is None:
        raise HttpProblem(Failure("AGENT_NOT_FOUND", "There is no such agent."))
    return _json(agent_card(server, found, f"{str(request.base_url).rstrip('/')}/a2a/{agent}"))


def _json(value: Any, status: int = 200, retry_after: int | None = None) -> Response:
    headers = None if retry_after is None else {"retry-after": str(retry_after)}
    return Response(json.dumps(value), status, headers, "application/json")


def _rpc_error(request_id: RequestId, error: RpcError, status: int = 200, retry_after: int | None = None) -> Response:
    """Of JSON-RPC's errors those have a status of their own at which what is between looks too."""
    return _json(error_message(request_id, error), status if status in _SHOWN_STATUS else 200, retry_after)


def _rest_error(error: A2aError) -> Response:
    return _json(error.rest, error.reason.status, error.retry_after)
