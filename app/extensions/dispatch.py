"""Brings events to the handlers that want them, in a fixed order, and carries out the first action that succeeds.

Follows the log, at least once: a pass that was recorded is not made again. Nothing that a handler does stops the others
or the following. Leaves to `code`: isolation and time. Leaves to `actions`: what an action does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from app.core.clock import iso
from app.core.value import value
from app.events.catalog.extension import ExtensionHandled, ExtensionOutcome
from app.events.envelope import Event
from app.events.recorder import Recorder, Scope
from app.extensions.actions import ExtensionActions
from app.extensions.code import HandlerFailed, HandlerSpec, HandlerTimeout
from app.extensions.loader import Extension
from app.runtime.intake.rejection import SYSTEM_THREADS
from app.views.ports import Reader

MAX_TIMEOUTS: Final = 3
"""In a row; then the handler is not called until its extension is loaded anew."""
MAX_RESULTS: Final = 32
"""Of one handler for one event."""

log = structlog.get_logger("holdfast.extensions")


@value(frozen=True, slots=True)
class ExtensionSet:
    """The extensions in use, and since when."""

    version: int
    loaded_at: int
    extensions: tuple[Extension, ...] = ()

    @property
    def types(self) -> frozenset[str]:
        return frozenset(handler.event_type for one in self.extensions for handler in one.handlers)

    def handlers(self, event_type: str) -> list[tuple[Extension, HandlerSpec]]:
        """By priority, then by the extension's name, then as they were registered."""
        found = [(one, spec) for one in self.extensions for spec in one.handlers if spec.event_type == event_type]
        return sorted(found, key=lambda pair: (pair[1].priority, pair[0].module, pair[1].index))


class ExtensionConsumer:
    """A consumer of the log for the set that is in use; a pass that has begun ends with the set it began with."""

    name = "extensions"

    def __init__(self, snapshot: ExtensionSet, recorder: Recorder, reader: Reader, actions: ExtensionActions) -> None:
        self.snapshot = snapshot
        self._recorder, self._reader, self._actions = recorder, reader, actions
        self._timeouts: dict[tuple[str, int], int] = {}

    @property
    def types(self) -> frozenset[str]:
        return self.snapshot.types

    def use(self, snapshot: ExtensionSet) -> None:
        """From the next event on. What took too long gets another chance."""
        self.snapshot = snapshot
        self._timeouts.clear()

    @property
    def suspended(self) -> list[tuple[str, int]]:
        """Handlers that took too long too often, by extension and number."""
        return [handler for handler, count in self._timeouts.items() if count >= MAX_TIMEOUTS]

    async def handle(self, events: Sequence[Event]) -> None:
        for event in events:
            # What extensions did is not news to extensions: two of them could answer each other forever.
            if event.actor.startswith("extension:") or event.thread_id.startswith(SYSTEM_THREADS):
                continue
            if not await self._passed(event):
                await self._pass(event)

    async def _passed(self, event: Event) -> bool:
        types = (ExtensionHandled.type,)
        found = await self._reader.events_of(event.tenant, event.thread_id, types, event.seq, 2**62, 1000)
        return any(one.payload["eventId"] == event.id for one in found)

    async def _pass(self, event: Event) -> None:
        snapshot = self.snapshot
        handlers = snapshot.handlers(event.type)
        if not handlers:
            return  # it was for a former set
        shown = {
            "id": event.id,
            "type": event.type,
            "threadId": event.thread_id,
            "runId": event.run_id,
            "seq": event.seq,
            "at": iso(event.at),
            "actor": event.actor,
            "payload": event.payload,
        }
        outcomes: list[ExtensionOutcome] = []
        won = False
        for extension, spec in handlers:
            if self._timeouts.get((extension.id, spec.index), 0) >= MAX_TIMEOUTS:
                continue
            for place, result in enumerate(await self._call(extension, spec, shown)):
                outcome = await self._outcome(extension, event, result, won, (spec.index, place))
                won = won or outcome.status in ("performed", "enqueued")
                outcomes.append(outcome)
        said = ExtensionHandled(
            event_id=event.id, event_type=event.type, snapshot_version=snapshot.version, results=outcomes
        )
        await self._recorder.record(Scope(event.tenant, event.thread_id), said)

    async def _call(self, extension: Extension, spec: HandlerSpec, shown: dict[str, Any]) -> list[Any]:
        place = (extension.id, spec.index)
        try:
            result = await extension.code.handle(spec, shown)
        except HandlerTimeout as late:
            self._timeouts[place] = self._timeouts.get(place, 0) + 1
            if self._timeouts[place] == MAX_TIMEOUTS:
                log.warning("extension.suspended", extension=extension.id, handler=spec.index, event=spec.event_type)
            return [late]
        except HandlerFailed as failed:
            return [failed]
        self._timeouts.pop(place, None)
        results = result if isinstance(result, list) else [result]
        if len(results) > MAX_RESULTS:
            return [HandlerFailed(f"it answered with more than {MAX_RESULTS} results")]
        return results

    async def _outcome(
        self, extension: Extension, event: Event, result: Any, won: bool, place: tuple[int, int]
    ) -> ExtensionOutcome:
        """One of the four forms."""
        name = extension.module
        if isinstance(result, HandlerFailed):
            return ExtensionOutcome(kind="handler_error", module_name=name, event_type=event.type, error=str(result))
        if result is None:
            return ExtensionOutcome(kind="handler_result", module_name=name)
        if not isinstance(result, Mapping):
            return ExtensionOutcome(kind="handler_result", module_name=name, details={"value": result})
        if result.get("kind") == "action_request":
            return await self._act(extension, event, result, won, place)
        if result.get("kind") in ("action_result", "enqueue_result"):
            # Only the server says what was done.
            details = {"code": "direct_action_result_disallowed"}
            return ExtensionOutcome(kind="action_result", module_name=name, status="invalid", details=details)
        return ExtensionOutcome(kind="handler_result", module_name=name, details=dict(result))

    async def _act(
        self, extension: Extension, event: Event, request: Mapping[str, Any], won: bool, place: tuple[int, int]
    ) -> ExtensionOutcome:
        asked = {
            name: str(request[key])[:200]
            for name, key in (("request_id", "requestId"), ("idempotency_key", "idempotencyKey"))
            if request.get(key) is not None
        }
        action = str(request.get("actionType"))[:100]
        if won:
            details = {"code": "action_winner_already_selected"}
            return ExtensionOutcome(
                kind="action_result", module_name=extension.module, action_type=action, status="not_eligible",
                details=details, **asked,
            )  # fmt: skip
        result = await self._actions.perform(extension, event, request, *place)
        if result.job is not None:
            status = "enqueued" if result.status == "performed" else "already_queued"
            return ExtensionOutcome(kind="enqueue_result", module_name=extension.module, status=status, job=result.job)
        return ExtensionOutcome(
            kind="action_result", module_name=extension.module, action_type=action, status=result.status,
            details=result.details, **asked,
        )  # fmt: skip
