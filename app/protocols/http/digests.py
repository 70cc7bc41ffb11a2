"""/api/workspace/compare: what changed between two workspaces that this server has loaded.

Leaves to others: which ones there were (`/api/ledger`), keeping their files (`store.workspaces`).
"""

import asyncio
import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from app.core.errors import Failure
from app.core.json import JsonObject
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.workspace.compiled import CompiledWorkspace

MAX_LINES: Final = 2_000
"""Of a file on each side; comparing takes up to their square. A longer one is named without its lines."""
MAX_TOTAL_LINES: Final = 20_000
MAX_FILES: Final = 500
_KINDS: Final = (
    "agents",
    "models",
    "tools",
    "mcp_servers",
    "memories",
    "workflows",
    "hooks",
    "guardrails",
    "evaluators",
    "schedules",
    "webhooks",
    "skills",
)


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/workspace", tags=["workspace"])

    @router.get(
        "/compare",
        response_model=shapes.WorkspaceComparison,
        summary="What changed between two workspaces",
        responses=may_answer("NOT_FOUND"),
    )
    async def compare(
        _caller: Caller,
        base: Annotated[str, Query(pattern="^[0-9a-f]{64}$", description="digest of the older one")],
        head: Annotated[str, Query(pattern="^[0-9a-f]{64}$", description="digest of the newer one")],
    ) -> Response:
        """By digest, from the ledger or a run. Files are kept of every workspace of at most 4 MB that was loaded, and
        of every one that a run used. At most 500 files and 20,000 lines are compared; `truncated` says if there are
        more."""
        old, new = await _files(server, base), await _files(server, head)
        files, truncated = await asyncio.to_thread(changed_files, old, new)
        compiled = await server.workspace_of(base), await server.workspace_of(head)
        documents = None if None in compiled else _changed_documents(*compiled)
        answer = {"base": base, "head": head, "documents": documents, "files": files, "truncated": truncated}
        return json_answer(answer)

    return router


async def _files(server: ServerContext, digest: str) -> Mapping[str, bytes]:
    current = server.workspace.current
    if digest == current.digest:
        return current.files.contents()
    found = await server.workspace_files(digest)
    if found is None:
        raise HttpProblem(Failure("NOT_FOUND", "The files of a workspace with this digest are not kept."))
    return found


def changed_files(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> tuple[list[JsonObject], bool]:
    """Each file that differs, with a unified diff where both sides are text and short; whether some were left out."""
    paths = [path for path in sorted({*old, *new}) if old.get(path) != new.get(path)]
    left, found = MAX_TOTAL_LINES, []
    for path in paths[:MAX_FILES]:
        before, after = _lines(old.get(path, b"")), _lines(new.get(path, b""))
        change = "added" if path not in old else "removed" if path not in new else "changed"
        short = before is not None and after is not None and len(before) + len(after) <= left
        diff = None
        if short:
            assert before is not None and after is not None
            left -= len(before) + len(after)
            diff = "\n".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm=""))
        found.append({"path": path, "change": change, "diff": diff})
    return found, len(paths) > MAX_FILES or any(file["diff"] is None for file in found)


def _lines(content: bytes) -> list[str] | None:
    """None for what is too long to compare or is no text."""
    if content.count(b"\n") > MAX_LINES:
        return None
    try:
        return content.decode().splitlines()
    except UnicodeDecodeError:
        return None


def _changed_documents(old: CompiledWorkspace | None, new: CompiledWorkspace | None) -> list[JsonObject]:
    found = []
    for kind in _KINDS:
        before, after = getattr(old, kind), getattr(new, kind)
        for name in sorted({*before, *after}):
            if name not in before:
                change = "added"
            elif name not in after:
                change = "removed"
            elif _said(before[name]) != _said(after[name]):
                change = "changed"
            else:
                continue
            found.append({"kind": kind.replace("_s", "S"), "name": name, "change": change})
    return found


def _said(document: Any) -> tuple[Any, ...]:
    """What its author wrote: the rest is derived from it."""
    names = ("description", "labels", "spec", "instructions", "triggers", "allowed_tools", "body", "frontmatter")
    return tuple(getattr(document, name, None) for name in names)
