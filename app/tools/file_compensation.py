"""Takes protected file writes back: the former content is put in its place, if the file still is what the write left.

The former content is a blob of the thread, stored before the write. Leaves to `outside.files`: the file itself.
"""

import asyncio
from pathlib import Path
from typing import Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.events.catalog.artifact import UNDO_TOOL
from app.outside.files import Rooted, Written, hash_of, tenant_folder
from app.tools.compensation import undo_definition
from app.tools.contract import JsonResult, PastCall, Result, Tool, ToolContext, ToolDefinition, UndoCall

_EMPTY: Final = hash_of(b"")
_HASH: Final = {"type": "string", "pattern": "^([0-9a-f]{64})?$"}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["path", "written", "former"],
    "properties": {
        "path": {"type": "string", "format": "path", "minLength": 1, "maxLength": 1000},
        "written": {**_HASH, "description": "the hash of what the write left"},
        "former": {**_HASH, "description": "the hash of what it replaced; empty where there was no file"},
    },
}


@value(frozen=True, slots=True)
class FileCompensation:
    data: Path

    def undo(self, call: PastCall) -> UndoCall | Failure:
        result, path = call.result, call.arguments.get("path")
        claim = call.arguments.get("claim")
        if not isinstance(result, dict) or not isinstance(path, str) or not isinstance(claim, dict):
            return Failure("UNDO_VALUES_MISSING", "The result of the write is not known.")
        written, former = result.get("hash"), result.get("former", claim.get("expected_hash"))
        if "former" not in result and former == _EMPTY:
            return Failure("UNDO_VALUES_MISSING", "It is not known whether the file was empty or not there.")
        if not isinstance(written, str) or not isinstance(former, str):
            return Failure("UNDO_VALUES_MISSING", "The result of the write is not known.")
        if not call.exact and "[REDACTED:" in path:
            return Failure("UNDO_VALUES_MISSING", "The log has the path of the file only redacted.")
        return UndoCall(UNDO_TOOL + call.tool, {"path": path, "written": written, "former": former})

    async def conflict(self, undo: UndoCall, tenant: str, world: dict[str, str]) -> Failure | None:
        path, written, former = (undo.arguments[name] for name in ("path", "written", "former"))
        place = f"file {'/'.join(part for part in path.split('/') if part not in ('', '.'))}"
        current: str | Failure
        if place in world:
            current = world[place]
        else:
            current = await asyncio.to_thread(_hash_now, self.data, tenant, path)
        if isinstance(current, Failure):
            return Failure("UNDO_CONFLICT", f"{path}: {current.message}")
        if current != written:
            now = "is gone" if not current else "has changed"
            return Failure("UNDO_CONFLICT", f"{path} {now} since it was written, so it is left as it is")
        world[place] = former
        return None

    def own_tool(self, definition: ToolDefinition) -> Tool | None:
        return _RestoreFile(undo_definition(definition, _SCHEMA), self.data)


@value(frozen=True, slots=True)
class _RestoreFile:
    definition: ToolDefinition
    data: Path

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        path, written, former = (arguments[name] for name in ("path", "written", "former"))
        if not former:
            removed = await asyncio.to_thread(self._root(ctx).remove, path, written)
            return removed or JsonResult({"path": path, "removed": True})
        content = b"" if former == _EMPTY else await self._former(former, ctx)
        if content is None:
            return Failure("BLOB_NOT_FOUND", f"The former content of {path} is no longer stored.")
        restored = await asyncio.to_thread(_restore, self._root(ctx), path, content, written)
        return restored or JsonResult({"path": path, "hash": former})

    async def _former(self, sha256: str, ctx: ToolContext) -> bytes | None:
        return None if ctx.load_blob is None else await ctx.load_blob({"sha256": sha256})

    def _root(self, ctx: ToolContext) -> Rooted:
        return Rooted(tenant_folder(self.data, ctx.tenant))


def _restore(root: Rooted, path: str, content: bytes, written: str) -> Failure | None:
    """Done already is done: an attempt that was cut off after it wrote is not a conflict."""
    restored = root.replace(path, content, written)
    if isinstance(restored, Written):
        return None
    if restored.code == "WRITE_CONFLICT" and restored.detail["currentHash"] == hash_of(content):
        return None
    return restored


def _hash_now(data: Path, tenant: str, path: str) -> str | Failure:
    found = Rooted(tenant_folder(data, tenant)).read(path)
    if isinstance(found, Failure):
        return "" if found.code == "FILE_NOT_FOUND" else found
    return hash_of(found)
