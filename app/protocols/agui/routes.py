"""/agui/{agent}: one address for each agent and workflow, as AG-UI clients expect it. Answers with server-sent events.

Leaves to `run_stream` what is answered; it is imported at the first request.
"""

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams, takes
from app.protocols.http.late_import import loaded
from app.protocols.http.submission import REFUSALS

if TYPE_CHECKING:
    from app.protocols.agui.agent_input import RunAgentInput

_RUN_STREAM: Final = "app.protocols.agui.run_stream"


class AguiRoute(DeferredRoute):
    """A class of its own: its clients may send more than we know."""


def _body() -> "type[RunAgentInput]":
    from app.protocols.agui.agent_input import RunAgentInput

    return RunAgentInput


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/agui", tags=["agui"], route_class=AguiRoute)

    @router.post(
        "/{agent}",
        response_class=Response,
        summary="Run an agent for an AG-UI client",
        openapi_extra=takes(_body),
        responses={
            **streams("text/event-stream", "One AG-UI event per frame, from RUN_STARTED to RUN_FINISHED or RUN_ERROR."),
            **may_answer(*REFUSALS, "INTERRUPT_NOT_FOUND", "INTERRUPT_NOT_OPEN", "ANSWER_INVALID", "RUN_NOT_FOUND"),
        },
    )
    async def run_agent(agent: str, request: Request, caller: Caller) -> Response:
        """`agent` is the name of an agent, or `workflow:NAME`."""
        await loaded(_RUN_STREAM)
        from app.protocols.agui import run_stream

        return await run_stream.run_agent(server, caller, agent, request)

    return router
