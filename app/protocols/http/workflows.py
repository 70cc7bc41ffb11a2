"""/api/workflows: what there is, its graph, what it would do; and the graph of a run with the state of each step."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
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
from app.protocols.http.lookups import existing_run, existing_thread, whole_thread
from app.protocols.http.parameters import After, Limit, Until, named_page, up_to
from app.protocols.http.request_fields import RunInput
from app.protocols.http.submission import Request as Body
from app.views.flow_states import FlowStates
from app.workspace.compiled import CompiledWorkflow
from app.workspace.flow_drawing import flow_json, graph_json, mermaid, svg
from app.workspace.flow_plan import plan_json

Form = Annotated[Literal["json", "mermaid", "svg"], Query(description="JSON, Mermaid text, or a picture")]


class PlanRequest(Body):
    """The input that the workflow would be given."""

    input: RunInput = Field(description="a text, an object, or message parts")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api", tags=["workflows"])
    _add_workflows(router, server)
    _add_run_graph(router, server)
    return router


def _add_workflows(router: APIRouter, server: ServerContext) -> None:
    @router.get("/workflows", response_model=shapes.WorkflowPage, summary="The workflows")
    async def workflows(_caller: Caller, after: After = "", limit: Limit = 1000) -> Response:
        found, cursor = named_page(server.workspace.current.workflows, after, limit)
        return page_answer((_shown(server, flow) for flow in found), cursor)

    @router.get(
        "/workflows/{name}",
        response_model=shapes.WorkflowShape,
        summary="One workflow",
        responses=may_answer("WORKFLOW_NOT_FOUND"),
    )
    async def workflow(name: str, _caller: Caller) -> Response:
        return json_answer(_shown(server, _existing(server, name)))

    @router.get(
        "/workflows/{name}/graph",
        response_model=shapes.WorkflowGraph,
        summary="Its graph",
        responses=may_answer("WORKFLOW_NOT_FOUND"),
    )
    async def graph(name: str, _caller: Caller, format: Form = "json") -> Response:
        return _drawn(_existing(server, name), format, None)

    @router.post(
        "/workflows/{name}/plan",
        response_model=shapes.WorkflowPlan,
        summary="What it would do, without running it",
        openapi_extra=takes(PlanRequest),
        responses=may_answer("WORKFLOW_NOT_FOUND"),
    )
    async def plan(name: str, request: Request, _caller: Caller) -> Response:
        body, _ = await read_model(request, PlanRequest)
        flow = _existing(server, name)
        return json_answer(plan_json(flow, body.input, available=flow.spec.adapter in server.adapters))


def _add_run_graph(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/runs/{run_id}/graph",
        response_model=shapes.WorkflowGraph,
        summary="The graph of a workflow's run, with the state of each step",
        responses=may_answer("RUN_NOT_FOUND", "THREAD_DELETED", "VIEW_TOO_LARGE", "WORKSPACE_GONE", "RUN_HAS_NO_GRAPH"),
    )
    async def run_graph(run_id: str, caller: Caller, format: Form = "json", until: Until = None) -> Response:
        """With `until` as it stood after that event."""
        run = await existing_run(server, caller, run_id)
        if run.workflow is None:
            raise HttpProblem(Failure("RUN_HAS_NO_GRAPH", "The run is not that of a workflow."))
        workspace = await server.workspace_of(run.workspace_digest)
        flow = workspace.workflows.get(run.workflow) if workspace is not None else None
        if flow is None:
            raise HttpProblem(Failure("WORKSPACE_GONE", "The workspace of this run cannot be compiled any more."))
        thread = await existing_thread(server, caller, run.thread_id)
        events = up_to(await whole_thread(server, caller, thread), until)
        states = FlowStates(run.id).apply_all(events)
        return _drawn(flow, format, states, run_id=run.id, status=run.status)


def _drawn(flow: CompiledWorkflow, form: str, states: FlowStates | None, **more: Any) -> Response:
    nodes = None if states is None else states.nodes
    if form == "mermaid":
        return Response(mermaid(flow, nodes), media_type="text/plain; charset=utf-8")
    if form == "svg":
        return Response(svg(flow, nodes), media_type="image/svg+xml")
    shown = graph_json(flow, nodes)
    if states is not None:
        shown |= {"runId": more["run_id"], "status": more["status"], "order": states.order}
    return json_answer(shown)


def _existing(server: ServerContext, name: str) -> CompiledWorkflow:
    found = server.workspace.current.workflows.get(name)
    if found is None:
        raise HttpProblem(Failure("WORKFLOW_NOT_FOUND", "The workspace has no such workflow."))
    return found


def _shown(server: ServerContext, flow: CompiledWorkflow) -> JsonObject:
    return flow_json(flow, available=flow.spec.adapter in server.adapters)
