"""The context of one run: everything its backend may do, each of it an event before it is seen.

Resume is re-entry: the backend is called again, and each step that has a recorded result gets it back without acting.
A step that differs from what was recorded fails the run. Leaves to others: the gate (tools), providers (models).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.backends.contract import CallRequest, CallResult, ModelAnswer, StepFailed
from app.core import json
from app.core.clock import Clock, iso
from app.core.decisions import Approval, Approved
from app.core.decisions import Refused as NotApproved
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.suspend import Suspended
from app.events.catalog import Payload, adapter
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.model import ModelCompleted
from app.events.catalog.tool import ToolResulted
from app.events.ports import Answer, Appended, Refused
from app.events.recorder import Recorder, Scope
from app.models.completion import (
    CompletionRequest,
    CompletionResponse,
    Reasoning,
    ToolDef,
    message_from_json,
    request_hash,
)
from app.models.contract import Budget, ContentPolicy
from app.models.negotiate import Negotiation
from app.models.router import ModelRouter
from app.runtime.kits import Kit
from app.runtime.memo import Memo, Told
from app.tools.contract import LoadBlob, Ports, ToolCall, ToolDefinition, ToolOutcome
from app.tools.contract import Scope as ToolScope
from app.views.run import Run
from app.workspace.compiled import CompiledAgent, CompiledSkill

APPROVAL_MS: Final = 24 * 3600 * 1000
"""How long a person has; then the answer is no."""


class Superseded(Exception):
    """The log refused an append: the run ended or has a new owner. There is nothing left to do here."""


class Cancellation(asyncio.Event):
    """Set when the run's cancel was committed. While tools act, they are given their grace to end."""

    def __init__(self) -> None:
        super().__init__()
        self.acting = False


