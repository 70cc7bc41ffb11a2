"""Assistants of the LangGraph interface: the workspace's agents and workflows. They change with its files only."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from app.core.clock import iso
from app.core.json import JsonObject
from app.core.principal import DEFAULT_TENANT
from app.events.catalog.ledger import WorkspaceLoaded
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_states import assistant_id
from app.protocols.dialects.langgraph_values import MODEL_NODE, TOOLS_NODE
from app.protocols.http.caller import Caller
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.run_request import graph_named
from app.runtime.intake.ledger import LEDGER_THREAD
from app.workspace.compiled import CompiledAgent

_MAX_VERSIONS: Final = 1000
_FROM_THE_WORKSPACE: Final = "Assistants come from the workspace: change its files and reload it."
_MESSAGES: Final[JsonObject] = {
    "type": "object",
    "title": "State",
    "required": ["messages"],
    "properties": {"messages": {"type": "array", "items": {"type": "object"}}},
}


def add_assistants(router: APIRouter, server: ServerContext) -> None:
    @router.post("/assistants/search", summary="Find assistants", openapi_extra=_SEARCH)
    async def search_assistants(request: Request, _caller: Caller) -> Response:
        body = await fields.read_object(request)
        limit = fields.whole(body, "limit", 10, fields.MAX_LIMIT)
        offset, select = fields.whole(body, "offset", 0, fields.MAX_OFFSET), fields.texts(body, "select")
        found = await _found(server, body)
        headers = {"x-pagination-total": str(len(found))}
        if offset + limit < len(found):
            headers["x-pagination-next"] = str(offset + limit)
        return fields.reply([fields.selected(one, select) for one in found[offset : offset + limit]], headers)

    @router.post("/assistants/count", summary="Count assistants", openapi_extra=_SEARCH)
    async def count_assistants(request: Request, _caller: Caller) -> Response:
        return fields.reply(len(await _found(server, await fields.read_object(request))))

    @router.post("/assistants", summary="Refused: assistants come from the workspace", openapi_extra=_CREATE)
    async def create_assistant(request: Request, _caller: Caller) -> Response:
        """With `if_exists: do_nothing` the assistant of the graph is answered, if there is one under this id."""
        body = await fields.read_object(request)
        graph, named = fields.text(body, "graph_id"), fields.text(body, "assistant_id")
        known = None if graph is None else graph_named(server, graph)
        keep = fields.choice(body, "if_exists", ("raise", "do_nothing"), "raise") == "do_nothing"
        if keep and known is not None and named in (None, assistant_id(known)):
            return fields.reply(await _shown(server, known))
        raise Declined(_FROM_THE_WORKSPACE, status=409)


def add_one_assistant(router: APIRouter, server: ServerContext) -> None:
    prefix = "/assistants/{assistant_id}"

    @router.get(prefix, summary="One assistant")
    async def get_assistant(assistant_id: str, _caller: Caller) -> Response:
        return fields.reply(await _shown(server, _existing(server, assistant_id)))

    @router.patch(prefix, summary="Refused: assistants come from the workspace", openapi_extra=_PATCH)
    async def update_assistant(assistant_id: str, _caller: Caller) -> Response:
        _existing(server, assistant_id)
        raise Declined(_FROM_THE_WORKSPACE, status=409)

    @router.delete(prefix, summary="Refused: assistants come from the workspace")
    async def delete_assistant(assistant_id: str, _caller: Caller) -> Response:
        _existing(server, assistant_id)
        raise Declined(_FROM_THE_WORKSPACE, status=409)

    @router.get(f"{prefix}/graph", summary="The graph of an assistant")
    async def get_graph(assistant_id: str, _caller: Caller) -> Response:
        return fields.reply(_graph(server, _existing(server, assistant_id)))

    @router.get(f"{prefix}/schemas", summary="The schemas of an assistant")
    async def get_schemas(assistant_id: str, _caller: Caller) -> Response:
        return fields.reply(_schemas(server, _existing(server, assistant_id)))

    @router.get(f"{prefix}/subgraphs", summary="The subagents of an assistant")
    async def get_subgraphs(assistant_id: str, _caller: Caller) -> Response:
        return fields.reply(_subgraphs(server, _existing(server, assistant_id)))

    @router.get(f"{prefix}/subgraphs/{{namespace}}", summary="One subagent of an assistant")
    async def get_subgraph(assistant_id: str, namespace: str, _caller: Caller) -> Response:
        found = _subgraphs(server, _existing(server, assistant_id))
        return fields.reply({name: one for name, one in found.items() if name == namespace})

    @router.post(f"{prefix}/versions", summary="The versions of an assistant", openapi_extra=_VERSIONS)
    async def get_versions(assistant_id: str, request: Request, _caller: Caller) -> Response:
        body, graph = await fields.read_object(request), _existing(server, assistant_id)
        limit = fields.whole(body, "limit", 10, fields.MAX_LIMIT)
        offset = fields.whole(body, "offset", 0, fields.MAX_OFFSET)
        made = [_spelled(server, graph, *one) for one in reversed(await _versions(server))]
        return fields.reply(made[offset : offset + limit])

    @router.post(f"{prefix}/latest", summary="Refused unless it is the version in force", openapi_extra=_LATEST)
    async def set_latest(assistant_id: str, request: Request, _caller: Caller) -> Response:
        body, graph = await fields.read_object(request), _existing(server, assistant_id)
        shown = await _shown(server, graph)
        if body.get("version") != shown["version"]:
            raise Declined(_FROM_THE_WORKSPACE, status=409)
        return fields.reply(shown)


def _existing(server: ServerContext, named: str) -> str:
    found = graph_named(server, named)
    if found is None:
        raise Declined("There is no such assistant.", code="AGENT_NOT_FOUND", status=404)
    return found


async def _found(server: ServerContext, body: JsonObject) -> list[JsonObject]:
    graph, name, wanted = fields.text(body, "graph_id"), fields.text(body, "name"), fields.metadata(body)
    version = (await _versions(server))[-1]
    shown = [_spelled(server, one, *version) for one in server.workspace.current.acting_agents]
    by = fields.choice(body, "sort_by", ("assistant_id", "graph_id", "name", "created_at", "updated_at"), "name")
    down = fields.choice(body, "sort_order", ("asc", "desc"), "asc") == "desc"
    kept = [
        one
        for one in shown
        if graph in (None, one["graph_id"])
        and (name is None or name.lower() in one["name"].lower())
        and fields.contains(one["metadata"], wanted)
    ]
    return sorted(kept, key=lambda one: str(one[by]), reverse=down)


async def _shown(server: ServerContext, graph: str) -> JsonObject:
    return _spelled(server, graph, *(await _versions(server))[-1])


async def _versions(server: ServerContext) -> list[tuple[int, str, int]]:
    """Number, digest and time of each workspace that was loaded after another one; the last is in force."""
    types: list[str] = [WorkspaceLoaded.type]
    found: list[tuple[int, str, int]] = []
    loaded = await server.reader.events_of(DEFAULT_TENANT, LEDGER_THREAD, types, 0, 2**62, _MAX_VERSIONS)
    for event in loaded:
        if not found or found[-1][1] != event.payload["digest"]:
            found.append((len(found) + 1, event.payload["digest"], event.at))
    status = server.workspace.status
    if not found or found[-1][1] != status.digest:  # not recorded yet
        found.append((len(found) + 1, status.digest or "", status.loaded_at_ms or 0))
    return found


def _spelled(server: ServerContext, graph: str, version: int, digest: str, at: int) -> JsonObject:
    agent = server.workspace.current.acting_agents[graph]
    return {
        "assistant_id": assistant_id(graph),
        "graph_id": graph,
        "name": graph,
        "description": agent.description or None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system", "workspace_digest": digest, **agent.labels},
        "version": version,
        "created_at": iso(at),
        "updated_at": iso(at),
    }


def _graph(server: ServerContext, graph: str) -> JsonObject:
    """A workflow's steps, or the loop of an agent with its model, its tools and its subagents."""
    workspace = server.workspace.current
    if graph.startswith("workflow:"):
        flow = workspace.workflows[graph.removeprefix("workflow:")]
        names = {"START": "__start__", "END": "__end__"}
        nodes = [_node(node.id, node.kind) for node in flow.nodes.values()]
        edges = [_edge(names.get(e.source, e.source), names.get(e.target, e.target), e.label) for e in flow.graph.edges]
    else:
        agent = workspace.agents[graph]
        nodes, edges = (
            [_node(MODEL_NODE, "model")],
            [_edge("__start__", MODEL_NODE), _edge(MODEL_NODE, "__end__", "end")],
        )
        if _acts(agent):
            nodes.append(_node(TOOLS_NODE, "tools"))
            edges += [_edge(MODEL_NODE, TOOLS_NODE, "continue"), _edge(TOOLS_NODE, MODEL_NODE)]
    ends = [{"id": name, "type": "schema", "data": name} for name in ("__start__", "__end__")]
    return {"nodes": [ends[0], *nodes, ends[1]], "edges": edges}


