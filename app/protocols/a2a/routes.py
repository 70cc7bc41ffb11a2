"""/a2a/{agent}: an agent for other agents, by JSON-RPC at the address itself and by REST below it.

Leaves to `exchange` what is answered; it is imported at the first request.
"""

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.late_import import loaded

CARD: Final = "/.well-known/agent-card.json"
_EXCHANGE: Final = "app.protocols.a2a.exchange"


class A2aRoute(DeferredRoute):
    """Every failure is an error of A2A's REST binding; the JSON-RPC route answers its own."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def in_dialect(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                await loaded(_EXCHANGE)
                from app.protocols.a2a import exchange

                refused = exchange.refusal_of(error)
                if refused is None:
                    raise
                return refused

        return in_dialect


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(tags=["a2a"], route_class=A2aRoute, include_in_schema=False)
    _add_cards(router, server)
    _add_messages(router, server)
    _add_tasks(router, server)
    _add_pushes(router, server)
    return router


def _add_cards(router: APIRouter, server: ServerContext) -> None:
    @router.get(CARD)
    async def default_card(request: Request, _caller: Caller) -> Response:
        workspace = server.workspace.current
        return await _card(server, request, workspace.default_agent or next(iter(workspace.agents), ""))

    @router.get("/a2a/{agent}" + CARD)
    @router.get("/a2a/{agent}/extendedAgentCard", name="extended_card")
    async def card(agent: str, request: Request, _caller: Caller) -> Response:
        return await _card(server, request, agent)


def _add_messages(router: APIRouter, server: ServerContext) -> None:
    @router.post("/a2a/{agent}")
    async def rpc(agent: str, request: Request, caller: Caller) -> Response:
        await loaded(_EXCHANGE)
        from app.protocols.a2a import exchange

        return await exchange.answer_rpc(server, caller, agent, request)

    @router.post("/a2a/{agent}/message:send")
    async def send(agent: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "send")

    @router.post("/a2a/{agent}/message:stream", name="stream_message")
    async def stream(agent: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "stream")


def _add_tasks(router: APIRouter, server: ServerContext) -> None:
    @router.get("/a2a/{agent}/tasks")
    async def list_tasks(agent: str, request: Request, caller: Caller) -> Response:
        params: JsonObject = dict(request.query_params)
        if str(params.get("pageSize", "0")).isdigit():
            params["pageSize"] = int(params.get("pageSize", 0))
        params["includeArtifacts"] = params.get("includeArtifacts") == "true"
        return await _rest(server, caller, agent, request, "list", params)

    @router.post("/a2a/{agent}/tasks/{task_id}:cancel")
    async def cancel(agent: str, task_id: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "cancel", {"id": task_id})

    @router.get("/a2a/{agent}/tasks/{task_id}:subscribe")
    @router.post("/a2a/{agent}/tasks/{task_id}:subscribe", name="subscribe_by_post")
    async def subscribe(agent: str, task_id: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "subscribe", {"id": task_id})

    @router.get("/a2a/{agent}/tasks/{task_id}")
    async def get(agent: str, task_id: str, request: Request, caller: Caller) -> Response:
        length = request.query_params.get("historyLength")
        return await _rest(server, caller, agent, request, "get", {"id": task_id, "historyLength": length})


def _add_pushes(router: APIRouter, server: ServerContext) -> None:
    configs = "/a2a/{agent}/tasks/{task_id}/pushNotificationConfigs"

    @router.post(configs)
    async def set_push(agent: str, task_id: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "push.set", more={"taskId": task_id})

    @router.get(configs)
    async def list_pushes(agent: str, task_id: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "push.list", {"taskId": task_id})

    @router.get(configs + "/{config_id}")
    async def get_push(agent: str, task_id: str, config_id: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "push.find", {"taskId": task_id, "id": config_id})

    @router.delete(configs + "/{config_id}")
    async def delete_push(agent: str, task_id: str, config_id: str, request: Request, caller: Caller) -> Response:
        return await _rest(server, caller, agent, request, "push.delete", {"taskId": task_id, "id": config_id})


async def _rest(
    server: ServerContext,
    caller: Principal,
    agent: str,
    request: Request,
    what: str,
    params: JsonObject | None = None,
    more: JsonObject | None = None,
) -> Response:
    """`params` are those of the address; without them they are the body, and `more` of the address."""
    await loaded(_EXCHANGE)
    from app.protocols.a2a import exchange

    given = {**await exchange.read_object(request), **(more or {})} if params is None else params
    return await exchange.answer_rest(server, caller, agent, request, what, given)


async def _card(server: ServerContext, request: Request, agent: str) -> Response:
    await loaded(_EXCHANGE)
    from app.protocols.a2a import exchange

    return exchange.answer_card(server, request, agent)
