"""The runtime's front: accept a run, cancel it. A submission is answered only after its first event is durable.

Leaves to others: executing (the executor), reading (the views and the store's reader), status codes (the protocols).
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.events import ports
from app.events.catalog import Payload, execution, request, thread
from app.events.catalog.interrupt import InterruptExpired
from app.events.ports import Condition, Refused
from app.events.recorder import Recorder, Scope
from app.runtime.workspaces import WorkspaceHistory
from app.views.ports import Reader
from app.views.run import Run
from app.workspace.compiled import CompiledWorkspace

Busy = Literal["enqueue", "reject"]

MAX_QUEUED_PER_THREAD: Final = 100
SYSTEM_THREADS: Final = "sys_"
"""How the ids of the system's own threads begin; nobody else may use them."""
KEY_LIFETIME_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Submission:
    agent: str | None
    """None takes the workspace's default."""
    input: Any
    thread_id: str | None = None
    create_thread: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    busy: Busy = "enqueue"
    idempotency_key: str | None = None
    body_hash: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why not, and what stands in the way."""

    failure: Failure
    winner: str | None = None


class Service:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        clock: Clock,
        workspaces: WorkspaceHistory,
        backends: Container[str],
        wake: Callable[[str, str, str], None],
        stop: Callable[[str, str], None],
    ) -> None:
        self._recorder = recorder
        self._reader = reader
        self._clock = clock
        self._workspaces = workspaces
        self._backends = backends
        self._wake = wake
        self._stop = stop

    async def submit(self, who: Principal, wanted: Submission) -> Run | Rejected:
        workspace = await self._workspaces.for_new_run()
        agent = self._agent(workspace, wanted.agent)
        if isinstance(agent, Rejected):
            return agent
        if wanted.thread_id is not None and wanted.thread_id.startswith(SYSTEM_THREADS):
            return Rejected(Failure("THREAD_RESERVED", "threads of the system take no runs"))
        thread_id, run_id = wanted.thread_id or new_id("thread"), new_id("run")
        scope = Scope(who.tenant, thread_id, run_id, actor=who.actor)
        queued = request.RequestQueued(
            agent=agent, input=wanted.input, metadata=dict(wanted.metadata), labels=dict(wanted.labels),
            busy=wanted.busy,
            workspace_digest=workspace.digest,
        )  # fmt: skip
        for new in await self._births(who, wanted):
            # A thread is born in the commit of its first run, or not at all.
            payloads: list[Payload] = [thread.ThreadCreated(), queued] if new else [queued]
            conditions = self._conditions(wanted, run_id, new)
            answer = await self._recorder.record(scope, *payloads, conditions=conditions)
            if isinstance(answer, ports.Appended):
                self._wake(who.tenant, thread_id, run_id)
                return await self._read_back(who.tenant, run_id)
            if answer.failure.code == "IDEMPOTENCY_KEY_SEEN" and answer.winner is not None:
                return await self._read_back(who.tenant, answer.winner)
            refused = Rejected(answer.failure, answer.winner)
            if not (new and answer.failure.code == "THREAD_EXISTS"):
                break
        return refused

    def _agent(self, workspace: CompiledWorkspace, name: str | None) -> str | Rejected:
        name = name or workspace.default_agent
        if name is None:
            return Rejected(Failure("AGENT_REQUIRED", "no agent was named and there is no default"))
        agent = workspace.agents.get(name)
        if agent is None:
            return Rejected(Failure("AGENT_NOT_FOUND", "the workspace has no such agent"))
        if agent.spec.backend not in self._backends:
            return Rejected(Failure("BACKEND_NOT_AVAILABLE", f"there is no backend {agent.spec.backend!r} here"))
        return name

    async def _births(self, who: Principal, wanted: Submission) -> tuple[bool, ...]:
        """Whether the thread is to be created; a second answer is tried when somebody else just did."""
        if wanted.thread_id is None:
            return (True,)
        if wanted.create_thread and await self._reader.thread(who.tenant, wanted.thread_id) is None:
            return (True, False)
        return (False,)

    def _conditions(self, wanted: Submission, run_id: str, new: bool) -> list[Condition]:
        conditions: list[Condition] = []
        if wanted.idempotency_key is not None:
            expires_at = self._clock.now_ms() + KEY_LIFETIME_MS
            conditions.append(ports.KeyUnused("runs", wanted.idempotency_key, wanted.body_hash, run_id, expires_at))
        if new:
            conditions.append(ports.ThreadIsNew())
        else:
            limit = 1 if wanted.busy == "reject" else MAX_QUEUED_PER_THREAD
            conditions += [ports.ThreadAccepts(), ports.ThreadHasRoom(limit)]
        return conditions

    async def cancel(self, who: Principal, run_id: str, reason: str | None = None) -> Run | Rejected:
        """Idempotent. A run that nobody works on ends in the same commit; a running one is stopped by its owner."""
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "there is no such run"))
        if run.terminal or run.cancel_requested_at is not None:
            return run
        scope = Scope(who.tenant, run.thread_id, run_id, actor=who.actor)
        command = execution.CommandInjected(command="cancel", command_id=new_id("step"))
        ended = request.RequestCancelled(reason=reason, by=who.actor)
        # Nobody needs to answer a run that has ended: its open questions end in the same commit.
        unanswered = [InterruptExpired(interrupt_id=asked) for asked in run.waiting_on]
        answer = await self._recorder.record(
            scope, command, *unanswered, ended, conditions=[ports.RunUnclaimed(run_id)]
        )
        if isinstance(answer, Refused) and answer.failure.code == "LEASE_HELD":
            answer = await self._recorder.record(scope, command, conditions=[ports.RunNotTerminal(run_id)])
            self._stop(who.tenant, run_id)
        if isinstance(answer, Refused) and answer.failure.code != "RUN_TERMINAL":
            return Rejected(answer.failure, answer.winner)
        return await self._read_back(who.tenant, run_id)

    async def _read_back(self, tenant: str, run_id: str) -> Run | Rejected:
        """An accepted run is in the tables; only its thread's deletion takes it out of sight."""
        run = await self._reader.run(tenant, run_id)
        return run or Rejected(Failure("THREAD_DELETED", "the thread was deleted"), run_id)
