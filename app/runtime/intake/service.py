"""The runtime's front: accept a run, cancel it. A submission is answered only after its first event is durable.

Leaves to others: executing (the executor), commands to a run (commands), reading (the views and the store's reader),
status codes (the protocols).
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import ValidationError

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import present
from app.core.principal import Principal
from app.events import ports
from app.events.catalog import Payload, execution, request, thread
from app.events.catalog.interrupt import InterruptExpired
from app.events.ports import Condition, Refused
from app.events.recorder import Entry, Recorder, Scope
from app.runtime.intake.foreign_schemas import check_schema
from app.runtime.places import Place
from app.runtime.ports import Fresh, OpenChildren
from app.runtime.workspaces import WorkspaceHistory
from app.views.controls import ApprovalPolicy, approval_policy
from app.views.ports import Reader, Tombstone
from app.views.run import Run
from app.views.thread import Thread
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.specs.base import Limits

Busy = Literal["enqueue", "reject", "interrupt", "rollback"]

MAX_CLIENT_TOOLS: Final = 128
SYSTEM_THREADS: Final = "sys_"
"""How the ids of the system's own threads begin; nobody else may use them."""
KEY_LIFETIME_MS: Final = 24 * 3600 * 1000
_RACES: Final = 20
"""How often a submission that ends other runs is tried again because one of them moved meanwhile."""
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(slots=True)  # not frozen: with so many fields that would cost more than reading the request
class Submission:
    agent: str | None
    """None takes the workspace's default, unless a tool is asked for."""
    input: Any
    tool: str | None = None
    """A direct request: this tool with the input as its arguments, by no agent."""
    thread_id: str | None = None
    create_thread: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    busy: Busy | None = None
    """None takes the agent's policy, or the workspace's."""
    idempotency_key: str | None = None
    body_hash: str = ""
    model_plan: str | None = None
    """A model of the workspace to use in place of the agent's plan."""
    limits: Mapping[str, Any] | None = None
    """Tighter ones than the workspace's and the agent's own."""
    trace_context: Mapping[str, str] | None = None
    history: Sequence[Mapping[str, Any]] = ()
    """Messages that a new thread begins with."""
    instructions: str | None = None
    client_tools: Sequence[Mapping[str, Any]] = ()
    """`{name, description?, input}` each; a call of one waits for the client's answer."""
    response_schema: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    """Sampling of the answering model calls, checked by whoever took the request; not recorded if the agent pins its
    own."""
    tool_choice: str | Mapping[str, str] | None = None
    """`required` or `{name}`, for the first answering model call."""
    approval_policy: ApprovalPolicy | None = None
    """None takes the thread's own, if somebody gave it one."""
    thread_change: thread.ThreadUpdated | None = None
    """What the request changes of its thread; in the same commit, so both are there or neither."""
    blobs: Sequence[ports.BlobDraft] = ()
    """Content that the input or the history refers to by hash."""
    announce: Callable[[str], None] | None = None
    """Told the thread before anything is recorded, for whoever wants to hear the run from its first event on."""
    rerun_of: str | None = None
    replay: Mapping[str, Any] | None = None
    workspace: CompiledWorkspace | None = None
    """Another than the current one, for a rerun."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why not, and what stands in the way."""

    failure: Failure
    winner: str | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    """A run that was accepted, now or, if `replayed`, earlier under the same key."""

    run: Run
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What holds for new runs: how many one thread may have, and whether a tenant may start one now."""

    per_thread: Callable[[], int] = lambda: 100
    take: Callable[[str], Failure | None] = lambda tenant: None
    give_back: Callable[[str], None] = lambda tenant: None


class Service:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        children: OpenChildren,
        clock: Clock,
        workspaces: WorkspaceHistory,
        backends: Container[str],
        wake: Callable[[str, str, str, Fresh], None],
        stop: Callable[[str, str], None],
        overload: Callable[[str], Failure | None] = lambda tenant: None,
        admit: Callable[[str, str, str, str], Place | None] = lambda tenant, thread_id, run_id, agent: None,
        freed: Callable[[str, str], None] = lambda tenant, thread_id: None,
        limits: RunLimits | None = None,
    ) -> None:
        """`overload` answers why a tenant's new runs cannot be taken now, if they cannot; `admit` gives a run that
        need not wait its place at once; `freed` hears of a thread where a run ended that nobody worked on; `limits` are
        those on new runs."""
        self._recorder, self._reader, self._children = recorder, reader, children
        self._clock, self._workspaces, self._backends = clock, workspaces, backends
        self._wake, self._stop, self._overload, self._admit, self._freed = wake, stop, overload, admit, freed
        self._limits = limits or RunLimits()

    # -- submitting ----------------------------------------------------------------------------------

    async def submit(self, who: Principal, wanted: Submission) -> Run | Rejected:
        workspace = wanted.workspace or await self._workspaces.for_new_run()
        refused = self._check(workspace, wanted) or self._overload(who.tenant) or self._limits.take(who.tenant)
        if refused is not None:
            return Rejected(refused)
        answer = await self._submit(who, wanted, workspace)
        if isinstance(answer, Rejected) or answer.replayed:
            self._limits.give_back(who.tenant)
        return answer if isinstance(answer, Rejected) else answer.run

    async def _submit(self, who: Principal, wanted: Submission, workspace: CompiledWorkspace) -> "_Taken | Rejected":
        busy = wanted.busy or _policy(workspace, wanted.agent)
        thread_id, run_id = wanted.thread_id or new_id("thread"), new_id("run")
        scope = Scope(who.tenant, thread_id, run_id, actor=who.actor)
        agent = None if wanted.tool is not None else wanted.agent or workspace.default_agent
        known = None if wanted.thread_id is None else await self._reader.thread(who.tenant, wanted.thread_id)
        approvals, code = wanted.approval_policy or _policy_of(known), await self._workspaces.code(workspace)
        told = _queued(workspace, wanted, agent, busy, approvals, code)
        queued = Entry(told, blobs=tuple(wanted.blobs)) if wanted.blobs else told
        changed = [] if wanted.thread_change is None else [wanted.thread_change]
        if wanted.announce is not None:
            wanted.announce(thread_id)
        for new in _births(wanted, known):
            # A thread is born in the commit of its first run, or not at all.
            born: list[Payload | Entry] = [_born(wanted)] if new else []
            conditions = self._conditions(wanted, busy, run_id, new)
            place = self._admit(who.tenant, thread_id, run_id, agent or "") if new else None
            answer = await self._submitted(scope, [*born, *changed, queued], conditions, busy, place)
            if isinstance(answer, ports.Appended):
                run = _accepted(answer, run_id)
                # Of a new thread these are all the events there are.
                fresh = Fresh(run, answer.events if new else ())
                if place is not None:
                    place.accepted(fresh)
                else:
                    self._wake(who.tenant, thread_id, run_id, fresh)
                return _Taken(run)
            if answer.failure.code == "IDEMPOTENCY_KEY_SEEN" and answer.winner is not None:
                known_run = await self._read_back(who.tenant, answer.winner)
                return known_run if isinstance(known_run, Rejected) else _Taken(known_run, replayed=True)
            refusal = Rejected(answer.failure, answer.winner)
            if not (new and answer.failure.code == "THREAD_EXISTS"):
                break
        return refusal

    async def _submitted(
        self, scope: Scope, payloads: list[Payload | Entry], conditions: list[Condition], busy: Busy,
        place: Place | None,
    ) -> ports.Answer:  # fmt: skip
        if place is None:
            return await self._append(scope, payloads, conditions, busy)
        claimed = Entry(place.started, actor="system")
        try:
            # On a new thread there is nothing that the run could be in the way of.
            answer = await self._recorder.record(scope, *payloads, claimed, conditions=[*conditions, place.lease])
        except BaseException as error:
            place.lost(error)
            raise
        if isinstance(answer, Refused):
            place.refused()
        return answer

    async def _append(
        self, scope: Scope, payloads: list[Payload | Entry], conditions: list[Condition], busy: Busy
    ) -> ports.Answer:
        """With `interrupt` and `rollback`, what is active on the thread is cancelled in the same commit."""
        if busy not in ("interrupt", "rollback"):
            return await self._recorder.record(scope, *payloads, conditions=conditions)
        for _ in range(_RACES):
            ending, unclaimed, claimed = await self._endings(scope, rollback=busy == "rollback")
            more = [*conditions, *(ports.RunUnclaimed(run_id) for run_id in unclaimed)]
            answer = await self._recorder.record(scope, *ending, *payloads, conditions=more)
            if isinstance(answer, ports.Appended):
                for run_id in claimed:
                    self._stop(scope.tenant, run_id)
            if not isinstance(answer, Refused) or answer.failure.code not in ("RUN_TERMINAL", "LEASE_HELD"):
                break
        return answer

    async def _endings(self, scope: Scope, *, rollback: bool) -> tuple[list[Entry], list[str], list[str]]:
        """The events that end the thread's active runs, and which of those runs somebody works on."""
        found = await self._reader.thread(scope.tenant, scope.thread_id)
        ending: list[Entry] = []
        unclaimed: list[str] = []
        claimed: list[str] = []
        for run_id in found.active if isinstance(found, Thread) else ():
            run = await self._reader.run(scope.tenant, run_id)
            if run is None or run.terminal:
                continue
            if run.cancel_requested_at is None or rollback:
                ending.append(Entry(_cancel_command(rollback=rollback), run_id=run_id))
            if run.status == "running":
                claimed.append(run_id)
            else:
                unclaimed.append(run_id)
                ended = request.RequestCancelled(reason="another run took its place", by=scope.actor)
                ending += [*await self._left_open(scope.tenant, run), Entry(ended, run_id=run_id)]
        return ending, unclaimed, claimed

    def _check(self, workspace: CompiledWorkspace, wanted: Submission) -> Failure | None:
        if wanted.thread_id is not None and wanted.thread_id.startswith(SYSTEM_THREADS):
            return Failure("THREAD_RESERVED", "threads of the system take no runs")
        if wanted.tool is not None:
            if wanted.tool not in workspace.tools:
                return Failure("TOOL_NOT_FOUND", "the workspace has no such tool")
            if not isinstance(wanted.input, dict):
                return Failure("INVALID_REQUEST", "a tool's input is an object, its arguments")
        else:
            refused = self._check_agent(workspace, wanted)
            if refused is not None:
                return refused
        if wanted.model_plan is not None and wanted.model_plan not in workspace.models:
            return Failure("MODEL_NOT_FOUND", "the workspace has no such model")
        return check_limits(wanted.limits) if wanted.limits else None

    def _check_agent(self, workspace: CompiledWorkspace, wanted: Submission) -> Failure | None:
        name = wanted.agent or workspace.default_agent
        if name is None:
            return Failure("AGENT_REQUIRED", "no agent was named and there is no default")
        agent = workspace.agents.get(name)
        if agent is None:
            return Failure("AGENT_NOT_FOUND", "the workspace has no such agent")
        if agent.spec.backend not in self._backends:
            return Failure("BACKEND_NOT_AVAILABLE", f"there is no backend {agent.spec.backend!r} here")
        if wanted.response_schema and (refused := check_schema(wanted.response_schema)) is not None:
            return Failure(refused.code, f"the schema of the answer: {refused.message}")
        return _check_client_tools(workspace, agent, wanted.client_tools)

    def _conditions(self, wanted: Submission, busy: Busy, run_id: str, new: bool) -> list[Condition]:
        conditions: list[Condition] = []
        if wanted.idempotency_key is not None:
            expires_at = self._clock.now_ms() + KEY_LIFETIME_MS
            conditions.append(ports.KeyUnused("runs", wanted.idempotency_key, wanted.body_hash, run_id, expires_at))
        if new:
            conditions.append(ports.ThreadIsNew())
        else:
            limit = 1 if busy == "reject" else self._limits.per_thread()
            conditions += [ports.ThreadAccepts(), ports.ThreadHasRoom(limit)]
        return conditions

    # -- cancelling ----------------------------------------------------------------------------------

    async def cancel(self, who: Principal, run_id: str, reason: str | None = None) -> Run | Rejected:
        """Idempotent. A run that nobody works on ends in the same commit; a running one is stopped by its owner."""
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "there is no such run"))
        if run.parent_run_id is not None:
            return Rejected(Failure("RUN_IS_A_SUBAGENT", "a subagent's run ends with its parent"), run.parent_run_id)
        if run.terminal or run.cancel_requested_at is not None:
            return run
        scope = Scope(who.tenant, run.thread_id, run_id, actor=who.actor)
        command, ended = _cancel_command(), request.RequestCancelled(reason=reason, by=who.actor)
        answer = await self._recorder.record(
            scope, command, *await self._left_open(who.tenant, run), ended, conditions=[ports.RunUnclaimed(run_id)]
        )
        if not isinstance(answer, Refused):
            self._freed(who.tenant, run.thread_id)
        elif answer.failure.code == "LEASE_HELD":
            answer = await self._recorder.record(scope, command, conditions=[ports.RunNotTerminal(run_id)])
            self._stop(who.tenant, run_id)
        if isinstance(answer, Refused) and answer.failure.code != "RUN_TERMINAL":
            return Rejected(answer.failure, answer.winner)
        return await self._read_back(who.tenant, run_id)

    async def _left_open(self, tenant: str, run: Run) -> list[Entry]:
        """Nobody needs to answer a run that has ended: its open questions and its subagents end in the same commit."""
        asked = [Entry(InterruptExpired(interrupt_id=asked), run_id=run.id) for asked in run.waiting_on]
        if run.started_at is None:
            return asked
        children = await self._children.open_children(tenant, run.thread_id)
        ended = request.RequestCancelled(reason="its parent ended")
        return [*asked, *(Entry(ended, run_id=child) for child in children)]

    async def _read_back(self, tenant: str, run_id: str) -> Run | Rejected:
        """An accepted run is in the tables; only its thread's deletion takes it out of sight."""
        run = await self._reader.run(tenant, run_id)
        return run or Rejected(Failure("THREAD_DELETED", "the thread was deleted"), run_id)


