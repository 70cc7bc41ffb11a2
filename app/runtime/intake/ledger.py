"""The ledger: what belongs to no conversation is recorded on a system-owned thread of the tenant."""

from collections.abc import Sequence
from typing import Final

from app.events import ports
from app.events.catalog import Payload, thread
from app.events.ports import Answer, Condition, Refused
from app.events.recorder import Recorder, Scope

LEDGER_THREAD: Final = "sys_ledger"


class Ledger:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def record(
        self, tenant: str, payload: Payload, *, actor: str = "system", conditions: Sequence[Condition] = ()
    ) -> Answer:
        """The ledger is created by its first entry."""
        scope = Scope(tenant, LEDGER_THREAD, actor=actor)
        answer = await self._recorder.record(scope, payload, conditions=conditions)
        if isinstance(answer, Refused) and answer.failure.code == "THREAD_NOT_FOUND":
            created = thread.ThreadCreated(title="Ledger", owner="system")
            answer = await self._recorder.record(scope, created, payload, conditions=[ports.ThreadIsNew(), *conditions])
            if isinstance(answer, Refused) and answer.failure.code == "THREAD_EXISTS":
                # Somebody else's first entry was a moment earlier.
                answer = await self._recorder.record(scope, payload, conditions=conditions)
        return answer
