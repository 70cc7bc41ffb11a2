"""Microsoft Agent Framework: its agent and tool loop with the agent's model and tools. Imported on first use."""

from collections.abc import Sequence
from typing import Any, Final

from app.backends.bridge import UNLISTED, Bridge, bridging, calls_of
from app.backends.contract import Backend, BackendKind, CallRequest, Context, Output, Result, Resume
from app.core import json
from app.core.json import JsonObject

_MANY_TURNS: Final = 1_000_000
"""The run's own limit of turns holds; the framework's would make the model answer without tools."""


class AgentFrameworkBackend:
    kind = "agent_framework"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        bridge = Bridge(ctx)
        with bridging(bridge):
            return await bridge.converse(_FrameworkSession(bridge).turn)


class _FrameworkSession:
    """The framework's agent and its messages, for one run."""

    def __init__(self, bridge: Bridge) -> None:
        from agent_framework import RawAgent

        self._bridge, ctx = bridge, bridge.ctx
        tools = [self._tool(name) for name in (*sorted(bridge.tools), UNLISTED)]
        self._agent: Any = RawAgent(_client(bridge), ctx.instructions or None, name=ctx.agent, tools=tools)
        self._messages: list[Any] = [_to_upstream(message) for message in ctx.history]

    async def turn(self, messages: list[JsonObject]) -> Output:
        given = [*self._messages, *(_to_upstream(message) for message in messages)]
        result = await self._agent.run(given)
        self._bridge.check()  # a failure in a tool is an error message to the framework, and it goes on
        self._messages = [*given, *result.messages]
        return self._bridge.output(result.messages[-1].text if result.messages else "")

    def _tool(self, name: str) -> Any:
        from agent_framework import Content, FunctionTool

        bridge = self._bridge

        class FrameworkTool(FunctionTool):
            async def invoke(self, *, arguments: Any = None, tool_call_id: str | None = None, **kwargs: Any) -> Any:
                return [Content.from_text((await bridge.tool(tool_call_id, name, _args(arguments))).content)]

        known = bridge.tools.get(name)
        return FrameworkTool(
            name=name,
            description=known.description if known else "",
            func=_never,
            # The gate checks the arguments; the framework would refuse a call before it gets there.
            input_model={"type": "object", "properties": {}, "additionalProperties": True},
        )


async def _never(**args: Any) -> None:
    raise AssertionError("calls go to the gate")


def _client(bridge: Bridge) -> Any:
    from agent_framework import BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message

    class FrameworkClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
        def _inner_get_response(self, *, messages: Sequence[Any], stream: bool, options: Any, **kwargs: Any) -> Any:
            return self._answer(messages, options)

        async def _answer(self, messages: Sequence[Any], options: Any) -> ChatResponse[Any]:
            text = options.get("instructions")
            system: list[JsonObject] = [{"role": "system", "content": text}] if text else []
            answer = await bridge.model([*system, *_from_upstream(bridge, messages)])
            contents = [Content.from_text(answer.text)] if answer.text or not answer.calls else []
            contents += [
                Content.from_function_call(call.id, bridge.upstream_name(call), arguments=call.args)
                for call in answer.calls
            ]
            said = Message("assistant", contents, message_id=answer.message_id)
            return ChatResponse(messages=[said], response_id=answer.message_id)

    return FrameworkClient(function_invocation_configuration={"max_iterations": _MANY_TURNS})


def _to_upstream(message: JsonObject) -> Any:
    from agent_framework import Content, Message

    text = message["content"]
    match message["role"]:
        case "assistant":
            contents = [Content.from_text(text)] if text else []
            contents += [Content.from_function_call(c.id, c.name, arguments=c.args) for c in calls_of(message)]
            return Message("assistant", contents)
        case "tool":
            return Message("tool", [Content.from_function_result(message["tool_call_id"], result=text)])
        case role:
            return Message(role, [Content.from_text(text)])


def _from_upstream(bridge: Bridge, messages: Sequence[Any]) -> list[JsonObject]:
    names: dict[str, str] = {}
    made: list[JsonObject] = []
    for message in messages:
        if message.role == "assistant":
            calls = [
                CallRequest(content.call_id, content.name, _args(content.arguments))
                for content in message.contents
                if content.type == "function_call"
            ]
            names |= {call.id: call.name for call in calls}
            made.append(bridge.assistant_message(message.text, calls, message.message_id))
        elif message.role == "tool":
            made += [
                bridge.tool_message(content.call_id, names.get(content.call_id, ""), _text(content.result))
                for content in message.contents
                if content.type == "function_result"
            ]
        elif message.role == "system":
            made.append({"role": "system", "content": message.text})
        else:
            made.append(bridge.user_message(message.text))
    return made


def _args(arguments: Any) -> JsonObject:
    found = json.loads(arguments or "{}") if isinstance(arguments, str) else dict(arguments or {})
    return found if isinstance(found, dict) else {}


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.canonical(result).decode()


def _make() -> Backend:
    import agent_framework
    from agent_framework.observability import disable_instrumentation

    # The package loads its parts when they are first named: now, and not on the loop in the middle of a run.
    for name in ("RawAgent", "FunctionTool", "FunctionInvocationLayer", "BaseChatClient", "ChatResponse", "Message"):
        getattr(agent_framework, name)

    disable_instrumentation()
    return AgentFrameworkBackend()


KIND: Final = BackendKind(name="agent_framework", make=_make, extra="agent-framework", module="agent_framework")
