"""Whether UI events keep to their standard: every issue of an event, and the gaps of a list, each with its position.

Nothing is thrown: a foreign event may be anything that JSON can say. Leaves to others: the order of starts and ends
(`sequence`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

from app.core import json
from app.core.value import value
from app.views.ui import standard

Code: TypeAlias = Literal[
    "schema_mismatch", "missing_scope_id", "sequence_gap", "secret_leak_risk", "large_payload_inline"
]


@value(frozen=True, slots=True)
class UiIssue:
    code: Code
    path: str
    """Where, from `$` on: `$.events[3].payload.nested[0].apiKey`."""
    message: str

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "path": self.path, "message": self.message}


def event_issues(event: Any, path: str = "$") -> list[UiIssue]:
    """Every issue of one event."""
    if not isinstance(event, dict):
        return [UiIssue("schema_mismatch", path, "An event must be an object.")]
    return [*_envelope(event, path), *_scope(event, path), *_payload(event, path)]


def list_issues(events: Sequence[Any]) -> list[UiIssue]:
    """Every issue of each event, and where a number does not follow the one before it."""
    found: list[UiIssue] = []
    before: int | None = None
    for index, event in enumerate(events):
        path = f"$.events[{index}]"
        found += event_issues(event, path)
        number = event.get("sequence") if isinstance(event, dict) else None
        if not _is_integer(number):
            continue
        if before is not None and number != before + 1:
            message = f"The sequence goes from {before} to {number}; it must go up by one."
            found.append(UiIssue("sequence_gap", f"{path}.sequence", message))
        before = number
    return found


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _envelope(event: dict[str, Any], path: str) -> Iterator[UiIssue]:
    for name in standard.TEXTS:
        if not isinstance(event.get(name), str) or not event[name]:
            yield UiIssue("schema_mismatch", f"{path}.{name}", f"`{name}` must be a text that is not empty.")
    if not _is_integer(event.get("sequence")):
        yield UiIssue("schema_mismatch", f"{path}.sequence", "`sequence` must be an integer.")
    for name in standard.OPTIONAL_TEXTS:
        if name in event and not isinstance(event[name], str):
            yield UiIssue("schema_mismatch", f"{path}.{name}", f"`{name}` must be a text.")
    for name in standard.TEXT_LISTS:
        value = event.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            yield UiIssue("schema_mismatch", f"{path}.{name}", f"`{name}` must be a list of texts.")
    event_class = event.get("eventClass")
    if isinstance(event_class, str) and event_class in standard.FORBIDDEN_CLASSES:
        yield UiIssue("schema_mismatch", f"{path}.eventClass", "This class of event is no longer part of the standard.")


# -- scope --------------------------------------------------------------------------------------------

Needs = Callable[[dict[str, Any], dict[str, Any]], bool]
"""Whether an event with this payload says what its class needs."""


def _has(name: str) -> Needs:
    return lambda event, _payload: isinstance(event.get(name), str)


def _refers(kind: str) -> Needs:
    def refers(event: dict[str, Any], _payload: dict[str, Any]) -> bool:
        references = event.get(f"{kind}Refs")
        named = isinstance(references, list) and any(isinstance(item, str) and item for item in references)
        return named or bool(isinstance(event.get(f"{kind}Id"), str) and event[f"{kind}Id"])

    return refers


def _says(*names: str) -> Needs:
    return lambda _event, payload: any(isinstance(payload.get(name), str) and payload[name] for name in names)


def _of_call(name: str) -> Needs:
    return lambda event, payload: _says(name)(event, payload) or _has("toolCallId")(event, payload)


def _output_referred(event: dict[str, Any], payload: dict[str, Any]) -> bool:
    lists = any(isinstance(event.get(name), list) and event[name] for name in standard.TEXT_LISTS)
    return lists or _says("outputRef", "contentRef", "diffRef")(event, payload)


def _exited(event: dict[str, Any], payload: dict[str, Any]) -> bool:
    return _is_integer(payload.get("exitCode")) or _says("status")(event, payload)


_BY_PREFIX: Final[dict[str, tuple[Needs, str]]] = {
    "tool.": (_has("toolCallId"), "`toolCallId`"),
    "action.": (_has("actionId"), "`actionId`"),
    "artifact.": (_refers("artifact"), "`artifactId` or `artifactRefs`"),
    "evidence.": (_refers("evidence"), "`evidenceId` or `evidenceRefs`"),
    "review.": (_refers("evidence"), "`evidenceId` or `evidenceRefs`"),
    "patch.": (_of_call("patchId"), "`payload.patchId` or `toolCallId`"),
    "command.": (_of_call("commandId"), "`payload.commandId` or `toolCallId`"),
    "test.": (_of_call("testRunId"), "`payload.testRunId` or `toolCallId`"),
}
_BY_CLASS: Final[dict[str, tuple[tuple[Needs, str], ...]]] = {
    "file.read": ((_says("path"), "`payload.path`"),),
    "file.changed": (
        (_says("path"), "`payload.path`"),
        (_refers("artifact"), "`artifactId` or `artifactRefs`"),
    ),
    "patch.failed": ((_says("failureCategory"), "`payload.failureCategory`"),),
    "command.output": ((_output_referred, "a reference to the output"),),
    "command.exited": ((_exited, "`payload.exitCode` or `payload.status`"),),
    "test.completed": ((_says("result", "status"), "`payload.result` or `payload.status`"),),
    "sandbox.blocked": ((_says("reasonCode"), "`payload.reasonCode`"),),
}


def _scope(event: dict[str, Any], path: str) -> Iterator[UiIssue]:
    name = event.get("eventClass")
    if not isinstance(name, str):
        return
    payload = event.get("payload")
    said = payload if isinstance(payload, dict) else {}
    needs = [need for prefix, need in _BY_PREFIX.items() if name.startswith(prefix)]
    for need, what in (*needs, *_BY_CLASS.get(name, ())):
        if not need(event, said):
            yield UiIssue("missing_scope_id", path, f"An event of the class {name[:80]} needs {what}.")


# -- payload ------------------------------------------------------------------------------------------


def _payload(event: dict[str, Any], path: str) -> Iterator[UiIssue]:
    if "payload" not in event:
        return
    payload = event["payload"]
    if not isinstance(payload, dict):
        yield UiIssue("schema_mismatch", f"{path}.payload", "`payload` must be an object.")
        return
    yield from _secrets(payload, f"{path}.payload")
    units = standard.utf16_units(json.dumps(payload).decode())
    if units > standard.MAX_PAYLOAD_UNITS:
        message = f"The payload has {units} UTF-16 code units; at most {standard.MAX_PAYLOAD_UNITS} may be inline."
        yield UiIssue("large_payload_inline", f"{path}.payload", message)


def _secrets(value: Any, path: str) -> Iterator[UiIssue]:
    """A key that looks like one of a secret ends the descent there."""
    if isinstance(value, dict):
        for key, item in value.items():
            if standard.SECRET_KEY.search(key):
                yield UiIssue("secret_leak_risk", f"{path}.{key[:80]}", "The key looks like one of a secret.")
            else:
                yield from _secrets(item, f"{path}.{key[:80]}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets(item, f"{path}[{index}]")
