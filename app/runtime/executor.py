"""Claims runs and conducts them: one task per run, bounded in number, each under a lease.

Every append of a run carries its epoch, so an executor that lost its lease appends nothing. Leaves to others: what
an agent does (its backend) and what a client sees (the log).
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from app.backends.contract import Backend, Output
from app.core.ids import new_id
from app.events import ports
from app.events.catalog import Payload, adapter, artifact, request
from app.events.catalog.values import ArtifactValue, ErrorValue
from app.events.ports import Appended, Fence, Refused, StoreError
from app.events.recorder import Recorder, Scope
from app.runtime.ports import Backlog, Leases
from app.runtime.workspaces import WorkspaceHistory
from app.views.ports import Reader
from app.views.run import Run

LEASE_SECONDS: Final = 15.0
RENEW_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 2.0
"""How often runs are looked for whose owner is gone or whose news got lost."""
SWEEP_LIMIT: Final = 200

log = structlog.get_logger("holdfast.executor")


class Superseded(Exception):
    """The log refused an append: the run ended or has a new owner. There is nothing left to do here."""


@dataclass(slots=True)
class _Held:
    tenant: str
    run_id: str
    epoch: int
    task: "asyncio.Task[None]"
    cancelled: bool = False
    asked: int = 0
    """The epoch it asked for: set before the claim is answered, because the answer may get lost."""


class RunContext:
    """The `Context` of one run: everything a backend may do, each of it an event."""

    def __init__(self, run: Run, recorder: Recorder, scope: Scope) -> None:
        self._run = run
        self._recorder = recorder
        self._scope = scope
        self.run_id = run.id
        self.thread_id = run.thread_id
        self.agent = run.agent or ""
        self.input: Any = run.input

    async def emit(self, phase: str, **fields: Any) -> None:
        signal = adapter.Signal(adapter=self._scope.actor.removeprefix("backend:"), phase=phase, **fields)
        _expect(await self._recorder.record(self._scope, adapter.AdapterEvent(event=signal)))

    async def say(self, message_id: str, text: str, part: int = 0) -> None:
        _expect(await self._recorder.record_delta(self._scope, adapter.OUTPUT_DELTA, message_id, part, text))


def _expect(answer: ports.Answer) -> None:
    if isinstance(answer, Refused):
        raise Superseded(answer.failure.code)


class Executor:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        backlog: Backlog,
        leases: Leases,
        backends: Mapping[str, Backend],
        workspaces: WorkspaceHistory,
        max_concurrent: int,
    ) -> None:
        self._recorder, self._reader, self._backlog, self._leases = recorder, reader, backlog, leases
        self._backends, self._workspaces = backends, workspaces
        self._slots = asyncio.Semaphore(max_concurrent)
        self._owner = new_id("key").replace("key_", "executor_")
        self._held: dict[tuple[str, str], _Held] = {}
        self._cut_off: dict[tuple[str, str], int] = {}
        """Runs that the store cut off, with the epoch of a lease that may still be ours."""
        self._wanted: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue(maxsize=10_000)
        self._sweep_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.draining = False

    def start(self) -> None:
        self._sweep_now.set()
        for work in (self._claim_forever(), self._sweep_forever(), self._renew_forever()):
            self._tasks.append(asyncio.create_task(work))

    def wake(self, tenant: str, thread_id: str, run_id: str) -> None:
        """A run may be claimable. A full queue loses nothing: the sweep finds the run."""
        with contextlib.suppress(asyncio.QueueFull):
            self._wanted.put_nowait((tenant, thread_id, run_id))

    def stop(self, tenant: str, run_id: str) -> None:
        """A cancel was committed: end the run's task. Its last event is written by the task itself."""
        held = self._held.get((tenant, run_id))
        if held is not None:
            held.cancelled = True
            held.task.cancel()

    async def drain(self, seconds: float) -> None:
        """No new claims; running runs finish, or are given back for another executor."""
        self.draining = True
        for task in self._tasks:
            task.cancel()
        running = [held.task for held in self._held.values()]
        if running:
            await asyncio.wait(running, timeout=seconds)
        for held in list(self._held.values()):
            held.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await held.task
            with contextlib.suppress(StoreError):
                await self._leases.release(held.tenant, held.run_id, self._owner, held.epoch)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def running(self) -> int:
        return len(self._held)

    # -- claiming ------------------------------------------------------------------------------------

    async def _claim_forever(self) -> None:
        while True:
            tenant, thread_id, run_id = await self._wanted.get()
            if (tenant, run_id) in self._held:
                continue
            await self._slots.acquire()
            task = asyncio.create_task(self._conduct(tenant, thread_id, run_id), name=f"run {run_id}")
            self._held[tenant, run_id] = _Held(tenant, run_id, 0, task)

    async def _sweep_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sweep_now.wait(), SWEEP_SECONDS)
            self._sweep_now.clear()
            try:
                await self._give_back()
                found = await self._backlog.runs_without_an_owner(SWEEP_LIMIT)
            except StoreError:
                continue
            for tenant, run_id, thread_id, _ in found:
                self.wake(tenant, thread_id, run_id)

    async def _give_back(self) -> None:
        """Leases of runs that the store cut off: nobody works on those, so nobody should wait for the leases to end."""
        while self._cut_off:
            (tenant, run_id), epoch = next(iter(self._cut_off.items()))
            await self._leases.release(tenant, run_id, self._owner, epoch)
            self._cut_off.pop((tenant, run_id), None)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            held = [(h.tenant, h.run_id, h.epoch) for h in self._held.values() if h.epoch]
            try:
                kept = await self._leases.renew(held, LEASE_SECONDS)
            except StoreError:
                continue
            for tenant, run_id, _ in held:
                lost = self._held.get((tenant, run_id)) if (tenant, run_id) not in kept else None
                if lost is not None:
                    lost.task.cancel()

    # -- conducting ----------------------------------------------------------------------------------

    async def _conduct(self, tenant: str, thread_id: str, run_id: str) -> None:
        try:
            await self._claim_and_run(tenant, thread_id, run_id)
        except StoreError:
            # Looking for work at once would spin for as long as the store refuses; the regular sweep is soon enough.
            self._cut_off[tenant, run_id] = self._held[tenant, run_id].asked
        except (Superseded, asyncio.CancelledError):
            self._sweep_now.set()  # the log says how it stands; the sweep takes the run up again if it has not ended
        except Exception:
            log.exception("run.conduct_failed", run=run_id)
        else:
            self._sweep_now.set()
        finally:
            self._held.pop((tenant, run_id), None)
            self._slots.release()

    async def _claim_and_run(self, tenant: str, thread_id: str, run_id: str) -> None:
        run = await self._reader.run(tenant, run_id)
        if run is None or run.terminal or run.status == "waiting":
            return
        held = self._held[tenant, run_id]
        held.asked = run.epoch + 1
        scope = await self._claim(tenant, run)
        if scope is None:
            return
        assert scope.fence is not None
        held.epoch = scope.fence.epoch
        try:
            ending = await self._run_backend(run, scope)
        except asyncio.CancelledError:
            if not held.cancelled:
                raise
            ending = [request.RequestCancelled(by=scope.actor)]
        _expect(await self._recorder.record(scope, *ending))

    async def _claim(self, tenant: str, run: Run) -> Scope | None:
        """The lease, its epoch and the event that tells of it are one commit."""
        epoch = run.epoch + 1
        lease = ports.ClaimRun(run.id, self._owner, epoch, LEASE_SECONDS)
        claimed: Payload = (
            request.RequestStarted(executor=self._owner, epoch=epoch)
            if run.started_at is None
            else request.RequestResumed(executor=self._owner, epoch=epoch, reason="recovery")
        )
        scope = Scope(tenant, run.thread_id, run.id, actor="system")
        answer = await self._recorder.record(scope, claimed, conditions=[lease])
        if not isinstance(answer, Appended):
            return None
        return Scope(tenant, run.thread_id, run.id, "system", Fence(run.id, epoch))

    async def _run_backend(self, run: Run, scope: Scope) -> list[Payload]:
        """The run's last events: what it made, and how it ended."""
        if run.cancel_requested_at is not None:
            return [request.RequestCancelled(by=scope.actor)]
        workspace = await self._workspaces.of(run.workspace_digest)
        if workspace is None:
            return [_failed("WORKSPACE_GONE", "the workspace of this run cannot be compiled any more")]
        agent = workspace.agents.get(run.agent or "")
        backend = self._backends.get(agent.spec.backend) if agent is not None else None
        if backend is None:
            return [_failed("BACKEND_NOT_AVAILABLE", f"nothing here runs the agent {run.agent!r}")]
        scope = replace(scope, actor=f"backend:{backend.kind}")
        try:
            result = await backend.run(RunContext(run, self._recorder, scope))
        except (Superseded, StoreError):
            raise
        except Exception as error:
            log.exception("run.backend_failed", run=run.id)
            return [_failed("BACKEND_FAILED", f"the backend raised {type(error).__name__}")]
        output = Output(result) if isinstance(result, str) else result
        made: list[Payload] = [
            artifact.ArtifactCreated(artifact=ArtifactValue.model_validate(value)) for value in output.artifacts
        ]
        metadata = dict(output.metadata) or None
        return [
            *made,
            request.RequestCompleted(output=output.text, message_id=output.message_id, metadata=metadata),
        ]


def _failed(code: str, message: str) -> request.RequestFailed:
    return request.RequestFailed(error=ErrorValue(code=code, message=message))
