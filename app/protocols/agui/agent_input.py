"""The body of an AG-UI request, read strictly where it matters: ids, messages, tools, answers.

Unknown fields are ignored, as the protocol asks. Leaves to others: what becomes of it (`stretches`).
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.protocols.dialects.agui_state import KEY
from app.protocols.http.errors import HttpProblem
from app.protocols.http.submission import THREAD_ID

Id = Annotated[str, Field(min_length=1, max_length=200, pattern=THREAD_ID)]
_MAX_CONTEXT: Final = 200_000
"""Characters of context and state that become instructions."""


class AguiBody(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)


class AguiFunction(AguiBody):
    name: str = Field(max_length=200)
    arguments: str = "{}"


class AguiToolCall(AguiBody):
    id: str = Field(max_length=200)
    function: AguiFunction


class AguiMessage(AguiBody):
    """One message; `content` is a text or a list of text parts."""

    id: str = Field("", max_length=200)
    role: Literal["user", "assistant", "system", "developer", "tool", "activity", "reasoning"]
    content: Any = None
    tool_calls: list[AguiToolCall] | None = None
    tool_call_id: str | None = None
    error: str | None = None

    def text(self) -> str:
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        parts = self.content if isinstance(self.content, list) else [None]
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        if len(texts) != len(parts) or not all(isinstance(one, str) for one in texts):
            raise HttpProblem(Failure("INVALID_REQUEST", "Only text is taken as the content of a message."))
        return "\n".join(map(str, texts))


class AguiTool(AguiBody):
    name: str = Field(min_length=1, max_length=64)
    description: str = ""
    parameters: Any = None


class AguiContext(AguiBody):
    description: str
    value: str


class AguiResume(AguiBody):
    interrupt_id: str = Field(min_length=1, max_length=200)
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(AguiBody):
    """Which conversation, which run of the client's, what was said, and what its page offers."""

    thread_id: Id
    run_id: Id
    parent_run_id: str | None = Field(None, max_length=200)
    state: Any = None
    messages: list[AguiMessage] = Field(max_length=10_000)
    tools: list[AguiTool] | None = Field(None, max_length=128)
    context: list[AguiContext] | None = Field(None, max_length=100)
    forwarded_props: Any = None
    resume: list[AguiResume] | None = Field(None, max_length=64)

    def fresh(self) -> list[AguiMessage]:
        """What a thread that knows the rest has not heard."""
        last = max((n for n, one in enumerate(self.messages) if one.role == "assistant"), default=-1)
        return self.messages[last + 1 :]

    def instructions(self) -> str | None:
        """What the page adds to the agent's own: system messages, context, state."""
        found = [one.text() for one in self.messages if one.role in ("system", "developer")]
        found += [f"{one.description}: {one.value}" for one in self.context or ()]
        state = self.state
        if isinstance(state, dict):  # what we showed the page ourselves is no news to the agent
            state = {name: value for name, value in state.items() if name != KEY}
        if state not in (None, {}, [], ""):
            found.append("The state of the application: " + json.dumps(state).decode())
        text = "\n\n".join(found)
        if len(text) > _MAX_CONTEXT:
            message = f"Context, state and system messages are longer than {_MAX_CONTEXT} characters."
            raise HttpProblem(Failure("BODY_TOO_LARGE", message))
        return text or None

    def client_tools(self) -> list[JsonObject]:
        return [
            {"name": one.name, "description": one.description, "input": one.parameters or {"type": "object"}}
            for one in self.tools or ()
        ]

    def conversation(self) -> tuple[list[JsonObject], str]:
        """(history, input) of a thread that begins with these messages."""
        said = [one for one in self.messages if one.role in ("user", "assistant", "tool")]
        start = len(said)
        while start > 0 and said[start - 1].role == "user":
            start -= 1
        return [_stored(one) for one in said[:start]], "\n\n".join(one.text() for one in said[start:])


def _stored(message: AguiMessage) -> JsonObject:
    made: JsonObject = {"role": message.role, "content": message.text()}
    if message.role == "tool":
        made["tool_call_id"] = message.tool_call_id or ""
    if message.tool_calls:
        made["tool_calls"] = [_call(one) for one in message.tool_calls]
    return made


def _call(call: AguiToolCall) -> JsonObject:
    written = call.function.arguments
    try:
        parsed = json.loads_strict(written.encode("utf-8", "surrogatepass") or b"{}", max_values=json.MAX_VALUES)
    except json.JsonError:
        parsed = None
    if isinstance(parsed, dict):
        return {"id": call.id, "name": call.function.name, "args": parsed}
    return {"id": call.id, "name": call.function.name, "args": {}, "raw_args": written}