PutBlob = Callable[[bytes, str], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True)
class BlobPorts:
    """The blobs of the run's thread."""

    put: PutBlob
    load: LoadBlob


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a context works with."""

    run: Run
    agent: CompiledAgent
    skill: CompiledSkill | None
    kit: Kit
    memo: Memo
    history: Sequence[JsonObject]
    scope: Scope
    cancelled: Cancellation
    budget: Budget


class RunContext:
    def __init__(
        self, parts: RunParts, recorder: Recorder, router: ModelRouter, blobs: BlobPorts, clock: Clock
    ) -> None:
        self._parts, self._recorder, self._router, self._blobs, self._clock = parts, recorder, router, blobs, clock
        self._model_calls = 0
        self._questions = 0
        self._negotiated: Negotiation | None = None
        agent, skill = parts.agent, parts.skill
        self.run_id, self.thread_id, self.agent = parts.run.id, parts.run.thread_id, agent.name
        self.input: Any = parts.run.input
        self.history = parts.history
        self.max_turns = agent.spec.max_turns
        self.instructions = agent.instructions if skill is None else f"{agent.instructions}\n\n{skill.body}"
        allowed = frozenset(agent.tools)
        # A skill only narrows; text never widens what an agent may use.
        self._allowed = allowed if skill is None else allowed & frozenset(skill.allowed_tools)

    # -- signals -------------------------------------------------------------------------------------

    async def emit(self, phase: str, **fields: Any) -> None:
        self._stop_if_cancelled()
        kind = self._parts.scope.actor.removeprefix("backend:")
        await self._record(adapter.AdapterEvent(event=adapter.Signal(adapter=kind, phase=phase, **fields)))

    async def say(self, message_id: str, text: str, part: int = 0) -> None:
        self._stop_if_cancelled()
        delta = await self._recorder.record_delta(self._parts.scope, adapter.OUTPUT_DELTA, message_id, part, text)
        expect(delta)

    async def _record(self, payload: Payload) -> Payload | None:
        """Returns a model's answer as it was stored, so that a resumed run sees what this one saw."""
        appended = expect(await self._recorder.record(self._parts.scope, payload))
        if isinstance(payload, ModelCompleted) and b'"$blob"' not in appended.events[0].payload_bytes:
            return ModelCompleted.model_validate(appended.events[0].payload)
        return None

    # -- models --------------------------------------------------------------------------------------

    async def call_model(self, messages: Sequence[JsonObject]) -> ModelAnswer:
        number, self._model_calls = self._model_calls, self._model_calls + 1
        agent, kit = self._parts.agent, self._parts.kit
        if agent.model_plan is None:
            raise StepFailed(Failure("AGENT_HAS_NO_MODEL", f"agent {agent.name!r} names no model"))
        plan = kit.plans.plan(agent.model_plan)
        request = self._request(messages)
        if number < len(self._parts.memo.answers):
            recorded = self._parts.memo.answers[number]
            if recorded.get("requestHash") != request_hash(request.to_json(plan.primary.name)):
                message = f"model call {number + 1} is not the recorded one"
                raise StepFailed(Failure("BACKEND_NOT_DETERMINISTIC", message))
            return _recorded_answer(recorded)
        self._stop_if_cancelled()
        negotiation = self._router.negotiate(plan, request)
        contents = ContentPolicy(reasoning=kit.workspace.runtime.redaction.reasoning)
        outcome = await self._router.complete(
            plan, request, record=self._record, message_id=new_id("message"), cancelled=self._parts.cancelled,
            tenant=self._parts.scope.tenant, adapter=self._parts.scope.actor.removeprefix("backend:"),
            contents=contents, negotiated=self._negotiated, budget=self._parts.budget,
        )  # fmt: skip
        self._negotiated = negotiation
        self._stop_if_cancelled()
        if isinstance(outcome, Failure):
            raise StepFailed(outcome)
        return _answer(outcome)

    def _request(self, messages: Sequence[JsonObject]) -> CompletionRequest:
        agent, registry = self._parts.agent, self._parts.kit.gateway.registry
        knobs, thinking = agent.spec.parameters, agent.spec.reasoning
        tools = tuple(
            ToolDef(found.definition.name, found.definition.description, dict(found.definition.input))
            for name in sorted(self._allowed)
            if (found := registry.find(name)) is not None
        )
        reasoning = None
        if thinking.effort is not None or thinking.budget_tokens is not None:
            reasoning = Reasoning(thinking.effort, thinking.budget_tokens)
        return CompletionRequest(
            messages=tuple(message_from_json(message, _no_media) for message in messages), tools=tools,
            parallel_tool_calls=agent.spec.parallel_tools if tools else None, max_tokens=knobs.max_tokens,
            temperature=knobs.temperature, top_p=knobs.top_p, stop=knobs.stop, seed=knobs.seed,
            presence_penalty=knobs.presence_penalty, frequency_penalty=knobs.frequency_penalty, reasoning=reasoning,
            response_schema=agent.spec.output_schema,
        )  # fmt: skip

    # -- tools ---------------------------------------------------------------------------------------

    async def call_tools(self, calls: Sequence[CallRequest]) -> list[CallResult]:
        gateway, memo = self._parts.kit.gateway, self._parts.memo
        scope = ToolScope(self.run_id, self._allowed, self._parts.scope.tenant)
        ports = Ports(
            record=self._record_nothing_back, put_blob=self._blobs.put, load_blob=self._blobs.load,
            approve=self._approve, cancelled=self._parts.cancelled,
        )  # fmt: skip
        outcomes: dict[str, ToolOutcome] = {}
        fresh: list[ToolCall] = []
        for call in calls:
            wanted = _tool_call(call)
            if call.id in memo.results:
                outcomes[call.id] = await gateway.finish(wanted, scope, ports, _recorded_outcome(memo.results[call.id]))
            elif call.id in memo.intents:
                settled = await self._recover(wanted, memo.intents[call.id])
                if isinstance(settled, ToolOutcome):
                    outcomes[call.id] = settled
                else:
                    fresh.append(settled)
            else:
                fresh.append(wanted)
        if fresh:
            done = await self._act(fresh, scope, ports)
            outcomes |= {outcome.call_id: outcome for outcome in done}
        return [_result(call, outcomes[call.id]) for call in calls]

    async def _act(self, calls: list[ToolCall], scope: ToolScope, ports: Ports) -> list[ToolOutcome]:
        self._stop_if_cancelled()
        self._parts.cancelled.acting = True
        try:
            parallel = self._parts.agent.spec.parallel_tools
            return await self._parts.kit.gateway.call_all(calls, scope, ports, parallel=parallel)
        finally:
            self._parts.cancelled.acting = False
            # A result that came after the cancel is recorded, and not applied.
            self._stop_if_cancelled()

    async def _record_nothing_back(self, payload: Payload) -> None:
        await self._record(payload)

    async def _recover(self, call: ToolCall, intent: Told) -> ToolCall | ToolOutcome:
        """A call that was begun and has no result: repeated if that is harmless, else an operator decides."""
        again = replace(call, attempt=intent.get("attempt", 1) + 1)
        if intent["effect"] != "unsafe":
            return again
        asked = self._parts.memo.of_call("recovery", call.id)
        if asked is None:
            raise await self._raise_interrupt(
                InterruptRaised(
                    interrupt_id=new_id("interrupt"), kind="recovery", expires_at=self._expiry(), tool=call.name,
                    title=f"{call.name} was cut off; whether it took effect is unknown", call_id=call.id,
                    arguments=intent["arguments"], argument_hash=intent["argumentHash"],
                )
            )  # fmt: skip
        answer = asked.get("answer")
        if answer is None and not asked.get("expired"):
            raise Suspended(asked["interruptId"])
        decision = answer["decision"] if answer else "fail"
        if decision == "retry":
            return again
        if decision == "use" and answer is not None:
            output = answer.get("output")
            await self._record(ToolResulted(call_id=call.id, tool=call.name, ok=True, output=output))
            return ToolOutcome(call.id, call.name, output=output, executed=True)
        raise StepFailed(Failure("TOOL_OUTCOME_UNKNOWN", f"{call.name} was cut off and is not repeated"))

    async def _approve(self, call: ToolCall, definition: ToolDefinition, digest: str) -> Approval:
        asked = self._parts.memo.of_call("approval", call.id)
        if asked is None:
            raise await self._raise_interrupt(
                InterruptRaised(
                    interrupt_id=new_id("interrupt"), kind="approval", expires_at=self._expiry(), tool=definition.name,
                    title=f"May {self.agent} use {definition.name}?", call_id=call.id, arguments=call.arguments,
                    argument_hash=digest,
                )
            )  # fmt: skip
        if asked.get("expired"):
            return NotApproved("nobody answered in time")
        answer = asked.get("answer")
        if answer is None:
            raise Suspended(asked["interruptId"])
        if asked.get("argumentHash") != digest:
            return NotApproved("the approval was for other arguments")
        if answer["decision"] == "approve":
            return Approved(asked.get("answeredBy"))
        return NotApproved(answer.get("reason"), asked.get("answeredBy"))

    # -- people --------------------------------------------------------------------------------------

    async def ask(self, title: str, questions: Sequence[JsonObject]) -> JsonObject:
        number, self._questions = self._questions, self._questions + 1
        asked = self._parts.memo.question(number)
        if asked is None:
            self._stop_if_cancelled()
            raise await self._raise_interrupt(
                InterruptRaised(
                    interrupt_id=new_id("interrupt"), kind="question", title=title, questions=list(questions),
                    expires_at=self._expiry(),
                )
            )  # fmt: skip
        if asked["title"] != title:
            raise StepFailed(Failure("BACKEND_NOT_DETERMINISTIC", f"question {number + 1} is not the recorded one"))
        if asked.get("expired"):
            raise StepFailed(Failure("QUESTION_EXPIRED", "nobody answered in time"))
        if "answer" not in asked:
            raise Suspended(asked["interruptId"])
        answers: JsonObject = asked["answer"]["answers"]
        return answers

    async def _raise_interrupt(self, raised: InterruptRaised) -> Suspended:
        await self._record(raised)
        return Suspended(raised.interrupt_id)

    def _expiry(self) -> str:
        return iso(self._clock.now_ms() + APPROVAL_MS)

    def _stop_if_cancelled(self) -> None:
        """From the cancel command on no step starts."""
        if self._parts.cancelled.is_set():
            raise asyncio.CancelledError


