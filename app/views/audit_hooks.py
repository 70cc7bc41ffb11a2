"""The part of the audit that knows hooks: who had to be asked at which point, and whether the log has the decision.

Which hooks a run had is not in its events but in its workspace, so the caller says; without that nothing is expected
here. A denial ends a firing, and whoever would have been asked after it was not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable, value
from app.events.catalog import model, policy, request, skill, tool
from app.events.catalog.artifact import UNDO_TOOL
from app.events.envelope import Event

Found = tuple[str | None, str | None, str]

_ONCE: Final = ("SessionStart", "UserPromptSubmit")


@value(frozen=True, slots=True)
class ExpectedHook:
    """A hook of the run's agent. Without `tools` it is asked about every tool."""

    name: str
    points: frozenset[str]
    tools: frozenset[str] = frozenset()


@mutable(slots=True)
class HookAudit:
    fired: set[tuple[str, str, str | None]] = field(default_factory=set)
    """Point, handler and call."""
    denied: set[tuple[str, str | None]] = field(default_factory=set)
    begun: dict[str, str] = field(default_factory=dict)
    """Tools that were invoked, by call."""
    done: dict[str, str] = field(default_factory=dict)
    """Tools that gave a result which was used, by call."""
    has_skill: bool = False
    direct: bool = False
    """A request for a tool: only its call is anybody's concern."""
    spoken: bool = False
    """A model was asked, so the run is past its prompt, however it ended."""

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case policy.HookFired.type:
                self.fired.add((payload["hook"], payload["handler"], payload.get("callId")))
                if payload["decision"] == "deny":
                    self.denied.add((payload["hook"], payload.get("callId")))
            case tool.ToolInvoked.type:
                self.begun[payload["callId"]] = payload["tool"]
            case tool.ToolResulted.type if payload["callId"] in self.begun and payload.get("applied", True):
                # A result that an operator gave in a tool's place took no time and is nobody's to look at.
                if "durationMs" in payload:
                    self.done[payload["callId"]] = payload["tool"]
            case skill.SkillInvoked.type:
                self.has_skill = True
            case request.RequestQueued.type:
                self.direct = payload.get("tool") is not None or payload.get("undoOf") is not None
            case model.ModelRequested.type:
                self.spoken = True

    def close(self, ended: Event, expected: Iterable[ExpectedHook]) -> Iterator[Found]:
        failed = ended.payload.get("error") is not None
        cut_short = failed or ended.type == request.RequestCancelled.type
        for hook in expected:
            for point in sorted(hook.points):
                for call_id in self._occasions(point, hook, cut_short):
                    asked = (point, hook.name, call_id) in self.fired or (point, call_id) in self.denied
                    if not asked:
                        where = "" if call_id is None else f" about {call_id}"
                        reason = f"{hook.name} had to be asked at {point}{where}, and no decision is recorded"
                        yield policy.HookFired.type, call_id or hook.name, reason

    def _occasions(self, point: str, hook: ExpectedHook, cut_short: bool) -> Iterator[str | None]:
        """How often the run came by the point, as far as its other events prove it."""
        if point == "PreToolUse" or point == "PostToolUse":
            calls: Mapping[str, Any] = self.begun if point == "PreToolUse" else self.done
            yield from (
                call for call, name in calls.items() if not hook.tools or name.removeprefix(UNDO_TOOL) in hook.tools
            )
        elif point == "SkillStart":
            yield from [None] if self.has_skill else []
        elif point in _ONCE:
            yield from [None] if not self.direct and (self.spoken or not cut_short) else []
        elif point == "Stop":
            yield from [None] if not self.direct and not cut_short else []
