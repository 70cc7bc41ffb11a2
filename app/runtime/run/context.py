"""The context of one run: everything its backend may do, each of it an event before it is seen.

Resume is re-entry: the backend is called again, and each call that has a recorded result gets it back without acting.
Results are matched by content, so that parallel branches may come back in any order; a call that matches none is new.
Leaves to others: model calls, tool calls, steps of the upstream, subagents, commands.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Final

from app.backends.contract import (
    AgentAnswer,
    CallOptions,
    CallRequest,
    CallResult,
    ModelAnswer,
    Output,
    RequestView,
    Skill,
    StepFailed,
    ToolSpecView,
)
from app.backends.workflow_contract import Waiting
from app.core import json
from app.core.artifact import ArtifactRef
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry
from app.core.suspend import Parked, Suspended
from app.core.value import value
from app.events.catalog import Payload, adapter
from app.events.catalog.execution import CheckpointCreated, ContextCompacted
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.policy import SchemaViolated
from app.events.catalog.request import DEFAULT_MODE, Mode
from app.events.catalog.skill import RoleReported, RoleTransitioned
from app.events.catalog.values import Effect, IssueValue
from app.events.envelope import Event
from app.policy.contract import Point
from app.policy.hooks import Fired
from app.runtime.run.budgets import RunBudget
from app.runtime.run.calls_in_flight import CallsInFlight, CountedCall
from app.runtime.run.child_request import Branch, ChildRequest
from app.runtime.run.memo import MALFORMED
from app.runtime.run.model_calls import ModelCalls
from app.runtime.run.recorded_facts import RecordedFacts
from app.runtime.run.run_artifacts import RunArtifacts
from app.runtime.run.run_commands import RunCommands
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import CutOff, RunLog
from app.runtime.run.tool_calls import ToolCalls
from app.runtime.run.unused import Unused, content_hash, not_recorded
from app.runtime.run.upstream_steps import UpstreamSteps
from app.runtime.run.voice import Voice
from app.views.history import user_message
from app.views.run import Run
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.specs.agent import Gate
from app.workspace.specs.base import Limits

GO_ON: Final = "Go on."
"""What begins a turn that a Stop hook granted without saying what for."""

MAX_STATE_BYTES: Final = 4 * 1024 * 1024
"""Of the document that a run may leave for the next one."""

AskAgent = Callable[[str, Any, str], Coroutine[Any, Any, AgentAnswer]]
RunChild = Callable[[ChildRequest, Branch], Coroutine[Any, Any, AgentAnswer]]
Finalize = Callable[[str], Awaitable[str]]
JudgeArtifact = Callable[[str, Gate, str], Coroutine[Any, Any, Mapping[str, Any]]]


@value(frozen=True, slots=True)
class RunPorts:
    """What a context needs for what most runs never do. Lent when a backend first does it."""

    ask_agent: AskAgent
    run_child: RunChild
    judge_artifact: JudgeArtifact
    artifacts: RunArtifacts
    voice: Voice


class RunContext:
    # What a backend gets to know of its run, besides what the properties below look up when they are asked.
    input: Any
    instructions: str
    history: Sequence[JsonObject]
    memory: str
    skill: Skill | None
    tools: frozenset[str]
    config: Mapping[str, Any]
    """Of its own kind, also where it answers for the agent of a former workspace, in a log that another kind began."""
    state: Any
    """What the thread's last run of the agent left."""

    def __init__(
        self,
        run: Run,
        asked: Mapping[str, Any],
        queued: Event | None,
        workspace: CompiledWorkspace,
        definition: CompiledAgent,
        log: RunLog,
        models: ModelCalls,
        tools: ToolCalls,
        hooks: RunHooks,
        budget: RunBudget,
        schemas: SchemaRegistry,
        lend: Callable[[], RunPorts],
        finalize: Finalize | None = None,
    ) -> None:
        """`asked` is what `queued`, the run's first event, says. Whoever makes the context sets the attributes of the
        class."""
        self._run, self._request, self._queued = run, asked, queued
        self.workspace, self.definition = workspace, definition
        self.max_turns, self.context_policy = definition.spec.max_turns, definition.spec.context_policy
        self._log, self._models, self._tools, self._hooks = log, models, tools, hooks
        self._schemas, self._lend, self._finalize = schemas, lend, finalize
        # Not a method of this object: the two would keep each other, and all of the run, until a garbage collection.
        self._commands = RunCommands(log, hooks, partial(_obey, models, tools, budget), models.guarded)
        self._voice: Voice | None = None
        """Made when the backend first says something itself."""
        self._compactions = 0
        self.calls = CallsInFlight()
        self.left_state: Any = None
        self.held_back = False
        """Whether nothing of the answer is said before a gate has decided about it."""

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def thread_id(self) -> str:
        return self._run.thread_id

    @property
    def agent(self) -> str:
        return self.definition.name

    @property
    def roles(self) -> Mapping[str, str]:
        return {role.name: role.prompt for role in self.workspace.roles.values()}

    @property
    def max_reworks(self) -> int:
        return self.definition.spec.max_reworks

    @property
    def mode(self) -> Mode:
        """How a cycle goes about its work."""
        mode: Mode = self._request.get("mode") or DEFAULT_MODE
        return mode

    @property
    def asks_nobody(self) -> bool:
        """The conversation wants no approvals to be asked for."""
        return self._request.get("approvalPolicy") == "never"

    @property
    def submitted_by(self) -> str | None:
        return None if self._queued is None else self._queued.actor

    @property
    def submitted_ms(self) -> int:
        return self._run.created_at if self._queued is None else self._queued.at

    @property
    def _backend(self) -> str:
        """The kind of the backend."""
        return self._log.scope.actor.removeprefix("backend:")

    # Made when a backend first needs them: many runs are one model call.

    @cached_property
    def request(self) -> RequestView:
        parts = user_message(self.input).get("parts", ())
        return RequestView(
            run_id=self.run_id,
            thread_id=self.thread_id,
            agent=self.agent,
            input=self.input,
            parts=tuple(parts),
            metadata=MappingProxyType(json.loads(json.dumps(self._request.get("metadata") or {}))),
            labels=MappingProxyType(dict(self._request.get("labels") or {})),
            parent_run_id=self._run.parent_run_id,
        )

    @cached_property
    def _ports(self) -> RunPorts:
        return self._lend()

    @property
    def artifacts(self) -> RunArtifacts:
        return self._ports.artifacts

    @cached_property
    def _facts(self) -> RecordedFacts:
        return RecordedFacts(self._log)

    @cached_property
    def _steps(self) -> UpstreamSteps:
        return UpstreamSteps(self._log, self._tools, self._hooks)

    @cached_property
    def _asked(self) -> Unused:
        """A tool's questions are found by their call."""
        asked = [it for it in self._log.memo.interrupts if it["kind"] == "question" and it.get("callId") is None]
        return Unused((it.get("key") or "", it) for it in asked)

    @property
    def cancelled(self) -> bool:
        return self._log.control.cancelled.is_set

    @property
    def offered(self) -> frozenset[str]:
        """The tools that a model is shown."""
        tools = self._tools.offered()
        return frozenset([tool.name for tool in tools]) if tools else frozenset()

    @property
    def tool_definitions(self) -> Mapping[str, ToolSpecView]:
        """Also those that the conversation denies: an upstream may hold on to them, its model is not shown them."""
        return MappingProxyType(
            {
                tool.name: ToolSpecView(tool.name, tool.description, tool.input, tool.output, tool.effect)
                for tool in self._tools.known()
            }
        )

    def set_state(self, value: Any) -> None:
        size = len(json.canonical(value))
        if size > MAX_STATE_BYTES:
            message = f"The state of {size} bytes exceeds {MAX_STATE_BYTES} bytes."
            raise StepFailed(Failure("STATE_TOO_LARGE", message))
        self.left_state = value

    # -- signals and facts ---------------------------------------------------------------------------

    async def emit(self, phase: str, **fields: Any) -> None:
        if self.held_back and phase in adapter.DELTAS:
            return
        signal = adapter.Signal(adapter=self._backend, phase=phase, **fields)
        await self._facts.record(adapter.AdapterEvent(event=signal))

    async def record_once(self, payload: Payload) -> None:
        """Record a fact of a workflow, matched by content like the signals."""
        await self._facts.record(payload)

    async def fire(self, point: Point, subject: JsonObject, key: str = "") -> Fired:
        """Ask the hooks of a workflow's points."""
        return await self._hooks.fire(point, subject, key)

    @property
    def schemas(self) -> SchemaRegistry:
        """The published ones."""
        return self._schemas

    @property
    def log(self) -> RunLog:
        """For what executes workflows within the runtime; a backend does without it."""
        return self._log

    async def say(self, message_id: str, text: str, part: int = 0) -> None:
        await self._log.opened()
        await self._log.settle()
        self._log.stop_if_cancelled()
        if self.held_back:
            return
        if self._voice is None:
            self._voice = self._ports.voice
        await self._voice.say(message_id, text, part)

    async def finish_saying(self) -> None:
        """Nothing follows what was said so far."""
        if self._voice is not None:
            await self._voice.finish()

    async def checkpoint(self, label: str, data: Any = None) -> None:
        await self._facts.record(CheckpointCreated(label=label, data=data))

    async def transition(self, to: str, from_: str | None = None, reason: str | None = None) -> None:
        await self._facts.record(RoleTransitioned.model_validate({"to": to, "from": from_, "reason": reason}))

    async def report(self, role: str, schema_name: str, report: JsonObject, message_id: str | None = None) -> None:
        payload = RoleReported(role=role, schema_name=schema_name, report=report, message_id=message_id)
        await self._facts.record(payload, apart=("report",) if self.held_back else ())

    async def violations(self, schema_name: str, value: Any, boundary: str) -> list[str]:
        issues = self._schemas.validator(schema_name).issues(value)
        if issues:
            found = [IssueValue(path=issue.path, message=issue.message) for issue in issues]
            payload = SchemaViolated(schema_name=schema_name, boundary=boundary, code=MALFORMED, issues=found)
            await self._facts.record(payload)
        return [f"{issue.path or '/'}: {issue.message}" for issue in issues]

    # -- models --------------------------------------------------------------------------------------

    async def call_model(self, messages: Sequence[JsonObject], options: CallOptions = CallOptions()) -> ModelAnswer:
        async with CountedCall(self.calls):
            if self._voice is not None:
                await self._voice.finish()
            tools, commands = self._tools.offered(options.tools), self._commands
            if commands.taken_up_at != self._models.number:
                await commands.recorded_with(messages)
                recorded = await self._models.recorded(messages, tools, options)
                if recorded is not None:
                    return recorded
                await commands.fresh_with(messages)
            return await self._models.call(messages, tools, options)

    async def steering(self, key: str | None = None) -> list[JsonObject]:
        if key is not None:
            await self._commands.at_key(key)
        else:
            await self._commands.at_number(self._models)
        return self._commands.messages() if self._commands.said else []

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
        await self._facts.record(payload)

    # -- tools and subagents -------------------------------------------------------------------------

    async def call_tools(self, calls: Sequence[CallRequest], tools: frozenset[str] | None = None) -> list[CallResult]:
        await self.finish_saying()
        try:
            return await self.calls.effect(self._tools.call(calls, tools))
        except CutOff as cut:
            raise cut.cause from cut

    async def call_agent(self, name: str, given: Any, call_id: str | None = None) -> AgentAnswer:
        await self.finish_saying()
        asked = call_id or f"agent-{content_hash(name, given)[:24]}"
        return await self.calls.effect(self._ports.ask_agent(name, given, self._tools.ids.of(asked, name, given)))

    async def call_branch_tool(self, call: CallRequest) -> CallResult:
        """A tool call of a workflow's step. It has a tool's grace to end when the step is ended."""
        await self.finish_saying()
        try:
            return await self.calls.branch(self._tools.call_whole(call), Branch())
        except CutOff as cut:
            raise cut.cause from cut

    async def call_child(self, asked: ChildRequest) -> AgentAnswer:
        """A run for a step of a workflow. It ends with its caller, and the log says so."""
        branch = Branch()
        answer = await self.calls.branch(self._child(asked, branch), branch)
        if isinstance(answer, Parked):
            raise Waiting(answer.interrupt_id)
        return answer

    async def _child(self, asked: ChildRequest, branch: Branch) -> AgentAnswer | Parked:
        """One that has nothing left to do before an answer stops no other branch."""
        asked = replace(asked, input=json.loads(json.canonical(asked.input)))  # as one that is resumed gets it
        try:
            return await self._ports.run_child(asked, branch)
        except Parked as parked:
            return parked

    async def run_cycle(self, name: str) -> Output:
        """The cycle that a skill or a lead chose, as a run of its own, whose result is this run's."""
        if name not in self.workspace.units.cycles:
            raise StepFailed(Failure("WORKFLOW_NOT_FOUND", f"The workspace has no cycle {name[:100]!r}."))
        try:
            answer = await self.call_child(ChildRequest(None, self.input, f"cycle.{name}", workflow=name))
        except Waiting as waiting:
            raise Parked(waiting.interrupt_id) from None
        if not answer.ok:
            error = answer.error or {}
            raise StepFailed(Failure(error.get("code", "SUBAGENT_FAILED"), error.get("message", answer.text)))
        return Output(answer.text, structured=not isinstance(answer.output, str))

    async def step(
        self,
        key: str,
        effect: Effect,
        fn: Callable[[], Awaitable[Any]],
        *,
        tool: str | None = None,
        args: JsonObject | None = None,
    ) -> Any:
        return await self.calls.effect(self._steps.run(key, effect, fn, tool, args))

    async def artifact(self, name: str, mime: str, data: bytes | None = None, path: str | None = None) -> ArtifactRef:
        return await self.calls.effect(self.artifacts.create(name, mime, data, path))

    async def judge_artifact(self, phase: str, gate: Gate, text: str) -> Mapping[str, Any]:
        """An evaluator's verdict about what a phase delivers, as it is recorded."""
        async with CountedCall(self.calls):
            return await self._ports.judge_artifact(phase, gate, text)

    # -- interrupts --------------------------------------------------------------------------------------

    async def ask(self, title: str, questions: Sequence[JsonObject], key: str | None = None) -> JsonObject:
        async with CountedCall(self.calls):
            await self.finish_saying()
            found_by = f"key-{content_hash(key)}" if key is not None else content_hash(title, list(questions))
            asked = self._asked.take(found_by)
            if asked is None:
                if self._asked and self._log.strict:
                    raise StepFailed(not_recorded("This question"))
                await self._log.begin_step()
                raise await self._log.raise_interrupt(
                    InterruptRaised(
                        interrupt_id=new_id("interrupt"),
                        kind="question",
                        title=title,
                        questions=list(questions),
                        key=found_by,
                        expires_at=self._log.expiry(),
                    )
                )
            if asked.get("expired"):
                raise StepFailed(Failure("QUESTION_EXPIRED", "The question was not answered in time."))
            if "answer" not in asked:
                raise Suspended(asked["interruptId"])
            answers: JsonObject = asked["answer"]["answers"]
            return answers


def _obey(models: ModelCalls, tools: ToolCalls, budget: RunBudget, command: str, arguments: Mapping[str, Any]) -> None:
    if command == "switch_model_plan":
        models.model = arguments["model"]
    elif command == "set_limits":
        budget.set(Limits.model_validate(arguments))
        tools.limit = budget.tool_calls
    elif command == "set_parameters":
        models.ask(arguments)
        tools.parallel = models.parallel
