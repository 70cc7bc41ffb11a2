"""Runs in the words of MCP: progress, results, questions to the client's user, tasks. Pure functions.

Leaves to others: which revision a client speaks (`mcp.terms`), reading the log, and the wire.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.core import json
from app.core.clock import iso
from app.core.json import JsonObject
from app.events.envelope import Event
from app.protocols.dialects.jsonrpc import INTERNAL_ERROR, notification
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.narration import narrate
from app.views.run import Run

POLL_MS: Final = 1000
"""How often a client should ask for a task."""
_MAX_SHOWN: Final = 2000
"""Characters of a call's arguments in a question about it."""
ASKABLE: Final = frozenset({"approval", "question", "paused"})
"""Interrupts that the client's user may be asked about; a recovery is for operators, a timer for nobody."""
_STATUS: Final = {
    "queued": "working",
    "running": "working",
    "waiting": "working",
    "completed": "completed",
    "failed": "completed",
    "cancelled": "cancelled",
}
"""Of a task. A run that failed is a completed task whose result is an error, as a failed tool call is in MCP."""

THREAD_URI: Final = "holdfast://threads/"
RUN_URI: Final = "holdfast://runs/"
ARTIFACT_URI: Final = "holdfast://artifacts/"
SKILL_URI: Final = "holdfast://skills/"


# -- progress -----------------------------------------------------------------------------------------


def progress(token: str | int, event: Event) -> JsonObject | None:
    """What a client that asked for progress is sent about an event; None for what needs no words.

    `progress` is the event's number in its run: it only grows, and nobody knows the total.
    """
    message = narrate(event.type, event.payload)
    if message is None:
        return None
    return notification("notifications/progress", {"progressToken": token, "progress": event.seq, "message": message})


# -- results ------------------------------------------------------------------------------------------


def call_result(run: Run, output: Any, artifacts: Iterable[Artifact], *, wrapped: bool, structured: bool) -> JsonObject:
    """The result of `tools/call`. `wrapped` says that the output schema has the run's ids around the output,
    `structured` that the tool has an output schema at all."""
    if run.status != "completed":
        return failed_result(run)
    content: list[JsonObject] = [{"type": "text", "text": as_text(output)}]
    content += [resource_link(artifact) for artifact in artifacts]
    result: JsonObject = {"content": content, "isError": False, "_meta": run_meta(run)}
    if wrapped:
        result["structuredContent"] = {"output": output, "runId": run.id, "threadId": run.thread_id}
    elif structured and isinstance(output, dict):
        result["structuredContent"] = output
    return result


def failed_result(run: Run) -> JsonObject:
    if run.status == "cancelled":
        text = "RUN_CANCELLED: The run was cancelled."
    else:
        error = run.error or {"code": "INTERNAL", "message": "The run failed."}
        text = f"{error['code']}: {error['message']}"
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": run_meta(run)}


def waiting_result(run: Run) -> JsonObject:
    """For a client that cannot ask its user, when a person was awaited too long."""
    text = f"RUN_WAITING: The run {run.id} waits for a person. It goes on when they answer; read {RUN_URI}{run.id}."
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": run_meta(run)}


def run_meta(run: Run) -> JsonObject:
    return {"dev.holdfast/runId": run.id, "dev.holdfast/threadId": run.thread_id}


def as_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output).decode()


def resource_link(artifact: Artifact) -> JsonObject:
    value = artifact.value
    link: JsonObject = {"type": "resource_link", "uri": ARTIFACT_URI + artifact.id, "name": str(value["name"])}
    if isinstance(value.get("mime"), str):
        link["mimeType"] = value["mime"]
    if isinstance(value.get("size"), int):
        link["size"] = value["size"]
    return link


def contents(uri: str, mime: str, data: bytes) -> JsonObject:
    """A resource's content: text where it is text, else base64."""
    if b"\x00" not in data:
        try:
            return {"uri": uri, "mimeType": mime, "text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {"uri": uri, "mimeType": mime, "blob": base64.b64encode(data).decode()}


# -- questions ----------------------------------------------------------------------------------------


def elicitation(asked: Interrupt) -> JsonObject:
    """The parameters of `elicitation/create`: a form that the client shows its user."""
    message = asked.title
    if asked.kind == "question":
        properties, required = _fields(asked.questions or [])
    elif asked.kind == "paused":
        properties, required = {"decision": {"type": "string", "enum": ["resume"]}}, ["decision"]
    else:
        if asked.arguments is not None:
            message += "\n" + json.dumps(asked.arguments).decode()[:_MAX_SHOWN]
        properties = {
            "decision": {"type": "string", "enum": ["approve", "deny"], "title": "Decision"},
            "reason": {"type": "string", "title": "Reason"},
        }
        required = ["decision"]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def _fields(questions: Iterable[Mapping[str, Any]]) -> tuple[JsonObject, list[str]]:
    properties: JsonObject = {}
    for number, question in enumerate(questions, 1):
        name = str(question.get("id") or number)
        shown: JsonObject = {"type": "string", "title": str(question.get("header") or name)}
        shown["description"] = str(question.get("question") or name)
        options = question.get("options")
        if isinstance(options, list) and options:
            # Any text is an answer; the form says what was proposed.
            shown["description"] += " (" + ", ".join(map(str, options)) + ")"
        properties[name] = shown
    return properties, list(properties)


def answer_of(asked: Interrupt, response: Any) -> JsonObject | None:
    """The interrupt's answer that a user's response means; None when they gave none, so that it stays open."""
    if not isinstance(response, dict):
        return None
    content = response.get("content")
    given = content if isinstance(content, dict) else {}
    if response.get("action") == "accept":
        if asked.kind == "question":
            return {"answers": given}
        return {name: given[name] for name in ("decision", "reason") if given.get(name) not in (None, "")}
    if response.get("action") == "decline" and asked.kind == "approval":
        return {"decision": "deny"}
    return None


def input_requests(asked: Iterable[Interrupt]) -> JsonObject:
    return {one.id: {"method": "elicitation/create", "params": elicitation(one)} for one in asked}


# -- tasks --------------------------------------------------------------------------------------------


def task(run: Run, updated_at_ms: int, open_questions: Iterable[Interrupt] = ()) -> JsonObject:
    """What a task's holder is shown; its result is added by whoever read it."""
    asked = [one for one in open_questions if one.kind in ASKABLE]
    waits = run.status == "waiting" and bool(asked)
    shown: JsonObject = {
        "taskId": run.id,
        "status": "input_required" if waits else _STATUS[run.status],
        "createdAt": iso(run.created_at),
        "lastUpdatedAt": iso(updated_at_ms),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    if run.status == "waiting" and not waits:
        shown["statusMessage"] = "The run waits."
    if waits:
        shown["statusMessage"] = asked[0].title
        shown["inputRequests"] = input_requests(asked)
    return shown


def broken_task_error(message: str) -> JsonObject:
    return {"code": INTERNAL_ERROR, "message": message}
