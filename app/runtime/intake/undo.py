"""Undoing a run: a plan on request, and a run of its own on the same thread that carries a plan out.

A plan is accepted only as it was shown: its hash must still be the hash of what would be planned now. Of several undos
at once one is accepted, by a condition of the append. Leaves to others: what a plan holds (`undo_plan`), carrying it
out (`run/undo_run`).
"""

from collections.abc import Mapping
from typing import Final, Literal

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.value import value
from app.events import ports
from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog.artifact import UndoAction, UndoPlanned, UndoSkipped
from app.events.catalog.tool import ToolInvoked
from app.runtime.intake.ports import RunClient
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.service import KEY_LIFETIME_MS
from app.runtime.intake.submission import Submission
from app.runtime.intake.undo_plan import PlannedAction, Planner, UndoPlan, checkpoint_of_hash
from app.runtime.run.inlined import inline
from app.runtime.run.toolsets import Toolsets
from app.runtime.workspaces import WorkspaceHistory
from app.tools.stages import argument_hash
from app.views.effects import EFFECT_TYPES, Checkpoint, EarlierUndos, RunEffects
from app.views.ports import Reader
from app.views.run import Run
from app.workspace.compiled import CompiledWorkspace

OnFailure = Literal["stop", "continue"]

_PAGE: Final = 200
MAX_ACTIONS: Final = 1000
"""Calls that one undo takes back; a plan is one event."""


@value(frozen=True, slots=True)
class UndoRequest:
    plan_hash: str
    on_failure: OnFailure = "stop"
    idempotency_key: str | None = None
    body_hash: str = ""
    trace_context: Mapping[str, str] | None = None


@value(frozen=True, slots=True)
class _Earlier:
    undos: EarlierUndos
    count: int
    active: str | None
    """The undo that has not ended yet."""


