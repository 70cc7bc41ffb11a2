"""What a run did to the world, folded from its events: its tool calls and those of its subagents, and its checkpoints.

Also what earlier undos of the run have taken back. Leaves to others: whether and how a call can be taken back.
"""

from collections.abc import Iterable
from dataclasses import field
from hashlib import sha256
from typing import Any, Final, Literal

from app.core.value import mutable, value
from app.events.catalog import artifact, execution, request, tool
from app.events.envelope import Event

EFFECT_TYPES: Final = (
    request.RequestQueued.type,
    tool.ToolInvoked.type,
    tool.ToolResulted.type,
    execution.CheckpointCreated.type,
    execution.StepCompleted.type,
)
"""All that is needed of a run's events."""
MAX_UNDO_ATTEMPTS: Final = 3
"""Calls of one compensation within one undo."""
_UPSTREAM_STEP: Final = "tool"

By = Literal["gateway", "client", "upstream"]
CallKey = tuple[str, str]
"""The run that made a call, and the call's id."""


@mutable(slots=True)
class MadeCall:
    run_id: str
    call_id: str
    tool: str
    effect: str
    arguments: Any
    argument_hash: str
    seq: int
    """Of its newest event: of its result, once it has one."""
    by: By = "gateway"
    ended: bool = False
    ok: bool = False
    output: Any = None
    truncated: bool = False
    error: dict[str, Any] | None = None

    @property
    def key(self) -> CallKey:
        return self.run_id, self.call_id


@value(frozen=True, slots=True)
class Checkpoint:
    label: str
    seq: int


@mutable(slots=True)
class RunEffects:
    """Of one root run; `apply` gets the events of its thread, from its first one on."""

    run_id: str
    calls: dict[CallKey, MadeCall] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    _family: set[str] = field(default_factory=set)
    _client_tools: dict[str, frozenset[str]] = field(default_factory=dict)
    _subagents: set[CallKey] = field(default_factory=set)

    def apply(self, event: Event) -> None:
        payload, run_id = event.payload, event.run_id or ""
        if event.type == request.RequestQueued.type:
            self._queued(run_id, payload)
        elif run_id not in self._family:
            return
        elif event.type == execution.CheckpointCreated.type:
            self.checkpoints.append(Checkpoint(payload["label"], event.seq))
        elif event.type == execution.StepCompleted.type:
            self._upstream(event, run_id, payload)
        elif event.type == tool.ToolInvoked.type:
            self._invoked(event, run_id, payload)
        elif event.type == tool.ToolResulted.type and (call := self.calls.get((run_id, payload["callId"]))):
            call.ended, call.ok, call.seq = True, payload["ok"], event.seq
            call.output, call.error = payload.get("output"), payload.get("error")
            call.truncated = bool(payload.get("truncated"))

    def newest_first(self, after: int = 0) -> list[MadeCall]:
        """The calls that had not ended at that `seq`. What a subagent did is among them, that it was asked is not."""
        made = [call for call in self.calls.values() if call.seq > after and call.key not in self._subagents]
        return sorted(made, key=lambda call: -call.seq)

    def _queued(self, run_id: str, payload: dict[str, Any]) -> None:
        parent = payload.get("parentRunId")
        if run_id != self.run_id and parent not in self._family:
            return
        self._family.add(run_id)
        self._client_tools[run_id] = frozenset(one["name"] for one in payload.get("clientTools") or ())
        if parent is not None and payload.get("callId"):
            self._subagents.add((parent, payload["callId"]))

    def _invoked(self, event: Event, run_id: str, payload: dict[str, Any]) -> None:
        client = payload["tool"] in self._client_tools.get(run_id, ())
        call = MadeCall(
            run_id,
            payload["callId"],
            payload["tool"],
            payload["effect"],
            payload.get("arguments"),
            payload["argumentHash"],
            event.seq,
            "client" if client else "gateway",
        )
        self.calls[call.key] = call

    def _upstream(self, event: Event, run_id: str, payload: dict[str, Any]) -> None:
        result = payload.get("result")
        if payload["step"] != _UPSTREAM_STEP or not isinstance(result, dict) or result.get("effect") == "readonly":
            return
        name, ok = str(result.get("tool") or payload["key"]), bool(result.get("ok"))
        effect = result.get("effect", "unsafe")
        call = MadeCall(run_id, payload["key"], name, effect, None, "", event.seq, "upstream", ended=True, ok=ok)
        call.error = result.get("error")
        self.calls[call.key] = call


def undo_call_id(key: CallKey, attempt: int = 1) -> str:
    """The id of a call that takes another back: the same in every undo, so that they can be recognised as the same."""
    digest = sha256("\n".join(key).encode()).hexdigest()[:24]
    return f"undo_{digest}" if attempt == 1 else f"undo_{digest}_{attempt}"


@mutable(slots=True)
class EarlierUndos:
    """What undos of a run have done so far, folded from the events of each."""

    undone: set[CallKey] = field(default_factory=set)
    unknown: set[CallKey] = field(default_factory=set)
    """Calls whose compensation was begun and may or may not have taken effect."""

    def add(self, events: Iterable[Event]) -> None:
        """Of one undo that has ended."""
        targets: dict[str, CallKey] = {}
        begun: dict[str, str] = {}
        for event in events:
            payload = event.payload
            if event.type == artifact.UndoPlanned.type:
                for action in payload["actions"]:
                    key = action["ofRunId"], action["callId"]
                    targets |= {undo_call_id(key, number + 1): key for number in range(MAX_UNDO_ATTEMPTS)}
            elif event.type == tool.ToolInvoked.type and payload["callId"] in targets:
                begun[payload["callId"]] = payload["effect"]
            elif event.type == tool.ToolResulted.type and (key_of := targets.get(payload["callId"])):
                effect = begun.pop(payload["callId"], "readonly")
                code = (payload.get("error") or {}).get("code")
                if payload["ok"]:
                    self.undone.add(key_of)
                    self.unknown.discard(key_of)
                elif effect == "unsafe" and code in _UNKNOWN:
                    self.unknown.add(key_of)
        self.unknown |= {targets[call] for call, effect in begun.items() if effect == "unsafe"} - self.undone


_UNKNOWN: Final = frozenset({"TOOL_TIMEOUT", "TOOL_CANCELLED"})
"""Failures after which the tool may have acted."""
