"""The screen of one message of a run that has rules: pieces through the stream's windows, the rest when it is complete.

Leaves to the policy room: what is found; to `run_guardrails`: recording and asking.
"""

from typing import Any

from app.core.errors import Failure
from app.events.catalog import Payload
from app.events.catalog.builders import BuiltModelCompleted
from app.models.completion import ToolCall
from app.models.contract import MessageContent
from app.policy.guardrails.contract import GuardrailRule, GuardrailVerdict
from app.policy.guardrails.screen import StreamScreen
from app.runtime.run.run_guardrails import RunGuardrails, streamed_verdicts


class SecretScreen(StreamScreen):
    """Of a run without rules: secrets only."""

    __slots__ = ()
    holds = False
    has_rules = False
    refused: Failure | None = None

    async def judge(self, content: MessageContent) -> MessageContent | Failure:
        return content

    async def approve(self, completed: Payload) -> None:
        return None

    async def report(self) -> None:
        return None


class MessageScreen(StreamScreen):
    __slots__ = ("_asks", "_guardrails", "_message_id", "_reported", "_verdicts")
    has_rules = True

    def __init__(self, guardrails: RunGuardrails, message_id: str) -> None:
        assert guardrails.scanners is not None
        super().__init__(guardrails.scanners)
        self._guardrails, self._message_id = guardrails, message_id
        self._verdicts: list[GuardrailVerdict] = []
        self._asks: tuple[GuardrailRule, ...] = ()
        self._reported = False

    @property
    def holds(self) -> bool:
        return self._guardrails.holds_messages

    @property
    def refused(self) -> Failure | None:
        return None if self.blocked is None else Failure("GUARDRAIL_DENIED", self.blocked.message)

    async def judge(self, content: MessageContent) -> MessageContent | Failure:
        """What was published piece by piece has been looked at; arguments of calls are looked at again, because they
        are used as values and not as the text of them."""
        arguments = {
            str(n): call.args if call.raw_args is None else call.raw_args for n, call in enumerate(content.calls)
        }
        if not self.holds:
            document: dict[str, Any] = {"toolCalls": arguments} if arguments else {}
        else:
            document = {"text": content.text, "reasoning": content.reasoning, "toolCalls": arguments}
            document = {name: value for name, value in document.items() if value}
        if not document or self.blocked is not None:
            self._guardrails.passed(content.text)
            return content if self.blocked is None else Failure("GUARDRAIL_DENIED", self.blocked.message)
        # Judges get a message that is only text as that text, which is what a rule about an answer is written for.
        plain = document.keys() == {"text"}
        subject = document["text"] if plain else document
        inspected = await self._guardrails.inspect_message(subject)
        self._verdicts += [_placed(verdict, plain) for verdict in inspected.verdicts]
        if inspected.blocked is not None:
            self.blocked = inspected.blocked
            return Failure("GUARDRAIL_DENIED", inspected.blocked.message)
        self._asks = inspected.asks
        changed = {"text": inspected.content} if plain else inspected.content
        judged = MessageContent(
            changed.get("text", content.text),
            changed.get("reasoning", content.reasoning),
            tuple(_with(call, changed["toolCalls"][str(n)]) for n, call in enumerate(content.calls))
            if "toolCalls" in changed
            else content.calls,
        )
        self._guardrails.passed(judged.text)
        return judged

    async def approve(self, completed: Payload) -> None:
        """The whole message goes with the question: who answers has to see it, and a resumed run goes on with it."""
        if not self._asks:
            return
        await self.report()
        names = [rule.name for rule in self._asks]
        arguments = {"stage": "output", "asks": names, "completed": completed.to_json()}
        media = completed.media if isinstance(completed, BuiltModelCompleted) else ()
        for rule in self._asks:
            named = {**arguments, "guardrail": rule.name}
            await self._guardrails.approve(rule, "output", self._message_id, named, media)

    async def report(self) -> None:
        if self._reported:
            return
        self._reported = True
        streamed = streamed_verdicts(self)
        known = {verdict.rule for verdict in streamed}
        verdicts = [*streamed, *(verdict for verdict in self._verdicts if verdict.rule not in known)]
        await self._guardrails.record("output", self._message_id, verdicts, self.blocked, message_id=self._message_id)


def _placed(verdict: GuardrailVerdict, plain: bool) -> GuardrailVerdict:
    """Places in a text that was judged by itself are places in the message's `text`."""
    if not plain:
        return verdict
    moved = tuple(position._replace(path="/text" + position.path) for position in verdict.positions)
    return GuardrailVerdict(verdict.rule, verdict.action, moved, verdict.reason, verdict.failed)


def _with(call: ToolCall, arguments: Any) -> ToolCall:
    return call._replace(args=arguments) if call.raw_args is None else call._replace(raw_args=arguments)
