"""The guardrails of one run: each content is judged, its verdicts recorded once, and what they say is performed.

A run that a rule has blocked is over: entered again, it ends the same way. Rules that answer the same each time are
asked again when a run is resumed; the answers of the others are taken from the log. Leaves to the policy room: what
rules find; to the steps, the model calls and the gateway: where content passes.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Protocol

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.suspend import Suspended
from app.events.catalog.builders import BuiltStepCompleted
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.policy import FoundAt, GuardrailTriggered
from app.events.envelope import Event
from app.events.ports import BlobDraft, StoreError
from app.policy.contract import About
from app.policy.guardrails.contract import (
    AskModel,
    Found,
    GuardrailRule,
    GuardrailVerdict,
    Judgement,
    Passed,
    Position,
    Stage,
    Subject,
)
from app.policy.guardrails.declared import AgentRules
from app.policy.guardrails.inspection import Inspected
from app.policy.guardrails.screen import StreamScanners, StreamScreen
from app.runtime.run.inlined import Load, inline
from app.runtime.run.run_log import CutOff, RunLog, Superseded
from app.tools.contract import Guarded
from app.views.history import GUARDED_INPUT, user_message

MAX_POSITIONS: Final = 100
"""Of one verdict that are recorded."""
_RECALLED: Final = frozenset({"input", "toolArguments"})
"""Stages whose answers are not part of another record: there a rule that may change its mind is recorded itself."""


class SecretScanners(Protocol):
    """What is looked for in every stream, whatever the agent's rules."""

    @property
    def streamed(self) -> StreamScanners: ...

    def with_rules(self, rules: Sequence[GuardrailRule]) -> StreamScanners: ...


class GuardrailBlocked(StepFailed):
    """A rule ended the run: with its public message, or with its reply as the answer."""

    def __init__(self, rule: GuardrailRule) -> None:
        super().__init__(Failure("GUARDRAIL_DENIED", rule.message))
        self.rule, self.reply = rule.name, rule.reply


