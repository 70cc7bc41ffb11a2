"""The diff of a run: what it changed in text files, from before its first write of each to after its last."""

import asyncio
from typing import Final

from app.views.artifact import Artifact
from app.views.ports import Reader
from app.views.run import Run
from app.views.text_diff import FILE, MAX_COMPARED_BYTES, diff_names, unified_diff

MAX_FILES: Final = 200
MAX_BYTES: Final = 16 * 1024 * 1024
"""Of all contents that one diff compares; what is beyond it is named and not shown."""


async def run_diff(reader: Reader, tenant: str, run: Run) -> str:
    changes: dict[str, tuple[str, Artifact]] = {}
    for made in await reader.artifacts(tenant, run.thread_id):
        if made.run_id == run.id and made.value.get("kind") == FILE:
            name = str(made.value["name"])
            first = changes[name][0] if name in changes else str(made.value.get("former") or "")
            changes[name] = first, made
    parts: list[str] = []
    left = MAX_BYTES
    for number, (name, (former, last)) in enumerate(sorted(changes.items())):
        names = diff_names(name, bool(former))
        before = await _text(reader, tenant, run.thread_id, former, left) if former else ""
        after = await _text(reader, tenant, run.thread_id, str(last.value.get("sha256")), left)
        if number >= MAX_FILES or before is None or after is None:
            parts.append(f"Files {names[0]} and {names[1]} differ\n")
            continue
        left -= len(before) + len(after)
        parts.append(await asyncio.to_thread(unified_diff, before, after, *names))
    return "".join(parts)


async def _text(reader: Reader, tenant: str, thread_id: str, sha256: str, most: int) -> str | None:
    """None for what is no text, too large, or gone."""
    size = await reader.blob_size(tenant, thread_id, sha256)
    if size is None or size[1] > min(most, MAX_COMPARED_BYTES):
        return None
    found = await reader.blob(tenant, thread_id, sha256)
    if found is None or b"\x00" in found[1]:
        return None
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        return None
