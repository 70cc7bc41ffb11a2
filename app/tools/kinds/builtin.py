"""The tools that ship: echo, clock, calculator, notes, todos, memory, files beneath the data folder, and http_fetch.

Each tenant has its own folder. `http_fetch` exists only when the operator lists hosts for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.artifact import MAX_ARTIFACT_NAME, FormerContent, media_type
from app.core.clock import Clock, iso
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry, Validator
from app.core.value import value
from app.outside.addresses import AddressPolicy
from app.outside.files import Rooted, hash_of, tenant_folder
from app.outside.http import Deadlines, HttpClient, OutgoingRequest, OutsideError
from app.tools.arithmetic import evaluate
from app.tools.contract import (
    NO_NETWORK,
    BytesResult,
    JsonResult,
    Result,
    TextResult,
    Tool,
    ToolContext,
    ToolDefinition,
)
from app.tools.declared import define
from app.tools.file_compensation import FileCompensation
from app.tools.kind import ToolDeps, ToolKind
from app.tools.memory_tools import FORGET, RECALL, REMEMBER, MemoryActions, NoMemoryActions
from app.tools.memory_tools import NAMES as MEMORY_NAMES
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.specs.base import Spec, Text

Action = Callable[[JsonObject, ToolContext], Awaitable[Result | Failure]]

_PATH: Final = {"type": "string", "format": "path", "minLength": 1, "maxLength": 1000}
_CONTENT: Final = {"type": "string", "maxLength": 1_000_000}
_NOTE: Final = {"type": "string", "minLength": 1, "maxLength": 10_000}
_NOTES: Final = "notes.jsonl"
_KEY: Final = "builtin"
# The list is read from the call's event, which holds values up to 16 KiB; what is larger leaves it.
_TODOS_BYTES: Final = 12 * 1024
_WRITE_ATTEMPTS: Final = 8  # against other writers of the same notes
_CLAIM: Final = {
    "type": "object",
    "description": "who writes, why, and the hash the file must still have; empty for a new file",
    "required": ["who", "why", "expected_hash", "schema_version"],
    "properties": {
        "who": {"type": "string"},
        "why": {"type": "string"},
        "expected_hash": {"type": "string", "pattern": "^([0-9a-f]{64})?$"},
        "schema_version": {"const": "v1"},
    },
}


@value(frozen=True, slots=True)
class BuiltinTool:
    definition: ToolDefinition
    action: Action

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return await self.action(arguments, ctx)


def builtins(
    data: Path,
    clock: Clock,
    *,
    write_claim: Validator | None = None,
    client: HttpClient | None = None,
    fetch_hosts: frozenset[str] = frozenset(),
    fetch_private: frozenset[str] = frozenset(),
    memory: MemoryActions | None = None,
) -> dict[str, Tool]:
    """By name. `write_claim` is the compiled write_claim_v1, which a protected write's claim must satisfy."""
    files = _Files(data, write_claim)
    made: list[Tool] = [
        BuiltinTool(_ECHO, _echo),
        BuiltinTool(_CLOCK, _Now(clock)),
        BuiltinTool(_CALCULATOR, _calculate),
        BuiltinTool(_NOTES_TOOL, files.notes),
        BuiltinTool(_TODOS, _todos),
        BuiltinTool(_ASK_USER, _ask_user),
        BuiltinTool(_READ, files.read),
        BuiltinTool(_LIST, files.list),
        BuiltinTool(replace(_WRITE, compensation=FileCompensation(data)), files.write),
    ]
    remembering = memory or NoMemoryActions()
    made += [
        BuiltinTool(REMEMBER, remembering.remember),
        BuiltinTool(RECALL, remembering.recall),
        BuiltinTool(FORGET, remembering.forget),
    ]
    if client is not None and fetch_hosts:
        made.append(BuiltinTool(_FETCH, _Fetch(client, AddressPolicy(fetch_private, fetch_hosts))))
    return {tool.definition.name: tool for tool in made}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_ECHO = ToolDefinition(
    "echo",
    "Give back the text.",
    _object(["text"], text={"type": "string"}),
    _object(["text"], text={"type": "string"}),
    "readonly",
)
_CLOCK = ToolDefinition(
    "clock",
    "The current time in UTC.",
    _object([]),
    _object(["utc", "epochMs"], utc={"type": "string", "format": "date-time"}, epochMs={"type": "integer"}),
    "readonly",
)
_CALCULATOR = ToolDefinition(
    "calculator",
    "Evaluate an arithmetic expression with + - * / // % ** and parentheses.",
    _object(["expression"], expression={"type": "string", "minLength": 1, "maxLength": 500}),
    _object(["value"], value={"type": "number"}),
    "readonly",
)
_NOTES_TOOL = ToolDefinition(
    "notes",
    "Keep short notes: add one, list them, or remove one by its text.",
    _object(["action"], action={"enum": ["add", "list", "remove"]}, text=_NOTE)
    | {"if": {"properties": {"action": {"enum": ["add", "remove"]}}}, "then": {"required": ["text"]}},
    None,
    "keyed",
)
_TODO: Final = _object(
    ["id", "title", "status"],
    id={"type": "string", "minLength": 1, "maxLength": 64},
    title={"type": "string", "minLength": 1, "maxLength": 500},
    status={"enum": ["pending", "in_progress", "blocked", "done"]},
    owner={"type": "string", "minLength": 1, "maxLength": 200, "description": "who is to do it, if not you"},
)
_TODOS = ToolDefinition(
    "todos",
    "Keep the list of things to do, which others can see. `replace` sets the whole list, `update` adds the items or "
    "changes those with the same id.",
    _object(["items"], items={"type": "array", "items": _TODO}, mode={"enum": ["replace", "update"]}),
    _object(["accepted"], accepted={"type": "integer"}),
    # The list is what the calls in the log add up to (`views.todos`); the tool itself changes nothing.
    "readonly",
)
_ASK_USER = ToolDefinition(
    "ask_user",
    "Ask the user one or more questions and wait for the answers. Use it only for what you cannot find out yourself.",
    _object(
        ["questions"],
        title={"type": "string", "minLength": 1, "maxLength": 200, "description": "what the questions are about"},
        questions={
            "type": "array",
            "minItems": 1,
            "maxItems": 10,
            "items": _object(
                ["id", "question"],
                id={"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
                question={"type": "string", "minLength": 1, "maxLength": 2000},
                header={"type": "string", "minLength": 1, "maxLength": 100},
                options={
                    "type": "array",
                    "maxItems": 20,
                    "items": {"type": "string", "minLength": 1, "maxLength": 500},
                    "description": "answers to choose from; without them, or beside them, any text is an answer",
                },
            ),
        },
    ),
    _object(["answers"], answers={"type": "object"}),
    # The question is an event of the run and is found again: asking repeats nothing.
    "readonly",
)
_READ = ToolDefinition(
    "read_file", "Read a text file of the data folder.", _object(["path"], path=_PATH), None, "readonly"
)
_LIST = ToolDefinition("list_files", "List a folder of the data folder.", _object([], path=_PATH), None, "readonly")
_WRITE = ToolDefinition(
    "write_file",
    "Replace a file of the data folder if it still has the expected hash.",
    _object(["path", "content", "claim"], path=_PATH, content=_CONTENT, claim=_CLAIM),
    _object(
        ["path", "hash"],
        path={"type": "string"},
        hash={"type": "string"},
        size={"type": "integer"},
        former={"type": "string", "description": "the hash of what it replaced; empty for a new file"},
    ),
    # Repeating a write that succeeded is a conflict, never a second effect; but who asks could not tell.
    "unsafe",
)
_FETCH = ToolDefinition(
    "http_fetch",
    "Fetch a web page from an allowed host.",
    _object(["url"], url={"type": "string", "format": "uri", "pattern": "^https?://"}),
    None,
    "readonly",
)


async def _echo(arguments: JsonObject, _ctx: ToolContext) -> Result:
    return JsonResult({"text": arguments["text"]})


async def _calculate(arguments: JsonObject, _ctx: ToolContext) -> Result | Failure:
    value = evaluate(arguments["expression"])
    return value if isinstance(value, Failure) else JsonResult({"value": value})


async def _todos(arguments: JsonObject, _ctx: ToolContext) -> Result | Failure:
    items = arguments["items"]
    if len({item["id"] for item in items}) < len(items):
        return Failure("INVALID_ARGUMENTS", "Two items have the same id; give each its own.")
    if len(json.dumps(items)) > _TODOS_BYTES:
        return Failure("INVALID_ARGUMENTS", "The list is too long; keep it to what matters, with short titles.")
    return JsonResult({"accepted": len(items)})


async def _ask_user(arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
    questions = arguments["questions"]
    if len({question["id"] for question in questions}) < len(questions):
        return Failure("INVALID_ARGUMENTS", "Two questions have the same id; give each its own.")
    if ctx.ask is None:
        return Failure("TOOL_UNAVAILABLE", "There is nobody here who could be asked.")
    title = arguments.get("title") or questions[0].get("header") or questions[0]["question"][:200]
    open_ended: list[JsonObject] = [{**one, "isOther": True} if one.get("options") else one for one in questions]
    answers = await ctx.ask(title, open_ended)
    return answers if isinstance(answers, Failure) else JsonResult({"answers": answers})


@value(frozen=True, slots=True)
class _Now:
    clock: Clock

    async def __call__(self, _arguments: JsonObject, _ctx: ToolContext) -> Result:
        now = self.clock.now_ms()
        return JsonResult({"utc": iso(now), "epochMs": now})


@value(frozen=True, slots=True)
class _Fetch:
    client: HttpClient
    policy: AddressPolicy

    async def __call__(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        if not ctx.limits.network:
            return NO_NETWORK
        left = max(0.05, ctx.deadline - asyncio.get_running_loop().time())
        deadlines = Deadlines(min(10.0, left), left, left)
        outgoing = OutgoingRequest(
            "GET", arguments["url"], {}, None, self.policy, deadlines, ctx.max_output_bytes, max_redirects=3
        )
        try:
            async with await self.client.send(outgoing) as reply:
                body = await reply.read()
        except OutsideError as error:
            return error.failure
        if reply.status >= 400:
            return Failure("TOOL_FAILED", f"The server answered {reply.status}.", reply.status >= 500)
        if reply.content_type.startswith("text/") or reply.content_type.endswith("json"):
            return TextResult(body.decode(errors="replace"))
        return BytesResult(body, reply.content_type or "application/octet-stream")


class _Files:
    def __init__(self, data: Path, claim: Validator | None) -> None:
        self._data, self._claim = data, claim

    async def read(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        content = await asyncio.to_thread(self._root(ctx).read, arguments["path"], ctx.max_output_bytes)
        if isinstance(content, Failure):
            return content
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return BytesResult(content)
        return JsonResult({"content": text, "hash": hash_of(content)})

    async def list(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        names = await asyncio.to_thread(self._root(ctx).names, arguments.get("path", ctx.limits.folder or "."))
        return names if isinstance(names, Failure) else JsonResult({"names": list(names)})

    async def write(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        claim = arguments["claim"]
        if self._claim is not None and not self._claim.accepts(claim):
            return Failure("INVALID_ARGUMENTS", "The claim does not satisfy write_claim_v1.")
        path, content = arguments["path"], arguments["content"].encode()
        former = await self._keep_former(path, claim["expected_hash"], ctx)
        written = await asyncio.to_thread(self._root(ctx).replace, path, content, claim["expected_hash"])
        if not isinstance(written, Failure):
            if ctx.make_artifact is not None and len(path) <= MAX_ARTIFACT_NAME and path.isprintable():
                before = FormerContent(former if written.former else None)
                await ctx.make_artifact(path, media_type(path, content), content, former=before)
            said: JsonObject = {
                "path": written.path,
                "hash": written.hash,
                "size": written.size,
                "former": written.former,
            }
            return JsonResult(said)
        if written.code != "WRITE_CONFLICT":
            return written
        current = written.detail["currentHash"]
        # The message, not only the detail, names the hash: it is what a model gets to see.
        message = f"{claim['who']}: {claim['why']}: the file changed; its hash is now {current or 'none (no file)'}"
        return Failure("WRITE_CONFLICT", message, detail={"currentHash": current})

    async def _keep_former(self, path: str, expected_hash: str, ctx: ToolContext) -> bytes:
        """Before the write, so that it can be undone whatever happens next. Another content is not replaced."""
        if not expected_hash:
            return b""
        former = await asyncio.to_thread(self._root(ctx).read, path)
        if isinstance(former, Failure) or hash_of(former) != expected_hash:
            return b""
        if ctx.put_blob is not None:
            await ctx.put_blob(former, "application/octet-stream")
        return former

    async def notes(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        if not ctx.limits.writes and arguments["action"] != "list":
            return Failure("SESSION_CONTROL_DENIED", "The session's filesystemSandbox is read-only.")
        return await asyncio.to_thread(self._notes, arguments, ctx)

    def _notes(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        root = self._root(ctx)
        for _ in range(_WRITE_ATTEMPTS):
            stored = root.read(_NOTES)
            if isinstance(stored, Failure) and stored.code != "FILE_NOT_FOUND":
                return stored
            before = b"" if isinstance(stored, Failure) else stored
            notes = [json.loads(line) for line in before.splitlines()]
            changed = _changed(notes, arguments, ctx.idempotency_key)
            content = b"".join(json.dumps(note) + b"\n" for note in changed)
            if changed == notes or not isinstance(root.replace(_NOTES, content, hash_of(before)), Failure):
                return JsonResult({"notes": [note["text"] for note in changed]})
        return Failure("WRITE_CONFLICT", "The notes keep changing.", retryable=True)

    def _root(self, ctx: ToolContext) -> Rooted:
        # A link beneath the session's folder may lead out of it, within the tenant's files.
        return Rooted(tenant_folder(self._data, ctx.tenant), links=ctx.limits.folder is None)


def _changed(notes: list[JsonObject], arguments: JsonObject, key: str | None) -> list[JsonObject]:
    """The notes after the call; the key of each says which call added it, so that it is added once."""
    match arguments["action"]:
        case "add" if key is None or all(note["key"] != key for note in notes):
            return [*notes, {"key": key, "text": arguments["text"]}]
        case "remove":
            return [note for note in notes if note["text"] != arguments["text"]]
    return notes


NAMES: Final = frozenset(
    {"echo", "clock", "calculator", "notes", "read_file", "write_file", "list_files", "http_fetch", "todos", "ask_user"}
    | MEMORY_NAMES
)


class BuiltinConfig(Spec):
    builtin: Text | None = None
    """The shipped tool to use, another way to write `entry`."""


def make(declared: CompiledTool, workspace: CompiledWorkspace, deps: ToolDeps) -> BuiltinTool | Failure:
    """A shipped tool by its name, or by `entry` under another one; the document may narrow its schema."""
    if _KEY not in deps.build:
        outgoing = workspace.runtime.outgoing
        deps.build[_KEY] = builtins(
            deps.files,
            deps.clock,
            write_claim=SchemaRegistry().validator("write_claim_v1"),
            client=deps.client,
            fetch_hosts=frozenset(outgoing.hosts),
            fetch_private=frozenset(outgoing.private),
            memory=deps.memory,
        )
    tool = deps.build[_KEY].get(declared.spec.entry or str(declared.spec.config.get("builtin", declared.name)))
    if not isinstance(tool, BuiltinTool):
        return Failure("TOOL_INVALID", f"{declared.name}: no built-in tool has this name, or it is switched off")
    return BuiltinTool(define(declared, tool.definition), tool.action)


KIND: Final = ToolKind(name="builtin", make=make, config=BuiltinConfig)
