"""The ledger: what belongs to no conversation is recorded on a system-owned thread of the tenant."""

from typing import Final

from app.events import ports
from app.events.catalog import Payload, thread
from app.events.ports import Refused
from app.events.recorder import Recorder, Scope

LEDGER_THREAD: Final = "sys_ledger"


class Ledger:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def record(self, tenant: str, payload: Payload) -> None:
        """The ledger is born with its first entry."""
        scope = Scope(tenant, LEDGER_THREAD)
        answer = await self._recorder.record(scope, payload)
        if isinstance(answer, Refused) and answer.failure.code == "THREAD_NOT_FOUND":
            born = thread.ThreadCreated(title="Ledger", owner="system")
            await self._recorder.record(scope, born, payload, conditions=[ports.ThreadIsNew()])
