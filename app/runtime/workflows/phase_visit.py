"""One visit of a phase: permissions, fan-out, fan-in, policies, signals, and where the cycle goes from there.

    role-permissions     who may be asked; a denial aborts
    fan-out, fan-in      all agents at once; an answer that breaks its schema is sent back once, then aborts
    halt_signal          true aborts
    policies, in order   confidence-gating, severity-routing and mode-dispatch; a denial keeps the phase from advancing
    advance_signal       true goes on, false stays
    PhaseAdvance hook    a denial aborts; a transform names another phase of the cycle
    exit_conditions      abort, then done
    loop_bounds          whoever goes back begins a generation; a breach halts, and so does a loop-halt policy

Whatever cannot be evaluated aborts (fail closed). Every decision is recorded before anything follows from it.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.backends.contract import AgentAnswer, StepFailed
from app.backends.workflow_contract import Waiting
from app.core.decisions import Deny
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry
from app.core.suspend import Suspended
from app.events.catalog.policy import SchemaViolated
from app.events.catalog.values import IssueValue
from app.events.catalog.workflow import WorkflowPhaseAdvanced, WorkflowPolicyGated
from app.policy.contract import Point
from app.runtime.workflows.cycle_artifacts import make_artifact, template_schema
from app.runtime.workflows.cycle_ports import AgentTask, CycleRun
from app.runtime.workflows.cycle_state import CycleState, PhaseResult
from app.runtime.workflows.cycle_values import holds, lacks
from app.runtime.workflows.loop_bounds import LoopCheck, check_loop, state_hash
from app.runtime.workflows.persona_answers import Malformed, answer_schema, delivered, request, reviewed
from app.runtime.workflows.policy_rulings import (
    Permission,
    PolicyVerdict,
    gate_findings,
    permit,
    routed_for,
    rule,
    strictest,
)
from app.runtime.workflows.review_aggregate import ReviewReport, aggregate
from app.workspace.compiled_cycles import CompiledPhase, CompiledPolicy, PolicyKind, WorkflowUnits

MAX_PARALLEL: Final = 8
"""Agents of one phase at work at once."""
_ATTEMPTS: Final = 2
"""An answer that breaks its schema is sent back once."""


class PhaseVisit:
    def __init__(self, run: CycleRun, units: WorkflowUnits, state: CycleState, schemas: SchemaRegistry) -> None:
        self._run, self._units, self._state, self._schemas = run, units, state, schemas
        self._phase: CompiledPhase = units.phases[state.phase]
        self._visit = state.visits.get(state.phase, 0) + 1
        self._key = f"{state.phase}.{self._visit}"
        self._report = False
        self._decided: dict[str, str] = {}
        self._held: str | None = None
        """Why the phase may not advance, as a policy has it."""

    async def run(self) -> PhaseResult:
        state, phase = self._state, self._phase
        self._check_input()
        output, answers, found = await self._fan()
        state.gave(phase.id, output, answers, found)
        if self._signal("halt_signal", phase.halt):
            raise StepFailed(Failure("CYCLE_ABORTED", f"The halt signal of the phase {phase.id!r} is true."))
        await self._gate()
        advances = self._signal("advance_signal", phase.advance) and self._held is None
        if self._condition("abort"):
            raise StepFailed(Failure("CYCLE_ABORTED", f"The abort condition of the cycle {state.cycle.id!r} is true."))
        artifact = None
        if advances and phase.artifact is not None:
            made = await make_artifact(self._run, self._units.artifacts[phase.artifact], state)
            artifact = {"id": made.id, "name": made.name, "template": phase.artifact}
        return await self._go_on(advances, artifact)

    # -- fan-out and fan-in ----------------------------------------------------------------------------

    def _check_input(self) -> None:
        schema = self._phase.input_schema
        if schema is None:
            return
        issues = self._schemas.validator(schema).issues(self._state.previous)
        if issues:
            where = f"{issues[0].path or '/'}: {issues[0].message}"
            message = f"The input of the phase {self._phase.id!r} breaks {schema}: {where}"
            raise StepFailed(Failure("SCHEMA_VIOLATION", message))

    async def _fan(self) -> tuple[Any, JsonObject, JsonObject | None]:
        """The output of the phase, every answer by who gave it, and what the reviewers found together."""
        allowed = [one for one in await self._permissions() if one.dispatched]
        gate = asyncio.Semaphore(MAX_PARALLEL)

        async def ask(permission: Permission) -> Any:
            async with gate:
                return await self._ask(permission)

        tasks = [asyncio.create_task(ask(one), name=f"phase {self._key} {one.agent.id}") for one in allowed]
        answers = await _all(tasks)
        given = {one.agent.id: answer for one, answer in zip(allowed, answers, strict=True)}
        reports = [answer for answer in answers if isinstance(answer, ReviewReport)]
        found = aggregate(reports, [one.agent.id for one in allowed if one.agent.reviews]) if reports else None
        shown = {name: _shown(answer) for name, answer in given.items()}
        made = [answer for answer in answers if not isinstance(answer, ReviewReport)]
        if not made:
            return found, shown, found
        if len(made) == 1:
            return made[0], shown, found
        named = {name: one for name, one in given.items() if not isinstance(one, ReviewReport)}
        return named, shown, found

    async def _permissions(self) -> list[Permission]:
        policies = list(self._policies("role-permissions"))
        decided = permit(policies, self._state.values(), self._phase.invoked)
        if isinstance(decided, Failure):
            raise StepFailed(decided)
        verdicts, permissions = decided
        for verdict in verdicts:
            await self._gated(verdict)
            if verdict.decision == "deny":
                raise StepFailed(_denied(verdict))
        if permissions and not any(one.dispatched for one in permissions):
            message = f"No agent of the phase {self._phase.id!r} may be asked."
            raise StepFailed(Failure("POLICY_DENIED", message))
        return permissions

    async def _ask(self, permission: Permission) -> Any:
        agent, state, complaint = permission.agent, self._state, None
        template = template_schema(self._units, self._phase)
        for attempt in range(1, _ATTEMPTS + 1):
            about = {
                "cycle": state.cycle.id,
                "phase": self._phase.id,
                "mode": state.mode,
                "generation": state.generation,
                "input": state.input,
                "previous": state.previous,
                "review_aggregate": state.aggregate,
            }
            task = AgentTask(
                key=f"{self._key}.{agent.id}.{attempt}",
                agent=agent.agent,
                input=request(agent, self._phase, about, answer_schema(agent, self._phase, self._schemas), complaint),
                instructions=agent.instructions,
                tools=agent.tools,
                paths=permission.paths,
                metadata={"cycle": state.cycle.id, "phase": self._phase.id, agent.kind: agent.id},
            )
            answer = await self._run.perform(task)
            if not answer.ok:
                raise StepFailed(_failed(agent.id, answer))
            if agent.reviews:
                value = reviewed(agent, answer.text, self._schemas)
            else:
                value = delivered(agent, self._phase, template, answer.text, self._schemas)
            if not isinstance(value, Malformed):
                return value
            complaint = value.complaint
            issues = [IssueValue(path=issue.path, message=issue.message) for issue in value.issues]
            await self._run.record(
                SchemaViolated(
                    schema_name=value.schema,
                    boundary=f"phase.{self._key}.{agent.id}.{attempt}",
                    code="MALFORMED_AGENT_MESSAGE",
                    issues=issues,
                )
            )
        message = f"{agent.id!r} gave {_ATTEMPTS} times no valid answer in the phase {self._phase.id!r}: {complaint}"
        raise StepFailed(Failure("MALFORMED_AGENT_MESSAGE", message))

    # -- policies --------------------------------------------------------------------------------------

    def _policies(self, *kinds: PolicyKind) -> Iterator[CompiledPolicy]:
        """Those of the phase, then those of the cycle, each once, in the order in which they are listed."""
        for name in dict.fromkeys((*self._phase.policies, *self._state.cycle.policies)):
            policy = self._units.policies[name]
            if policy.kind in kinds:
                yield policy

    async def _gate(self) -> None:
        state = self._state
        for policy in self._policies("confidence-gating", "severity-routing", "mode-dispatch"):
            if policy.kind == "mode-dispatch":
                await self._dispatch_mode(policy)
            elif state.aggregate is not None and self._reviewed_now:
                gated = gate_findings(policy, state.values(), state.aggregate)
                if isinstance(gated, Failure):
                    raise StepFailed(gated)
                verdict, state.contracts["review_aggregate"] = gated
                await self._hold(verdict)
        await self._open_gates()
        if self._reviewed_now and all(agent.reviews for agent in self._phase.invoked):
            state.outputs[self._phase.id] = state.aggregate

    @property
    def _reviewed_now(self) -> bool:
        return any(agent.reviews and agent.id in self._state.answers for agent in self._phase.invoked)

    async def _dispatch_mode(self, policy: CompiledPolicy) -> None:
        ruling = rule(policy, self._state.values())
        if isinstance(ruling, Failure):
            raise StepFailed(ruling)
        if ruling.then == "ask" and self._state.mode != "interactive":
            reason = f"{ruling.reason}: nobody can be asked in the mode {self._state.mode}"
            verdict = PolicyVerdict(policy, "deny", reason)
        else:
            verdict = strictest(policy, [ruling], "")
        await self._gated(verdict)
        if verdict.decision == "deny":
            raise StepFailed(_denied(verdict))
        self._report = self._report or ruling.then == "report"
        if ruling.then == "ask":
            title = f"May the phase {self._phase.id} of the cycle {self._state.cycle.id} advance?"
            show = {"reason": ruling.reason, "output": self._state.outputs.get(self._phase.id)}
            if not await self._run.approve(title, show, f"{self._key}.{policy.id}"):
                self._held = "a person did not let the phase advance"

    async def _open_gates(self) -> None:
        """Findings behind a gate: a person opens it in the mode interactive, in the others it stays shut."""
        state = self._state
        if state.aggregate is None or not self._reviewed_now:
            return
        gated = [finding for finding in state.aggregate["findings"] if finding.get("route") == "gated"]
        approved = None
        if gated and state.mode == "interactive" and not self._report:
            title = f"May {len(gated)} gated findings of the phase {self._phase.id} be applied?"
            approved = await self._run.approve(title, {"findings": gated}, f"{self._key}.gated")
        state.contracts["review_aggregate"] = routed_for(
            state.mode, state.aggregate, report=self._report, approved=approved
        )

    async def _hold(self, verdict: PolicyVerdict) -> None:
        await self._gated(verdict)
        if verdict.decision == "deny" and self._held is None:
            self._held = f"the policy {verdict.policy.id!r} denies: {verdict.reason}"

    async def _gated(self, verdict: PolicyVerdict) -> None:
        self._decided[verdict.policy.id] = verdict.decision
        await self._run.record(
            WorkflowPolicyGated(
                policy_id=verdict.policy.id,
                decision=verdict.decision,
                reason=verdict.reason,
                kind=verdict.policy.kind,
                cycle_id=self._state.cycle.id,
                phase_id=self._phase.id,
                visit=self._visit,
                generation=self._state.generation,
            )
        )

    # -- where to ----------------------------------------------------------------------------------------

    def _signal(self, name: str, expression: Any) -> bool:
        if expression is None:
            return False
        answer = holds(expression, self._state.values(), f"{name} of the phase {self._phase.id!r}")
        if isinstance(answer, Failure):
            raise StepFailed(answer)
        return answer

    def _condition(self, name: str) -> bool:
        expression = getattr(self._state.cycle, name)
        values = self._state.values()
        if expression is None or lacks(expression, values):
            return False
        answer = holds(expression, values, f"exit_conditions.{name} of {self._state.cycle.id!r}")
        if isinstance(answer, Failure):
            raise StepFailed(answer)
        return answer

    async def _go_on(self, advances: bool, artifact: JsonObject | None) -> PhaseResult:
        cycle, phase = self._state.cycle, self._phase.id
        following = cycle.after(phase) if advances else phase
        if advances and following is None and (cycle.done is None or self._condition("done")):
            return self._result(verdict="done", artifact=artifact)
        to = await self._advance(following or cycle.entry)
        if advances and self._condition("done"):
            await self._advanced(to, self._state.generation)
            return self._result(verdict="done", artifact=artifact)
        if cycle.phases.index(to) > cycle.phases.index(phase):
            await self._advanced(to, self._state.generation)
            return self._result(to=to, artifact=artifact)
        return await self._go_back(to, artifact)

    async def _go_back(self, to: str, artifact: JsonObject | None) -> PhaseResult:
        """Another generation, unless a bound or a policy ends the loop."""
        state = self._state
        hashed = state_hash(to, state.outputs, state.aggregate or {})
        check = check_loop(state.cycle.bounds, state.loop, state.generation + 1, hashed, state.values())
        if isinstance(check, Failure):
            raise StepFailed(check)
        halted = await self._halted(check)
        if halted is not None:
            reason = halted if self._held is None else f"{halted}; {self._held}"
            return self._result(verdict="halted", reason=reason, artifact=artifact)
        await self._advanced(to, check.generation)
        return self._result(to=to, check=check, hashed=hashed, artifact=artifact)

    async def _halted(self, check: LoopCheck) -> str | None:
        for policy in self._policies("loop-halt"):
            ruling = rule(policy, {**self._state.values(), **check.values})
            if isinstance(ruling, Failure):
                raise StepFailed(ruling)
            verdict = strictest(policy, [ruling], "")
            await self._gated(verdict)
            if verdict.decision == "deny":
                return f"the policy {policy.id!r} ends the loop: {verdict.reason}"
        return check.breach

    async def _advance(self, to: str) -> str:
        """Where the hooks let the cycle go."""
        cycle = self._state.cycle
        subject: JsonObject = {
            "workflow": cycle.id,
            "cycle": cycle.id,
            "phases": list(cycle.phases),
            "fromPhase": self._phase.id,
            "toPhase": to,
            "generation": self._state.generation,
            "mode": self._state.mode,
            "output": self._state.outputs.get(self._phase.id),
        }
        decision, after = await self._run.fire(Point.PHASE_ADVANCE, subject, self._key)
        if isinstance(decision, Deny):
            raise StepFailed(Failure("GATE_DENIED", f"A PhaseAdvance hook denied: {decision.reason}"))
        return str(after["toPhase"])

    async def _advanced(self, to: str, generation: int) -> None:
        cycle = self._state.cycle.id
        await self._run.record(
            WorkflowPhaseAdvanced(
                workflow_id=cycle, cycle_id=cycle, from_phase=self._phase.id, to_phase=to, generation=generation
            )
        )

    def _result(
        self,
        *,
        to: str | None = None,
        verdict: Any = None,
        reason: str | None = None,
        check: LoopCheck | None = None,
        hashed: str | None = None,
        artifact: JsonObject | None = None,
    ) -> PhaseResult:
        state = self._state
        return PhaseResult(
            phase=self._phase.id,
            output=state.outputs.get(self._phase.id),
            answers=state.answers,
            aggregate=state.aggregate if self._reviewed_now else None,
            to=to,
            goes_back=check is not None,
            verdict=verdict,
            reason=reason,
            state_hash=hashed,
            grade=check.grade if check is not None else None,
            artifact=artifact,
            policies=self._decided,
        )


async def _all(tasks: Sequence["asyncio.Task[Any]"]) -> list[Any]:
    """Every answer. One that waits for a person waits until the others have ended; a failure says more than a pause."""
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    errors = (error for task in tasks if (error := task.exception()) is not None)
    for error in sorted(errors, key=lambda it: isinstance(it, Suspended | Waiting)):
        raise error
    return [task.result() for task in tasks]


def _shown(answer: Any) -> Any:
    if not isinstance(answer, ReviewReport):
        return answer
    return {"findings": list(answer.findings), "verdict": answer.verdict}


def _failed(agent: str, answer: AgentAnswer) -> Failure:
    error = answer.error or {}
    return Failure(
        error.get("code", "SUBAGENT_FAILED"), f"{agent!r} failed: {error.get('message', answer.text)}"[:2000]
    )


def _denied(verdict: PolicyVerdict) -> Failure:
    return Failure("POLICY_DENIED", f"The policy {verdict.policy.id!r} denies: {verdict.reason}")
