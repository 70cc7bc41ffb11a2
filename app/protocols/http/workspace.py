"""/api/workspace and /api/agents: what is loaded, what is wrong with the files, who can be asked."""

from typing import Any

from fastapi import APIRouter, Response

from app.core.clock import iso
from app.core.errors import Failure
from app.events.catalog.ledger import WorkspaceReloadRequested
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.parameters import After, Limit, named_page
from app.runtime.workspaces import WorkspaceStatus
from app.workspace.compiled import CompiledAgent


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api", tags=["workspace"])

    @router.get(
        "/workspace", response_model=shapes.Workspace, summary="The workspace in use, and the mistakes of its files"
    )
    async def show(_caller: Caller) -> Response:
        return json_answer(_status(server, server.workspace.status))

    @router.post(
        "/workspace/reload",
        response_model=shapes.Workspace,
        summary="Read the workspace's files now",
        responses=may_answer("WORKSPACE_INVALID"),
    )
    async def reload(caller: Caller) -> Response:
        status = await server.workspace.reload()
        asked = WorkspaceReloadRequested(digest=status.digest, accepted=status.rejected is None)
        await server.ledger.record(caller.tenant, asked, actor=caller.actor)
        if status.rejected is not None:
            failure = Failure("WORKSPACE_INVALID", "The files have mistakes; the old workspace stays in use.")
            raise HttpProblem(failure, None, diagnostics=status.rejected.as_json())
        return json_answer(_status(server, status))

    @router.get("/agents", response_model=shapes.AgentPage, summary="The agents")
    async def agents(_caller: Caller, after: After = "", limit: Limit = 1000) -> Response:
        found, cursor = named_page(server.workspace.current.agents, after, limit)
        return page_answer((_agent(server, agent) for agent in found), cursor)

    @router.get(
        "/agents/{name}", response_model=shapes.Agent, summary="One agent", responses=may_answer("AGENT_NOT_FOUND")
    )
    async def agent(name: str, _caller: Caller) -> Response:
        found = server.workspace.current.agents.get(name)
        if found is None:
            raise HttpProblem(Failure("AGENT_NOT_FOUND", "There is no such agent."))
        return json_answer(_agent(server, found))

    return router


def _status(server: ServerContext, status: WorkspaceStatus) -> dict[str, Any]:
    current = server.workspace.current
    return {
        "digest": status.digest,
        "profile": current.profile,
        "loadedAt": None if status.loaded_at_ms is None else iso(status.loaded_at_ms),
        "defaultAgent": current.default_agent,
        "agents": sorted(current.agents),
        "models": sorted(current.models),
        "tools": sorted(current.tools),
        "skills": sorted(current.skills),
        "cli": {"events": {"include": list(current.runtime.cli.events.include)}},
        "diagnostics": status.diagnostics.as_json(),
        "rejected": None if status.rejected is None else status.rejected.as_json(),
        "rejectedAt": None if status.rejected_at_ms is None else iso(status.rejected_at_ms),
    }


def _agent(server: ServerContext, agent: CompiledAgent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "labels": dict(agent.labels),
        "backend": agent.spec.backend,
        "available": agent.spec.backend in server.backends,
        "tools": list(agent.tools),
        "skills": list(agent.skills),
        "subagents": list(agent.subagents),
    }
