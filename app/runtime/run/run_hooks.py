"""The hooks of one run: each firing is asked once, recorded, and taken from the log when the run is entered again.

A firing is known by its key; a recorded decision holds for what it was asked about and for nothing else. Leaves to
the policy room: who is asked and what is a decision; to the steps and the context: what a decision does.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from app.core.decisions import Decision
from app.core.json import JsonObject
from app.events.catalog.policy import HookFired
from app.events.envelope import Event
from app.events.ports import StoreError
from app.policy.contract import About, Point
from app.policy.hooks import Fired, HookRunner, recall, subject_hash
from app.runtime.run.inlined import Load, inline
from app.runtime.run.memo import StoredPayload
from app.runtime.run.run_log import CutOff, RunLog, Superseded

_WITHIN_A_CALL: Final = frozenset({Point.PRE_TOOL_USE, Point.POST_TOOL_USE})


class RunHooks:
    def __init__(self, runner: HookRunner, log: RunLog, agent: str | None, family: Iterable[Event], load: Load) -> None:
        """`agent` is None for a tool that was asked for directly."""
        self._runner, self._log, self._agent, self._family, self._load = runner, log, agent, family, load
        self.asked: set[Point] = set()
        """The points that this run has come by."""

    @cached_property
    def _about(self) -> About:
        scope = self._log.scope
        return About(self._log.run_id, scope.thread_id, scope.tenant, self._agent)

    @cached_property
    def _fired(self) -> dict[str, list[StoredPayload]]:
        """By key: what the log has of it."""
        fired: dict[str, list[StoredPayload]] = {}
        for event in self._family:
            if event.run_id == self._log.run_id and event.type == HookFired.type:
                fired.setdefault(event.payload["key"], []).append(event.payload)
        return fired

    async def fire(self, point: Point, subject: JsonObject, key: str = "", call_id: str | None = None) -> Fired:
        """`key` distinguishes what is asked several times in a run."""
        self.asked.add(point)
        if not self._runner.any_at(point) or not self._runner.asks(point, subject, self._about):
            return self._runner.unasked(point, subject)
        key = f"{point}:{key}" if key else str(point)
        recorded = self._recorded(point, subject, key)
        if recorded:
            return recall(point, subject, recorded)
        if point not in _WITHIN_A_CALL:  # those belong to a step that has begun
            await self._log.begin_step()
        fired = await self._runner.fire(point, subject, self._about, key=key, call_id=call_id)
        appended = await self._log.record(*fired.entries)
        # What was stored counts, redacted and all, so that a resumed run sees what this one saw.
        events = [event for event in appended.events if event.type == HookFired.type]
        stored = [(await inline(event, self._load)).payload for event in events]
        self._fired.setdefault(key, []).extend(stored)
        return recall(point, subject, stored)

    def _recorded(self, point: Point, subject: JsonObject, key: str) -> list[StoredPayload]:
        fired = self._fired.get(key, [])
        if point is Point.POST_TOOL_USE:
            # A call has one result. What the log holds of it was redacted, so its hash may differ from the first.
            return fired
        digest = subject_hash(subject)
        return [one for one in fired if one["subjectHash"] == digest]

    # -- the gateway's port ----------------------------------------------------------------------------

    async def of_a_call(self, point: str, subject: JsonObject) -> Decision:
        """A lost lease or a broken store is not the hook's answer, so it passes the gateway as a `CutOff`."""
        try:
            fired = await self.fire(Point(point), subject, subject["callId"], subject["callId"])
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error
        return fired.decision

    @property
    def concern_tools(self) -> bool:
        return self._runner.any_at(*_WITHIN_A_CALL)
