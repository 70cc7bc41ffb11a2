"""The context of one run: everything its backend may do, each of it an event before it is seen.

Resume is re-entry: the backend is called again, and each step that has a recorded result gets it back without acting.
A step that differs from what was recorded fails the run. Leaves to others: model calls, tool calls, subagents.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.backends.contract import AgentAnswer, CallOptions, CallRequest, CallResult, ModelAnswer, Skill, StepFailed
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry
from app.core.suspend import Suspended
from app.events.catalog import Payload, adapter
from app.events.catalog.execution import CheckpointCreated, ContextCompacted, StepCompleted
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.policy import SchemaViolated
from app.events.catalog.skill import RoleReported, RoleTransitioned
from app.events.catalog.values import IssueValue
from app.events.recorder import PayloadEntry
from app.policy.contract import Point
from app.policy.points import prompt_input, prompt_subject
from app.runtime.run.memo import MALFORMED, StoredPayload
from app.runtime.run.model_calls import ModelCalls
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import CutOff, RunLog, expect
from app.runtime.run.tool_calls import ToolCalls
from app.views.history import steered
from app.workspace.specs.agent import ContextPolicy

GO_ON: Final = "Go on."
"""What begins a turn that a Stop hook granted without saying what for."""

_TAKEN_UP: Final = frozenset({"steer", "switch_model_plan", "set_limits", "set_parameters"})
"""Commands that take effect with a model call."""

_MAX_SAID: Final = 64 * 1024
"""Characters of one delta, whatever a backend says at once: it has to fit into its row of the log."""

AskAgent = Callable[[str, Any, str], Awaitable[AgentAnswer]]
Finalize = Callable[[str], Awaitable[str]]
SetLimits = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Brief:
    """What a backend gets to know of its run."""

    run_id: str
    thread_id: str
    agent: str
    input: Any
    instructions: str
    history: Sequence[JsonObject]
    skill: Skill | None
    roles: Mapping[str, str]
    tools: frozenset[str]
    max_turns: int
    max_reworks: int
    context_policy: ContextPolicy
    config: Mapping[str, Any] = field(default_factory=dict)
    memory: str = ""


class RunContext:
    def __init__(
        self,
        brief: Brief,
        log: RunLog,
        models: ModelCalls,
        tools: ToolCalls,
        ask_agent: AskAgent,
        schemas: SchemaRegistry,
        set_limits: SetLimits,
        hooks: RunHooks,
        finalize: Finalize | None = None,
    ) -> None:
        self._log, self._models, self._tools, self._hooks = log, models, tools, hooks
        self._ask_agent, self._schemas, self._set_limits = ask_agent, schemas, set_limits
        self._finalize = finalize
        self._recorded_by_type: dict[str, int] = {}
        self._questions = self._agents = self._compactions = 0
        self._taken_up = -1
        """The number of the model call for which commands were last taken up."""
        self._steered: list[JsonObject] = []
        self.held_back = False
        """Whether nothing of the answer is said before a gate has decided about it."""
        self.run_id, self.thread_id, self.agent = brief.run_id, brief.thread_id, brief.agent
        self.input, self.instructions, self.history = brief.input, brief.instructions, brief.history
        self.skill, self.roles, self.tools = brief.skill, brief.roles, brief.tools
        self.max_turns, self.max_reworks, self.config = brief.max_turns, brief.max_reworks, brief.config
        self.context_policy, self.memory = brief.context_policy, brief.memory

    @property
    def cancelled(self) -> bool:
        return self._log.control.cancelled.is_set()

    # -- signals and facts ---------------------------------------------------------------------------

    async def emit(self, phase: str, **fields: Any) -> None:
        self._log.stop_if_cancelled()
        if self.held_back and phase in adapter.DELTAS:
            return
        kind = self._log.scope.actor.removeprefix("backend:")
        await self._log.record(adapter.AdapterEvent(event=adapter.Signal(adapter=kind, phase=phase, **fields)))

    async def say(self, message_id: str, text: str, part: int = 0) -> None:
        await self._log.settle()
        self._log.stop_if_cancelled()
        if self.held_back:
            return
        scope = self._log.scope
        for start in range(0, len(text) or 1, _MAX_SAID):
            piece = text[start : start + _MAX_SAID]
            expect(await self._log.recorder.record_delta(scope, adapter.OUTPUT_DELTA, message_id, part, piece))

    async def checkpoint(self, label: str, data: Any = None) -> None:
        await self._tell_once(CheckpointCreated(label=label, data=data), "label")

    async def transition(self, to: str, from_: str | None = None, reason: str | None = None) -> None:
        await self._tell_once(RoleTransitioned.model_validate({"to": to, "from": from_, "reason": reason}), "to")

    async def report(self, role: str, schema_name: str, report: JsonObject, message_id: str | None = None) -> None:
        payload = RoleReported(role=role, schema_name=schema_name, report=report, message_id=message_id)
        await self._tell_once(payload, "role", apart=("report",) if self.held_back else ())

    async def _tell_once(self, payload: Payload, compared: str, apart: tuple[str, ...] = ()) -> None:
        """In order; one that was recorded before is not recorded again, and must be the same."""
        number = self._recorded_by_type.get(payload.type, 0)
        self._recorded_by_type[payload.type] = number + 1
        recorded = self._log.memo.facts.get(payload.type, ())
        if number >= len(recorded):
            self._log.stop_if_cancelled()
            await self._log.record(PayloadEntry(payload, apart=apart) if apart else payload)
        elif recorded[number][compared] != payload.to_json()[compared]:
            message = f"{payload.type} number {number + 1} is not the recorded one"
            raise StepFailed(Failure("BACKEND_NOT_DETERMINISTIC", message))

    async def violations(self, schema_name: str, value: Any, boundary: str) -> list[str]:
        issues = self._schemas.validator(schema_name).issues(value)
        if issues:
            found = [IssueValue(path=issue.path, message=issue.message) for issue in issues]
            payload = SchemaViolated(schema_name=schema_name, boundary=boundary, code=MALFORMED, issues=found)
            await self._tell_once(payload, "schemaName")
        return [f"{issue.path or '/'}: {issue.message}" for issue in issues]

    # -- models --------------------------------------------------------------------------------------

    async def call_model(self, messages: Sequence[JsonObject], options: CallOptions = CallOptions()) -> ModelAnswer:
        await self._take_up_commands()
        return await self._models.call(messages, self._tools.offered(options.tools), options)

    async def steering(self) -> list[JsonObject]:
        await self._take_up_commands()
        messages, self._steered = self._steered, []
        return messages

    async def _take_up_commands(self) -> None:
        """Which commands count from which model call on is recorded, so that re-entry takes up the same ones."""
        number, memo = self._models.number, self._log.memo
        if self._taken_up == number:
            return
        self._taken_up = number
        key = f"commands:{number}"
        recorded = memo.steps.get(key)
        if recorded is not None:
            fresh: list[StoredPayload] = recorded["result"]
        elif number < len(memo.answers):
            return
        else:
            fresh = [await self._submitted(command) for command in self._new_commands()]
            if not fresh:
                return
            await self._log.record(StepCompleted(step="commands", key=key, result=fresh))
        self._log.control.taken |= {command["commandId"] for command in fresh}
        self._steered += steered(fresh)
        for command in fresh:
            self._obey(command["command"], command["arguments"])

    async def _submitted(self, command: StoredPayload) -> StoredPayload:
        """A message sent to a running run passes the same hooks as its input."""
        said = next((name for name in ("hint", "message") if name in command["arguments"]), None)
        if command["command"] != "steer" or said is None:
            return command
        fired = await self._hooks.fire(
            Point.USER_PROMPT_SUBMIT, prompt_subject(command["arguments"][said]), command["commandId"]
        )
        if isinstance(fired.decision, Deny):
            return command | {"arguments": {"denied": fired.decision.reason}}
        return command | {"arguments": {said: prompt_input(fired.subject)}}

    def _new_commands(self) -> list[StoredPayload]:
        memo = self._log.memo
        if not memo.commands and not self._log.control.commands:
            return []
        steps = [step for step in memo.steps.values() if step["step"] == "commands"]
        seen = self._log.control.taken.union(command["commandId"] for step in steps for command in step["result"])
        fresh: dict[str, StoredPayload] = {}
        # Commands are for the root run; those that came since it was entered are not a subagent's to take up.
        since = self._log.control.commands if self._log.is_root else []
        for command in memo.commands + since:
            if command["commandId"] not in seen and command["command"] in _TAKEN_UP:
                fresh[command["commandId"]] = command
        self._log.control.commands = [c for c in self._log.control.commands if c["commandId"] not in fresh]
        return list(fresh.values())

    def _obey(self, command: str, arguments: StoredPayload) -> None:
        if command == "switch_model_plan":
            self._models.model = arguments["model"]
        elif command == "set_limits":
            self._set_limits(arguments)
        elif command == "set_parameters":
            self._models.ask(arguments)
            self._tools.parallel = self._models.parallel

    @property
    def context_tokens(self) -> int | None:
        return self._models.room(self._tools.offered())

    # -- hooks between turns ---------------------------------------------------------------------------

    async def go_on(self, turn: int, output: str) -> str | None:
        subject = {"turn": turn, "maxTurns": self.max_turns, "output": output}
        decision = (await self._hooks.fire(Point.STOP, subject, str(turn))).decision
        if isinstance(decision, Deny):
            return None
        return decision.changes["message"] if isinstance(decision, Transform) else GO_ON

    async def before_finalize(self, output: str) -> str | None:
        return await self._finalize(output) or None if self._finalize is not None else None

    async def may_compact(self, strategy: str, messages: int, tokens: int) -> str | None:
        number, self._compactions = self._compactions, self._compactions + 1
        subject = {"strategy": strategy, "messages": messages, "tokens": tokens}
        decision = (await self._hooks.fire(Point.PRE_COMPACT, subject, str(number + 1))).decision
        if isinstance(decision, Deny):
            return None
        return decision.changes["instructions"] if isinstance(decision, Transform) else ""

    async def compacted(
        self,
        strategy: str,
        before: tuple[int, int],
        after: tuple[int, int],
        summary: str | None = None,
        kept: int | None = None,
    ) -> None:
        payload = ContextCompacted(
            strategy=strategy,
            messages_before=before[0],
            messages_after=after[0],
            tokens_before=before[1],
            tokens_after=after[1],
            summary=summary,
            kept_messages=kept,
        )
        await self._tell_once(payload, "messagesBefore")

    # -- tools and subagents -------------------------------------------------------------------------

    async def call_tools(self, calls: Sequence[CallRequest], tools: frozenset[str] | None = None) -> list[CallResult]:
        try:
            return await self._tools.call(calls, tools)
        except CutOff as cut:
            raise cut.cause from cut

    async def call_agent(self, name: str, given: Any, call_id: str | None = None) -> AgentAnswer:
        number, self._agents = self._agents, self._agents + 1
        return await self._ask_agent(name, given, self._tools.ids.of(call_id or f"agent-{number + 1}", name, given))

    # -- interrupts --------------------------------------------------------------------------------------

    async def ask(self, title: str, questions: Sequence[JsonObject]) -> JsonObject:
        number, self._questions = self._questions, self._questions + 1
        asked = self._log.memo.question(number)
        if asked is None:
            await self._log.begin_step()
            raise await self._log.raise_interrupt(
                InterruptRaised(
                    interrupt_id=new_id("interrupt"),
                    kind="question",
                    title=title,
                    questions=list(questions),
                    expires_at=self._log.expiry(),
                )
            )
        if asked["title"] != title:
            raise StepFailed(Failure("BACKEND_NOT_DETERMINISTIC", f"Question {number + 1} is not the recorded one."))
        if asked.get("expired"):
            raise StepFailed(Failure("QUESTION_EXPIRED", "The question was not answered in time."))
        if "answer" not in asked:
            raise Suspended(asked["interruptId"])
        answers: JsonObject = asked["answer"]["answers"]
        return answers
