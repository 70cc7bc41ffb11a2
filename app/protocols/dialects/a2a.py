"""Runs in the words of A2A 1.0: a run is a task, its thread a context. Pure functions.

Leaves to others: what a message means (`a2a.messages`), reading the log, and the wire.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from app.core import json
from app.core.clock import iso
from app.core.json import JsonObject
from app.events.catalog import adapter, artifact, interrupt, model, request
from app.events.envelope import Event
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.narration import narrate
from app.views.run import Run

STATES: Final = {
    "queued": "TASK_STATE_SUBMITTED",
    "running": "TASK_STATE_WORKING",
    "waiting": "TASK_STATE_INPUT_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
}
_WORKING: Final = "TASK_STATE_WORKING"
_MEDIA: Final = ("image", "audio", "video", "file")


def task(
    run: Run, output: Any, asked: Iterable[Interrupt], made: Iterable[Artifact], base_url: str, updated_at: int
) -> JsonObject:
    """A task as it stands. A run that waits for something that nobody can answer here is working."""
    questions = [one for one in asked if one.kind != "timer"]
    state = STATES[run.status] if run.status != "waiting" or questions else _WORKING
    status: JsonObject = {"state": state, "timestamp": iso(run.finished_at or updated_at)}
    if run.status == "waiting" and questions:
        status["message"] = _message(
            run.id, run.thread_id, f"{questions[0].id}", question_parts(_payload(questions[0]))
        )
    elif run.status == "failed" and run.error:
        status["message"] = _message(run.id, run.thread_id, f"{run.id}-error", [error_part(run.error)])
    shown: JsonObject = {"id": run.id, "contextId": run.thread_id, "status": status}
    given = parts_of(run.input, run.thread_id, base_url)
    shown["history"] = [_message(run.id, run.thread_id, f"{run.id}-input", given, role="ROLE_USER")]
    found = [file_artifact(one.value, base_url) for one in made]
    if run.status == "completed":
        found.insert(0, output_artifact(run.id, parts_of(output, run.thread_id, base_url)))
    return shown | ({"artifacts": found} if found else {})


def parts_of(value: Any, thread_id: str, base_url: str) -> list[JsonObject]:
    """An input or output, which may be message parts. Files are shown by where they are: at this server."""
    if not isinstance(value, list) or not value or not all(map(_is_part, value)):
        return [part(value)]
    made: list[JsonObject] = []
    for one in value:
        if one["type"] in ("text", "json"):
            made.append(part(one[one["type"]]))
        else:
            url: JsonObject = {"url": f"{base_url}/api/threads/{thread_id}/blobs/{one['blob']['sha256']}"}
            more = {"filename": one.get("name"), "mediaType": one.get("mime")}
            made.append(url | json.present(more))
    return made


def _is_part(one: Any) -> bool:
    """One that the server made; what merely looks like it is data."""
    if not isinstance(one, dict):
        return False
    kind, blob = one.get("type"), one.get("blob")
    if kind in ("text", "json"):
        return kind in one and (kind == "json" or isinstance(one["text"], str))
    return kind in _MEDIA and isinstance(blob, dict) and isinstance(blob.get("sha256"), str)


def part(value: Any) -> JsonObject:
    return {"text": value} if isinstance(value, str) else {"data": value}


def error_part(error: Mapping[str, Any]) -> JsonObject:
    return {"text": f"{error['code']}: {error['message']}"}


def question_parts(payload: Mapping[str, Any]) -> list[JsonObject]:
    """The question for people, and what a client needs to answer it."""
    details = {name: payload[name] for name in ("kind", "tool", "arguments", "questions") if payload.get(name)}
    return [{"text": payload["title"]}, {"data": {"interruptId": payload["interruptId"], **details}}]


def output_artifact(run_id: str, parts: list[JsonObject]) -> JsonObject:
    return {"artifactId": f"{run_id}-output", "name": "output", "parts": parts}


def file_artifact(value: Mapping[str, Any], base_url: str) -> JsonObject:
    url: JsonObject = {"url": f"{base_url}/api/artifacts/{value['id']}/content", "filename": str(value["name"])}
    if isinstance(value.get("mime"), str):
        url["mediaType"] = value["mime"]
    return {"artifactId": value["id"], "name": str(value["name"]), "parts": [url]}


def _payload(asked: Interrupt) -> JsonObject:
    return {
        "interruptId": asked.id,
        "title": asked.title,
        "kind": asked.kind,
        "tool": asked.tool,
        "arguments": asked.arguments,
        "questions": asked.questions,
    }


def _message(
    run_id: str, thread_id: str, message_id: str, parts: list[JsonObject], role: str = "ROLE_AGENT"
) -> JsonObject:
    return {"messageId": message_id, "contextId": thread_id, "taskId": run_id, "role": role, "parts": parts}


class TaskReading:
    """The updates of a task: feed it the run's events after the position that its first frame shows.

    The output is one artifact: the first piece of each message replaces it, further pieces are appended.
    """

    def __init__(self, run: Run, base_url: str) -> None:
        self._run_id, self._thread_id, self._base_url = run.id, run.thread_id, base_url
        self._inner: set[str] = set()
        self._message: str | None = None
        self.said = ""
        """The output as it stands: what the updates so far add up to."""
        self._made: list[JsonObject] = []
        self.ended = False

    def feed(self, event: Event) -> None:
        if self.ended:
            return
        if (handle := _HANDLERS.get(event.type)) is not None:
            handle(self, event, event.payload)
        elif (words := narrate(event.type, event.payload)) is not None:
            self._status(_WORKING, event, [{"text": words}])

    def take(self) -> list[JsonObject]:
        made, self._made = self._made, []
        return made

    def _signal(self, _event: Event, payload: JsonObject) -> None:
        signal = payload["event"]
        if signal["phase"] == adapter.OUTPUT_DELTA and signal.get("text"):
            message_id = signal.get("messageId", "")
            if message_id not in self._inner:
                self._piece(message_id, signal["text"])

    def _piece(self, message_id: str, text: str) -> None:
        append = self._message == message_id
        self.said = self.said + text if append else text
        self._message = message_id
        self._artifact(output_artifact(self._run_id, [{"text": text}]), append=append)

    def _requested(self, _event: Event, payload: JsonObject) -> None:
        if payload.get("role") is not None:
            self._inner.add(payload["messageId"])

    def _answered(self, _event: Event, payload: JsonObject) -> None:
        text = payload["text"] if isinstance(payload["text"], str) else ""
        inner = payload["messageId"] in self._inner or payload.get("role") is not None
        if text and not inner and self._message != payload["messageId"]:
            self._piece(payload["messageId"], text)  # the provider did not stream

    def _started(self, event: Event, _payload: JsonObject) -> None:
        self._status(_WORKING, event)

    def _made_file(self, _event: Event, payload: JsonObject) -> None:
        self._artifact(file_artifact(payload["artifact"], self._base_url), last=True)

    def _paused(self, event: Event, payload: JsonObject) -> None:
        if payload["kind"] != "timer":
            self._status(STATES["waiting"], event, question_parts(payload))
            self.ended = True

    def _completed(self, event: Event, payload: JsonObject) -> None:
        output = payload["output"] if payload.get("parts") is None else payload["parts"]
        if output != self.said:
            parts = parts_of(output, self._thread_id, self._base_url)
            self._artifact(output_artifact(self._run_id, parts), last=True)
        self._status(STATES["completed"], event)
        self.ended = True

    def _failed(self, event: Event, payload: JsonObject) -> None:
        self._status(STATES["failed"], event, [error_part(payload["error"])])
        self.ended = True

    def _cancelled(self, event: Event, _payload: JsonObject) -> None:
        self._status(STATES["cancelled"], event)
        self.ended = True

    def _status(self, state: str, event: Event, parts: list[JsonObject] | None = None) -> None:
        status: JsonObject = {"state": state, "timestamp": iso(event.at)}
        if parts:
            status["message"] = _message(self._run_id, self._thread_id, event.id, parts)
        ids = {"taskId": self._run_id, "contextId": self._thread_id}
        self._made.append({"statusUpdate": {**ids, "status": status}})

    def _artifact(self, made: JsonObject, *, append: bool = False, last: bool = False) -> None:
        update: JsonObject = {"taskId": self._run_id, "contextId": self._thread_id, "artifact": made}
        update |= {"append": append, "lastChunk": last}
        self._made.append({"artifactUpdate": update})


_HANDLERS: Final[dict[str, Callable[[TaskReading, Event, JsonObject], None]]] = {
    adapter.AdapterEvent.type: TaskReading._signal,
    model.ModelRequested.type: TaskReading._requested,
    model.ModelCompleted.type: TaskReading._answered,
    artifact.ArtifactCreated.type: TaskReading._made_file,
    interrupt.InterruptRaised.type: TaskReading._paused,
    request.RequestStarted.type: TaskReading._started,
    request.RequestResumed.type: TaskReading._started,
    request.RequestCompleted.type: TaskReading._completed,
    request.RequestFailed.type: TaskReading._failed,
    request.RequestCancelled.type: TaskReading._cancelled,
}


# -- answers ------------------------------------------------------------------------------------------


def answer_of(asked: Interrupt, texts: list[str], data: list[JsonObject]) -> JsonObject | None:
    """The answer that a message to a waiting task means; None for one that means none."""
    given = next((one for one in data if one.get("interruptId") in (None, asked.id)), None)
    if given is not None:
        given = {name: value for name, value in given.items() if name != "interruptId"}
    text = " ".join(texts).strip()
    if asked.kind == "question":
        if given is not None:
            return given if given.keys() == {"answers"} else {"answers": given}
        questions = asked.questions or []
        return {"answers": {str(questions[0].get("id") or 1): text}} if text and len(questions) == 1 else None
    if given is not None:
        return given
    words = {"approval": ("approve", "deny"), "paused": ("resume",), "recovery": ("retry", "fail")}
    return {"decision": text.lower()} if text.lower() in words.get(asked.kind, ()) else None


# -- 0.3 ----------------------------------------------------------------------------------------------

_OLD_ROLES: Final = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}


def as_v03(value: JsonObject) -> JsonObject:
    """A task or an update in the words of 0.3: `kind`, lower-case states, parts that say what they are."""
    if "statusUpdate" in value:
        update = value["statusUpdate"]
        final = update["status"]["state"] not in (_WORKING, STATES["queued"])
        return {"kind": "status-update", **update, "status": _old_status(update["status"]), "final": final}
    if "artifactUpdate" in value:
        update = value["artifactUpdate"]
        return {"kind": "artifact-update", **update, "artifact": _old_artifact(update["artifact"])}
    shown = value.get("task", value)
    made = {"kind": "task", **shown, "status": _old_status(shown["status"])}
    made["history"] = [_old_message(one) for one in shown.get("history", ())]
    return made | {"artifacts": [_old_artifact(one) for one in shown.get("artifacts", ())]}


def _old_status(status: JsonObject) -> JsonObject:
    state = status["state"].removeprefix("TASK_STATE_").lower().replace("_", "-")
    made = {**status, "state": state}
    return made | ({"message": _old_message(status["message"])} if "message" in status else {})


def _old_message(message: JsonObject) -> JsonObject:
    parts = [_old_part(one) for one in message["parts"]]
    return {"kind": "message", **message, "role": _OLD_ROLES[message["role"]], "parts": parts}


def _old_artifact(made: JsonObject) -> JsonObject:
    return {**made, "parts": [_old_part(one) for one in made["parts"]]}


def _old_part(one: JsonObject) -> JsonObject:
    if "text" in one:
        return {"kind": "text", "text": one["text"]}
    if "url" in one:
        file = {"uri": one["url"], "name": one.get("filename"), "mimeType": one.get("mediaType")}
        return {"kind": "file", "file": json.present(file)}
    return {"kind": "data", "data": one["data"] if isinstance(one["data"], dict) else {"value": one["data"]}}
