"""What a tool is, what a call of one is, and what comes back. Values and Protocols only.

Above stands the gateway, which is the only caller of `Tool.invoke`; below stand the kinds. Nothing here
knows how arguments are checked (`guard`) or where a definition was written (the workspace).
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias

from app.core import json
from app.core.artifact import ArtifactRef, MakeArtifact
from app.core.decisions import Approval, Decision
from app.core.errors import Failure
from app.core.json import Json, JsonObject
from app.core.value import contract_value, value
from app.events.catalog import Payload
from app.events.catalog.tool import Finding, Repair
from app.events.catalog.values import Effect

DEFAULT_TIMEOUT: Final = 30.0  # seconds
_STORING: Final = 10.0  # seconds beyond a call's own time for what it stores
DEFAULT_MAX_OUTPUT: Final = 1024 * 1024  # bytes
DEFAULT_EXCERPT: Final = 16 * 1024  # bytes


class Condition(Protocol):
    """A compiled boolean expression (CEL); a Failure is no answer, and whoever asks takes the safe side."""

    def evaluate(self, values: Mapping[str, Any]) -> bool | Failure: ...


@contract_value(frozen=True, slots=True)
class ArgumentRule:
    """A semantic check: `condition` on `args` must hold, else the model gets `message`."""

    condition: Condition
    message: str
    path: str = ""


@contract_value(frozen=True, slots=True)
class RepairSwitches:
    """Which repairs may be tried; `types` covers values given as text and argument names misspelt."""

    json: bool = True
    names: bool = True
    types: bool = True
    enums: bool = True
    model: bool = True

    @property
    def deterministic(self) -> bool:
        return self.json or self.names or self.types or self.enums


NO_REPAIR: Final = RepairSwitches(json=False, names=False, types=False, enums=False, model=False)


@contract_value(frozen=True, slots=True)
class PastCall:
    """A call that took effect, as the log has it."""

    tool: str
    arguments: JsonObject
    result: Json
    exact: bool = True
    """Whether the log has the arguments as they were; if not, a part of them was redacted."""


@contract_value(frozen=True, slots=True)
class UndoCall:
    """The call that takes the effect of another back."""

    tool: str
    arguments: JsonObject


class Compensation(Protocol):
    """How a tool's effect is taken back."""

    def undo(self, call: PastCall) -> UndoCall | Failure:
        """What to call for this call; a Failure says why it cannot be taken back. Has no effect."""
        ...

    async def conflict(self, undo: UndoCall, tenant: str, world: dict[str, str]) -> Failure | None:
        """Why the call can no longer be taken back, if what it changed was changed again since.

        `world` is what a plan has taken back so far, for whoever plans several calls in a row.
        """
        ...

    def own_tool(self, definition: "ToolDefinition") -> "Tool | None":
        """The tool that takes calls of `definition` back, where it is none of the workspace's."""
        ...


@contract_value(frozen=True, slots=True)
class ToolDefinition:
    name: str
    description: str = ""
    input: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    output: Mapping[str, Any] | None = None
    effect: Effect = "unsafe"
    timeout_seconds: float = DEFAULT_TIMEOUT
    max_output_bytes: int = DEFAULT_MAX_OUTPUT
    excerpt_bytes: int = DEFAULT_EXCERPT
    """How much of an output the model and the log get; of a larger one the rest is in a blob."""
    approval: Literal["never", "always"] | Condition = "never"
    approver: str = "anyone"
    """Who may answer: `anyone` with the scope, `other` than who submitted the run, or `role:<name>`."""
    rules: tuple[ArgumentRule, ...] = ()
    paths: tuple[str, ...] = ()
    """Arguments that are paths though their schema does not say `format: path`; names or JSON pointers."""
    repair: RepairSwitches = RepairSwitches()
    closed: bool = True
    """Whether undeclared arguments are refused; False keeps a foreign (MCP) schema as it was written."""
    pin: str | None = None
    """The hash of what a foreign server (MCP) says of the tool, whatever the workspace says instead."""
    sandbox: str | None = None
    """What confines it: `process` for a program in the sandbox. None for what runs in the server or elsewhere."""
    compensation: Compensation | None = None
    """How its effect is taken back, if that is known."""


def definition_hash(definition: ToolDefinition) -> str:
    """What an approval is bound to besides the arguments: the tool as the person who decides can know it."""
    described = {
        "name": definition.name,
        "description": definition.description,
        "input": definition.input,
        "output": definition.output,
        "effect": definition.effect,
        "pin": definition.pin,
    }
    return hashlib.sha256(json.canonical(described)).hexdigest()


