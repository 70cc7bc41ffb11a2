"""Google's Agent Development Kit: its agent and runner with the agent's model and tools. Imported on first use."""

import importlib
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from app.backends.bridge import UNLISTED, Bridge, bridging, calls_of
from app.backends.contract import Backend, BackendKind, CallRequest, Context, Output, Result, Resume
from app.core import json
from app.core.json import JsonObject

_APP: Final = "holdfast"
_AGENT: Final = "agent"
_USER: Final = "user"
_CONTENT: Final = "content"
_MANY_TURNS: Final = 1_000_000
"""The run's own limit of turns holds; the framework's would end it with another error."""


class GoogleAdkBackend:
    kind = "google_adk"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        bridge = Bridge(ctx)
        with bridging(bridge):
            return await bridge.converse(_AdkSession(bridge).turn)


class _AdkSession:
    """The framework's runner and session, for one run."""

    def __init__(self, bridge: Bridge) -> None:
        from google.adk.agents import LlmAgent
        from google.adk.runners import Runner
        from google.adk.sessions import InMemorySessionService

        self._bridge = bridge
        self._sessions = InMemorySessionService()
        agent = LlmAgent(
            name=_AGENT,
            model=_model(bridge),
            tools=[_tool(bridge, name) for name in (*sorted(bridge.tools), UNLISTED)],
        )
        self._runner = Runner(app_name=_APP, agent=agent, session_service=self._sessions)
        self._session: Any = None

    async def turn(self, messages: list[JsonObject]) -> Output:
        from google.adk.agents.run_config import RunConfig

        if self._session is None:
            self._session = await self._sessions.create_session(app_name=_APP, user_id=_USER)
            await self._add(self._bridge.ctx.history)
        *before, last = messages
        await self._add(before)
        text = ""
        stream = self._runner.run_async(
            user_id=_USER,
            session_id=self._session.id,
            new_message=_content(last),
            run_config=RunConfig(max_llm_calls=_MANY_TURNS),
        )
        async for event in stream:
            self._bridge.check()
            if event.is_final_response() and event.content is not None:
                text = "".join(part.text or "" for part in event.content.parts or ())
        return self._bridge.output(text)

    async def _add(self, messages: Sequence[JsonObject]) -> None:
        from google.adk.events import Event

        for message in messages:
            author = _AGENT if message["role"] == "assistant" else _USER
            event = Event(author=author, content=_content(message), invocation_id="before")
            await self._sessions.append_event(await self._current(), event)

    async def _current(self) -> Any:
        """The service keeps its own copy; events are appended to the newest."""
        return await self._sessions.get_session(app_name=_APP, user_id=_USER, session_id=self._session.id)


def _model(bridge: Bridge) -> Any:
    from google.adk.models import BaseLlm, LlmCapabilities, LlmRequest, LlmResponse
    from google.genai import types

    class AdkLlm(BaseLlm):
        @property
        def capabilities(self) -> LlmCapabilities:
            return LlmCapabilities(output_schema_and_tools=True)

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            # The framework adds a sentence about the agent's internal name to the instructions: ours are sent instead.
            text = bridge.ctx.instructions
            system: list[JsonObject] = [{"role": "system", "content": text}] if text else []
            answer = await bridge.model([*system, *_from_upstream(bridge, llm_request.contents)])
            parts = [types.Part(text=answer.text)] if answer.text or not answer.calls else []
            parts += [
                types.Part(function_call=types.FunctionCall(id=c.id, name=bridge.upstream_name(c), args=c.args))
                for c in answer.calls
            ]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    return AdkLlm(model="holdfast")


def _tool(bridge: Bridge, name: str) -> Any:
    from google.adk.tools import BaseTool
    from google.genai import types

    class AdkTool(BaseTool):
        def _get_declaration(self) -> types.FunctionDeclaration:
            # The gate checks the arguments and offers the tools; the framework need not know the schema.
            return types.FunctionDeclaration(name=self.name, description=self.description)

        async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
            return {_CONTENT: (await bridge.tool(tool_context.function_call_id, name, args)).content}

    known = bridge.tools.get(name)
    return AdkTool(name=name, description=known.description if known else "")


def _content(message: JsonObject) -> Any:
    from google.genai import types

    text = message["content"]
    match message["role"]:
        case "assistant":
            parts = [types.Part(text=text)] if text else []
            parts += [
                types.Part(function_call=types.FunctionCall(id=c.id, name=c.name, args=c.args))
                for c in calls_of(message)
            ]
            return types.Content(role="model", parts=parts)
        case "tool":
            response = types.FunctionResponse(
                id=message["tool_call_id"], name=message.get("name") or "tool", response={_CONTENT: text}
            )
            return types.Content(role="user", parts=[types.Part(function_response=response)])
        case _:
            return types.Content(role="user", parts=[types.Part(text=text)])


def _from_upstream(bridge: Bridge, contents: Sequence[Any]) -> list[JsonObject]:
    made: list[JsonObject] = []
    for content in contents:
        parts = content.parts or []
        text = "".join(part.text or "" for part in parts)
        calls = [
            CallRequest(part.function_call.id or "", part.function_call.name or "", dict(part.function_call.args or {}))
            for part in parts
            if part.function_call is not None
        ]
        responses = [part.function_response for part in parts if part.function_response is not None]
        if content.role == "model":
            made.append(bridge.assistant_message(text, calls))
        elif responses:
            made += [bridge.tool_message(each.id or "", each.name or "", _text(each.response)) for each in responses]
        else:
            made.append(bridge.user_message(text))
    return made


def _text(response: Any) -> str:
    found = (response or {}).get(_CONTENT)
    return found if isinstance(found, str) else json.canonical(response).decode()


def _make() -> Backend:
    # A package that is there and cannot be imported is found now, not in a run.
    for module in ("runners", "agents.run_config", "events", "models", "sessions", "tools"):
        importlib.import_module(f"google.adk.{module}")
    # It warns of each answer without a count of tokens; the run's own log has them.
    logging.getLogger("google_adk").setLevel(logging.ERROR)
    return GoogleAdkBackend()


KIND: Final = BackendKind(name="google_adk", make=_make, extra="google-adk", module="google.adk")
