"""Appends to the tenant's memory thread, which the first record creates."""

from collections.abc import Sequence
from typing import Final

from app.events import ports
from app.events.catalog import Payload, thread
from app.events.catalog.memory import MEMORY_THREAD
from app.events.ports import Answer, Condition, Refused
from app.events.recorder import PayloadEntry, Recorder, Scope

_TITLE: Final = "Memory"


class RecordLog:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def append(
        self,
        tenant: str,
        entries: Sequence[Payload | PayloadEntry],
        conditions: Sequence[Condition] = (),
        *,
        actor: str = "system",
    ) -> Answer:
        """All of it in one commit, or nothing."""
        scope = Scope(tenant, MEMORY_THREAD, actor=actor)
        answer = await self._recorder.record(scope, *entries, conditions=conditions)
        if isinstance(answer, Refused) and answer.failure.code == "THREAD_NOT_FOUND":
            created = thread.ThreadCreated(title=_TITLE, owner="system")
            first = [ports.ThreadIsNew(), *conditions]
            answer = await self._recorder.record(scope, created, *entries, conditions=first)
            if isinstance(answer, Refused) and answer.failure.code == "THREAD_EXISTS":
                # Another record was the first one, a moment earlier.
                answer = await self._recorder.record(scope, *entries, conditions=conditions)
        return answer