def writes_named_files(definition: ToolDefinition) -> bool:
    """Whether it changes something and takes the paths of files at the top level of its arguments."""
    if definition.effect == "readonly":
        return False
    properties = definition.input.get("properties") or {}
    return bool(definition.paths) or any(
        isinstance(one, Mapping) and one.get("format") == "path" for one in properties.values()
    )


@contract_value(frozen=True, slots=True)
class ToolRequest:
    """A call as it was asked for. `arguments` is None when the text in `raw` did not parse."""

    id: str
    name: str
    arguments: JsonObject | None = None
    raw: str | None = None
    complete: bool | None = None
    """True when the provider said the message ended by itself; a cut-off one may have lost arguments."""
    attempt: int = 1
    message_id: str | None = None
    undoes: str | None = None
    """The call that this one takes back. All attempts at it have one idempotency key, in whatever run they are."""


NO_NETWORK: Final = Failure("SESSION_CONTROL_DENIED", "The session's networkAccess is restricted.")


@contract_value(frozen=True, slots=True)
class SessionLimits:
    """What a conversation lets its tools reach, within what the workspace allows."""

    network: bool = True
    writes: bool = True
    """Whether files may be changed."""
    folder: str | None = None
    """The folder beneath which files are; None for all that the tools have."""
    tools: tuple[str, ...] | None = None
    """Names or patterns of the tools that may be called; None for all."""
    denied: tuple[str, ...] = ()
    """Of those that may not, whatever else is said of them."""

    def may_call(self, name: str) -> bool:
        if named_by(name, self.denied):
            return False
        return self.tools is None or named_by(name, self.tools)