def _acts(agent: CompiledAgent) -> bool:
    return bool(agent.tools or agent.subagents or agent.spec.client_tools)


def _node(name: str, kind: str) -> JsonObject:
    return {"id": name, "type": "runnable", "data": {"id": ["holdfast", kind], "name": name}}


def _edge(source: str, target: str, label: str | None = None) -> JsonObject:
    made: JsonObject = {"source": source, "target": target}
    return made if label is None else made | {"data": label, "conditional": True}


def _schemas(server: ServerContext, graph: str) -> JsonObject:
    given: Any = _MESSAGES
    if graph.startswith("workflow:"):
        spec = server.workspace.current.workflows[graph.removeprefix("workflow:")].spec
        given = getattr(spec, "input", None) or {"type": "object", "additionalProperties": True}
    return {
        "graph_id": graph,
        "input_schema": given if isinstance(given, dict) else _MESSAGES,
        "output_schema": _MESSAGES,
        "state_schema": _MESSAGES,
        "config_schema": {},
        "context_schema": {},
    }


def _subgraphs(server: ServerContext, graph: str) -> JsonObject:
    agent = server.workspace.current.acting_agents[graph]
    return {name: _schemas(server, name) for name in agent.subagents if name in server.workspace.current.acting_agents}


_SEARCH: Final = fields.takes(
    metadata=fields.OBJECT,
    graph_id=fields.STRING,
    name=fields.STRING,
    limit=fields.NUMBER,
    offset=fields.NUMBER,
    select=fields.STRINGS,
)
_CREATE: Final = fields.takes(
    "graph_id", graph_id=fields.STRING, assistant_id=fields.STRING, if_exists={"enum": ["raise", "do_nothing"]}
)
_PATCH: Final = fields.takes(metadata=fields.OBJECT, name=fields.STRING)
_VERSIONS: Final = fields.takes(metadata=fields.OBJECT, limit=fields.NUMBER, offset=fields.NUMBER)
_LATEST: Final = fields.takes("version", version=fields.NUMBER)