def _accepted(answer: ports.Appended, run_id: str) -> Run:
    """The run as its first event has it: what the tables hold, without asking them."""
    queued = next(event for event in answer.events if event.type == request.RequestQueued.type)
    run = Run(run_id, queued.thread_id, first_seq=queued.seq, last_seq=queued.seq, run_seq=queued.run_seq or 0)
    run.apply(queued)
    return run


def check_limits(wanted: Mapping[str, Any]) -> Failure | None:
    try:
        Limits.model_validate(dict(wanted))
    except ValidationError as error:
        where = ", ".join(sorted({".".join(map(str, issue["loc"])) for issue in error.errors()}))
        return Failure("LIMITS_INVALID", f"the limits are wrong at {where}")
    return None


def _check_client_tools(
    workspace: CompiledWorkspace, agent: CompiledAgent, wanted: Sequence[Mapping[str, Any]]
) -> Failure | None:
    if not wanted:
        return None
    if not agent.spec.client_tools:
        return Failure("CLIENT_TOOLS_REFUSED", f"the agent {agent.name!r} takes no tools of the client")
    if len(wanted) > MAX_CLIENT_TOOLS:
        return Failure("CLIENT_TOOLS_REFUSED", f"a client may give at most {MAX_CLIENT_TOOLS} tools")
    taken = {*workspace.tools, *agent.subagents}
    for tool in wanted:
        name = tool.get("name")
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or name in taken:
            return Failure("CLIENT_TOOLS_REFUSED", "a tool's name is malformed or taken")
        schema: Any = tool.get("input")
        refused = check_schema(schema)
        if refused is not None and refused.code == "SCHEMA_TOO_COMPLEX":
            return Failure(refused.code, f"the input schema of the tool {name!r}: {refused.message}")
        if refused is not None or schema.get("type") != "object":
            return Failure("CLIENT_TOOLS_REFUSED", f"the input schema of the tool {name!r} is not valid")
        taken.add(name)
    return None


