"""Makes the frames of an event once, however many sockets they go to; they are kept as long as the event is."""

import asyncio
import contextlib

from app.events.envelope import Event
from app.protocols.dialects import codex
from app.protocols.stream.event_context import EventContexts
from app.protocols.stream.frames import EventFrames, event_frames


class FrameCache:
    def __init__(self, contexts: EventContexts) -> None:
        self._contexts = contexts
        self._in_progress: dict[str, asyncio.Future[EventFrames]] = {}
        """Event id to the frames that are being made: the second socket to ask waits for the first."""

    @property
    def in_progress(self) -> int:
        return len(self._in_progress)

    def cached(self, event: Event) -> EventFrames | None:
        """Without waiting; None when something has to be looked up first."""
        made: EventFrames | None = event.spelled
        if made is None:
            known = self._contexts.cached(event)
            if known is None:
                return None
            made = event.spelled = event_frames(event, codex.aliases(event, known))
        return made

    async def frames(self, event: Event) -> EventFrames:
        while (made := self.cached(event)) is None:
            in_progress = self._in_progress.get(event.id)
            if in_progress is None:
                return await self._make(event)
            # Its maker may have been cancelled meanwhile; then it is our turn.
            with contextlib.suppress(asyncio.CancelledError):
                return await asyncio.shield(in_progress)
            if not in_progress.cancelled():
                raise asyncio.CancelledError
        return made

    async def _make(self, event: Event) -> EventFrames:
        future = self._in_progress[event.id] = asyncio.get_running_loop().create_future()
        try:
            known = await self._contexts.of(event)
            made = event.spelled = event_frames(event, codex.aliases(event, known))
            future.set_result(made)
            return made
        finally:
            del self._in_progress[event.id]
            if not future.done():
                future.cancel()
