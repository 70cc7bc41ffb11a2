"""The log's own events as server-sent events: those of a thread or of a run, until a last one.

Leaves to others: framing and following (`wire`), who may listen (the routes).
"""

from collections.abc import Callable, Mapping

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.wire.follower import End
from app.protocols.wire.sse import COMMENT, EventStream, Following, event_frame, named_frame

LastFrame = dict[str, object]
Ending = Callable[[Event], LastFrame | None]
"""What the `end` frame says, if this event is the last of the stream."""


class LogFrames:
    keep_alive = COMMENT

    def __init__(self, ending: Ending, keep: Callable[[Event], bool] | None) -> None:
        self._ending, self._keep = ending, keep
        self._last_seq = 0
        self.ended = False

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed:
            return b""
        self._last_seq = event.seq
        if self._keep is not None and not self._keep(event):
            return b""
        last = self._ending(event)
        self.ended = last is not None
        frame = self.frame(event)
        return frame if last is None else frame + named_frame("end", last)

    def frame(self, event: Event) -> bytes:
        return event_frame(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        return self.of(event, followed) or b""

    def closing(self, end: End, failure: Failure | None) -> bytes:
        """Nothing when the server stops: the client comes back with its cursor."""
        if failure is not None:
            return named_frame("problem", _problem(failure))
        if end is End.OVERFLOWED:
            slow = Failure("READER_TOO_SLOW", "The client reads the stream too slowly.")
            return named_frame("problem", _problem(slow) | {"lastSeq": self._last_seq})
        return b""

    def close(self) -> None:
        pass


def event_stream(
    server: ServerContext,
    caller: Principal,
    thread_id: str,
    after: int,
    *,
    ending: Ending,
    keep: Callable[[Event], bool] | None = None,
    headers: Mapping[str, str] | None = None,
) -> EventStream:
    """The thread's events after `after`, as far as `keep` lets them through, until `ending` names the last."""
    subscription = server.hub.subscribe(caller.tenant, [thread_id])
    following = Following(subscription, server.reader.events, thread_id, after)
    return EventStream(following, LogFrames(ending, keep), headers, at_once=True)


def _problem(failure: Failure) -> LastFrame:
    return {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
