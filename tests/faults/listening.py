"""Hears everything that a tenant's runs do, in this process: tests await what they need without asking the database."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from app.core.principal import DEFAULT_TENANT
from app.events.catalog import interrupt
from app.events.catalog.request import TERMINAL
from app.events.envelope import Event
from app.events.hub import Hub

PAUSES: Final = frozenset({interrupt.InterruptRaised.type})


class Listener:
    """Its room is large: what it is for is to know everything that was published since it began."""

    def __init__(self, hub: Hub) -> None:
        self._subscription = hub.subscribe(DEFAULT_TENANT, None, max_events=10**7, max_bytes=10**10)
        self.events: defaultdict[str, list[Event]] = defaultdict(list)
        """By run, in their order."""

    async def until(self, run_ids: Iterable[str], types: frozenset[str] = TERMINAL, seconds: float = 30) -> None:
        """Returns when each of the runs has recorded an event of one of the types."""
        awaited = {run_id for run_id in run_ids if not self._has_reported(run_id, types)}
        async with asyncio.timeout(seconds):
            while awaited:
                await self._subscription.wait()
                for event in self._subscription.take():
                    if event.run_id is not None:
                        self.events[event.run_id].append(event)
                        if event.type in types:
                            awaited.discard(event.run_id)

    def _has_reported(self, run_id: str, types: frozenset[str]) -> bool:
        return any(event.type in types for event in self.events[run_id])

    def types(self, run_id: str) -> list[str]:
        return [event.type for event in self.events[run_id]]

    def interrupt(self, run_id: str) -> str:
        """The last one that the run raised."""
        raised = [event.payload["interruptId"] for event in self.events[run_id] if event.type in PAUSES]
        return str(raised[-1])

    def assert_one_end_each(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            types = self.types(run_id)
            assert [type for type in types if type in TERMINAL] == types[-1:], types
