"""The Tasks extension: a run is a task. `tasks/get`, `tasks/update`, `tasks/cancel` read and change what is stored, so
that a task outlives its client, its connection and the server.

Leaves to others: which call becomes a task (`methods`).
"""

from typing import Any

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects import mcp
from app.protocols.dialects.jsonrpc import INVALID_PARAMS, RpcError, RpcMessage, failure_data
from app.protocols.http.errors import HttpProblem
from app.protocols.mcp.call_stream import open_questions, run_result
from app.protocols.mcp.calls import CALL, give_answers, require
from app.protocols.mcp.offer import offered
from app.protocols.mcp.terms import ClientTerms, require_tasks
from app.runtime.intake.rejection import Rejected
from app.views.run import Run


def created(run: Run) -> JsonObject:
    """The answer to a call that became a task."""
    return {"resultType": "task", **mcp.task(run, run.created_at), "_meta": mcp.run_meta(run)}


async def get_task(server: ServerContext, caller: Principal, message: RpcMessage, terms: ClientTerms) -> JsonObject:
    require_tasks(terms)
    run = await _existing(server, caller, message)
    asked = await open_questions(server, caller.tenant, run) if run.status == "waiting" else []
    updated = run.finished_at or await _last_change(server, caller, run)
    shown = mcp.task(run, updated, asked)
    if run.terminal and run.status != "cancelled":
        tool = (await offered(server)).get(run.labels.get(CALL, ""))
        shown["result"] = {"resultType": "complete", **await run_result(server, caller.tenant, run, tool)}
    return {"resultType": "complete", **shown}


async def update_task(server: ServerContext, caller: Principal, message: RpcMessage, terms: ClientTerms) -> JsonObject:
    require_tasks(terms)
    run = await _existing(server, caller, message)
    await give_answers(server, caller, run, message.params.get("inputResponses"))
    return {"resultType": "complete"}


async def cancel_task(server: ServerContext, caller: Principal, message: RpcMessage, terms: ClientTerms) -> JsonObject:
    """Acknowledged also when the run had ended before; `tasks/get` says how."""
    require_tasks(terms)
    require(caller, "runs:write")
    run = await _existing(server, caller, message)
    answer = await server.lifecycle.cancel(caller, run.id, "cancelled by an MCP client")
    if isinstance(answer, Rejected) and answer.failure.code != "RUN_TERMINAL":
        raise HttpProblem(answer.failure)
    return {"resultType": "complete"}


async def _existing(server: ServerContext, caller: Principal, message: RpcMessage) -> Run:
    require(caller, "runs:read")
    task_id: Any = message.params.get("taskId")
    run = await server.reader.run(caller.tenant, task_id) if isinstance(task_id, str) and len(task_id) <= 200 else None
    if run is None:
        failure = Failure("RUN_NOT_FOUND", "There is no such task.")
        raise RpcError(INVALID_PARAMS, failure.message, failure_data(failure))
    return run


async def _last_change(server: ServerContext, caller: Principal, run: Run) -> int:
    page = await server.reader.run_events(caller.tenant, run.id, run.last_seq - 1, 1)
    return page[-1].at if page else run.created_at
