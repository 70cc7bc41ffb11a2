"""The tool calls of one run: recorded results come back, the rest goes through the gate.

Besides the workspace's tools a run may have its client's own (answered from outside) and its agent's subagents; they
pass the same gate. Leaves to others: guard, repair, hooks, output (the tools room), what a subagent does (children).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

from app.backends.contract import CallRequest, CallResult
from app.core import json
from app.core.artifact import MakeArtifact
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.suspend import Suspended
from app.core.value import value
from app.events.catalog import Payload
from app.events.catalog.execution import BudgetExceeded
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.tool import ToolResulted
from app.events.catalog.values import Effect
from app.runtime.run.call_ids import RunCallIds
from app.runtime.run.cut_off_calls import CutOffCall, decided
from app.runtime.run.memo import StoredPayload
from app.runtime.run.run_guardrails import RunGuardrails
from app.runtime.run.run_log import RunLog
from app.tools.contract import (
    Approve,
    AskModel,
    CallScope,
    Hook,
    JsonResult,
    LoadBlob,
    Ports,
    Proposal,
    PutBlob,
    Result,
    Tool,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
    ToolRequest,
)
from app.tools.gateway import Gateway
from app.tools.outputs import stored
from app.tools.stages import argument_hash

_NO_LIMIT_SECONDS: Final = 7 * 24 * 3600.0
"""Of what is not a tool's own work: a subagent's run has budgets of its own."""


@value(frozen=True, slots=True)
class ToolPorts:
    """What the gateway is lent for a run's calls."""

    put_blob: PutBlob
    load_blob: LoadBlob
    approve: Approve
    hook: Hook | None = None
    ask_model: AskModel | None = None
    guardrails: RunGuardrails | None = None
    artifact: MakeArtifact | None = None


