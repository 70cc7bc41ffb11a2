"""Makes the frames of an event once, however many sockets they go to; they live as long as the event does."""

import asyncio
import contextlib

from app.events.envelope import Event
from app.protocols.dialects import codex
from app.protocols.stream.frames import EventFrames, event_frames
from app.protocols.stream.knowledge import Knowledge


class Press:
    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._making: dict[str, asyncio.Future[EventFrames]] = {}
        """Event id to the frames that are being made: the second socket to ask waits for the first."""

    @property
    def making(self) -> int:
        return len(self._making)

    def at_hand(self, event: Event) -> EventFrames | None:
        """Without waiting; None when something has to be looked up first."""
        made: EventFrames | None = event.spelled
        if made is None:
            known = self._knowledge.at_hand(event)
            if known is None:
                return None
            made = event.spelled = event_frames(event, codex.aliases(event, known))
        return made

    async def frames(self, event: Event) -> EventFrames:
        while (made := self.at_hand(event)) is None:
            making = self._making.get(event.id)
            if making is None:
                return await self._make(event)
            # Who makes them may have been sent away meanwhile; then it is our turn.
            with contextlib.suppress(asyncio.CancelledError):
                return await asyncio.shield(making)
            if not making.cancelled():
                raise asyncio.CancelledError
        return made

    async def _make(self, event: Event) -> EventFrames:
        future = self._making[event.id] = asyncio.get_running_loop().create_future()
        try:
            known = await self._knowledge.of(event)
            made = event.spelled = event_frames(event, codex.aliases(event, known))
            future.set_result(made)
            return made
        finally:
            del self._making[event.id]
            if not future.done():
                future.cancel()
