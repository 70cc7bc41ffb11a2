"""Spec-driven work: phases that need artifacts, deliver artifacts, and are verified before the next one begins.

A phase whose artifacts are missing is blocked: the run waits, without a worker, until somebody delivers them. Leaves to
`document_work`: running the agent, the skill or the workflow of a phase.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.backends.workflow_contract import FlowValues, Visit, Waiting
from app.core import json
from app.core.artifact import ArtifactRef
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Validator
from app.events.catalog.values import ArtifactValue
from app.events.catalog.workflow import SpecPhaseBlocked, SpecPhaseCompleted, SpecPhaseStarted, SpecPhaseVerified
from app.runtime.run.child_request import ChildRequest
from app.runtime.run.context import RunContext
from app.runtime.workflows.document_work import DocumentWork
from app.runtime.workflows.node_questions import NodeQuestions
from app.runtime.workflows.node_runner import NodeFailed
from app.runtime.workflows.persona_answers import parsed
from app.workspace.compiled import CompiledNode, CompiledSpecPhase, CompiledWorkflow
from app.workspace.specs.agent import Gate

REVIEW: Final = "review_result_v1"
_ROUNDS: Final = 10
"""How often a phase asks for what is missing before it fails."""
_SHOWN: Final = 64 * 1024
"""Bytes of one artifact that an agent is given; a larger one it reads itself."""


class SpecDrivenWork(DocumentWork):
    def __init__(self, flow: CompiledWorkflow, ctx: RunContext) -> None:
        super().__init__(flow, ctx)
        self._asking = NodeQuestions(ctx.log, ctx.calls)
        self._delivered: dict[str, JsonObject] = {}

    async def run(self, visit: Visit, attempt: int, values: FlowValues) -> Any:
        phase, about = self._flow.phases[visit.node], {"phase_id": visit.node, "workflow_id": self._flow.name}
        await self._ctx.record_once(SpecPhaseStarted(**about))
        self._delivered[visit.node] = await self._required(phase, visit)
        output = await super().run(visit, attempt, values)
        made = await self._deliver(phase, output)
        artifact = None if made is None else _value(made)
        await self._ctx.record_once(SpecPhaseCompleted(**about, artifact=artifact))
        if phase.spec.verify is not None:
            await self._verify(phase, visit, output, values.input)
            await self._ctx.record_once(SpecPhaseVerified(**about, artifact=artifact))
        return output

    def _given(self, node: CompiledNode, values: FlowValues, roots: Mapping[str, Any], item: Any) -> Any:
        """What was asked for, and the artifacts that the phase requires."""
        return {"phase": node.id, "input": values.input, "artifacts": self._delivered.get(node.id, {})}

    # -- what it needs -------------------------------------------------------------------------------

    async def _required(self, phase: CompiledSpecPhase, visit: Visit) -> JsonObject:
        """By name. What is missing is asked for, once in each round; what was asked before is in the log."""
        names, number = phase.spec.requires, 1
        while (asked := self._asking.asked(_round(visit, number))) is not None:
            await self._take(visit.node, asked)
            number += 1
        # No artifact is stored between looking and asking, or nobody would answer the question.
        async with self._ctx.log.control.artifacts:
            found = await self._ctx.artifacts.delivered(names) if names else {}
            missing = [name for name in names if name not in found]
            if not missing:
                return {name: _shown(data) for name, data in found.items()}
            if number > _ROUNDS:
                raise _not_delivered(visit.node, missing)
            await self._blocked(visit.node, missing)
            title = f"The phase {visit.node} needs {', '.join(missing)}."
            questions = [{"id": name, "question": f"What is the content of {name}?"} for name in missing]
            asking = _round(visit, number)
            await self._asking.ask(asking, "question", title[:1000], questions=questions, artifacts=missing)
        raise AssertionError("a question that is new has no answer")

    async def _take(self, phase: str, asked: JsonObject) -> None:
        """What an answer delivers becomes an artifact of the thread. Raises `Waiting` while there is none."""
        names = [str(name) for name in asked.get("artifacts") or ()]
        await self._blocked(phase, names)
        if asked.get("expired"):
            raise _not_delivered(phase, names)
        if "answer" not in asked:
            raise Waiting(asked["interruptId"])
        for name in names:
            content = asked["answer"]["answers"].get(name)
            if content not in (None, ""):
                text = content if isinstance(content, str) else json.canonical(content).decode()
                await self._ctx.artifact(name, _mime(name), text.encode())

    async def _blocked(self, phase: str, missing: list[str]) -> None:
        reason = f"missing: {', '.join(missing)}"
        await self._ctx.record_once(SpecPhaseBlocked(phase_id=phase, workflow_id=self._flow.name, reason=reason))

    # -- what it delivers ----------------------------------------------------------------------------

    async def _deliver(self, phase: CompiledSpecPhase, output: Any) -> ArtifactRef | None:
        artifact = phase.spec.artifact
        if artifact is None:
            return None
        if phase.schema is not None:
            output = _checked(phase, phase.schema, output, "SCHEMA_VIOLATION")
        data = output.encode() if isinstance(output, str) else json.canonical(output)
        return await self._ctx.artifact(artifact.name, _mime(artifact.name), data)

    async def _verify(self, phase: CompiledSpecPhase, visit: Visit, output: Any, given: Any) -> None:
        value = _read(output)
        if phase.verified_schema is not None:
            _checked(phase, phase.verified_schema, output, "VERIFICATION_FAILED")
        if phase.rule is not None:
            held = phase.rule.evaluate({"artifact": value, "output": output, "input": given})
            if held is not True:
                why = held.message if isinstance(held, Failure) else "it is false"
                raise _unverified(phase, f"the rule does not hold: {why}")
        verify = phase.spec.verify
        if verify is not None and verify.evaluator is not None:
            await self._scored(phase, verify.evaluator, verify.min_score, output)
        if verify is not None and verify.agent is not None:
            await self._reviewed(phase, visit, verify.agent, value, given)

    async def _scored(self, phase: CompiledSpecPhase, evaluator: str, least: float, output: Any) -> None:
        text = output if isinstance(output, str) else json.canonical(output).decode()
        gate = Gate(evaluator=evaluator, minScore=least, mode="blocking")
        verdict = await self._ctx.judge_artifact(phase.spec.id, gate, text)
        if not verdict["passed"]:
            why = verdict.get("reason") or verdict.get("error") or "it gave no reason"
            scored = "no score" if verdict.get("score") is None else f"a score of {verdict['score']:g}"
            raise _unverified(phase, f"the evaluator {evaluator} gave {scored}: {why[:500]}")

    async def _reviewed(self, phase: CompiledSpecPhase, visit: Visit, agent: str, value: Any, given: Any) -> None:
        schema = self._ctx.schemas.document(REVIEW)
        asked = {"phase": phase.spec.id, "input": given, "artifact": value, "answer_schema": schema}
        answer = await self._ctx.call_child(ChildRequest(agent, asked, f"{visit.key}.verify"))
        verdict: Any = parsed(answer.text) if answer.ok else None
        if not self._ctx.schemas.validator(REVIEW).accepts(verdict):
            raise _unverified(phase, f"{agent} gave no verdict: {answer.text[:300] if not answer.ok else REVIEW}")
        if verdict["verdict"] != "pass":
            raise _unverified(phase, f"{agent} objects: {verdict['feedback'][:500]}")


def _round(visit: Visit, number: int) -> Visit:
    return Visit(f"{visit.node}:requires", number)


def _not_delivered(phase: str, names: list[str]) -> NodeFailed:
    message = f"The phase {phase} was not given {', '.join(names)}."
    return NodeFailed(Failure("ARTIFACT_NOT_DELIVERED", message), repeatable=False)


def _checked(phase: CompiledSpecPhase, validator: Validator, output: Any, code: str) -> Any:
    value = _read(output)
    issues = validator.issues(value)
    if issues:
        where = f"{issues[0].path or '/'}: {issues[0].message}"
        message = f"The artifact of the phase {phase.spec.id} breaks its schema: {where}"
        raise NodeFailed(Failure(code, message), repeatable=False)
    return value


def _unverified(phase: CompiledSpecPhase, why: str) -> NodeFailed:
    message = f"The artifact of the phase {phase.spec.id} is not verified: {why}"
    return NodeFailed(Failure("VERIFICATION_FAILED", message), repeatable=False)


def _read(output: Any) -> Any:
    return parsed(output) if isinstance(output, str) else output


def _shown(data: bytes) -> Any:
    if len(data) > _SHOWN:
        return {"size": len(data)}
    return parsed(data.decode(errors="replace"))


def _mime(name: str) -> str:
    kinds = {"json": "application/json", "md": "text/markdown"}
    return kinds.get(name.rpartition(".")[2], "text/plain")


def _value(made: ArtifactRef) -> ArtifactValue:
    return ArtifactValue(
        id=made.id, name=made.name, mime=made.mime, size=made.size, sha256=made.sha256, version=made.version
    )
