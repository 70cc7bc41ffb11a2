"""Conducts a claimed run: brings together what it needs, calls its backend, says how it ended.

Leaves to others: who may run it and when (the executor), what a backend may do (the context).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from app.backends.contract import Backend, Output, Result, StepFailed
from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog import Payload, artifact, request, skill
from app.events.catalog.values import ArtifactValue, ErrorValue
from app.events.envelope import Event
from app.events.ports import StoreError
from app.events.recorder import Recorder, Scope
from app.models.router import ModelRouter, error_value
from app.runtime.budgets import Budgets
from app.runtime.context import BlobPorts, Cancellation, RunContext, RunParts, Superseded, expect
from app.runtime.kits import Kits
from app.runtime.memo import Memo
from app.runtime.ports import BlobStore
from app.runtime.workspaces import WorkspaceHistory
from app.views.history import history
from app.views.ports import Reader
from app.views.run import Run
from app.workspace.compiled import CompiledAgent, CompiledSkill, CompiledWorkspace

_PAGE: Final = 1000
_MAX_HISTORY_EVENTS: Final = 20_000
"""Of a very long thread only the newest events are read for a model; its window would not hold more."""

log = structlog.get_logger("holdfast.conductor")


class Conductor:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        clock: Clock,
        backends: Mapping[str, Backend],
        workspaces: WorkspaceHistory,
        kits: Kits,
        router: ModelRouter,
        blobs: BlobStore,
        budgets: Budgets,
    ) -> None:
        self._budgets = budgets
        self._recorder, self._reader, self._clock = recorder, reader, clock
        self._backends, self._workspaces, self._kits = backends, workspaces, kits
        self._router, self._blobs = router, blobs

    async def run(self, run: Run, scope: Scope, cancelled: Cancellation) -> list[Payload]:
        """The run's last events: what it made, and how it ended. `Suspended` passes through."""
        if run.cancel_requested_at is not None or cancelled.is_set():
            return [request.RequestCancelled(by=scope.actor)]
        workspace = await self._workspaces.of(run.workspace_digest)
        if workspace is None:
            return [_failed(Failure("WORKSPACE_GONE", "the workspace of this run cannot be compiled any more"))]
        agent = workspace.agents.get(run.agent or "")
        backend = self._backends.get(agent.spec.backend) if agent is not None else None
        if agent is None or backend is None:
            return [_failed(Failure("BACKEND_NOT_AVAILABLE", f"nothing here runs the agent {run.agent!r}"))]
        scope = replace(scope, actor=f"backend:{backend.kind}")
        return await self._with_backend(run, scope, workspace, agent, backend, cancelled)

    async def _with_backend(
        self, run: Run, scope: Scope, workspace: CompiledWorkspace, agent: CompiledAgent, backend: Backend,
        cancelled: Cancellation,
    ) -> list[Payload]:  # fmt: skip
        events = await self._events(scope.tenant, run)
        mine = [event for event in events if event.run_id == run.id]
        if run.epoch > 0 and backend.resume == "fail":
            return [_failed(Failure("BACKEND_CANNOT_RESUME", f"the backend {backend.kind!r} cannot go on"))]
        kit = await self._kits.of(workspace)
        if isinstance(kit, Failure):
            return [_failed(kit)]
        chosen = await self._choose_skill(run, scope, workspace, agent, mine)
        memo = Memo.of(mine) if backend.resume == "replay" else Memo()
        before = history(event for event in events if event.seq < run.first_seq)
        limits, daily = (workspace.runtime.budgets.run, agent.spec.limits), workspace.runtime.budgets.tenant
        budget = await self._budgets.of(scope.tenant, run, len(memo.answers), limits, daily)
        parts = RunParts(run, agent, chosen, kit, memo, before, scope, cancelled, budget)
        blobs = BlobPorts(partial(self._put_blob, scope), partial(self._load_blob, scope))
        context = RunContext(parts, self._recorder, self._router, blobs, self._clock)
        try:
            result = await backend.run(context)
        except (Superseded, StoreError):
            raise
        except StepFailed as failed:
            return [*_closing(chosen, ok=False), _failed(failed.failure)]
        except Exception as error:
            log.exception("run.backend_failed", run=run.id)
            failure = Failure("BACKEND_FAILED", f"the backend raised {type(error).__name__}")
            return [*_closing(chosen, ok=False), _failed(failure)]
        return [*_closing(chosen, ok=True), *_completed(result)]

    async def _events(self, tenant: str, run: Run) -> list[Event]:
        """The thread's events as far as a conversation and a resume need them."""
        events: list[Event] = []
        after = max(0, run.last_seq - _MAX_HISTORY_EVENTS)
        while page := await self._reader.events(tenant, run.thread_id, after, _PAGE):
            events += page
            after = page[-1].seq
        return events

    async def _choose_skill(
        self, run: Run, scope: Scope, workspace: CompiledWorkspace, agent: CompiledAgent, mine: list[Event]
    ) -> CompiledSkill | None:
        """By literal triggers only, never by guessing; the choice is recorded once and kept on resume."""
        for event in mine:
            if event.type == skill.SkillInvoked.type:
                return workspace.skills.get(event.payload["skill"])
        text = run.input if isinstance(run.input, str) else json.dumps(run.input).decode()
        hit = workspace.triggers.best(text, agent.skills)
        if hit is None:
            return None
        chosen = workspace.skills[hit.skill]
        invoked = skill.SkillInvoked(skill=hit.skill, trigger=hit.trigger, allowed_tools=list(chosen.allowed_tools))
        expect(await self._recorder.record(scope, invoked))
        return chosen

    async def _put_blob(self, scope: Scope, data: bytes, mime: str) -> JsonObject:
        return await self._blobs.put(scope.tenant, scope.thread_id, data, mime)

    async def _load_blob(self, scope: Scope, reference: Mapping[str, Any]) -> bytes | None:
        found = await self._reader.blob(scope.tenant, scope.thread_id, str(reference["sha256"]))
        return None if found is None else found[1]


def _closing(chosen: CompiledSkill | None, *, ok: bool) -> list[Payload]:
    return [] if chosen is None else [skill.SkillCompleted(skill=chosen.name, ok=ok)]


def _completed(result: Result) -> list[Payload]:
    output = Output(result) if isinstance(result, str) else result
    made: list[Payload] = [
        artifact.ArtifactCreated(artifact=ArtifactValue.model_validate(value)) for value in output.artifacts
    ]
    metadata = dict(output.metadata) or None
    return [*made, request.RequestCompleted(output=output.text, message_id=output.message_id, metadata=metadata)]


def _failed(failure: Failure) -> request.RequestFailed:
    error: ErrorValue = error_value(failure)
    return request.RequestFailed(error=error)
