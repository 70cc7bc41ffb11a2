"""What of a result goes where: all of it to be validated, a bounded part to the model and the log, the rest
to a blob that the part refers to."""

import asyncio
import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import Json
from app.tools.contract import (
    BytesResult,
    FileResult,
    JsonResult,
    PutBlob,
    Result,
    TextResult,
    ToolDefinition,
)

INLINE_BYTES: Final = 16 * 1024  # the log keeps values up to this size in the event itself
_HEAD, _TAIL = 6 * 1024, 2 * 1024  # of a long output the beginning says most, and the end how it went


@dataclass(frozen=True, slots=True)
class Output:
    shown: Json
    """Bounded: what a model, a hook and the log get."""
    whole: Json
    """For the output schema. None where there is only binary content."""
    truncated: bool = False


async def bounded(result: Result, definition: ToolDefinition, put_blob: PutBlob) -> Output | Failure:
    limit = definition.max_output_bytes
    match result:
        case JsonResult(value):
            try:
                encoded = json.canonical(value)
            except (json.JsonError, RecursionError):
                return Failure("OUTPUT_INVALID", "the tool's output cannot be written as JSON")
            return await _text(value, encoded, "application/json", limit, put_blob)
        case TextResult(text):
            clean = text.encode(errors="replace")
            return await _text(clean.decode(), clean, "text/plain; charset=utf-8", limit, put_blob)
        case BytesResult(data, mime):
            return await _binary(data, mime, limit, put_blob)
        case FileResult(path, mime):
            content = await asyncio.to_thread(_read, path, limit)
            return content if isinstance(content, Failure) else await _binary(content, mime, limit, put_blob)


async def _text(value: Json, encoded: bytes, mime: str, limit: int, put_blob: PutBlob) -> Output | Failure:
    if len(encoded) > limit:
        return _too_large(limit)
    if len(encoded) <= INLINE_BYTES:
        return Output(value, value)
    reference = await put_blob(encoded, mime)
    return Output({"excerpt": _excerpt(encoded), "truncated": True, "$blob": dict(reference)}, value, True)


async def _binary(data: bytes, mime: str, limit: int, put_blob: PutBlob) -> Output | Failure:
    if len(data) > limit:
        return _too_large(limit)
    reference: Mapping[str, Any] = await put_blob(data, mime)
    return Output({"$blob": dict(reference)}, None)


def _excerpt(encoded: bytes) -> str:
    left_out = len(encoded) - _HEAD - _TAIL
    # A cut through a character is dropped, not shown as a replacement.
    head = codecs.getincrementaldecoder("utf-8")("ignore").decode(encoded[:_HEAD])
    return f"{head}\n[... {left_out} bytes left out ...]\n{encoded[-_TAIL:].decode(errors='ignore')}"


def _read(path: Any, limit: int) -> bytes | Failure:
    try:
        with open(path, "rb") as stream:
            content = stream.read(limit + 1)
    except OSError as error:
        return Failure("TOOL_FAILED", f"the tool's file cannot be read: {error.strerror}")
    return _too_large(limit) if len(content) > limit else content


def _too_large(limit: int) -> Failure:
    return Failure("OUTPUT_TOO_LARGE", f"the tool's output is larger than its limit of {limit} bytes")
