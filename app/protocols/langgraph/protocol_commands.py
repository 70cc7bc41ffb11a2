"""Commands of the second LangGraph protocol: start a run, answer questions, look at the thread's state.

Leaves to others: subscriptions, which live as long as their connection (`event_subscriptions`), and the wire.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from app.core.clock import iso
from app.core.errors import HoldfastError
from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_segments import segment_id
from app.protocols.dialects.langgraph_states import checkpoint_id, checkpoint_metadata, graph_of, thread_status
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.run_request import read_run
from app.protocols.langgraph.run_start import StartedRun, respond, start
from app.protocols.langgraph.thread_reading import last_run, thread_values
from app.protocols.langgraph.thread_states import checkpoint_number
from app.runtime.intake.rejection import Rejected

MAX_ID: Final = 2**53
_CODES: Final = {
    "AGENT_NOT_FOUND": "invalid_argument",
    "RUN_NOT_FOUND": "no_such_run",
    "INTERRUPT_NOT_FOUND": "no_such_interrupt",
    "INTERRUPT_NOT_OPEN": "no_such_interrupt",
    "CHECKPOINT_NOT_FOUND": "no_such_checkpoint",
    "FORBIDDEN": "permission_denied",
    "APPROVER_NOT_ALLOWED": "permission_denied",
}
_READING: Final = frozenset({"state.get", "state.listCheckpoints", "agent.getTree"})

Handler = Callable[[JsonObject], Awaitable[tuple[JsonObject, int]]]


class ProtocolCommands:
    """The commands of one caller on one thread."""

    def __init__(
        self, server: ServerContext, caller: Principal, thread_id: str, trace: Mapping[str, str] | None = None
    ) -> None:
        self._server, self._caller, self._thread_id, self._trace = server, caller, thread_id, trace
        self._handlers: dict[str, Handler] = {
            "run.start": self._start,
            "input.respond": self._respond,
            "input.inject": self._inject,
            "state.get": self._state,
            "state.listCheckpoints": self._checkpoints,
            "state.fork": self._fork,
            "agent.getTree": self._tree,
        }

    async def answer(self, command: Any) -> JsonObject:
        """Every command is answered, one that is none as well."""
        named = isinstance(command, dict)
        number = command.get("id") if named else None
        fits = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MAX_ID
        if not named or not fits or not isinstance(command.get("method"), str):
            message = "A command needs a whole number as its id, and a method."
            return failed(number if fits else None, "invalid_argument", message)
        handler = self._handlers.get(command["method"])
        if handler is None:
            return failed(number, "unknown_command", "There is no such command.")
        params = command.get("params")
        if params is not None and not isinstance(params, dict):
            return failed(number, "invalid_argument", "params must be an object.")
        needs = "threads:read" if command["method"] in _READING else "runs:write"
        if not self._caller.may(needs):
            return failed(number, "permission_denied", "The caller may not do this.")
        try:
            result, seq = await handler(params or {})
        except HttpProblem as problem:
            places = "".join(f"; {issue.path}: {issue.message}" for issue in problem.issues or ())
            return failed(number, _CODES.get(problem.code, "invalid_argument"), problem.failure.message + places)
        except HoldfastError as error:
            return failed(number, _CODES.get(error.code, "invalid_argument"), error.failure.message)
        return {"type": "success", "id": number, "result": result, "meta": {"applied_through_seq": seq}}

    # -- runs ------------------------------------------------------------------------------------------

    async def _start(self, params: JsonObject) -> tuple[JsonObject, int]:
        wanted = read_run(self._server, {**params, "if_not_exists": "create"})
        made = await start(self._server, self._caller, self._thread_id, wanted, self._trace, listens=False)
        return _begun(made)

    async def _respond(self, params: JsonObject) -> tuple[JsonObject, int]:
        if params.get("update") or params.get("goto"):
            raise Declined("update and goto are not supported with an answer.")
        given = params.get("responses", [params])
        if not isinstance(given, list) or not 0 < len(given) <= 256 or not all(isinstance(one, dict) for one in given):
            raise Declined("responses must be a list of answers.")
        found = await self._server.reader.interrupts(self._caller.tenant, thread_id=self._thread_id, status="open")
        asked = {one.id: one for one in found if one.kind != "timer" and one.run_id is not None}
        answers: dict[str, Any] = {}
        for one in given:
            named = one.get("interrupt_id")
            if not isinstance(named, str) or named not in asked:
                raise Declined("There is no such open interrupt on the thread.", code="INTERRUPT_NOT_FOUND", status=404)
            answers[named] = one.get("response")
        return _begun(await respond(self._server, self._caller, asked, answers))

    async def _inject(self, params: JsonObject) -> tuple[JsonObject, int]:
        """Something that the user says while the run is at work; it is read before the next step."""
        message = fields.mapping(params, "message")
        if message.get("role") != "user" or not isinstance(message.get("content"), str):
            raise Declined("message must be what a user says: a role and a text.")
        run = await last_run(self._server, self._caller.tenant, self._thread_id)
        if run is None or run.terminal:
            raise Declined("The thread has no run at work.", code="RUN_NOT_FOUND", status=404)
        done = await self._server.commands.inject(self._caller, run.id, "steer", {"message": message["content"]})
        if isinstance(done, Rejected):
            raise HttpProblem(done.failure)
        return {}, done.last_seq

    # -- state -----------------------------------------------------------------------------------------

    async def _values(self) -> tuple[Any, int]:
        thread = await existing_thread(self._server, self._caller, self._thread_id)
        return await thread_values(self._server, self._caller.tenant, thread.id, thread.last_seq), thread.last_seq

    async def _state(self, params: JsonObject) -> tuple[JsonObject, int]:
        keys = fields.texts(params, "keys")
        values, seq = await self._values()
        shown = {name: value for name, value in values.values().items() if keys is None or name in keys}
        result: JsonObject = {"values": shown}
        if values.checkpoints:
            result["checkpoint"] = {"id": checkpoint_id(values.checkpoints[-1].seq), "ns": ""}
        return result, seq

    async def _checkpoints(self, params: JsonObject) -> tuple[JsonObject, int]:
        limit = fields.whole(params, "limit", 10, fields.MAX_LIMIT, least=1)
        values, seq = await self._values()
        before = params.get("before")
        end = len(values.checkpoints) if before is None else checkpoint_number(values, before)
        found = values.checkpoints[max(0, end - limit) : end]
        shown = [
            {"id": checkpoint_id(p.seq), "timestamp": iso(p.at), "step": p.step, "metadata": checkpoint_metadata(p)}
            for p in reversed(found)
        ]
        return {"checkpoints": shown}, seq

    async def _fork(self, params: JsonObject) -> tuple[JsonObject, int]:
        """A new thread that knows what was said up to the checkpoint, with a run if there is an input."""
        if not self._caller.may("threads:write"):
            raise Declined("The caller may not fork threads.", code="FORBIDDEN", status=403)
        values, _ = await self._values()
        point = values.checkpoints[checkpoint_number(values, params.get("checkpoint_id"))]
        last = await last_run(self._server, self._caller.tenant, self._thread_id)
        if last is None or params.get("input") is None:
            raise Declined("state.fork needs an input, and a thread on which something ran.")
        wanted = read_run(self._server, {"assistant_id": graph_of(last), "input": params["input"]})
        made = await self._server.threads.fork(self._caller, self._thread_id, point.seq)
        if isinstance(made, Rejected):
            raise HttpProblem(made.failure)
        begun, seq = _begun(await start(self._server, self._caller, made.id, wanted, self._trace, listens=False))
        return {**begun, "thread_id": made.id}, seq

    async def _tree(self, _params: JsonObject) -> tuple[JsonObject, int]:
        thread = await existing_thread(self._server, self._caller, self._thread_id)
        last = await last_run(self._server, self._caller.tenant, thread.id)
        words = {"busy": "running", "idle": "completed", "error": "failed", "interrupted": "interrupted"}
        graph = "" if last is None else graph_of(last)
        return {
            "tree": {"namespace": [], "status": words[thread_status(thread, last)], "graph_name": graph}
        }, thread.last_seq


def failed(number: int | None, code: str, message: str) -> JsonObject:
    return {"type": "error", "id": number, "error": code, "message": message}


def _begun(made: StartedRun) -> tuple[JsonObject, int]:
    return {"run_id": segment_id(made.run.id, made.segment.number)}, made.segment.first_seq
