"""`tools/call`: submits a run and answers with its result, a question to the client's user, or a task.

A stateless client that is asked something repeats its call with the answers and the `requestState` that we gave it,
which names the run. Leaves to others: what is offered (`offer`), following the run (`call_stream`), tasks (`tasks`).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.schemas import Validator
from app.core.value import value
from app.protocols.context import ServerContext
from app.protocols.dialects.jsonrpc import INVALID_PARAMS, RpcError, RpcMessage, failure_data
from app.protocols.dialects.mcp import answer_of
from app.protocols.http.errors import HttpProblem
from app.protocols.http.submission import accepted
from app.protocols.mcp.offer import Offered, offered
from app.protocols.mcp.terms import ClientTerms
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.submission import Submission
from app.views.run import Run

REQUEST: Final = "mcp.request"
"""The label of a run that a client with a session asked for: `<session>:<id of the request as JSON>`."""
PROGRESS: Final = "mcp.progress"
"""The label with the token by which a client with a session is notified of progress, as JSON, for a resumed stream."""
CALL: Final = "mcp.tool"
"""The label with the name of the tool that was called."""
MAX_ANSWERS: Final = 64
_MAX_LABEL: Final = 300


@value(frozen=True, slots=True)
class McpCall:
    """A call that was taken: the run behind it, and whether its client's user refused to answer just now."""

    run: Run
    tool: Offered
    unanswered: bool = False


async def take_call(
    server: ServerContext,
    caller: Principal,
    message: RpcMessage,
    terms: ClientTerms,
    trace: Mapping[str, str] | None,
) -> McpCall:
    params = message.params
    tool = await _named(server, caller, params.get("name"))
    state = params.get("requestState")
    if state is not None:
        return await _repeated(server, caller, tool, state, params.get("inputResponses"))
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "The arguments must be an object.")
    wanted = _submission(tool, arguments, message, terms)
    wanted.trace_context = trace
    return McpCall(accepted(await server.service.submit(caller, wanted)), tool)


async def _named(server: ServerContext, caller: Principal, name: Any) -> Offered:
    tool = (await offered(server)).get(name) if isinstance(name, str) else None
    if tool is None:
        failure = Failure("TOOL_NOT_FOUND", "There is no such tool.")
        raise RpcError(INVALID_PARAMS, failure.message, failure_data(failure))
    require(caller, tool.scope)
    return tool


def require(caller: Principal, scope: str) -> None:
    if not caller.may(scope):
        raise HttpProblem(Failure("FORBIDDEN", "The caller may not do this."), None, needs=scope)


def _submission(tool: Offered, arguments: JsonObject, message: RpcMessage, terms: ClientTerms) -> Submission:
    thread_id: str | None = None
    given: Any = arguments
    if tool.tool is None and (issues := Validator(tool.input).issues(arguments)):
        places = "; ".join(f"{issue.path or '/'}: {issue.message}" for issue in issues[:5])
        raise RpcError(INVALID_PARAMS, f"The arguments do not fit the tool's schema: {places}")
    if tool.takes_message:
        given, thread_id = arguments["message"], arguments.get("threadId")
    labels = {CALL: tool.name}
    if terms.session is not None:
        labels[REQUEST] = request_label(terms.session, message.id)
        token = progress_token(message)
        if token is not None and len(written := json.dumps(token).decode()) <= _MAX_LABEL:
            labels[PROGRESS] = written
    key = _meta(message).get("idempotencyKey")
    key = key if isinstance(key, str) and 0 < len(key) <= 200 else None
    return Submission(
        agent=tool.agent,
        workflow=tool.workflow,
        tool=tool.tool,
        input=given,
        thread_id=thread_id,
        labels=labels,
        idempotency_key=key,
        body_hash="" if key is None else sha256(json.canonical([tool.name, arguments])).hexdigest(),
    )


def request_label(session: str, request_id: Any) -> str:
    return f"{session}:{json.dumps(request_id).decode()}"[:_MAX_LABEL]


def _meta(message: RpcMessage) -> JsonObject:
    meta = message.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def progress_token(message: RpcMessage) -> str | int | None:
    token = _meta(message).get("progressToken")
    fits = isinstance(token, str | int) and not isinstance(token, bool) and len(str(token)) <= 200
    return token if fits else None


# -- answers ------------------------------------------------------------------------------------------


async def _repeated(server: ServerContext, caller: Principal, tool: Offered, state: Any, responses: Any) -> McpCall:
    """The state is the run's id: it gives no right that the caller has not, and the run must be one of this tool's."""
    run = await server.reader.run(caller.tenant, state) if isinstance(state, str) and len(state) <= 200 else None
    if run is None or run.labels.get(CALL) != tool.name:
        raise RpcError(INVALID_PARAMS, "requestState is none of this server's.")
    unanswered = await give_answers(server, caller, run, responses)
    return McpCall(await _again(server, caller, run), tool, unanswered)


async def give_answers(server: ServerContext, caller: Principal, run: Run, responses: Any) -> bool:
    """Answers the run's interrupts; whether one of them was left open by the user.

    An answer to what was answered before is not taken and is no mistake: the client repeats itself.
    """
    if responses is None:
        return False
    if not isinstance(responses, dict) or len(responses) > MAX_ANSWERS:
        raise RpcError(INVALID_PARAMS, f"inputResponses must be an object with at most {MAX_ANSWERS} answers.")
    require(caller, "interrupts:answer")
    unanswered = False
    for interrupt_id, response in responses.items():
        asked = await server.reader.interrupt(caller.tenant, interrupt_id)
        if asked is None or asked.run_id != run.id:
            raise RpcError(INVALID_PARAMS, "inputResponses has a key that this run did not ask for.")
        answer = answer_of(asked, response)
        if asked.status != "open":
            continue
        if answer is None:
            unanswered = True
            continue
        given = await server.interrupts.answer(caller, asked.id, answer)
        if isinstance(given, NotAnswered) and given.failure.code != "INTERRUPT_NOT_OPEN":
            raise HttpProblem(given.failure, given.issues)
    return unanswered


async def _again(server: ServerContext, caller: Principal, run: Run) -> Run:
    found = await server.reader.run(caller.tenant, run.id)
    return run if found is None else found
