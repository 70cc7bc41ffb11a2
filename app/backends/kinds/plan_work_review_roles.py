"""How a role of Plan-Work-Review speaks: its prompt, what it is given, and an answer that passes its schema or fails.

A role starts with an empty conversation and knows of the others only what they handed over. An answer that breaks its
schema is sent back once with what is wrong; the second one ends the run. Leaves to others: which role speaks when.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from app.backends.contract import CallOptions, CallResult, Context, ModelAnswer, Output, StepFailed
from app.backends.conversation import Conversation
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value


@runtime_checkable
class RoleLog(Protocol):
    """What Plan-Work-Review asks of its context beyond what every backend gets."""

    @property
    def roles(self) -> Mapping[str, str]:
        """The prompts of the workspace's roles, by name."""
        ...

    @property
    def max_reworks(self) -> int: ...

    async def transition(self, to: str, from_: str | None = None, reason: str | None = None) -> None:
        """Record that another role has the word. Once, also when the backend is entered again."""
        ...

    async def report(self, role: str, schema_name: str, report: JsonObject, message_id: str | None = None) -> None:
        """Record what a role handed over, after it passed its schema. Once, like a transition."""
        ...

    async def run_cycle(self, name: str) -> Output:
        """The cycle that the lead chose, as a run of its own."""
        ...

    async def violations(self, schema_name: str, value: Any, boundary: str) -> list[str]:
        """What is wrong with a payload by a published schema; recorded when there is something."""
        ...


class RoleContext(Context, RoleLog, Protocol): ...


_FENCED: Final = re.compile(r"\A```[a-z]*\s*\n(.*)\n```\Z", re.DOTALL)


@value(frozen=True, slots=True)
class Role:
    name: str
    schema: str
    prose: bool = False
    """It answers in words, which are put into its schema for it."""


LEAD: Final = Role("lead", "lead_directive_v1")
PLANNER: Final = Role("planner", "plan_v1")
WORKER: Final = Role("worker", "worker_report_v1")
REVIEWER: Final = Role("reviewer", "review_result_v1")
ADVISOR: Final = Role("advisor", "worker_report_v1", prose=True)
SCAFFOLDER: Final = Role("scaffolder", "worker_report_v1", prose=True)


@value(frozen=True, slots=True)
class Handoff:
    """What a role handed over: JSON that passed its schema, and the tool calls behind it."""

    role: str
    value: JsonObject
    results: tuple[CallResult, ...] = ()

    @property
    def calls(self) -> list[JsonObject]:
        """What really happened, whatever the report says of it."""
        return [{"id": made.call_id, "name": made.name, "ok": made.ok} for made in self.results]


class Voices:
    """The roles of one run."""

    def __init__(self, ctx: RoleContext) -> None:
        self._ctx = ctx
        self._steered: list[JsonObject] = []
        """What was said to the run on the way; it holds for every role after that, too."""

    async def speak(
        self,
        role: Role,
        request: JsonObject,
        tools: frozenset[str] | None = None,
        earlier: Sequence[JsonObject] = (),
    ) -> Handoff:
        """With `tools` the role may act, if only with those; without, its calls are not heard at all."""
        # Who plans the work knows what is remembered, and hands over what matters of it.
        memory = self._ctx.memory if role is LEAD else None
        conversation = Conversation(self._ctx, self._system(role), earlier, request, memory)
        talk = _Talk(self._ctx, role, conversation, tools)
        talk.conversation.add(self._steered)
        while True:
            said = await self._ctx.steering()
            self._steered += said
            talk.conversation.add(said)
            handoff = await talk.turn()
            if handoff is not None:
                return handoff

    def _system(self, role: Role) -> str:
        return "\n\n".join(text for text in (self._ctx.instructions, self._ctx.roles[role.name]) if text)


class _Talk:
    """One role's conversation from its prompt to its report."""

    def __init__(self, ctx: RoleContext, role: Role, conversation: Conversation, tools: frozenset[str] | None) -> None:
        self._ctx, self._role, self._tools = ctx, role, tools
        self.conversation = conversation
        self._results: list[CallResult] = []
        self._turns = 0
        self._repaired = False

    async def turn(self) -> Handoff | None:
        """One model call and what follows from it; None as long as the role has not reported."""
        if self._turns >= self._ctx.max_turns:
            message = f"The {self._role.name} gave no report within {self._ctx.max_turns} turns."
            raise StepFailed(Failure("MAX_TURNS", message))
        options = CallOptions(role=self._role.name, tools=self._tools or frozenset())
        answer = await self._ctx.call_model(await self.conversation.messages(), options)
        if answer.calls and self._tools is not None:
            await self._act(answer)
            return None
        return await self._report(answer)

    async def _act(self, answer: ModelAnswer) -> None:
        self._turns += 1
        self.conversation.add([answer.message])
        results = await self._ctx.call_tools(answer.calls, self._tools)
        self._results += results
        self.conversation.add(
            {"role": "tool", "content": made.content, "tool_call_id": made.call_id, "name": made.name}
            for made in results
        )

    async def _report(self, answer: ModelAnswer) -> Handoff | None:
        role = self._role
        value = self._read(answer.text)
        issues = await self._ctx.violations(role.schema, value, f"role.{role.name}")
        if not issues:
            await self._ctx.report(role.name, role.schema, value, answer.message_id)
            return Handoff(role.name, value, tuple(self._results))
        if self._repaired:
            message = f"The {role.name} twice gave no answer of the schema {role.schema}."
            raise StepFailed(Failure("MALFORMED_AGENT_MESSAGE", message))
        self._repaired = True
        self.conversation.add(_sent_back(answer, role, issues))
        return None

    def _read(self, text: str) -> Any:
        """The answer as JSON, or the text itself, which then breaks the schema."""
        value = _parsed(text)
        if self._role.prose and not (isinstance(value, dict) and "output" in value):
            value = {"output": text, "steps_completed": [], "schema_version": "v1"}
        if self._tools is not None and isinstance(value, dict):
            # The log knows which calls gave a result; a role only believes to.
            value = value | {"tool_calls_made": [f"{done.name}:{done.call_id}" for done in self._results if done.ok]}
        return value


def _parsed(text: str) -> Any:
    bare = text.strip()
    fenced = _FENCED.match(bare)
    try:
        return json.loads_strict((fenced[1] if fenced else bare).encode())
    except (json.JsonError, UnicodeEncodeError):
        return text


def _sent_back(answer: ModelAnswer, role: Role, issues: Sequence[str]) -> list[JsonObject]:
    found = "\n".join(f"- {issue}" for issue in issues)
    wanted = f"Answer again with one JSON object of the schema `{role.schema}` and nothing else."
    again: JsonObject = {"role": "user", "content": f"MALFORMED_AGENT_MESSAGE:\n{found}\n{wanted}"}
    # Calls that nobody makes must not stay in the conversation: providers insist on their results.
    said: JsonObject = {"role": "assistant", "content": answer.text} if answer.calls else answer.message
    return [said, again] if answer.text else [again]


def handoff_message(**parts: Any) -> JsonObject:
    """What is handed to a role, without what there is none of."""
    given: Mapping[str, Any] = {name: part for name, part in parts.items() if part is not None}
    return {"role": "user", "content": json.dumps(given).decode()}
