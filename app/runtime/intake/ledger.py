"""The ledger: what belongs to no conversation is recorded on system-owned threads of the tenant."""

from collections.abc import Sequence
from typing import Final

from app.events import ports
from app.events.catalog import Payload, thread
from app.events.ports import Answer, Condition, Refused
from app.events.recorder import PayloadEntry, Recorder, Scope

LEDGER_THREAD: Final = "sys_ledger"
EVALS_THREAD: Final = "sys_evals"
"""Datasets and evaluations: apart from the rest, so that finding one reads nothing else."""


class Ledger:
    def __init__(self, recorder: Recorder, thread_id: str = LEDGER_THREAD, title: str = "Ledger") -> None:
        self._recorder, self._thread_id, self._title = recorder, thread_id, title

    def keeps(self, payload: Payload) -> bool:
        """Whether the payload would be stored as it is, with nothing redacted."""
        return self._recorder.as_stored(payload) == payload.to_json()

    async def record(
        self,
        tenant: str,
        payload: Payload | PayloadEntry,
        *,
        actor: str = "system",
        conditions: Sequence[Condition] = (),
    ) -> Answer:
        """The ledger is created by its first entry."""
        scope = Scope(tenant, self._thread_id, actor=actor)
        answer = await self._recorder.record(scope, payload, conditions=conditions)
        if isinstance(answer, Refused) and answer.failure.code == "THREAD_NOT_FOUND":
            created = thread.ThreadCreated(title=self._title, owner="system")
            answer = await self._recorder.record(scope, created, payload, conditions=[ports.ThreadIsNew(), *conditions])
            if isinstance(answer, Refused) and answer.failure.code == "THREAD_EXISTS":
                # Somebody else's first entry was a moment earlier.
                answer = await self._recorder.record(scope, payload, conditions=conditions)
        return answer
