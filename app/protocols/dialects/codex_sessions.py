"""Threads as the sessions of the published contract: summaries, turns with their items, and the merged transcript.

Pure functions of what the reader gives. What a session was asked to use (model, policies, tools) lies in its thread's
metadata under `session`; it is kept and told, and the workspace decides what holds.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from app.core import json
from app.protocols.dialects.codex import UNTITLED
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry, entry_json

PROVIDER: Final = "holdfast"
SOURCE: Final = "appServer"
CONTROLS: Final = "session"
"""The key of a thread's metadata under which the controls lie."""
MAX_ROWS: Final = 5000
"""Of a client's own rows the newest are told."""

_TURNS: Final = {"completed": "completed", "failed": "failed", "cancelled": "interrupted"}


def controls(thread: Thread) -> dict[str, Any]:
    """Whoever may change a thread can write its metadata: what the contract does not allow there is passed over."""
    kept = thread.metadata.get(CONTROLS)
    if not isinstance(kept, dict):
        return {}
    return {name: value for name, value in kept.items() if name in _ALLOWED and _ALLOWED[name](value)}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_tools(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(tool, dict)
        and _is_text(tool.get("name"))
        and _is_text(tool.get("description"))
        and isinstance(tool.get("inputSchema"), dict)
        for tool in value
    )


_ALLOWED: Final[dict[str, Callable[[Any], bool]]] = {
    "cwd": _is_text,
    "model": _is_text,
    "approvalPolicy": ("untrusted", "on-failure", "on-request", "never").__contains__,
    "networkAccess": ("restricted", "enabled").__contains__,
    "filesystemSandbox": ("read-only", "workspace-write", "danger-full-access").__contains__,
    "settings": lambda value: isinstance(value, dict),
    "dynamicTools": _are_tools,
}


def summary(thread: Thread) -> dict[str, Any]:
    kept = controls(thread)
    policy = kept.get("approvalPolicy", "on-request")
    return {
        "sessionId": thread.id,
        "title": thread.title or UNTITLED,
        "materialized": thread.used,
        "modelProvider": PROVIDER,
        "approvalPolicy": policy,
        "sessionControls": {
            "model": kept.get("model"),
            "approvalPolicy": policy,
            "networkAccess": kept.get("networkAccess", "restricted"),
            "filesystemSandbox": kept.get("filesystemSandbox", "read-only"),
            "settings": kept.get("settings", {}),
        },
        "createdAt": thread.created_at // 1000,
        "updatedAt": thread.updated_at // 1000,
        "cwd": kept.get("cwd", ""),
        "source": SOURCE,
        "projectId": None,
    }


def thread_of(thread: Thread, runs: Iterable[Run] = (), entries: Sequence[Entry] = ()) -> dict[str, Any]:
    items: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        if not entry.supplemental:
            items[entry.turn_id].append(_item(entry))
    asked = next((entry.content for entry in entries if entry.role == "user"), "")
    turns = [
        {"id": run.id, "status": _TURNS.get(run.status, "inProgress"), "error": run.error, "items": items[run.id]}
        for run in sorted(runs, key=lambda run: run.first_seq)
    ]
    return {
        "id": thread.id,
        "preview": asked[:200] if isinstance(asked, str) else "",
        "modelProvider": PROVIDER,
        "createdAt": thread.created_at // 1000,
        "updatedAt": thread.updated_at // 1000,
        "cwd": controls(thread).get("cwd", ""),
        "source": SOURCE,
        "turns": turns,
    }


def _item(entry: Entry) -> dict[str, Any]:
    if entry.kind == "tool":
        status = {"streaming": "inProgress", "complete": "completed"}.get(entry.status, "failed")
        return {"type": "dynamicToolCall", "id": entry.message_id, "tool": entry.content, "status": status}
    if entry.role == "user":
        content = [{"type": "text", "text": entry.content}]
        return {"type": "userMessage", "id": entry.message_id, "content": content}
    if entry.kind == "error":
        return {"type": "error", "id": entry.message_id, "message": entry.content}
    return {"type": "agentMessage", "id": entry.message_id, "text": entry.content}


# -- the transcript -----------------------------------------------------------------------------------


def transcript(entries: Sequence[Entry], runs: Iterable[Run]) -> list[dict[str, Any]]:
    """A client's rows take their places among the messages: after their anchor, else before the turn's last answer."""
    ended = {run.id for run in runs if run.terminal}
    known = {run.id for run in runs}
    rows = [entry for entry in entries if not entry.supplemental]
    own = [entry for entry in entries if entry.supplemental][-MAX_ROWS:]
    last_answer = {entry.turn_id: entry.message_id for entry in rows if entry.role == "assistant"}
    places = {entry.message_id for entry in rows}
    before: defaultdict[str, list[Entry]] = defaultdict(list)
    after: defaultdict[str, list[Entry]] = defaultdict(list)
    at_end: list[Entry] = []
    for entry in own:
        anchor = _anchor(entry)
        if anchor in places:
            after[anchor].append(entry)
        elif entry.turn_id in known and entry.turn_id in last_answer:
            before[last_answer[entry.turn_id]].append(entry)
        else:
            at_end.append(entry)
    ordered: list[Entry] = []
    for entry in rows:
        ordered += [*before[entry.message_id], entry, *after[entry.message_id]]
    return [_row(entry, ended) for entry in [*ordered, *at_end]]


def _anchor(entry: Entry) -> str:
    """`details` is a text of the client's; one that is JSON may name the item after which the row belongs."""
    if not entry.details or not entry.details.startswith("{"):
        return ""
    try:
        told = json.loads(entry.details)
    except json.JsonError:
        return ""
    return str(told.get("anchorItemId", "")) if isinstance(told, dict) else ""


def _row(entry: Entry, ended: set[str]) -> dict[str, Any]:
    made = entry_json(entry)
    if made["status"] == "streaming" and entry.turn_id in ended:
        made["status"] = "complete"
    return {name: value for name, value in made.items() if value is not None}


def kept(body: Mapping[str, Any], thread: Thread | None = None) -> dict[str, Any]:
    """The controls after a request: what it names joins what was there."""
    given = {name: value for name, value in body.items() if value is not None}
    return (controls(thread) if thread is not None else {}) | given