def named_by(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is the tool's name, or has `*` for a part of it."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


UNLIMITED: Final = SessionLimits()


@value(frozen=True, slots=True)
class CallScope:
    """On whose behalf: the tools this caller may use, which only ever narrow, and the ids to account to."""

    run_id: str
    allowed: frozenset[str]
    tenant: str = "default"
    trace_id: str | None = None
    direct: bool = False
    """A request for the tool itself, by no agent; bracketed by `runtime.tool.direct.*`."""
    always_ask: frozenset[str] = frozenset()
    """Tools of which every call needs approval here, whatever their own rule says."""
    ask_nobody: bool = False
    """What needs approval is denied here: there is nobody who could be asked."""
    writes: tuple[str, ...] | None = None
    """Patterns of the files that a call which is not readonly may name; None leaves that to the tools."""
    limits: SessionLimits = UNLIMITED

    @property
    def offered(self) -> frozenset[str]:
        """Of the allowed tools those that a model is shown. One that the conversation denies is not; a call of it
        is refused with that reason."""
        if self.limits.tools is None and not self.limits.denied:
            return self.allowed
        return frozenset(name for name in self.allowed if self.limits.may_call(name))


Progress = Callable[[float | None, str], None]


def _silent(_fraction: float | None, _message: str) -> None:
    return None


@contract_value(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of its call. A function gets it by declaring a parameter `ctx`."""

    run_id: str
    call_id: str
    tool: str
    tenant: str
    effect: Effect
    deadline: float
    """On the loop's clock, as `asyncio.get_running_loop().time()` has it."""
    trace_id: str | None = None
    idempotency_key: str | None = None
    max_output_bytes: int = DEFAULT_MAX_OUTPUT
    limits: SessionLimits = UNLIMITED
    progress: Progress = _silent
    make_artifact: MakeArtifact | None = None
    ask: "AskPerson | None" = None
    """Asks a person and comes back with the answers; the call is entered again when they are there."""
    put_blob: "PutBlob | None" = None
    load_blob: "LoadBlob | None" = None
    loop: asyncio.AbstractEventLoop | None = None

    async def artifact(self, name: str, mime: str, data: bytes | None = None, path: str | None = None) -> ArtifactRef:
        """Store content under a name, as a version of it where the thread has one. For async functions."""
        if self.make_artifact is None:
            raise ToolError("artifacts cannot be stored here")
        return await self.make_artifact(name, mime, data, path)

    def save_artifact(self, name: str, mime: str, data: bytes | None = None, path: str | None = None) -> ArtifactRef:
        """The same for a plain function, which runs in a thread and waits here."""
        if self.loop is None:
            raise ToolError("artifacts cannot be stored here")
        stored = asyncio.run_coroutine_threadsafe(self.artifact(name, mime, data, path), self.loop)
        return stored.result(max(0.0, self.deadline - time.monotonic()) + _STORING)


@contract_value(frozen=True, slots=True)
class JsonResult:
    value: Json


@contract_value(frozen=True, slots=True)
class TextResult:
    text: str


@contract_value(frozen=True, slots=True)
class BytesResult:
    data: bytes
    mime: str = "application/octet-stream"


@contract_value(frozen=True, slots=True)
class FileResult:
    path: Path
    mime: str = "application/octet-stream"


Result: TypeAlias = JsonResult | TextResult | BytesResult | FileResult


class ToolError(Exception):
    """Raise it in a Python tool to tell the model what went wrong and what to do instead.

    The text reaches the model as it is, but for secrets, line breaks and length. With `retryable` the model learns that
    the same call may succeed later.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class Tool(Protocol):
    """One executable tool. A domain failure is returned, or raised as ToolError; whatever else is raised becomes
    TOOL_FAILED with the exception's text."""

    @property
    def definition(self) -> ToolDefinition: ...

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure: ...


@contract_value(frozen=True, slots=True)
class Proposal:
    """What a model proposed instead of a refused call."""

    name: str
    arguments: JsonObject | None = None
    raw: str | None = None
    complete: bool | None = None


class CancelFlag(Protocol):
    """Such as `core.signal.CancelSignal`."""

    @property
    def is_set(self) -> bool: ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it when the flag is set, at once if it is."""
        ...

    def forget(self, listener: Callable[[], None]) -> None: ...


Record = Callable[[Payload], Awaitable[JsonObject | None]]
"""Answers the payload as it was stored, where whoever records can tell: a run goes on with that, and not with what it
was before redaction, so that it sees the same when it is resumed."""
Hook = Callable[[str, JsonObject], Awaitable[Decision]]
Approve = Callable[[ToolRequest, ToolDefinition, str], Awaitable[Approval]]
"""Asked with the call, its tool and the hash of its arguments; may raise `Suspended`."""
AskModel = Callable[[ToolRequest, str], Awaitable[Proposal | None]]
AskPerson = Callable[[str, list[JsonObject]], Awaitable[JsonObject | Failure]]
"""Asked with a title and questions, answered by the questions' ids; raises `Suspended` until there is an answer."""
AskFor = Callable[[ToolRequest], AskPerson]
PutBlob = Callable[[bytes, str], Awaitable[Mapping[str, Any]]]
LoadBlob = Callable[[Mapping[str, Any]], Awaitable[bytes | None]]
"""Asked with the reference that `PutBlob` gave; None when the blob is gone."""


@contract_value(frozen=True, slots=True)
class Guarded:
    """A content as the rules of the run left it, or why it must not pass."""

    content: Json
    refused: Failure | None = None
    ask: bool = False
    """Whether a person has to agree."""


class ContentGuard(Protocol):
    """The rules of the run about what goes into tools and comes out of them."""

    async def check(
        self, stage: Literal["toolArguments", "toolResults"], tool: str, call_id: str, content: Any
    ) -> Guarded: ...

    async def release(self, call_id: str) -> Failure | None:
        """Before a model gets a result that is recorded; may raise `Suspended`."""
        ...


@contract_value(frozen=True, slots=True)
class Ports:
    """What a run lends the gateway for its calls. Without an approver whatever needs approval is denied."""

    record: Record
    put_blob: PutBlob
    hook: Hook | None = None
    approve: Approve | None = None
    ask_model: AskModel | None = None
    guardrails: ContentGuard | None = None
    cancelled: CancelFlag | None = None
    progress: Progress = _silent
    artifact: MakeArtifact | None = None
    ask: AskFor | None = None
    load_blob: LoadBlob | None = None
    """For `Gateway.finish`: without it a stored output that has a schema to satisfy is withheld."""


@contract_value(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended. `output` is what a model may see: bounded, with `$blob` where more is stored."""

    call_id: str
    tool: str
    output: Json = None
    error: Failure | None = None
    executed: bool = False
    applied: bool = True
    arguments: JsonObject | None = None
    findings: tuple[Finding, ...] = ()
    repairs: tuple[Repair, ...] = ()
    duration_ms: int | None = None
    truncated: bool = False

    @property
    def ok(self) -> bool:
        return self.error is None
