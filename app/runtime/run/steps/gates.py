"""Judgement of a finished output: blocking gates decide about it here, shadow gates are noted for afterwards.

Every verdict is recorded before it has an effect, and a resumed run takes it from the log. What does not pass fails the
run, is answered again (`retry`), by another model or the agent of a former workspace (`fallback`), or shown to a person
(`ask`); a retry and a fallback happen once each. Leaves to the policy room: scores and thresholds.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.policy import GateEvaluated
from app.events.ports import EvaluationDue, StoreError
from app.policy.evaluator import JudgeAnswer, JudgeQuestion, NotEvaluated
from app.policy.gates import FAILED, Evaluation, GateRule, Verdict, judge, subject_hash
from app.runtime.run.run_log import CutOff, Superseded
from app.runtime.run.run_records import read_record
from app.runtime.run.steps.backend import answer, make_context, models_of
from app.runtime.run.steps.evidence import check_evidence
from app.runtime.run.steps.guardrails import guard_output
from app.runtime.run.steps.run_scope import RunScope

_AGAIN: Final = "A former answer to this request was not accepted by the check {gate}. Answer again."


async def pass_gates(run_scope: RunScope) -> None:
    run_id = run_scope.run.id
    blocking = [rule for rule in run_scope.gates.blocking if rule.takes(run_id)]
    if blocking:
        await _pass_blocking(run_scope, blocking)
    if any(rule.takes(run_id) for rule in run_scope.gates.shadow):
        run_scope.log.control.evaluations.append(EvaluationDue(run_id))


async def _pass_blocking(run_scope: RunScope, rules: Sequence[GateRule]) -> None:
    used: set[str] = set()
    attempt = 1
    while True:
        found = await _verdicts(run_scope, rules, attempt)
        failing = [(rule, verdict) for rule, verdict in zip(rules, found, strict=True) if not verdict["passed"]]
        # A person is asked last: what a gate refuses that asks nobody, nobody can let pass.
        deciding = next((it for it in failing if it[0].spec.on_fail != "ask"), None)
        if deciding is None:
            for rule, verdict in failing:
                await _ask(run_scope, rule, verdict, attempt)
            return
        rule, verdict = deciding
        action = rule.spec.on_fail
        if action == "fail" or action in used:
            raise StepFailed(_failure(rule))
        used.add(action)
        attempt += 1
        await _answer_again(run_scope, rule)


async def _verdicts(run_scope: RunScope, rules: Sequence[GateRule], attempt: int) -> list[Mapping[str, Any]]:
    """As they are recorded, in the order of the rules; those that are in the log are not judged again."""
    assert run_scope.output is not None
    subject = subject_hash(run_scope.output.text)
    recorded = {
        event.payload["gate"]: event.payload
        for event in run_scope.family
        if event.run_id == run_scope.run.id
        and event.type == GateEvaluated.type
        and event.payload.get("attempt") == attempt
        and event.payload.get("subjectHash") == subject
    }
    missing = [rule for rule in rules if rule.name not in recorded]
    if missing:
        await run_scope.log.begin_step()
        verdicts = await _judge(run_scope, missing, attempt)
        events = [verdict.event(attempt=attempt, subject=subject) for verdict in verdicts]
        appended = await run_scope.log.record(*events)
        recorded |= {
            event.payload["gate"]: event.payload for event in appended.events if event.type == GateEvaluated.type
        }
    return [recorded[rule.name] for rule in rules]


async def _judge(run_scope: RunScope, rules: Sequence[GateRule], attempt: int) -> list[Verdict]:
    assert run_scope.output is not None
    services, log, run = run_scope.services, run_scope.log, run_scope.run
    try:
        record = await read_record(services.reader, log.scope.tenant, run, now_ms=services.clock.now_ms())
    except NotEvaluated as error:
        return [Verdict(rule, Evaluation(None, FAILED, str(error))) for rule in rules]
    record.output, record.status = run_scope.output.text, "completed"
    one_at_a_time = asyncio.Lock()

    async def ask(question: JudgeQuestion) -> JudgeAnswer | Failure:
        assert run_scope.models is not None
        try:
            async with one_at_a_time:
                return await run_scope.models.judge(question, f"{question.key}:{attempt}")
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error  # a lost lease is not the evaluator's answer

    return await judge(rules, record, ask, services.clock)


async def _answer_again(run_scope: RunScope, rule: GateRule) -> None:
    context, models = run_scope.context, run_scope.models
    assert context is not None and models is not None
    if rule.spec.fallback_digest is not None:
        await _answer_as_before(run_scope, rule.spec.fallback_digest)
        return
    if rule.spec.on_fail == "fallback":
        models.model = rule.spec.fallback_model
    else:
        context.instructions = "\n\n".join(filter(None, (context.instructions, _AGAIN.format(gate=rule.name))))
    await answer(run_scope, context)
    await check_evidence(run_scope)
    await guard_output(run_scope)


async def _answer_as_before(run_scope: RunScope, digest: str) -> None:
    """The agent of a former workspace answers, with its own models, tools and rules; today's rules for input and output
    hold as well, and today's gates decide about the answer."""
    former = await run_scope.former(run_scope, digest)
    if isinstance(former, Failure):
        raise StepFailed(former)
    assert run_scope.models is not None
    models = models_of(former)
    models.take_over(run_scope.models)
    if former.guardrails is not None:
        former.guardrails.ask_model = models.judge_content
        former.given = await former.guardrails.input_again(former.given, digest)
    context = make_context(former)
    context.held_back = models.held_back = True
    try:
        await answer(former, context)
        await check_evidence(former)
        await guard_output(former)
    finally:
        run_scope.models.take_over(models)
        former.tools = former.context = former.models = None
    run_scope.output, run_scope.left_state = former.output, None
    if run_scope.guardrails is not None and run_scope.output is not None:
        text = await run_scope.guardrails.output(run_scope.output.text, anew=digest)
        parts = [dict(part) for part in run_scope.output.parts]
        parts = await run_scope.guardrails.output_parts(parts) if parts else parts
        run_scope.output = replace(run_scope.output, text=text, parts=parts, message_id=None)


async def _ask(run_scope: RunScope, rule: GateRule, found: Mapping[str, Any], attempt: int) -> None:
    """A person decides about the output; whoever follows the log gets a reference to it, not the text."""
    assert run_scope.output is not None
    log, call_id = run_scope.log, f"gate:{rule.name}:{attempt}"
    asked = log.memo.of_call("approval", call_id)
    if asked is None:
        await log.begin_step()
        shown = {name: found[name] for name in ("gate", "score", "minScore", "reason", "error") if name in found}
        raise await log.raise_interrupt(
            InterruptRaised(
                interrupt_id=new_id("interrupt"),
                kind="approval",
                title=f"May {run_scope.agent.name} give this answer? It did not pass the gate {rule.name}.",
                expires_at=log.expiry(),
                call_id=call_id,
                arguments={**shown, "output": run_scope.output.text},
                argument_hash=found.get("subjectHash"),
                approver="anyone",
            ),
            apart=("arguments.output",),
        )
    if asked.get("expired"):
        raise StepFailed(_failure(rule))
    if "answer" not in asked:
        raise Suspended(asked["interruptId"])
    if asked["answer"]["decision"] != "approve" or asked.get("argumentHash") != found.get("subjectHash"):
        raise StepFailed(_failure(rule))


def _failure(rule: GateRule) -> Failure:
    return Failure("GATE_NOT_PASSED", f"The answer did not pass the gate {rule.name}.")