class ToolCalls:
    def __init__(
        self,
        log: RunLog,
        gateway: Gateway,
        scope: CallScope,
        lend: Callable[[], ToolPorts],
        *,
        parallel: bool = True,
        limit: int | None = None,
    ) -> None:
        """`lend` is asked with the first call: many runs make none."""
        self._log, self._gateway, self._scope = log, gateway, scope
        self._lend, self.parallel = lend, parallel
        self._offered: list[ToolDefinition] | None = None
        self.limit = limit
        """How many calls may be begun; None for any number."""
        self._begun = {*log.memo.intents, *log.memo.starts}
        self.evidence: set[str] = set()
        """The tools that gave a result."""
        self.used: set[str] = set()
        """The tools whose output the run has seen, also of calls that failed."""

    @cached_property
    def _ports(self) -> ToolPorts:
        return self._lend()

    @cached_property
    def ids(self) -> RunCallIds:
        return RunCallIds(self._log.run_id)

    def offered(self, only: frozenset[str] | None = None) -> list[ToolDefinition]:
        """What a model may call now, by name."""
        if only is not None:
            return self._defined(self._scope.offered & only)
        if self._offered is None:
            self._offered = self._defined(self._scope.offered)
        return self._offered

    def known(self) -> list[ToolDefinition]:
        """What may be tried, also if the conversation denies it."""
        return self._defined(self._scope.allowed)

    def _defined(self, names: frozenset[str]) -> list[ToolDefinition]:
        if not names:
            return []
        found = (self._gateway.registry.find(name) for name in sorted(names))
        return [registered.definition for registered in found if registered is not None]

    def effect(self, name: str) -> Effect | None:
        return self._gateway.registry.effects.get(name)

    async def call(self, calls: Sequence[CallRequest], only: frozenset[str] | None = None) -> list[CallResult]:
        """Results are in the order of the calls and carry the ids that the backend knows them by."""
        outcomes = await self.outcomes([self._tool_call(call) for call in calls], only)
        return [_result(call, outcome) for call, outcome in zip(calls, outcomes, strict=True)]

    async def call_whole(self, call: CallRequest) -> CallResult:
        """For a caller that is not a model: all of a large output, where a model gets an excerpt."""
        outcome = (await self.outcomes([self._tool_call(call)]))[0]
        if outcome.ok and outcome.truncated:
            whole = await stored(outcome, self._ports.load_blob)
            if isinstance(whole, Failure):
                outcome = replace(outcome, output=None, error=whole)
            else:
                outcome = replace(outcome, output=whole)
        return _result(call, outcome)

    def _tool_call(self, call: CallRequest) -> ToolRequest:
        arguments = None if call.raw_args is not None else call.args
        content = call.args if call.raw_args is None else call.raw_args
        call_id = self.ids.of(call.id, call.name, content, taken=self._differs(call))
        return ToolRequest(call_id, call.name, arguments, raw=call.raw_args, complete=True)

    def _differs(self, call: CallRequest) -> bool:
        """Whether another call is recorded under this id, so that its result is not this one's."""
        intent = self._log.memo.intents.get(call.id)
        if intent is None or call.raw_args is not None or call.id in self._log.memo.altered:
            return False
        if intent["tool"] != call.name:
            return True
        # What is stored of them may be redacted, and the hash is not.
        return bool(intent["arguments"] != call.args and intent["argumentHash"] != argument_hash(call.args))

    async def outcomes(self, calls: Sequence[ToolRequest], only: frozenset[str] | None = None) -> list[ToolOutcome]:
        guardrails = self._ports.guardrails
        if guardrails is not None:
            guardrails.go_on()
        scope = self._scope if only is None else replace(self._scope, allowed=self._scope.allowed & only)
        memo, ports = self._log.memo, self._gate_ports(scope)
        done: dict[str, ToolOutcome] = {}
        fresh: list[ToolRequest] = []
        for call in calls:
            if call.id in memo.results:
                recorded = _recorded_outcome(memo.results[call.id], memo.intents.get(call.id))
                done[call.id] = await self._gateway.finish(call, scope, ports, recorded)
            elif call.id in memo.intents:
                settled = await self._recover(call, memo.intents[call.id])
                if isinstance(settled, ToolOutcome):
                    done[call.id] = settled
                else:
                    fresh.append(settled)
            else:
                fresh.append(call)
        if fresh:
            done |= {outcome.call_id: outcome for outcome in await self._act(fresh, scope, ports)}
        if guardrails is not None:
            guardrails.go_on()  # a rule that refused a call or its result has ended the run
        self.evidence |= {outcome.tool for outcome in done.values() if outcome.ok}
        self.used |= {outcome.tool for outcome in done.values()}
        return [done[call.id] for call in calls]

    def _gate_ports(self, scope: CallScope) -> Ports:
        lent, mend = self._ports, self._ports.ask_model

        async def ask_model(call: ToolRequest, complaint: str) -> Proposal | None:
            # Nothing is mended that may not be called here.
            return await mend(call, complaint) if mend is not None and call.name in scope.allowed else None

        return Ports(
            record=self._record,
            put_blob=lent.put_blob,
            load_blob=lent.load_blob,
            hook=lent.hook,
            approve=lent.approve,
            ask_model=ask_model,
            guardrails=lent.guardrails,
            cancelled=self._log.control.cancelled,
            artifact=lent.artifact,
            ask=lambda call: partial(ask_person, self._log, call),
        )

    async def _record(self, payload: Payload) -> JsonObject | None:
        """As it was stored, unless the recorder moved values of its own accord out of it. Not the event's own payload,
        which clients are shown: the tool may change its arguments, and the backend what it gets."""
        event = (await self._log.record(payload)).events[0]
        bounded = isinstance(payload, ToolResulted) and payload.truncated
        if not bounded and event.payload_bytes.find(b'"$blob"') >= 0:
            return None
        stored: JsonObject = json.loads(event.payload_bytes)
        return stored

    async def _act(self, calls: list[ToolRequest], scope: CallScope, ports: Ports) -> list[ToolOutcome]:
        effects = self._gateway.registry.effects
        if self._log.control.draining and any(effects.get(call.name) == "unsafe" for call in calls):
            # It might be cut off half-way, and then a person would have to decide. The next server begins it.
            raise Suspended("the server stops")
        await self._log.begin_step()
        await self.count([call.id for call in calls])
        cancelled = self._log.control.cancelled
        cancelled.acting += 1
        try:
            return await self._gateway.call_all(calls, scope, ports, parallel=self.parallel)
        finally:
            cancelled.acting -= 1
            # A result that came after the cancel is recorded, and not applied.
            self._log.stop_if_cancelled()

    async def count(self, call_ids: Iterable[str]) -> None:
        """Before they begin: what the run's limit does not allow ends it here."""
        self._begun |= set(call_ids)
        if self.limit is not None and len(self._begun) > self.limit:
            used = len(self._begun)
            raise await self._log.exceeded(
                BudgetExceeded(budget="tool_calls", scope="run", limit=self.limit, used=used)
            )

    # -- what was cut off ----------------------------------------------------------------------------

    async def _recover(self, call: ToolRequest, intent: StoredPayload) -> ToolRequest | ToolOutcome:
        """A call that was begun and has no result: repeated if that is harmless, else an operator decides."""
        again = replace(call, attempt=intent.get("attempt", 1) + 1)
        if intent["effect"] != "unsafe":
            return again
        cut_off = CutOffCall(call.id, call.name, intent["arguments"], intent["argumentHash"])
        used = await decided(self._log, cut_off)
        if used is None:
            return again
        await self._record(ToolResulted(call_id=call.id, tool=call.name, ok=True, output=used.output))
        return ToolOutcome(call.id, call.name, output=used.output, executed=True)


