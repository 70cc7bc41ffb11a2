"""A model that follows rules from the workspace: the same answer for the same conversation, always.

The model of the demo and of the tests, and of a new agent before there is a key. It plays delays and faults
too, so that everything around a model can be tried without one. The only state it keeps is how often a
fault was played.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.models.capabilities import KNOWN, TOOL_CHOICE
from app.models.completion import CompletionRequest, FinishReason, Message, Part, ToolCall, estimate_tokens, text_of
from app.models.contract import (
    Batch,
    Completed,
    Provider,
    ProviderCall,
    ProviderDeps,
    ProviderKind,
    ReasoningDelta,
    Sleep,
    Started,
    StreamError,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from app.models.media import received
from app.models.toolcalls import given_id, parsed_call
from app.models.transport import status_failure
from app.workspace.specs.model import Script, ScriptFailure, ScriptMatch, ScriptReply, ScriptToolCall
from app.workspace.templates import tolerant_template

_ECHO: Final = Script()
_BLANKS: Final = ("input", "turn", "toolResult")


def provider(deps: ProviderDeps) -> Provider:
    return Scripted(deps.sleep)


class Scripted:
    capabilities = KNOWN | {TOOL_CHOICE}

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._played: dict[tuple[str, int], int] = {}

    def notes(self, call: ProviderCall) -> list[str]:
        return []

    async def stream(self, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        scene = _Scene(call.request)
        index, reply, fault = _cast(call.config.script or _ECHO, scene)
        fault = self._due((call.config.name, index), fault)
        if reply.delay_seconds:
            await self._sleep(reply.delay_seconds)
        # "Mid stream" means that something was said before.
        limit = 0 if fault is None else max(fault.after_chunks, int(fault.kind == "midStream"))
        if fault is not None and limit == 0:
            yield [await _play(fault)]
            return
        yield [Started(f"scripted-{index}-{scene.turn}")]
        for sent, event in enumerate(scene.events(reply, call.stream)):
            if fault is not None and sent == limit:
                yield [await _play(fault)]
                return
            if reply.chunk_delay_seconds:
                await self._sleep(reply.chunk_delay_seconds)
            yield [event]
        if fault is not None:
            yield [await _play(fault)]
            return
        yield [*scene.calls(reply), scene.usage(reply), Completed(scene.finish(reply), _made(reply))]

    def _due(self, key: tuple[str, int], fault: ScriptFailure | None) -> ScriptFailure | None:
        if fault is None:
            return None
        played = self._played.get(key, 0)
        if fault.times is not None and played >= fault.times:
            return None
        self._played[key] = played + 1
        return fault


def _cast(script: Script, scene: "_Scene") -> tuple[int, ScriptReply, ScriptFailure | None]:
    for index, rule in enumerate(script.rules, 1):
        if scene.matches(rule.match):
            return index, rule.reply, rule.fail
    return 0, script.default, None


async def _play(fault: ScriptFailure) -> StreamError:
    if fault.kind == "timeout":
        await asyncio.Event().wait()  # until whoever waits for us gives up
    if fault.kind == "status":
        return StreamError(status_failure(fault.status or 500, fault.message), fault.retry_after_seconds)
    return StreamError(Failure("PROVIDER_CUT_OFF", fault.message, True))


class _Scene:
    """The conversation as the rules see it."""

    def __init__(self, request: CompletionRequest) -> None:
        self._request = request
        self._ids: list[str] = []
        messages = request.messages
        asked = max((i for i, m in enumerate(messages) if m.role == "user"), default=-1)
        self._input = _text(messages[asked]) if asked >= 0 else ""
        self.turn = 1 + sum(message.role == "assistant" for message in messages[asked + 1 :])
        last = messages[-1] if messages else None
        self._tool = last.name if last is not None and last.role == "tool" else None
        self._result = next((_text(m) for m in reversed(messages) if m.role == "tool"), "")
        self._blanks = {"input": self._input, "turn": str(self.turn), "toolResult": self._result}

    def matches(self, match: ScriptMatch) -> bool:
        return (
            (match.contains is None or match.contains.casefold() in self._input.casefold())
            and (match.equals is None or match.equals.casefold() == self._input.casefold())
            and (match.turn is None or match.turn == self.turn)
            and (match.after_tool is None or match.after_tool == self._tool)
            and (match.tool_result is None or match.tool_result.casefold() in self._result.casefold())
            and (match.system is None or self._system_says(match.system.casefold()))
        )

    def events(self, reply: ScriptReply, stream: bool) -> list[StreamEvent]:
        size = reply.chunk_size if stream else None
        made: list[StreamEvent] = [ReasoningDelta(text) for text in _cut(self._fill(reply.reasoning or ""), size)]
        chunks = [self._fill(chunk) for chunk in reply.chunks] or _cut(self._fill(reply.text), size)
        made += [TextDelta(text) for text in chunks]
        for index, call in enumerate(self.calls(reply)):
            text = call.raw_args if call.raw_args is not None else json.dumps(call.args).decode()
            made += [ToolCallDelta(index, call.id, call.name, piece) for piece in _cut(text, size)]
        return made

    def calls(self, reply: ScriptReply) -> list[ToolCall]:
        while len(self._ids) < len(reply.tool_calls):
            self._ids.append(given_id(reply.tool_calls[len(self._ids)].id))
        return [self._call(self._ids[i], scripted) for i, scripted in enumerate(reply.tool_calls)]

    def usage(self, reply: ScriptReply) -> UsageReport:
        given = reply.usage.get("inputTokens"), reply.usage.get("outputTokens")
        size = sum(len(getattr(event, "text", "")) for event in self.events(reply, False))
        return UsageReport(
            estimate_tokens(self._request) if given[0] is None else given[0],
            size // 4 + 1 if given[1] is None else given[1],
            reply.usage.get("reasoningTokens"),
        )

    def finish(self, reply: ScriptReply) -> FinishReason:
        return reply.finish_reason or ("tool_use" if reply.tool_calls else "stop")

    def _system_says(self, text: str) -> bool:
        return any(text in m.content.casefold() for m in self._request.messages if m.role == "system")

    def _call(self, call_id: str, scripted: ScriptToolCall) -> ToolCall:
        if scripted.raw_args is not None:
            return parsed_call(call_id, scripted.name, self._fill(scripted.raw_args))
        return ToolCall(call_id, scripted.name, self._filled(scripted.args))

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._fill(value)
        if isinstance(value, Mapping):
            return {key: self._filled(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._filled(item) for item in value]
        return value

    def _fill(self, text: str) -> str:
        if "{{" not in text:
            return text
        filled = tolerant_template(text, _BLANKS).render(self._blanks, most=sys.maxsize)
        return text if isinstance(filled, Failure) else filled


def _text(message: Message) -> str:
    return text_of(message.parts) if message.parts else message.content


def _made(reply: ScriptReply) -> tuple[Part, ...]:
    return tuple(received(media.mime, media.data) for media in reply.media)


def _cut(text: str, size: int | None) -> list[str]:
    if not size:
        return [text] if text else []
    return [text[start : start + size] for start in range(0, len(text), size)]


KIND: Final = ProviderKind(name="scripted", make=provider)
