"""The agent's model and tools as LangChain knows them. Both are values without state: whose run they act for is found
when they are called, so that a graph may be built once and serve every run of its agent.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from app.backends.bridge import UNLISTED, Bridge, current_bridge
from app.backends.contract import CallOptions, CallRequest, CallResult, ExtraTool, ModelAnswer, ToolSpecView
from app.core.json import JsonObject

GATE: Final = "holdfast_gate"
"""The tag of models whose calls pass the gate."""
_THOUGHTS: Final = "holdfast_thoughts"
_FREE: Final[JsonObject] = {"type": "object", "properties": {}, "additionalProperties": True}


class GateModel(BaseChatModel):
    """The model of the agent's plan, with its fallbacks, budgets and redaction."""

    tags: list[str] | None = [GATE]

    @property
    def _llm_type(self) -> str:
        return "holdfast"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        bound = [_described(tool) for tool in tools]
        return self.bind(tools=bound, **kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        bridge = current_bridge()
        options, others = _options(bridge, kwargs.get("tools"))
        answer = await bridge.model(from_langchain(bridge, messages), options)
        return _result(bridge, answer, others)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        bridge = current_bridge()
        return bridge.from_thread(self._agenerate(messages, stop, None, **kwargs))


class GateTool(BaseTool):
    """A tool of the agent, a subagent or a tool of the client: each call passes the gate."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return current_bridge().from_thread(self.ainvoke(input, config, **kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        asked = isinstance(input, dict) and input.get("type") == "tool_call"
        call_id, args = (str(input["id"]), input["args"]) if asked else ("", input)
        result = await current_bridge().tool(
            call_id or None, self.name, args if isinstance(args, dict) else {"input": args}
        )
        return tool_message(call_id, self.name, result) if asked else _value(result)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        return self.invoke(kwargs)


def tool_message(call_id: str, name: str, result: CallResult) -> ToolMessage:
    """The text for the model; the structured output is the artifact."""
    status = "success" if result.ok else "error"
    return ToolMessage(result.content, tool_call_id=call_id, name=name, status=status, artifact=result.output)


def _value(result: CallResult) -> Any:
    return result.output if result.ok else result.content


def agent_tools(tools: Iterable[ToolSpecView]) -> list[BaseTool]:
    """The agent's tools, and the one that takes calls of tools that do not exist."""
    found: list[BaseTool] = [
        GateTool(name=tool.name, description=tool.description, args_schema=dict(tool.input)) for tool in tools
    ]
    return [*found, GateTool(name=UNLISTED, description="Any tool that does not exist.", args_schema=_FREE)]


def _described(tool: Any) -> JsonObject:
    if isinstance(tool, GateTool):
        return {"name": tool.name, "description": tool.description, "parameters": tool.args_schema, "gate": True}
    return dict(convert_to_openai_tool(tool)["function"])


def _options(bridge: Bridge, offered: Iterable[JsonObject] | None) -> tuple[CallOptions, frozenset[str]]:
    """Which of our tools the model may call, and which of the framework's own; None binds none."""
    names = {tool["name"]: tool for tool in offered or ()}
    own = frozenset(name for name, tool in names.items() if tool.get("gate") or name in bridge.tools)
    others = [
        ExtraTool(name, tool.get("description") or "", tool.get("parameters") or _FREE)
        for name, tool in names.items()
        if name not in own
    ]
    return CallOptions(tools=own - {UNLISTED}, extra_tools=tuple(others)), frozenset(names) - own


def _result(bridge: Bridge, answer: ModelAnswer, others: frozenset[str]) -> ChatResult:
    calls = [
        {"name": bridge.upstream_name(call, others), "args": call.args, "id": call.id, "type": "tool_call"}
        for call in answer.calls
    ]
    thoughts = {_THOUGHTS: answer.message["thoughts"]} if answer.message.get("thoughts") else {}
    message = AIMessage(answer.text, id=answer.message_id, tool_calls=calls, additional_kwargs=thoughts)
    return ChatResult(generations=[ChatGeneration(message=message)])


# -- messages ----------------------------------------------------------------------------------------


def to_langchain(message: JsonObject) -> BaseMessage:
    """A message of the run's own, such as its input or its history."""
    text = message["content"]
    match message["role"]:
        case "system":
            return SystemMessage(text)
        case "assistant":
            calls = [
                {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
                for call in message.get("tool_calls", ())
            ]
            kept = {_THOUGHTS: message["thoughts"]} if message.get("thoughts") else {}
            return AIMessage(text, tool_calls=calls, additional_kwargs=kept)
        case "tool":
            return ToolMessage(text, tool_call_id=message["tool_call_id"], name=message.get("name"))
        case _:
            return HumanMessage(text)


def from_langchain(bridge: Bridge, messages: Sequence[BaseMessage]) -> list[JsonObject]:
    return [_document(bridge, message) for message in messages]


def _document(bridge: Bridge, message: BaseMessage) -> JsonObject:
    text = text_of(message)
    if isinstance(message, AIMessage):
        calls = [CallRequest(call["id"] or "", call["name"], call["args"]) for call in message.tool_calls]
        return bridge.assistant_message(text, calls, message.id, thoughts=message.additional_kwargs.get(_THOUGHTS))
    if isinstance(message, ToolMessage):
        return bridge.tool_message(message.tool_call_id, message.name or "", text)
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": text}
    return bridge.user_message(text)


def text_of(message: BaseMessage) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    pieces = (block if isinstance(block, str) else block.get("text", "") for block in content)
    return "".join(pieces)
