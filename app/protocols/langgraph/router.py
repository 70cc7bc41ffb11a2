"""LangGraph Server's interface: every route of it over HTTP, imported when the first of them is asked.

Leaves to `routes` the addresses, which the server has to know before, and the websocket.
"""

from fastapi import APIRouter, Response
from starlette.routing import BaseRoute

from app import __version__
from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.langgraph import fields
from app.protocols.langgraph.assistants import add_assistants, add_one_assistant
from app.protocols.langgraph.crons import add_crons
from app.protocols.langgraph.errors import LangGraphRoute
from app.protocols.langgraph.protocol_routes import add_protocol
from app.protocols.langgraph.runs import RunDesk, add_one_run, add_stateless_runs, add_thread_runs
from app.protocols.langgraph.store_items import add_store
from app.protocols.langgraph.thread_states import add_states
from app.protocols.langgraph.thread_streams import add_thread_stream
from app.protocols.langgraph.threads import add_one_thread, add_threads


def real_routes(server: ServerContext, prefix: str) -> list[BaseRoute]:
    router = APIRouter(
        prefix=prefix,
        tags=["langgraph"],
        route_class=LangGraphRoute,
        responses=fields.REFUSALS,
    )
    desk = RunDesk(server)
    # The ones with a fixed name stand before those that would take the name for an id.
    add_crons(router, server)
    add_stateless_runs(router, desk)
    add_thread_runs(router, desk)
    add_one_run(router, desk)
    add_threads(router, server)
    add_states(router, server)
    add_thread_stream(router, server)
    add_protocol(router, server)
    add_one_thread(router, server)
    add_assistants(router, server)
    add_one_assistant(router, server)
    add_store(router, server)
    _add_info(router)
    return router.routes


def _add_info(router: APIRouter) -> None:
    @router.get("/info", summary="What serves this interface")
    async def info(_caller: Caller) -> Response:
        flags = {"assistants": True, "crons": True, "langsmith": False}
        return fields.reply({"version": __version__, "server": "holdfast", "flags": flags})

    @router.get("/ok", summary="Whether it serves")
    async def ok(_caller: Caller) -> Response:
        return fields.reply({"ok": True})
