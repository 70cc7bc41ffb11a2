"""OpenAI Agents SDK: its runner with the agent's model and tools. Imported on first use; nothing is traced."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from app.backends.bridge import UNLISTED, Bridge, bridging, calls_of
from app.backends.contract import Backend, BackendKind, CallRequest, Context, ModelAnswer, Output, Result, Resume
from app.core import json
from app.core.json import JsonObject

_MANY_TURNS: Final = 1_000_000
"""The run's own limit of turns holds; the framework's would end it with another error."""


class OpenAIAgentsBackend:
    kind = "openai_agents"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        bridge = Bridge(ctx)
        with bridging(bridge):
            return await bridge.converse(_SdkSession(bridge).turn)


class _SdkSession:
    """The framework's agent and its items, for one run."""

    def __init__(self, bridge: Bridge) -> None:
        from agents import Agent, RunConfig

        self._bridge, ctx = bridge, bridge.ctx
        self._agent: Any = Agent(
            name=ctx.agent,
            instructions=ctx.instructions or None,
            model=_model(bridge),
            tools=[self._tool(name) for name in (*sorted(bridge.tools), UNLISTED)],
        )
        self._config = RunConfig(tracing_disabled=True)
        self._items = [item for message in ctx.history for item in _to_upstream(message)]

    async def turn(self, messages: list[JsonObject]) -> Output:
        from agents import Runner

        given: Any = [*self._items, *(item for message in messages for item in _to_upstream(message))]
        result = await Runner.run(self._agent, given, max_turns=_MANY_TURNS, run_config=self._config)
        self._items = list(result.to_input_list())
        return self._bridge.output(str(result.final_output or ""))

    def _tool(self, name: str) -> Any:
        from agents import FunctionTool

        async def call(tool_context: Any, text: str) -> str:
            args = json.loads(text or "{}")
            result = await self._bridge.tool(tool_context.tool_call_id, name, args if isinstance(args, dict) else {})
            return result.content

        known = self._bridge.tools.get(name)
        # The gate checks the arguments; the framework need not know the schema.
        return FunctionTool(name, known.description if known else "", {"type": "object"}, call, False)


def _model(bridge: Bridge) -> Any:
    from agents import Model, ModelResponse, Usage

    class SdkModel(Model):
        async def get_response(
            self, system_instructions: str | None, input: Any, *args: Any, **kwargs: Any
        ) -> ModelResponse:
            system: list[JsonObject] = (
                [{"role": "system", "content": system_instructions}] if system_instructions else []
            )
            answer = await bridge.model([*system, *_from_upstream(bridge, input)])
            return ModelResponse(output=_items(bridge, answer), usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError("every piece is in the log already; the runner is not asked to stream")

    return SdkModel()


def _items(bridge: Bridge, answer: ModelAnswer) -> list[Any]:
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    made: list[Any] = []
    if answer.text or not answer.calls:
        text = ResponseOutputText(text=answer.text, annotations=[], type="output_text")
        made.append(
            ResponseOutputMessage(
                id=answer.message_id, content=[text], role="assistant", status="completed", type="message"
            )
        )
    return made + [
        ResponseFunctionToolCall(
            arguments=json.dumps(call.args).decode(),
            call_id=call.id,
            name=bridge.upstream_name(call),
            type="function_call",
        )
        for call in answer.calls
    ]


def _to_upstream(message: JsonObject) -> Iterator[JsonObject]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if message["content"] or not message.get("tool_calls"):
        yield {"role": message["role"], "content": message["content"]}
    for call in calls_of(message):
        arguments = json.dumps(call.args).decode()
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _from_upstream(bridge: Bridge, given: Any) -> list[JsonObject]:
    """An answer is several items: its text and its calls, next to each other."""
    if isinstance(given, str):
        return [bridge.user_message(given)]
    items = [item if isinstance(item, dict) else item.model_dump() for item in given]
    names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
    made: list[JsonObject] = []
    for assistant, group in groupby(items, _is_assistant):
        if assistant:
            made.append(_answer(bridge, list(group)))
            continue
        for item in group:
            if item.get("type") == "function_call_output":
                call_id = item["call_id"]
                made.append(bridge.tool_message(call_id, names.get(call_id, ""), _text(item["output"])))
            elif item.get("role") in ("system", "developer"):
                made.append({"role": "system", "content": _text(item["content"])})
            else:
                made.append(bridge.user_message(_text(item.get("content", ""))))
    return made


def _is_assistant(item: JsonObject) -> bool:
    return item.get("type") == "function_call" or item.get("role") == "assistant"


def _answer(bridge: Bridge, items: Sequence[JsonObject]) -> JsonObject:
    text = "".join(_text(item["content"]) for item in items if item.get("role") == "assistant")
    message_id = next((item.get("id") for item in items if item.get("role") == "assistant"), None)
    calls = [
        CallRequest(item["call_id"], item["name"], json.loads(item["arguments"] or "{}"))
        for item in items
        if item.get("type") == "function_call"
    ]
    return bridge.assistant_message(text, calls, message_id)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return json.canonical(content).decode()


def _make() -> Backend:
    from agents import set_tracing_disabled

    set_tracing_disabled(True)
    return OpenAIAgentsBackend()


KIND: Final = BackendKind(name="openai_agents", make=_make, extra="openai-agents", module="agents")