def _births(wanted: Submission, known: Thread | Tombstone | None) -> tuple[bool, ...]:
    """Whether the thread is to be created; a second answer is tried when somebody else just did."""
    if wanted.thread_id is None:
        return (True,)
    return (True, False) if wanted.create_thread and known is None else (False,)


def _policy_of(known: Thread | Tombstone | None) -> ApprovalPolicy | None:
    """Through whichever door a run comes onto a thread, what the thread asks for holds."""
    return approval_policy(known.metadata) if isinstance(known, Thread) else None


def _policy(workspace: CompiledWorkspace, name: str | None) -> Busy:
    agent = workspace.agents.get(name or workspace.default_agent or "")
    return (agent.spec.busy_policy if agent else None) or workspace.runtime.busy_policy


def _queued(
    workspace: CompiledWorkspace, wanted: Submission, agent: str | None, busy: Busy, approvals: ApprovalPolicy | None,
    code: str,
) -> request.RequestQueued:  # fmt: skip
    return request.RequestQueued.written(present({
        "agent": agent, "tool": wanted.tool, "input": wanted.input, "metadata": dict(wanted.metadata),
        "labels": dict(wanted.labels), "busy": busy, "workspaceDigest": workspace.digest,
        "code": code,
        "limits": dict(wanted.limits) if wanted.limits else None,
        "modelPlan": {"model": wanted.model_plan} if wanted.model_plan else None, "instructions": wanted.instructions,
        "clientTools": [dict(tool) for tool in wanted.client_tools] or None,
        "responseSchema": dict(wanted.response_schema) if wanted.response_schema else None,
        "parameters": _parameters(workspace, agent, wanted.parameters) if wanted.parameters else None,
        "toolChoice": None if wanted.tool_choice is None else _choice(wanted.tool_choice),
        "traceContext": dict(wanted.trace_context) if wanted.trace_context else None, "rerunOf": wanted.rerun_of,
        "replay": dict(wanted.replay) if wanted.replay else None, "approvalPolicy": approvals,
    }))  # fmt: skip


def _born(wanted: Submission) -> thread.ThreadCreated:
    told: dict[str, Any] = {"metadata": {}, "labels": {}, "owner": "user"}
    if wanted.history:
        told["history"] = [dict(message) for message in wanted.history]
    return thread.ThreadCreated.written(told, sure=not wanted.history)


def _parameters(workspace: CompiledWorkspace, agent: str | None, given: Mapping[str, Any]) -> dict[str, Any] | None:
    known = workspace.agents.get(agent or "")
    return dict(given) if known is not None and known.spec.client_parameters else None


def _choice(given: str | Mapping[str, str]) -> str | dict[str, str]:
    return given if isinstance(given, str) else dict(given)


def _cancel_command(*, rollback: bool = False) -> execution.CommandInjected:
    arguments = {"rollback": True} if rollback else {}
    return execution.CommandInjected(command="cancel", command_id=new_id("step"), arguments=arguments)
