"""What the codex-manager sessions API asks about the runtime: models, apps, skills, MCP servers and configuration.

Answered from the workspace where it has the fact; what it has no equivalent for is answered with 501, which those
clients expect. Leaves to others: what is asked of one session (`sessions`, `turns`).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

from fastapi import APIRouter, Query, Response

from app.core.errors import Failure
from app.events.catalog.ledger import WorkspaceReloadRequested
from app.protocols.context import ServerContext
from app.protocols.dialects import codex_sessions as dialect
from app.protocols.dialects.codex_items import PROVIDER
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.errors import HttpProblem
from app.protocols.sessions.controls import default_metadata
from app.protocols.sessions.late_shapes import discovery_shapes as shapes
from app.protocols.sessions.refusals import NOT_SUPPORTED
from app.protocols.sessions.route import SessionRefused, SessionRoute
from app.views.controls import APPROVAL_POLICIES, controls_of
from app.workspace.compiled import CompiledWorkspace
from app.workspace.specs.tool import McpServerSpec

Cursor = Annotated[str, Query(max_length=20, pattern="^[0-9]{0,18}$")]
Limit = Annotated[int, Query(ge=1, le=200)]
_EFFORTS: Final = ("low", "medium", "high")


def not_supported(method: str) -> NoReturn:
    message = f"This server does not support {method}. GET /api/capabilities lists what it supports."
    raise SessionRefused(
        501, {"status": "error", "code": "method_not_supported", "message": message, "details": {"method": method}}
    )


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["sessions"], route_class=SessionRoute)
    _add_lists(router, server)
    _add_config(router, server)
    _add_absent(router)
    return router


def _page(rows: Sequence[dict[str, Any]], cursor: str, limit: int) -> Response:
    start = int(cursor or 0)
    more = str(start + limit) if start + limit < len(rows) else None
    return json_answer({"data": rows[start : start + limit], "nextCursor": more})


def _add_lists(router: APIRouter, server: ServerContext) -> None:
    @router.get("/models", response_model=shapes.DiscoveryPage, summary="What a session may name as its model")
    async def models(_caller: Caller, cursor: Cursor = "", limit: Limit = 100) -> Response:
        return _page(_models(server.workspace.current), cursor, limit)

    @router.get("/apps", response_model=shapes.DiscoveryPage, summary="The agents, as apps of a client")
    async def apps(_caller: Caller, cursor: Cursor = "", limit: Limit = 100) -> Response:
        agents = server.workspace.current.agents
        rows = [
            {
                "id": name,
                "name": name,
                "description": agents[name].description,
                "logoUrl": None,
                "installUrl": None,
                "isAccessible": True,
            }
            for name in sorted(agents)
        ]
        return _page(rows, cursor, limit)

    @router.get("/skills", response_model=shapes.DiscoveryPage, summary="The skills of the workspace")
    async def skills(_caller: Caller) -> Response:
        found = server.workspace.current.skills
        rows = [
            {"name": name, "description": found[name].description, "path": found[name].file, "scope": "repo",
             "enabled": True}
            for name in sorted(found)
        ]  # fmt: skip
        return json_answer({"data": [{"cwd": "", "skills": rows, "errors": []}], "nextCursor": None})

    @router.get("/mcp/servers", response_model=shapes.DiscoveryPage, summary="The MCP servers of the workspace")
    async def mcp_servers(caller: Caller, cursor: Cursor = "", limit: Limit = 100) -> Response:
        workspace = server.workspace.current
        logins = await server.mcp_logins.vault.table.of_tenant(caller.tenant)
        rows = [
            {
                "name": name,
                "tools": {tool: {"name": tool} for tool in sorted(_tools_of(workspace, name))},
                "resources": [],
                "resourceTemplates": [],
                "authStatus": _auth_status(workspace.mcp_servers[name].spec, name in logins),
            }
            for name in sorted(workspace.mcp_servers)
        ]
        return _page(rows, cursor, limit)


def _auth_status(spec: McpServerSpec, logged_in: bool) -> str:
    if spec.oauth is not None:
        return "oAuth" if logged_in or spec.oauth.grant == "clientCredentials" else "notLoggedIn"
    return "bearerToken" if any(name.lower() == "authorization" for name in spec.headers) else "unsupported"


def _tools_of(workspace: CompiledWorkspace, server: str) -> list[str]:
    return [
        name for name, tool in workspace.tools.items() if tool.spec.mcp is not None and tool.spec.mcp.server == server
    ]


def _models(workspace: CompiledWorkspace) -> list[dict[str, Any]]:
    """Agents, which choose a model by themselves, and the models that the default agent can be given."""
    rows = [(name, agent.description, name == workspace.default_agent) for name, agent in workspace.agents.items()]
    rows += [(name, named.description, False) for name, named in workspace.models.items()]
    return [
        {
            "id": name,
            "model": name,
            "displayName": name,
            "description": description or "",
            "supportedReasoningEfforts": [{"reasoningEffort": effort, "description": ""} for effort in _EFFORTS],
            "defaultReasoningEffort": "medium",
            "isDefault": default,
        }
        for name, description, default in sorted(rows, key=lambda row: (not row[2], row[0]))
    ]


def _add_config(router: APIRouter, server: ServerContext) -> None:
    @router.get("/config", response_model=shapes.ConfigShown, summary="What new sessions begin with")
    async def config(caller: Caller) -> Response:
        begun = dialect.tuple_of(controls_of(await default_metadata(server, caller)))
        workspace = server.workspace.current
        values = {
            "model": begun["model"] or workspace.default_agent,
            "model_provider": PROVIDER,
            "approval_policy": begun["approvalPolicy"],
            "sandbox_mode": begun["filesystemSandbox"],
            "network_access": begun["networkAccess"],
            "settings": begun["settings"],
            "workspace_digest": workspace.digest,
            "profile": workspace.profile,
        }
        return json_answer({"config": values, "origins": {}, "layers": None})

    @router.get("/config/requirements", response_model=shapes.ConfigRequirements, summary="What may be configured")
    async def requirements(_caller: Caller) -> Response:
        allowed = {
            "allowedApprovalPolicies": list(APPROVAL_POLICIES),
            "allowedSandboxModes": ["read-only", "workspace-write", "danger-full-access"],
        }
        return json_answer({"requirements": allowed})

    @router.post("/mcp/reload", response_model=shapes.ReloadDone, summary="Read the workspace's files now")
    async def reload_mcp(caller: Caller) -> Response:
        """MCP servers are declared in the workspace."""
        status = await server.workspace.reload()
        asked = WorkspaceReloadRequested(digest=status.digest, accepted=status.rejected is None)
        await server.ledger.record(caller.tenant, asked, actor=caller.actor)
        if status.rejected is not None:
            raise HttpProblem(Failure("WORKSPACE_INVALID", "The files have mistakes; the old workspace stays in use."))
        return json_answer({"status": "ok"})


_ABSENT: Final = (
    ("GET", "/features/experimental", "experimentalFeature/list"),
    ("GET", "/collaboration/modes", "collaborationMode/list"),
    ("POST", "/skills/config", "skills/config/write"),
    ("GET", "/skills/remote", "skills/remote/read"),
    ("POST", "/skills/remote", "skills/remote/write"),
    ("POST", "/mcp/servers/{server_name}/oauth/login", "mcpServer/oauth/login"),
    ("GET", "/account", "account/read"),
    ("POST", "/account/login/start", "account/login/start"),
    ("POST", "/account/login/cancel", "account/login/cancel"),
    ("POST", "/account/logout", "account/logout"),
    ("GET", "/account/rate-limits", "account/rateLimits/read"),
    ("POST", "/config/value", "config/value/write"),
    ("POST", "/config/batch", "config/batchWrite"),
    ("POST", "/commands/exec", "command/exec"),
    ("POST", "/feedback", "feedback/upload"),
)


def _add_absent(router: APIRouter) -> None:
    for verb, path, method in _ABSENT:
        router.add_api_route(
            path,
            _absent(method),
            methods=[verb],
            name=method.replace("/", "_"),
            summary=f"{method}: not supported",
            status_code=501,
            response_model=shapes.NotSupported,
            responses=NOT_SUPPORTED,
        )


def _absent(method: str) -> Any:
    async def refuse(_caller: Caller) -> Response:
        not_supported(method)

    return refuse