class Undo:
    def __init__(
        self, client: RunClient, reader: Reader, workspaces: WorkspaceHistory, toolsets: Toolsets, clock: Clock
    ) -> None:
        self._client, self._reader, self._workspaces = client, reader, workspaces
        self._toolsets, self._clock = toolsets, clock

    async def plan(self, who: Principal, run_id: str, to_checkpoint: str | None = None) -> UndoPlan | Rejected:
        """What an undo of the run would do now. Has no effect."""
        run = await self._undoable(who, run_id)
        if isinstance(run, Rejected):
            return run
        effects = await self._effects(who.tenant, run)
        place: Checkpoint | None = None
        if to_checkpoint is not None:
            place = _checkpoint(effects, to_checkpoint)
            if place is None:
                return Rejected(Failure("CHECKPOINT_NOT_FOUND", "The run has no checkpoint of this name."))
        planned = await self._plan(who.tenant, run, effects, place)
        return planned if isinstance(planned, Rejected) else planned[0]

    async def undo(self, who: Principal, run_id: str, request: UndoRequest) -> Run | Rejected:
        run = await self._undoable(who, run_id)
        if isinstance(run, Rejected):
            return run
        seq, effects = checkpoint_of_hash(request.plan_hash), await self._effects(who.tenant, run)
        place = next((one for one in effects.checkpoints if one.seq == seq), None)
        if seq is None or (seq and place is None):
            return Rejected(Failure("INVALID_REQUEST", "PlanHash is not the hash of a plan of this run."))
        planned = await self._plan(who.tenant, run, effects, place)
        if isinstance(planned, Rejected):
            return planned
        plan, workspace, active = planned
        conflict: Rejected | None = None
        if active is not None:
            conflict = Rejected(Failure("UNDO_CONFLICT", "Another undo of the run has not ended yet."), active)
        elif plan.hash != request.plan_hash:
            conflict = Rejected(Failure("UNDO_CONFLICT", "The plan is no longer what an undo would do; plan again."))
        if conflict is not None and request.idempotency_key is None:
            return conflict
        # With a key it may be a request that was accepted before: it gets its run back, and every other one nothing.
        submission = self._submission(run, plan, workspace, request, accept=conflict is None)
        answer = await self._client.submit(who, submission)
        if conflict is not None and isinstance(answer, Rejected) and answer.failure.code == "RUN_TERMINAL":
            return conflict
        return await self._translated(who, run, answer)

    async def _translated(self, who: Principal, run: Run, answer: Run | Rejected) -> Run | Rejected:
        """A used key of another undo is a conflict."""
        if isinstance(answer, Rejected) and answer.failure.code == "IDEMPOTENCY_KEY_REUSED" and answer.winner:
            winner = await self._reader.run(who.tenant, answer.winner)
            if winner is not None and winner.undo_of == run.id:
                return Rejected(Failure("UNDO_CONFLICT", "Another undo of the run was accepted first."), winner.id)
        return answer

    # -- planning ----------------------------------------------------------------------------------------

    async def _undoable(self, who: Principal, run_id: str) -> Run | Rejected:
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "There is no such run."))
        if run.parent_run_id is not None:
            return Rejected(Failure("RUN_IS_A_SUBAGENT", "Undo the root run."), run.parent_run_id)
        if run.undo_of is not None:
            return Rejected(Failure("RUN_IS_AN_UNDO", "The run is an undo itself; rerun what it undid instead."))
        if not run.terminal:
            return Rejected(Failure("UNDO_RUN_ACTIVE", "The run has not ended; cancel it or wait for its end."))
        return run

    async def _effects(self, tenant: str, run: Run) -> RunEffects:
        load, effects = stored_blobs(self._reader, tenant, run.thread_id), RunEffects(run.id)
        after, full = run.first_seq - 1, True
        while full:
            page = await self._reader.events_of(tenant, run.thread_id, EFFECT_TYPES, after, run.last_seq, _PAGE)
            for event in page:
                whole = await with_blobs(event, load) if event.type == ToolInvoked.type else await inline(event, load)
                effects.apply(whole)
            after, full = page[-1].seq if page else after, len(page) == _PAGE
        return effects

    async def _plan(
        self, tenant: str, run: Run, effects: RunEffects, place: Checkpoint | None
    ) -> tuple[UndoPlan, CompiledWorkspace, str | None] | Rejected:
        workspace = await self._workspaces.for_new_run()
        toolset = await self._toolsets.of(workspace)
        if isinstance(toolset, Failure):
            return Rejected(toolset)
        earlier = await self._earlier(tenant, run)
        calls = effects.newest_first(place.seq if place is not None else 0)
        load = stored_blobs(self._reader, tenant, run.thread_id)
        actions = await Planner(toolset.gateway.registry, earlier.undos, tenant, load, {}).plan(calls)
        plan = UndoPlan(run.id, place, actions, earlier.count)
        if len(plan.of("planned", "impossible")) > MAX_ACTIONS:
            message = f"The run made {len(actions)} calls; at most {MAX_ACTIONS} can be undone at once."
            return Rejected(Failure("UNDO_TOO_LARGE", message))
        return plan, workspace, earlier.active

    async def _earlier(self, tenant: str, run: Run) -> _Earlier:
        found, active, count = EarlierUndos(), None, 0
        for undo in await self._undos_of(tenant, run):
            count += 1
            if not undo.terminal:
                active = undo.id
                continue
            load, after = stored_blobs(self._reader, tenant, run.thread_id), 0
            events = []
            while page := await self._reader.run_events(tenant, undo.id, after, _PAGE):
                events += [await inline(event, load) for event in page]
                after = page[-1].seq
            found.add(events)
        return _Earlier(found, count, active)

    async def _undos_of(self, tenant: str, run: Run) -> list[Run]:
        """Oldest first."""
        found: list[Run] = []
        before: str | None = None
        while page := await self._reader.runs(tenant, thread_id=run.thread_id, status=None, before=before, limit=_PAGE):
            found += [one for one in page if one.undo_of == run.id]
            before = page[-1].id
            if len(page) < _PAGE or any(one.id == run.id for one in page):
                break
        return found[::-1]

    # -- submitting --------------------------------------------------------------------------------------

    def _submission(
        self, run: Run, plan: UndoPlan, workspace: CompiledWorkspace, request: UndoRequest, *, accept: bool
    ) -> Submission:
        planned = _event(run, plan, request.on_failure)

        def key(run_id: str) -> ports.Condition:
            if not accept:
                return ports.RunNotTerminal(run.id)  # which it is
            # Whatever the plan, the next undo of the run is one: who comes second has planned without it.
            expires_at = self._clock.now_ms() + KEY_LIFETIME_MS
            return ports.KeyUnused("undo", f"{run.id}/{plan.generation}", run_id, run_id, expires_at)

        return Submission(
            None,
            {"planHash": plan.hash, "onFailure": request.on_failure},
            thread_id=run.thread_id,
            undo_of=run.id,
            busy="enqueue",
            workspace=workspace,
            also=[lambda undo_id: planned.model_copy(update={"undo_id": undo_id})],
            conditions=[key],
            idempotency_key=request.idempotency_key,
            body_hash=request.body_hash,
            trace_context=request.trace_context,
        )


def _event(run: Run, plan: UndoPlan, on_failure: OnFailure) -> UndoPlanned:
    return UndoPlanned(
        undo_id="",
        undo_of=run.id,
        plan_hash=plan.hash,
        on_failure=on_failure,
        actions=[_action(action) for action in plan.of("planned")],
        skipped=[_skipped(action) for action in plan.of("impossible")],
        agent=run.agent,
        from_seq=None if plan.from_checkpoint is None else plan.from_checkpoint.seq,
    )


def _action(action: PlannedAction) -> UndoAction:
    call, undo = action.call, action.undo
    assert undo is not None, "a planned action has its call"
    return UndoAction(
        call_id=call.call_id,
        of_run_id=call.run_id,
        tool=call.tool,
        compensation=undo.tool,
        arguments=undo.arguments,
        argument_hash=argument_hash(undo.arguments),
    )


def _skipped(action: PlannedAction) -> UndoSkipped:
    call, reason = action.call, action.reason
    assert reason is not None, "an action that is impossible says why"
    return UndoSkipped(
        call_id=call.call_id, of_run_id=call.run_id, tool=call.tool, code=reason.code, message=reason.message
    )


def _checkpoint(effects: RunEffects, name: str) -> Checkpoint | None:
    """The newest of this label, or the one at this `seq`."""
    for one in reversed(effects.checkpoints):
        if name in (one.label, str(one.seq)):
            return one
    return None
