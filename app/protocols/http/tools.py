"""/api/tools: what can be called, and calling it directly: a run of its own, by no agent."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import Field

from app.core.errors import Failure
from app.core.json import JsonObject
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.parameters import After, Limit, named_page
from app.protocols.http.submission import REFUSALS, THREAD_ID, AskedHow, RunRequest, submit
from app.tools.contract import ToolDefinition
from app.workspace.compiled import CompiledTool

_WAIT: Final = 30.0
"""Seconds; who calls a tool wants its result, and most tools are quick."""


class InvokeTool(RunRequest):
    arguments: dict[str, Any] = Field(default_factory=dict)
    thread_id: str | None = Field(None, min_length=1, max_length=200, pattern=THREAD_ID)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/tools", tags=["tools"])

    @router.get("", response_model=shapes.ToolPage, summary="The tools of the workspace")
    async def list_tools(_caller: Caller, after: After = "", limit: Limit = 1000) -> Response:
        known = await _definitions(server)
        found, cursor = named_page(server.workspace.current.tools, after, limit)
        return page_answer((_tool(tool, known) for tool in found), cursor)

    @router.get("/{name}", response_model=shapes.ToolShape, summary="One tool", responses=may_answer("TOOL_NOT_FOUND"))
    async def show(name: str, _caller: Caller) -> Response:
        return json_answer(_tool(existing_tool(server, name), await _definitions(server)))

    @router.post(
        "/{name}/invoke",
        response_model=shapes.RunShape,
        summary="Run a tool, by no agent, through the same gate",
        openapi_extra=takes(InvokeTool),
        responses={
            202: {"model": shapes.RunShape, "description": "It goes on, or waits for a person: see the run."},
            **may_answer(*REFUSALS),
        },
    )
    async def invoke(name: str, request: Request, caller: Caller, asked: AskedHow) -> Response:
        """Waits half a minute unless `wait` says otherwise. The run's output is the tool's."""
        body, raw = await read_model(request, InvokeTool)
        existing_tool(server, name)
        wanted = await asked.submission(
            body,
            name.encode() + b"\n" + raw,
            agent=None,
            tool=name,
            input=body.arguments,
            thread_id=body.thread_id,
        )
        return await submit(server, caller, wanted, _WAIT if asked.wait is None else asked.wait, asked.stream)

    return router


def existing_tool(server: ServerContext, name: str) -> CompiledTool:
    found = server.workspace.current.tools.get(name)
    if found is None:
        raise HttpProblem(Failure("TOOL_NOT_FOUND", "The workspace has no such tool."))
    return found


async def _definitions(server: ServerContext) -> dict[str, ToolDefinition]:
    """What the tools say of themselves; empty while one of them cannot be made, which runs report."""
    toolset = await server.toolsets.of(server.workspace.current)
    if isinstance(toolset, Failure):
        return {}
    return {definition.name: definition for definition in toolset.gateway.registry.definitions()}


def _tool(tool: CompiledTool, known: dict[str, ToolDefinition]) -> JsonObject:
    """The document says what the workspace decided; schemas also come from the tool's code or server."""
    spec, definition = tool.spec, known.get(tool.name)
    return {
        "name": tool.name,
        "description": tool.description,
        "kind": spec.kind,
        "effect": spec.effect if definition is None else definition.effect,
        "labels": dict(tool.labels),
        "input": spec.input if definition is None else dict(definition.input),
        "output": spec.output if definition is None else definition.output,
    }