class RunGuardrails:
    def __init__(
        self,
        rules: AgentRules,
        secrets: SecretScanners,
        log: RunLog,
        about: About,
        family: Iterable[Event],
        load: Load,
        *,
        submitted_by: str | None = None,
        ask_nobody: bool = False,
    ) -> None:
        self._rules, self._log, self._about, self._load = rules, log, about, load
        self._submitted_by, self._ask_nobody = submitted_by, ask_nobody
        self._named = {rule.name: rule for found in rules.stages.values() for rule in found.rules}
        self.ask_model: AskModel | None = None
        """Set by the step that makes the run's model calls."""
        self.scanners = secrets.with_rules(rules.streamed) if rules.at("output") is not None else None
        self.blocked: GuardrailBlocked | None = None
        self._recorded: set[tuple[str, str]] = set()
        self._released: set[str] = set()
        """Messages that a person let pass and that were recorded since the run was entered."""
        self._asking: dict[str, list[GuardrailRule]] = {}
        """By call: rules that want a person to see its result."""
        self._passed = {answer["text"] for answer in log.memo.answers} if rules.at("output") else set[str]()
        for event in family:
            if event.run_id == log.run_id and event.type == GuardrailTriggered.type:
                self._take_back(event.payload)

    def _take_back(self, verdict: Mapping[str, Any]) -> None:
        """What an earlier life of the run found."""
        rule = self._named.get(verdict["guardrail"])
        self._recorded.add((verdict["guardrail"], verdict.get("key", "")))
        if rule is None:
            return
        if verdict.get("blocked"):
            self.blocked = GuardrailBlocked(rule)
        elif verdict["action"] == "ask" and verdict["stage"] == "toolResults":
            self._asking.setdefault(verdict["callId"], []).append(rule)

    def go_on(self) -> None:
        """Nothing is done any more for a run that a rule has ended, whatever its backend made of that."""
        if self.blocked is not None:
            raise self.blocked

    @property
    def concern_tools(self) -> bool:
        return self._rules.at("toolArguments") is not None or self._rules.at("toolResults") is not None

    @property
    def holds_messages(self) -> bool:
        return self._rules.holds_messages

    # -- input -----------------------------------------------------------------------------------------

    async def input(self, given: Any, brought: Sequence[JsonObject]) -> tuple[Any, list[JsonObject]]:
        """The input, and a history that came with it, as the model may see them."""
        self.go_on()
        history = list(brought)
        if self._rules.at("input") is None:
            return given, history
        recorded: Mapping[str, Any] | None = self._log.memo.steps.get(GUARDED_INPUT)
        if recorded is None:
            recorded = await self._guard_input(given, history)
        if recorded is None:
            return given, history
        result = recorded["result"]
        for number, message in result.get("history", ()):
            history[number] = message
        return result.get("input", given), history

    async def _guard_input(self, given: Any, history: Sequence[JsonObject]) -> Mapping[str, Any] | None:
        changes: JsonObject = {}
        content = await self._checked("input", given, "input")
        if content != given:
            changes["input"] = content
        replaced = []
        for number, message in enumerate(history):
            # The model cannot distinguish a user message of the history from the input.
            if message["role"] == "user":
                said = message.get("parts") or message["content"]
                content = await self._checked("input", said, f"history-{number}")
                if content != said:
                    replaced.append([number, user_message(content)])
        if replaced:
            changes["history"] = replaced
        if not changes:
            return None
        appended = await self._log.record(BuiltStepCompleted(step="guardrails", key=GUARDED_INPUT, result=changes))
        # What was stored counts, redacted and all, so that a resumed run sees what this one saw.
        return (await inline(appended.events[-1], self._load)).payload

    async def input_again(self, given: Any, digest: str) -> Any:
        """The input for the agent of a former workspace, whose rules these are."""
        self.go_on()
        return await self._checked("input", given, f"input-{digest}") if self._rules.at("input") is not None else given

    async def message(self, said: Any, command_id: str) -> Any:
        """What somebody says to a run that works, a text or parts; part of its commands as they are recorded."""
        return await self._checked("input", said, command_id) if self._rules.at("input") is not None else said

    async def _checked(self, stage: Stage, content: Any, key: str) -> Any:
        inspected = await self.inspect(stage, content, key)
        self.go_on()
        for rule in inspected.asks:
            await self.approve(rule, stage, key, {"guardrail": rule.name, "stage": stage})
        return inspected.content

    # -- output ----------------------------------------------------------------------------------------

    async def output(self, text: str, anew: str | None = None) -> str:
        """A run's answer, if it is not a message that was looked at before it left, or not by these rules: `anew` is
        whose answer it is then."""
        self.go_on()
        if self._rules.at("output") is None or (text in self._passed and anew is None):
            return text
        return str(await self._checked("output", text, "output" if anew is None else f"output-{anew}"))

    async def output_parts(self, parts: list[JsonObject]) -> list[JsonObject]:
        if self._rules.at("output") is None:
            return parts
        checked: list[JsonObject] = await self._checked("output", parts, "output-parts")
        return checked

    async def learnable(self, text: str) -> str | None:
        """What of a text may be kept in memory; None for nothing. It is about what is kept, so it ends no run."""
        if self._rules.at("output") is None:
            return text
        inspected = await self.inspect_message(text)
        # Recorded like any verdict, but it ends no run: nothing has left it.
        await self.record("output", f"memory-{sha256(text.encode()).hexdigest()[:16]}", inspected.verdicts)
        return None if inspected.blocked is not None or inspected.asks else str(inspected.content)

    def passed(self, text: str) -> None:
        self._passed.add(text)

    # -- tools -----------------------------------------------------------------------------------------

    async def check(self, stage: Stage, tool: str, call_id: str, content: Any) -> Guarded:
        """The gateway's port. A lost lease or a broken store is no verdict, so it passes as a `CutOff`."""
        if self._rules.at(stage) is None:
            return Guarded(content)
        try:
            inspected = await self.inspect(stage, content, call_id, tool=tool, call_id=call_id)
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error
        if self.blocked is not None:
            return Guarded(None, self.blocked.failure)
        if stage == "toolResults" and inspected.asks:
            self._asking[call_id] = list(inspected.asks)
        return Guarded(inspected.content, ask=bool(inspected.asks))

    async def release(self, call_id: str) -> Failure | None:
        """Before the model gets a result: whether a person has seen it, where a rule asks for that."""
        try:
            for rule in self._asking.get(call_id, ()):
                arguments = {"guardrail": rule.name, "stage": "toolResults", "callId": call_id}
                await self.approve(rule, "toolResults", call_id, arguments)
        except GuardrailBlocked as blocked:
            return blocked.failure
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error
        return None

    # -- asking and recording ----------------------------------------------------------------------------

    async def inspect(
        self, stage: Stage, content: Any, key: str, *, tool: str | None = None, call_id: str | None = None
    ) -> Inspected:
        async def recall(rule: GuardrailRule, subject: Subject, ask: Callable[[], Awaitable[Judgement]]) -> Judgement:
            return await self._recalled(rule, stage, key, ask)

        subject = Subject(stage, content, self._about, tool, call_id, self.ask_model)
        inspected = await self._rules.inspect(subject, recall if stage in _RECALLED else None)
        await self.record(stage, key, inspected.verdicts, inspected.blocked, call_id=call_id)
        return inspected

    async def inspect_message(self, content: Any) -> Inspected:
        """A complete message; whoever asks records the verdicts with it."""
        return await self._rules.inspect(Subject("output", content, self._about, ask_model=self.ask_model))

    def pending(self, request_hash: str) -> Mapping[str, Any] | None:
        """The message that a person was asked about before it was recorded, if this request was made before."""
        recorded = {answer["messageId"] for answer in self._log.memo.answers}
        for asked in self._log.memo.interrupts:
            arguments = asked.get("arguments")
            if asked["kind"] == "approval" and isinstance(arguments, Mapping) and "completed" in arguments:
                completed = arguments["completed"]
                if completed["requestHash"] == request_hash and completed["messageId"] not in recorded | self._released:
                    return arguments
        return None

    async def approved(self, arguments: Mapping[str, Any]) -> JsonObject:
        """The message that was held, once everybody agreed who had to be asked."""
        self.go_on()
        completed: JsonObject = arguments["completed"]
        for name in arguments["asks"]:
            await self.approve(self._named[name], "output", completed["messageId"], {**arguments, "guardrail": name})
        self._released.add(completed["messageId"])
        self.passed(completed["text"])
        return completed

    async def report_stream(self, screen: StreamScreen, message_id: str) -> None:
        """What was found in a message on its way out."""
        await self.record("output", message_id, streamed_verdicts(screen), screen.blocked, message_id=message_id)

    async def record(
        self,
        stage: Stage,
        key: str,
        verdicts: Iterable[GuardrailVerdict],
        blocked: GuardrailRule | None = None,
        *,
        call_id: str | None = None,
        message_id: str | None = None,
    ) -> None:
        """Each verdict once, all of one content together."""
        key = f"{stage}:{key}"
        made = [
            _event(verdict, stage, key, blocked, call_id, message_id)
            for verdict in verdicts
            if (verdict.rule, key) not in self._recorded
        ]
        if made:
            await self._log.record(*made)
            self._recorded |= {(one.guardrail, key) for one in made}
        if blocked is not None and self.blocked is None:
            self.blocked = GuardrailBlocked(blocked)

    async def _recalled(
        self, rule: GuardrailRule, stage: Stage, key: str, ask: Callable[[], Awaitable[Judgement]]
    ) -> Judgement:
        name = f"guardrail:{rule.name}:{stage}:{key}"
        recorded = self._log.memo.steps.get(name)
        if recorded is None:
            judgement = await ask()
            step = BuiltStepCompleted(step="guardrail", key=name, result=_judgement_json(judgement))
            try:
                await self._log.record(step)
            except (StoreError, Superseded) as error:
                raise CutOff(error) from error
            return judgement
        result = recorded["result"]
        if not result["found"]:
            return Passed()
        return Found(tuple(Position(*position) for position in result["positions"]), result["reason"])

    async def approve(
        self, rule: GuardrailRule, stage: Stage, key: str, arguments: JsonObject, media: tuple[BlobDraft, ...] = ()
    ) -> None:
        """Returns if a person agreed; a run whose caller wants nobody to be asked is blocked. `media` is the content
        that the arguments refer to."""
        question = f"guardrail:{rule.name}:{stage}:{key}"
        asked = None if self._ask_nobody else self._log.memo.of_call("approval", question)
        if asked is None and not self._ask_nobody:
            raise await self._log.raise_interrupt(
                InterruptRaised(
                    interrupt_id=new_id("interrupt"),
                    kind="approval",
                    title=f"The guardrail {rule.name} asks whether this may pass ({stage}).",
                    expires_at=self._log.expiry(),
                    tool=f"guardrail:{rule.name}",
                    call_id=question,
                    arguments=arguments,
                    approver="anyone",
                    submitted_by=self._submitted_by,
                ),
                blobs=media,
            )
        if asked is not None and not asked.get("expired"):
            answer = asked.get("answer")
            if answer is None:
                raise Suspended(asked["interruptId"])
            if answer["decision"] == "approve":
                return
        denied = replace(GuardrailVerdict(rule.name, rule.action), reason="it was not approved")
        await self.record(stage, f"{key}:answer", [denied], rule)
        self.go_on()


