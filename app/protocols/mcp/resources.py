"""Resources of the MCP server: threads, runs, artifacts and skills, each with its address, listed in pages.

Leaves to others: prompts (`prompts`), what a run's result links to (`dialects.mcp`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.events.blobs import restored, stored_blobs
from app.protocols.auth.permissions import may_follow
from app.protocols.context import ServerContext
from app.protocols.dialects.jsonrpc import INVALID_PARAMS, RpcError, RpcMessage, failure_data
from app.protocols.dialects.mcp import ARTIFACT_URI, RUN_URI, SKILL_URI, THREAD_URI, contents
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_run, existing_thread, whole_transcript
from app.protocols.http.parameters import read_place, write_place
from app.protocols.mcp.calls import require
from app.views.ports import RunFilter
from app.views.run import run_json
from app.views.thread import thread_json
from app.views.transcript import entry_json

PAGE: Final = 100
MAX_CONTENT_BYTES: Final = 8 * 1024 * 1024
"""Of one resource: it travels inside a JSON message. Larger artifacts are read by `/api/artifacts/{id}/content`."""
_JSON: Final = "application/json"
NOT_FOUND_BEFORE: Final = -32002
"""The code for a resource that is not there, in the revisions before 2026-07-28."""

TEMPLATES: Final[list[JsonObject]] = [
    {
        "uriTemplate": THREAD_URI + "{threadId}",
        "name": "thread",
        "description": "A conversation with its messages.",
        "mimeType": _JSON,
    },
    {
        "uriTemplate": RUN_URI + "{runId}",
        "name": "run",
        "description": "One run: status, input, output, usage.",
        "mimeType": _JSON,
    },
    {"uriTemplate": ARTIFACT_URI + "{artifactId}", "name": "artifact", "description": "The content of an artifact."},
    {
        "uriTemplate": SKILL_URI + "{name}",
        "name": "skill",
        "description": "The text of a skill.",
        "mimeType": "text/markdown",
    },
]


# -- lists --------------------------------------------------------------------------------------------


async def list_resources(server: ServerContext, caller: Principal, message: RpcMessage) -> JsonObject:
    """Skills, then threads, then runs. Artifacts are linked from results; each is read by its id."""
    section, inner = _cursor(message.params.get("cursor"))
    items: list[JsonObject] = []
    following: str | None = f"{section}:{inner}"
    for scope, read in _SECTIONS[section:]:
        if not caller.may(scope):
            section, inner = section + 1, ""
            continue
        found, after = await read(server, caller, inner, PAGE - len(items))
        items += found
        section, inner = (section, after) if after else (section + 1, "")
        following = f"{section}:{inner}" if section < len(_SECTIONS) else None
        if len(items) >= PAGE or after:
            break
    else:
        following = None
    return {"resources": items} | ({} if following is None else {"nextCursor": following})


def _cursor(cursor: Any) -> tuple[int, str]:
    if cursor is None:
        return 0, ""
    section, _, inner = cursor.partition(":") if isinstance(cursor, str) else ("", "", "")
    if section not in ("0", "1", "2") or len(inner) > 300:
        raise RpcError(INVALID_PARAMS, "The cursor is none of this list's.")
    return int(section), inner


Section = Callable[[ServerContext, Principal, str, int], Awaitable[tuple[list[JsonObject], str]]]


async def _skills(server: ServerContext, _caller: Principal, after: str, limit: int) -> tuple[list[JsonObject], str]:
    skills = server.workspace.current.skills
    names = sorted(name for name in skills if name > after)
    found = [
        {
            "uri": SKILL_URI + name,
            "name": name,
            "description": skills[name].description,
            "mimeType": "text/markdown",
        }
        for name in names[:limit]
    ]
    return found, names[limit - 1] if len(names) > limit else ""


async def _threads(server: ServerContext, caller: Principal, after: str, limit: int) -> tuple[list[JsonObject], str]:
    found = await server.reader.threads_of(caller.tenant, after, limit)
    items = [{"uri": THREAD_URI + one.id, "name": one.title or one.id, "mimeType": _JSON} for one in found]
    return items, found[-1].id if len(found) == limit else ""


async def _runs(server: ServerContext, caller: Principal, after: str, limit: int) -> tuple[list[JsonObject], str]:
    found, place = await server.reader.list_runs(caller.tenant, RunFilter(), read_place(after), limit)
    items = [
        {"uri": RUN_URI + run.id, "name": run.id, "description": f"{_what(run)}, {run.status}", "mimeType": _JSON}
        for run in found
    ]
    return items, write_place(place) or ""


def _what(run: Any) -> str:
    return str(run.agent or run.workflow or run.tool or "undo")


_SECTIONS: Final[tuple[tuple[str, Section], ...]] = (
    ("workspace:read", _skills),
    ("threads:read", _threads),
    ("runs:read", _runs),
)
"""In the order of the list, each with the scope without which it is left out."""


# -- reading ------------------------------------------------------------------------------------------


async def read_resource(
    server: ServerContext, caller: Principal, message: RpcMessage, *, stateless: bool
) -> JsonObject:
    uri = message.params.get("uri")
    if isinstance(uri, str) and len(uri) <= 500:
        for prefix, read in _READERS.items():
            if uri.startswith(prefix) and (name := uri.removeprefix(prefix)):
                try:
                    mime, data = await read(server, caller, name)
                except HttpProblem as problem:
                    if problem.failure.code == "FORBIDDEN":
                        raise
                    raise _missing(problem.failure, stateless) from None
                return {"contents": [contents(uri, mime, data)]}
    raise _missing(Failure("NOT_FOUND", "There is no such resource."), stateless)


def _missing(failure: Failure, stateless: bool) -> RpcError:
    return RpcError(INVALID_PARAMS if stateless else NOT_FOUND_BEFORE, failure.message, failure_data(failure))


async def _thread(server: ServerContext, caller: Principal, thread_id: str) -> tuple[str, bytes]:
    require(caller, "threads:read")
    if not may_follow(caller, thread_id):
        raise HttpProblem(Failure("THREAD_NOT_FOUND", "There is no such thread."))
    thread = await existing_thread(server, caller, thread_id)
    _, entries = await whole_transcript(server, caller, thread)
    return _JSON, _bounded(json.dumps(thread_json(thread) | {"messages": [entry_json(one) for one in entries]}))


async def _run(server: ServerContext, caller: Principal, run_id: str) -> tuple[str, bytes]:
    require(caller, "runs:read")
    run = await existing_run(server, caller, run_id)
    shown = await restored(run_json(run), stored_blobs(server.reader, caller.tenant, run.thread_id))
    return _JSON, _bounded(json.dumps(shown))


async def _artifact(server: ServerContext, caller: Principal, artifact_id: str) -> tuple[str, bytes]:
    require(caller, "files:read")
    artifact = await server.reader.artifact(caller.tenant, artifact_id)
    if artifact is None:
        raise HttpProblem(Failure("ARTIFACT_NOT_FOUND", "There is no such artifact."))
    await existing_thread(server, caller, artifact.thread_id)
    sha256 = artifact.value.get("sha256")
    if not isinstance(sha256, str):
        raise HttpProblem(Failure("ARTIFACT_HAS_NO_CONTENT", "The artifact names no stored content."))
    size = await server.reader.blob_size(caller.tenant, artifact.thread_id, sha256)
    if size is None:
        raise HttpProblem(Failure("BLOB_NOT_FOUND", "The content is not there any more."))
    if size[1] > MAX_CONTENT_BYTES:
        raise HttpProblem(Failure("VIEW_TOO_LARGE", f"The content is larger than {MAX_CONTENT_BYTES} bytes."))
    found = await server.reader.blob(caller.tenant, artifact.thread_id, sha256)
    if found is None:
        raise HttpProblem(Failure("BLOB_NOT_FOUND", "The content is not there any more."))
    return str(artifact.value.get("mime") or found[0]), found[1]


async def _skill(server: ServerContext, caller: Principal, name: str) -> tuple[str, bytes]:
    require(caller, "workspace:read")
    skill = server.workspace.current.skills.get(name)
    if skill is None:
        raise HttpProblem(Failure("NOT_FOUND", "There is no such skill."))
    return "text/markdown", skill.body.encode()


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_CONTENT_BYTES:
        raise HttpProblem(Failure("VIEW_TOO_LARGE", f"The content is larger than {MAX_CONTENT_BYTES} bytes."))
    return data


_READERS: Final[dict[str, Callable[[ServerContext, Principal, str], Awaitable[tuple[str, bytes]]]]] = {
    THREAD_URI: _thread,
    RUN_URI: _run,
    ARTIFACT_URI: _artifact,
    SKILL_URI: _skill,
}
