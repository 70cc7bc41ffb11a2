"""Files that a program made in its folder, as artifacts of the run. The program is not trusted: no link is followed."""

import asyncio
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from app.core.artifact import MAX_ARTIFACT_BYTES, MAX_ARTIFACT_NAME, media_type
from app.core.errors import Failure
from app.outside.files import Rooted
from app.tools.contract import ToolContext

MAX_FILES: Final = 20
"""Artifacts of one call."""
_MAX_LOOKED_AT: Final = 10_000


async def store_artifacts(folder: Path, patterns: tuple[str, ...], ctx: ToolContext) -> Failure | None:
    """Each file beneath the folder that fits a pattern, in the order of their paths."""
    if ctx.make_artifact is None:
        return None
    found = await asyncio.to_thread(_matching, folder, patterns)
    if len(found) > MAX_FILES:
        return Failure("OUTPUT_TOO_LARGE", f"The program made {len(found)} artifacts; a call may make {MAX_FILES}.")
    for path in found:
        if len(path) > MAX_ARTIFACT_NAME or not path.isprintable():
            return Failure("ARTIFACT_INVALID", "The program made a file whose name cannot be that of an artifact.")
        content = await asyncio.to_thread(Rooted(folder).read, path, MAX_ARTIFACT_BYTES)
        if isinstance(content, Failure):
            return Failure(content.code, f"The artifact {path}: {content.message}")
        await ctx.make_artifact(path, media_type(path, content), content)
    return None


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    looked_at = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        looked_at += len(names)
        if looked_at > _MAX_LOOKED_AT:
            break
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)
            regular = not os.path.islink(os.path.join(place, name))
            if regular and any(fnmatchcase(path, pattern) for pattern in patterns):
                found.append(path)
    return sorted(found)