async def ask_person(log: RunLog, call: ToolRequest, title: str, questions: list[JsonObject]) -> JsonObject | Failure:
    """A tool's questions to a person: a pause of the run that the answer ends, found again by the call's id."""
    asked = log.memo.of_call("question", call.id)
    if asked is None:
        raise await log.raise_interrupt(
            InterruptRaised(
                interrupt_id=new_id("interrupt"),
                kind="question",
                title=title,
                expires_at=log.expiry(),
                tool=call.name,
                call_id=call.id,
                questions=questions,
                key=f"call-{call.id}",
            )
        )
    if asked.get("expired"):
        return Failure("QUESTION_EXPIRED", "Nobody answered in time.")
    if "answer" not in asked:
        raise Suspended(asked["interruptId"])
    answers: JsonObject = asked["answer"]["answers"]
    return answers


class ClientTool:
    """A tool of the client's: a call of it is a pause that the client's answer ends."""

    def __init__(self, log: RunLog, definition: ToolDefinition) -> None:
        self._log, self.definition = log, definition

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        asked = self._log.memo.of_call("external", ctx.call_id)
        if asked is None:
            name = self.definition.name
            raise await self._log.raise_interrupt(
                InterruptRaised(
                    interrupt_id=new_id("interrupt"),
                    kind="external",
                    expires_at=self._log.expiry(),
                    tool=name,
                    title=f"The client is to run {name}",
                    call_id=ctx.call_id,
                    arguments=arguments,
                )
            )
        if asked.get("expired"):
            return Failure("TOOL_FAILED", "The client did not answer in time.")
        answer = asked.get("answer")
        if answer is None:
            raise Suspended(asked["interruptId"])
        if "error" in answer:
            return Failure("TOOL_FAILED", answer["error"])
        return JsonResult(answer["output"])


AskAgent = Callable[[str, Any, str], Awaitable[Result | Failure]]


class AgentTool:
    """A subagent as its parent's model sees it: a tool that takes a task."""

    def __init__(self, name: str, description: str, ask: AskAgent) -> None:
        self._ask = ask
        self.definition = outside_definition(
            name,
            description,
            {
                "type": "object",
                "required": ["input"],
                "additionalProperties": False,
                "properties": {"input": {"type": "string", "description": "The task, with all it needs to know."}},
            },
        )

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return await self._ask(self.definition.name, arguments["input"], ctx.call_id)


def outside_definition(name: str, description: str, schema: JsonObject) -> ToolDefinition:
    """A tool whose work is not done in the call: entering it again repeats nothing, so its effect is keyed."""
    effect: Effect = "keyed"
    return ToolDefinition(
        name, description, input=schema, effect=effect, timeout_seconds=_NO_LIMIT_SECONDS, closed=False
    )


def client_tools(log: RunLog, declared: Iterable[JsonObject]) -> list[Tool]:
    return [
        ClientTool(log, outside_definition(tool["name"], tool.get("description") or "", tool["input"]))
        for tool in declared
    ]


def _result(call: CallRequest, outcome: ToolOutcome) -> CallResult:
    if outcome.error is not None:
        return CallResult(call.id, outcome.tool, False, f"{outcome.error.code}: {outcome.error.message}")
    # Canonical, as the log keeps it: a result that is returned again must be the same text.
    content = outcome.output if isinstance(outcome.output, str) else json.canonical(outcome.output).decode()
    return CallResult(call.id, outcome.tool, True, content, outcome.output)


def _recorded_outcome(payload: StoredPayload, intent: StoredPayload | None) -> ToolOutcome:
    """A result without an intent is that of a call which was refused; hooks are asked about the others."""
    error = payload.get("error")
    failure = Failure(error["code"], error["message"], error.get("retryable", False)) if error else None
    return ToolOutcome(
        payload["callId"],
        payload["tool"],
        output=payload.get("output"),
        error=failure,
        executed=intent is not None,
        arguments=None if intent is None else intent["arguments"],
        applied=payload.get("applied", True),
        truncated=bool(payload.get("truncated")),
    )
