"""Whether starts and ends of UI events fit together within each turn: no result without a start, nothing after the end.

A turn that is still going on may have anything open. Leaves to others: the shape of each event (`validation`).
"""

from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable, value
from app.views.ui import standard


@value(frozen=True, slots=True)
class UiViolation:
    code: str
    event_id: str
    message: str
    scope_id: str | None = None
    turn_id: str | None = None

    def to_json(self) -> dict[str, str]:
        said = {"code": self.code, "eventId": self.event_id, "message": self.message}
        if self.scope_id is not None:
            said["scopeId"] = self.scope_id
        return said if self.turn_id is None else said | {"turnId": self.turn_id}


_AFTER_END: Final = (
    "tool.",
    "file.",
    "patch.",
    "command.",
    "test.",
    "action.",
    "model.",
    "reasoning.",
    "permission.",
    "sandbox.",
)
"""What may not come after a turn's end; and `context.resolved`."""
_ENDS: Final = {
    "tool": {"tool.result": "tool_result_without_start", "tool.failed": "tool_failed_without_start"},
    "patch": {"patch.applied": "patch_terminal_without_start", "patch.failed": "patch_terminal_without_start"},
    "command": {"command.exited": "command_exited_without_start"},
    "test": {"test.completed": "test_completed_without_start"},
}
_STARTS: Final = {"tool.started", "patch.started", "command.started", "test.started"}
_PAYLOAD_IDS: Final = {"patch": "patchId", "command": "commandId", "test": "testRunId"}


@mutable(slots=True)
class _Turn:
    ended: bool = False
    open: dict[str, set[str]] = field(default_factory=dict)
    """What was started and has not ended, by family."""
    known: dict[str, set[str]] = field(default_factory=dict)
    """What was ever started, by family."""


class SequenceVerifier:
    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}
        self._ids: set[str] = set()
        self.violations: list[UiViolation] = []

    def add(self, event: dict[str, Any]) -> None:
        """One more event, in order. One without a class or an id takes part in nothing."""
        name, event_id = event.get("eventClass"), event.get("id")
        if not isinstance(name, str) or not isinstance(event_id, str):
            return
        if event_id in self._ids:
            self._violated("duplicate_event_id", event, "The id occurred before.")
            return
        self._ids.add(event_id)
        turn_id = event.get("turnId")
        turn = self._turns.setdefault(turn_id if isinstance(turn_id, str) else "", _Turn())
        if name in standard.TURN_ENDS:
            self._end(turn, event)
            return
        late = name.startswith(_AFTER_END) or name == "context.resolved"
        if turn.ended and late:
            self._violated("execution_after_turn_terminal", event, f"{name[:80]} comes after the turn's end.")
        family = name.partition(".")[0]
        scope = _scope_of(event, family)
        if scope is None:
            return
        if family == "action":
            self._act(turn, event, name, scope)
        elif name in _STARTS:
            self._start(turn, event, family, scope)
        elif name == "command.output" and scope not in turn.open.get("command", ()):
            self._violated("command_output_without_start", event, "The command was not started.", scope)
        elif name in _ENDS.get(family, ()):
            self._close(turn, event, family, scope, _ENDS[family][name])

    def _start(self, turn: _Turn, event: dict[str, Any], family: str, scope: str) -> None:
        running = turn.open.setdefault(family, set())
        if scope in running:
            self._violated(f"{family}_started_already_active", event, "It is already running.", scope)
        running.add(scope)
        turn.known.setdefault(family, set()).add(scope)

    def _close(self, turn: _Turn, event: dict[str, Any], family: str, scope: str, code: str) -> None:
        if scope not in turn.known.get(family, ()):
            self._violated(code, event, "It was not started.", scope)
        turn.open.get(family, set()).discard(scope)

    def _act(self, turn: _Turn, event: dict[str, Any], name: str, scope: str) -> None:
        waiting = turn.open.setdefault("action", set())
        if name == "action.required":
            if scope in waiting:
                self._violated("action_required_already_active", event, "The action is already required.", scope)
            waiting.add(scope)
            turn.known.setdefault("action", set()).add(scope)
        elif name in standard.ACTION_ENDS:
            if scope not in turn.known.get("action", ()):
                self._violated("action_resolved_without_request", event, "The action was not required.", scope)
            waiting.discard(scope)

    def _end(self, turn: _Turn, event: dict[str, Any]) -> None:
        if turn.ended:
            self._violated("turn_terminal_repeated", event, "The turn has ended before.")
        turn.ended = True
        for family, scopes in sorted(turn.open.items()):
            code = "action_unresolved_at_turn_end" if family == "action" else f"{family}_unclosed_at_turn_end"
            for scope in sorted(scopes):
                self._violated(code, event, "The turn ended before it did.", scope)
        turn.open.clear()

    def _violated(self, code: str, event: dict[str, Any], message: str, scope: str | None = None) -> None:
        turn = event.get("turnId")
        self.violations.append(UiViolation(code, event["id"], message, scope, turn if isinstance(turn, str) else None))


def sequence_violations(events: Iterable[Any]) -> list[UiViolation]:
    verifier = SequenceVerifier()
    for event in events:
        if isinstance(event, dict):
            verifier.add(event)
    return verifier.violations


def _scope_of(event: dict[str, Any], family: str) -> str | None:
    payload = event.get("payload")
    if family in _PAYLOAD_IDS and isinstance(payload, dict) and isinstance(payload.get(_PAYLOAD_IDS[family]), str):
        return str(payload[_PAYLOAD_IDS[family]])
    scope = event.get("actionId" if family == "action" else "toolCallId")
    return scope if isinstance(scope, str) else None