def expect(answer: Answer) -> Appended:
    if isinstance(answer, Refused):
        raise Superseded(answer.failure.code)
    return answer


def _no_media(_reference: Any) -> bytes:
    raise StepFailed(Failure("INVALID_REQUEST", "media in messages are not supported by this backend yet"))


def _tool_call(call: CallRequest) -> ToolCall:
    arguments = None if call.raw_args is not None else call.args
    return ToolCall(call.id, call.name, arguments, raw=call.raw_args, complete=True)


def _result(call: CallRequest, outcome: ToolOutcome) -> CallResult:
    if outcome.error is not None:
        return CallResult(call.id, outcome.tool, False, f"{outcome.error.code}: {outcome.error.message}")
    content = outcome.output if isinstance(outcome.output, str) else json.dumps(outcome.output).decode()
    return CallResult(call.id, outcome.tool, True, content)


def _answer(response: CompletionResponse) -> ModelAnswer:
    calls = tuple(CallRequest(c.id, c.name, c.args, c.raw_args) for c in response.tool_calls)
    return ModelAnswer(response.text, calls, response.as_message().to_json(), response.message_id)


def _recorded_answer(told: Told) -> ModelAnswer:
    calls = tuple(CallRequest(c["id"], c["name"], c["args"], c.get("rawArgs")) for c in told["toolCalls"])
    message: JsonObject = {"role": "assistant", "content": told["text"]}
    if calls:
        message["tool_calls"] = [
            {"id": c.id, "name": c.name, "args": c.args} | ({} if c.raw_args is None else {"raw_args": c.raw_args})
            for c in calls
        ]
    if told.get("thoughts"):
        message["thoughts"] = told["thoughts"]
    return ModelAnswer(told["text"], calls, message, told["messageId"])


def _recorded_outcome(told: Told) -> ToolOutcome:
    error = told.get("error")
    failure = Failure(error["code"], error["message"], error.get("retryable", False)) if error else None
    return ToolOutcome(told["callId"], told["tool"], output=told.get("output"), error=failure, executed=failure is None,
                       applied=told.get("applied", True), truncated=bool(told.get("truncated")))  # fmt: skip
