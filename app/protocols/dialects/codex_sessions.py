"""Threads as the sessions of the published contract: summaries, turns with their items, and the merged transcript.

Pure functions of what the reader gives. What a session was asked to use (model, policies, tools, settings) is in its
thread's metadata (`views.controls`); it is stored and returned, and the workspace decides what takes effect.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from app.core import json
from app.protocols.dialects.codex import UNTITLED
from app.protocols.dialects.codex_items import PROVIDER, SOURCE
from app.protocols.dialects.codex_lifecycle import call_item
from app.protocols.dialects.codex_rows import SessionEvents
from app.views.controls import controls_of, project_of
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry, entry_json

MAX_ROWS: Final = 5000
"""How many of a client's own rows are returned: the newest."""

_TURNS: Final = {"completed": "completed", "failed": "failed", "cancelled": "interrupted"}


def controls(thread: Thread) -> dict[str, Any]:
    return controls_of(thread.metadata)


def tuple_of(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The controls as the contract shows them; ours only where set. A limit that nobody set is shown as none, so that
    a client that sends back what it read narrows nothing."""
    shown = {
        "model": kept.get("model"),
        "approvalPolicy": kept.get("approvalPolicy", "on-request"),
        "networkAccess": kept.get("networkAccess", "enabled"),
        "filesystemSandbox": kept.get("filesystemSandbox", "workspace-write"),
        "settings": kept.get("settings", {}),
    }
    return shown | {name: kept[name] for name in ("effort", "dynamicTools") if name in kept}


def summary(thread: Thread) -> dict[str, Any]:
    kept = controls(thread)
    shown = tuple_of(kept)
    return {
        "sessionId": thread.id,
        "title": thread.title or UNTITLED,
        "materialized": thread.used,
        "modelProvider": PROVIDER,
        "approvalPolicy": shown["approvalPolicy"],
        "sessionControls": shown,
        "createdAt": thread.created_at // 1000,
        "updatedAt": thread.updated_at // 1000,
        "cwd": kept.get("cwd", ""),
        "source": SOURCE,
        "projectId": project_of(thread.metadata),
    }


def summary_of(applied: Mapping[str, Any]) -> str:
    """Applied controls in one line, as the contract writes it."""
    parts = (
        applied["model"] or "default",
        applied["approvalPolicy"],
        applied["networkAccess"],
        applied["filesystemSandbox"],
        f"settings:{len(applied['settings'])}",
    )
    return " | ".join(parts)


def thread_of(
    thread: Thread, runs: Iterable[Run] = (), entries: Sequence[Entry] = (), events: SessionEvents | None = None
) -> dict[str, Any]:
    events, runs = events or SessionEvents(), list(runs)
    items: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in _spoken(entries, {run.id for run in runs if run.terminal}):
        if not entry.supplemental:
            items[entry.turn_id].append(_item(entry, events))
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


def _item(entry: Entry, events: SessionEvents) -> dict[str, Any]:
    if entry.kind == "tool":
        known = events.calls.get(entry.message_id)
        if known is not None:
            return known
        status = {"streaming": "inProgress", "complete": "completed"}.get(entry.status, "failed")
        return call_item(entry.message_id, str(entry.content), None) | {"status": status}
    if entry.role == "user":
        content = [{"type": "text", "text": entry.content}]
        return {"type": "userMessage", "id": entry.message_id, "content": content}
    if entry.kind == "error":
        return {"type": "error", "id": entry.message_id, "message": entry.content}
    return {"type": "agentMessage", "id": entry.message_id, "text": entry.content}


_TYPES: Final = {("user", "message"): "userMessage", ("assistant", "message"): "agentMessage"}


def _told(item: Mapping[str, Any]) -> str:
    """A call in one line."""
    failed = (item["error"] or {}).get("message")
    return f"{item['server']}.{item['tool']} {item['status']}" + (f": {failed}" if failed else "")


# -- the transcript -----------------------------------------------------------------------------------


def _spoken(entries: Sequence[Entry], ended: set[str]) -> list[Entry]:
    """Without messages that say nothing and only call tools. The answer of a turn that has ended may be empty."""
    last = {entry.turn_id: entry.message_id for entry in entries if not entry.supplemental}
    return [
        entry
        for entry in entries
        if entry.content != ""
        or entry.supplemental
        or entry.role != "assistant"
        or entry.kind != "message"
        or (last[entry.turn_id] == entry.message_id and (entry.turn_id in ended or entry.status == "streaming"))
    ]


def transcript(
    entries: Sequence[Entry], runs: Sequence[Run], events: SessionEvents | None = None
) -> list[dict[str, Any]]:
    """A client's rows take their places among the messages: after their anchor, else before the turn's last answer."""
    events = events or SessionEvents()
    ended = {run.id for run in runs if run.terminal}
    known = {run.id for run in runs}
    entries = _spoken(entries, ended)
    rows = [entry for entry in entries if not entry.supplemental]
    if events.rows:
        # Those of a fork that it took over have no place in its own log; they stay in front.
        taken_over = [entry for entry in rows if entry.position <= 0]
        own_rows = [*(entry for entry in rows if entry.position > 0), *events.rows]
        rows = [*taken_over, *sorted(own_rows, key=lambda entry: entry.position)]
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
    return [_row(entry, ended, events) for entry in [*ordered, *at_end]]


def _anchor(entry: Entry) -> str:
    """`details` is a text of the client's; one that is JSON may name the item after which the row belongs."""
    if not entry.details or not entry.details.startswith("{"):
        return ""
    try:
        details = json.loads(entry.details)
    except json.JsonError:
        return ""
    return str(details.get("anchorItemId", "")) if isinstance(details, dict) else ""


def _row(entry: Entry, ended: set[str], events: SessionEvents) -> dict[str, Any]:
    made = entry_json(entry)
    if not entry.supplemental:
        made["type"] = _TYPES.get((entry.role, entry.kind), entry.kind)
        if entry.kind == "tool":
            item = _item(entry, events)
            made |= {"role": "system", "type": item["type"], "content": _told(item)}
            made["details"] = json.dumps(item).decode()
    if made["status"] == "streaming" and entry.turn_id in ended:
        made["status"] = "complete"
    return {name: value for name, value in made.items() if value is not None}