def streamed_verdicts(screen: StreamScreen) -> list[GuardrailVerdict]:
    found: dict[str, tuple[GuardrailRule, list[Position]]] = {}
    for rule, position in screen.found:
        found.setdefault(rule.name, (rule, []))[1].append(position)
    verdicts = [GuardrailVerdict(rule.name, rule.action, tuple(places)) for rule, places in found.values()]
    if screen.failed is None or screen.blocked is None:
        return verdicts
    blocked = screen.blocked
    failed = GuardrailVerdict(blocked.name, blocked.action, failed=screen.failed)
    return [failed, *(verdict for verdict in verdicts if verdict.rule != blocked.name)]


def _event(
    verdict: GuardrailVerdict,
    stage: Stage,
    key: str,
    blocked: GuardrailRule | None,
    call_id: str | None,
    message_id: str | None,
) -> GuardrailTriggered:
    positions = [
        FoundAt(path=path, start=start, end=end, label=label)
        for path, start, end, label in verdict.positions[:MAX_POSITIONS]
    ]
    return GuardrailTriggered(
        guardrail=verdict.rule,
        stage=stage,
        action=verdict.action,
        blocked=blocked is not None and blocked.name == verdict.rule,
        reason=verdict.reason,
        error=verdict.failed,
        positions=positions or None,
        count=len(verdict.positions) or None,
        key=key,
        call_id=call_id,
        message_id=message_id,
    )


def _judgement_json(judgement: Judgement) -> JsonObject:
    if not isinstance(judgement, Found):
        return {"found": False}
    positions = [list(position) for position in judgement.positions]
    return {"found": True, "positions": positions, "reason": judgement.reason}
