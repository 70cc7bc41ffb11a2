"""What of a result goes where: all of it to be validated, a bounded part to the model and the log, the rest
to a blob that the part refers to."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import Json
from app.core.value import value
from app.tools.contract import (
    BytesResult,
    FileResult,
    JsonResult,
    LoadBlob,
    PutBlob,
    Result,
    TextResult,
    ToolDefinition,
    ToolOutcome,
)

INLINE_BYTES: Final = 16 * 1024  # the log keeps values up to this size in the event itself
_JSON: Final = "application/json"
_TAIL_SHARE: Final = 4  # one part in four: the beginning says most, and the end how it went
_LEAST_WITH_TAIL: Final = 200  # bytes; a shorter excerpt is all beginning


@value(frozen=True, slots=True)
class ToolOutput:
    shown: Json
    """Bounded: what a model, a hook and the log get."""
    whole: Json
    """For the output schema. None where there is only binary content."""
    truncated: bool = False
    """`shown` is an excerpt with a reference to the whole."""


async def bounded(result: Result, definition: ToolDefinition, put_blob: PutBlob) -> ToolOutput | Failure:
    limit, size = definition.max_output_bytes, definition.excerpt_bytes
    match result:
        case JsonResult(value):
            try:
                encoded = json.canonical(value)
            except (json.JsonError, RecursionError):
                return Failure("OUTPUT_INVALID", "The tool's output cannot be written as JSON.")
            return await _text(value, encoded, _JSON, limit, size, put_blob)
        case TextResult(text):
            clean = text.encode(errors="replace")
            return await _text(clean.decode(), clean, "text/plain; charset=utf-8", limit, size, put_blob)
        case BytesResult(data, mime):
            return await _binary(data, mime, limit, put_blob)
        case FileResult(path, mime):
            content = await asyncio.to_thread(_read, path, limit)
            return content if isinstance(content, Failure) else await _binary(content, mime, limit, put_blob)


async def stored(outcome: ToolOutcome, load_blob: LoadBlob | None) -> "Json | Failure":
    """The whole of an output that was recorded by `bounded`, as the output schema saw it or would have."""
    shown = outcome.output
    reference = shown.get("$blob") if isinstance(shown, dict) else None
    if not isinstance(reference, dict):
        return shown
    if not outcome.truncated:
        return None  # binary content
    data = await load_blob(reference) if load_blob is not None else None
    if data is None:
        return Failure("OUTPUT_INVALID", "The stored output of the tool cannot be read and therefore not be checked.")
    return json.loads(data) if reference.get("mime") == _JSON else data.decode()


async def _text(
    value: Json, encoded: bytes, mime: str, limit: int, size: int, put_blob: PutBlob
) -> ToolOutput | Failure:
    if len(encoded) > limit:
        return _too_large(limit)
    if len(encoded) <= min(INLINE_BYTES, size):
        return ToolOutput(value, value)
    reference = await put_blob(encoded, mime)
    shown: Json = {"excerpt": _excerpt(encoded, size), "truncated": len(encoded) > size, "$blob": dict(reference)}
    return ToolOutput(shown, value, True)


async def _binary(data: bytes, mime: str, limit: int, put_blob: PutBlob) -> ToolOutput | Failure:
    if len(data) > limit:
        return _too_large(limit)
    reference: Mapping[str, Any] = await put_blob(data, mime)
    return ToolOutput({"$blob": dict(reference)}, None)


def _excerpt(encoded: bytes, size: int) -> str:
    """At most `size` bytes, the note of what was left out included. A character that a cut hits is dropped."""
    if len(encoded) <= size or size < _LEAST_WITH_TAIL:
        return encoded[:size].decode(errors="ignore")
    room = size - len(_left_out(len(encoded)))
    tail = room // _TAIL_SHARE
    head = encoded[: room - tail].decode(errors="ignore")
    return f"{head}{_left_out(len(encoded) - room)}{encoded[-tail:].decode(errors='ignore')}"


def _left_out(count: int) -> str:
    return f"\n[... {count} bytes left out ...]\n"


def _read(path: Any, limit: int) -> bytes | Failure:
    try:
        with open(path, "rb") as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        return Failure("TOOL_FAILED", f"The tool's file cannot be read: {error.strerror}")
    return _too_large(limit) if len(content) > limit else content


def _too_large(limit: int) -> Failure:
    return Failure("OUTPUT_TOO_LARGE", f"The tool's output is larger than its limit of {limit} bytes.")
