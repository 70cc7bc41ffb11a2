"""Questions and timers of a workflow's steps: raised while other branches go on, found again by their visit."""

from typing import Any

from app.backends.workflow_contract import Visit, Waiting
from app.core.ids import Kind, new_id
from app.core.json import JsonObject
from app.events.catalog.interrupt import InterruptRaised
from app.runtime.run.calls_in_flight import CallsInFlight, CountedCall
from app.runtime.run.run_log import RunLog
from app.runtime.workflows.node_runner import key_of


class NodeQuestions:
    def __init__(self, log: RunLog, calls: CallsInFlight) -> None:
        self._log, self._calls = log, calls

    async def ask(self, visit: Visit, kind: str, title: str, seconds: float | None = None, **more: Any) -> JsonObject:
        """The interrupt once it has `answer` or `expired`; until then this raises `Waiting`."""
        asked = self.asked(visit)
        if asked is None:
            async with CountedCall(self._calls):
                waiting = await self._raise(visit, key_of(visit), kind, title, seconds, more)
            raise waiting
        if "answer" not in asked and not asked.get("expired"):
            raise Waiting(asked["interruptId"])
        return asked

    def asked(self, visit: Visit) -> JsonObject | None:
        """What the visit has asked already."""
        key = key_of(visit)
        return next((one for one in self._log.memo.interrupts if one.get("key") == key), None)

    async def _raise(
        self, visit: Visit, key: str, kind: str, title: str, seconds: float | None, more: JsonObject
    ) -> Waiting:
        await self._log.begin_step()
        raised = InterruptRaised.model_validate(
            {
                "interruptId": new_id(_id_of(kind, more)),
                "kind": kind,
                "title": title,
                "expiresAt": self._log.expiry(seconds),
                "key": key,
                "node": visit.node,
                "background": True,
                **more,
            }
        )
        await self._log.raise_interrupt(raised)
        self._log.memo.interrupts.append(raised.model_dump(by_alias=True, exclude_none=True))
        return Waiting(raised.interrupt_id)


def _id_of(kind: str, more: JsonObject) -> Kind:
    if kind == "timer":
        return "timer"
    return "delivery" if more.get("artifacts") else "interrupt"
