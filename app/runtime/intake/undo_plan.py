"""What an undo would do: each effect of a run with the call that takes it back, or the reason why none can.

Planning has no effect. The same log, workspace and files give the same plan, and so the same hash. Leaves to others:
accepting an undo (`undo`), carrying it out (`run/undo_run`).
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Literal

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import mutable, value
from app.events.blobs import Load
from app.runtime.run.undo_tools import undo_tool
from app.tools.contract import PastCall, ToolOutcome, UndoCall, definition_hash
from app.tools.outputs import stored
from app.tools.registry import Registry
from app.tools.stages import argument_hash
from app.views.effects import Checkpoint, EarlierUndos, MadeCall

Status = Literal["planned", "impossible", "undone"]

_WITHOUT_EFFECT: Final = frozenset(
    {"INVALID_ARGUMENTS", "WRITE_CONFLICT", "PATH_REFUSED", "FILE_NOT_FOUND", "TOOL_UNAVAILABLE", "SANDBOX_INCOMPLETE"}
)
"""Failures before a tool acted."""


@value(frozen=True, slots=True)
class PlannedAction:
    call: MadeCall
    status: Status
    undo: UndoCall | None = None
    reason: Failure | None = None
    tool_hash: str | None = None
    """Of the tool that takes the call back, as it is described now."""

    def to_json(self) -> JsonObject:
        undo, reason = self.undo, self.reason
        return {
            "callId": self.call.call_id,
            "runId": self.call.run_id,
            "tool": self.call.tool,
            "seq": self.call.seq,
            "status": self.status,
            "compensation": None if undo is None else {"tool": undo.tool, "arguments": undo.arguments},
            "reason": None if reason is None else {"code": reason.code, "message": reason.message},
        }


@value(frozen=True, slots=True)
class UndoPlan:
    run_id: str
    from_checkpoint: Checkpoint | None
    actions: Sequence[PlannedAction]
    """In the order in which they are carried out: the newest call first."""
    generation: int
    """How many undos of the run there were before."""

    @property
    def hash(self) -> str:
        """Names the checkpoint as well, so that the hash alone says what is meant."""
        document = {
            "runId": self.run_id,
            "generation": self.generation,
            "actions": [{**action.to_json(), "toolHash": action.tool_hash} for action in self.actions],
        }
        seq = 0 if self.from_checkpoint is None else self.from_checkpoint.seq
        return f"{seq}-{sha256(json.canonical(document)).hexdigest()}"

    def of(self, *statuses: Status) -> list[PlannedAction]:
        return [action for action in self.actions if action.status in statuses]

    def to_json(self) -> JsonObject:
        place = self.from_checkpoint
        return {
            "runId": self.run_id,
            "fromCheckpoint": None if place is None else {"label": place.label, "seq": place.seq},
            "planHash": self.hash,
            "actions": [action.to_json() for action in self.actions],
        }


def checkpoint_of_hash(plan_hash: str) -> int | None:
    """The `seq` of the checkpoint that a plan goes back to, 0 for the whole run; None for what is no hash of a plan."""
    seq, _, digest = plan_hash.partition("-")
    fits = seq.isascii() and seq.isdecimal() and len(seq) < 20 and len(digest) == 64
    return int(seq) if fits else None


@mutable(slots=True)
class Planner:
    """Plans the calls of one run, the newest first: what one takes back is where the next begins."""

    registry: Registry
    earlier: EarlierUndos
    tenant: str
    load: Load
    _world: dict[str, str]

    async def plan(self, calls: Sequence[MadeCall]) -> list[PlannedAction]:
        return [await self._action(call) for call in calls if not _without_effect(call)]

    async def _action(self, call: MadeCall) -> PlannedAction:
        if call.key in self.earlier.undone:
            return PlannedAction(call, "undone")
        reason = self._unknown(call)
        if reason is not None:
            return PlannedAction(call, "impossible", reason=reason)
        found = self.registry.find(call.tool)
        compensation = None if found is None else found.definition.compensation
        if found is None or compensation is None:
            reason = Failure("UNDO_NOT_DECLARED", f"The workspace declares no compensation for {call.tool}.")
            return PlannedAction(call, "impossible", reason=reason)
        undo = await self._undo_call(call)
        if isinstance(undo, Failure):
            return PlannedAction(call, "impossible", reason=undo)
        changed = await compensation.conflict(undo, self.tenant, self._world)
        if changed is not None:
            return PlannedAction(call, "impossible", reason=changed)
        tool = undo_tool(self.registry, undo.tool)
        if tool is None:
            reason = Failure("UNDO_NOT_DECLARED", f"The tool {undo.tool} is not available.")
            return PlannedAction(call, "impossible", reason=reason)
        return PlannedAction(call, "planned", undo, tool_hash=definition_hash(tool.definition))

    def _unknown(self, call: MadeCall) -> Failure | None:
        """Why it is not known what there is to take back."""
        if call.by == "client":
            return Failure("UNDO_NOT_DECLARED", f"{call.tool} ran at the client; it can only be undone there")
        if call.by == "upstream":
            return Failure("UNDO_NOT_DECLARED", f"{call.tool} ran within the agent's own runtime, which has no undo")
        if call.key in self.earlier.unknown:
            message = "An earlier undo of it was cut off; check at the other side whether it took effect."
            return Failure("UNDO_OUTCOME_UNKNOWN", message)
        if not call.ended:
            return Failure("UNDO_OUTCOME_UNKNOWN", "The call was cut off, and whether it took effect is not known.")
        if not call.ok:
            code = (call.error or {}).get("code", "TOOL_FAILED")
            message = f"The call failed with {code}, and whether it took effect is not known."
            return Failure("UNDO_OUTCOME_UNKNOWN", message)
        return None

    async def _undo_call(self, call: MadeCall) -> UndoCall | Failure:
        found = self.registry.find(call.tool)
        assert found is not None and found.definition.compensation is not None
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        outcome = ToolOutcome(call.call_id, call.tool, output=call.output, truncated=call.truncated)
        result = await stored(outcome, self.load) if call.truncated else call.output
        if isinstance(result, Failure):
            return Failure("UNDO_VALUES_MISSING", "The whole result of the call is no longer stored.")
        exact = argument_hash(arguments) == call.argument_hash
        return found.definition.compensation.undo(PastCall(call.tool, arguments, result, exact))


def _without_effect(call: MadeCall) -> bool:
    if call.effect == "readonly":
        return True
    return call.ended and not call.ok and (call.error or {}).get("code") in _WITHOUT_EFFECT
