"""Pydantic AI: its agent loop with the agent's model and tools. Imported on first use."""

from collections.abc import Sequence
from typing import Any, Final

from app.backends.bridge import UNLISTED, Bridge, bridging, calls_of
from app.backends.contract import Backend, BackendKind, CallRequest, Context, Output, Result, Resume
from app.core import json
from app.core.json import JsonObject


class PydanticAIBackend:
    kind = "pydantic_ai"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        bridge = Bridge(ctx)
        with bridging(bridge):
            return await bridge.converse(_PydanticSession(bridge).turn)


class _PydanticSession:
    """The framework's agent and its history, for one run."""

    def __init__(self, bridge: Bridge) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.models.function import FunctionModel

        self._bridge, ctx = bridge, bridge.ctx
        self._agent: Any = Agent(
            FunctionModel(self._ask, model_name="holdfast"),
            instructions=ctx.instructions or None,
            tools=[self._tool(name) for name in (*sorted(bridge.tools), UNLISTED)],
            retries=0,
        )
        self._agent.instrument = False
        self._history: list[Any] = [_to_upstream(message) for message in ctx.history]

    async def turn(self, messages: list[JsonObject]) -> Output:
        from pydantic_ai.usage import UsageLimits

        history = [*self._history, *(_to_upstream(message) for message in messages)]
        result = await self._agent.run(message_history=history, usage_limits=UsageLimits(request_limit=None))
        self._history = result.all_messages()
        return self._bridge.output("" if result.output == _EMPTY else result.output)

    async def _ask(self, messages: list[Any], info: Any) -> Any:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        bridge = self._bridge
        system: list[JsonObject] = [{"role": "system", "content": info.instructions}] if info.instructions else []
        answer = await bridge.model([*system, *_from_upstream(bridge, messages)])
        parts: list[Any] = [TextPart(answer.text)] if answer.text else []
        parts += [ToolCallPart(bridge.upstream_name(call), call.args, tool_call_id=call.id) for call in answer.calls]
        return ModelResponse(parts=parts or [TextPart(_EMPTY)], provider_response_id=answer.message_id)

    def _tool(self, name: str) -> Any:
        from pydantic_ai import Tool

        async def call(run_context: Any, /, **args: Any) -> str:
            return (await self._bridge.tool(run_context.tool_call_id, name, args)).content

        known = self._bridge.tools.get(name)
        # The gate checks the arguments; the framework need not know the schema.
        return Tool.from_schema(call, name, known.description if known else "", {"type": "object"}, takes_ctx=True)


_EMPTY: Final = "\u200b"
"""Stands for an empty answer, which the framework would take for a mistake of the model."""


def _to_upstream(message: JsonObject) -> Any:
    from pydantic_ai import messages as shapes

    text = message["content"]
    match message["role"]:
        case "assistant":
            parts: list[Any] = [shapes.TextPart(text)] if text else []
            parts += [shapes.ToolCallPart(c.name, c.args, tool_call_id=c.id) for c in calls_of(message)]
            return shapes.ModelResponse(parts=parts)
        case "tool":
            made = shapes.ToolReturnPart(message.get("name") or "", text, tool_call_id=message["tool_call_id"])
            return shapes.ModelRequest(parts=[made])
        case "system":
            return shapes.ModelRequest(parts=[shapes.SystemPromptPart(text)])
        case _:
            return shapes.ModelRequest(parts=[shapes.UserPromptPart(text)])


def _from_upstream(bridge: Bridge, messages: Sequence[Any]) -> list[JsonObject]:
    made: list[JsonObject] = []
    for message in messages:
        if message.kind == "response":
            text = "".join(part.content for part in message.parts if part.part_kind == "text")
            calls = [
                CallRequest(part.tool_call_id, part.tool_name, part.args_as_dict())
                for part in message.parts
                if part.part_kind == "tool-call"
            ]
            text = "" if text == _EMPTY else text
            made.append(bridge.assistant_message(text, calls, message.provider_response_id))
        else:
            made += [_request_part(bridge, part) for part in message.parts]
    return made


def _request_part(bridge: Bridge, part: Any) -> JsonObject:
    match part.part_kind:
        case "system-prompt":
            return {"role": "system", "content": part.content}
        case "tool-return":
            return bridge.tool_message(part.tool_call_id, part.tool_name, _text(part.content))
        case "retry-prompt" if part.tool_name is not None:
            return bridge.tool_message(part.tool_call_id, part.tool_name, part.model_response())
        case "retry-prompt":
            return {"role": "user", "content": part.model_response()}
        case _:
            return bridge.user_message(_text(part.content))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.canonical(content).decode()


def _make() -> Backend:
    import pydantic_ai  # noqa: F401  # a package that is there and cannot be imported is found now, not in a run

    return PydanticAIBackend()


KIND: Final = BackendKind(name="pydantic_ai", make=_make, extra="pydantic-ai", module="pydantic_ai")
