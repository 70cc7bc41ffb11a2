"""Follows threads for one client: what is stored first, then what is committed, each event once and in order.

Events are written where they are published: no task is woken for them. Only what takes time (pages of the store,
something to look up, a check of the client's credentials) is a task, as long as it lasts; meanwhile events queue in
the bounded subscription. Nobody waits for a reader: one without room is dropped after a while, and one whose queue
overflows is cut off. Leaves to others: what an event's frames are (`Frames`), the connection, and saying goodbye.
"""

import asyncio
import contextlib
import enum
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from app.events.envelope import Event
from app.events.follow import ReadPage, backfill
from app.events.hub import EVERYWHERE, Subscription
from app.protocols.wire.connection import Connection

HEAD_SECONDS: Final = 0.25
"""How long an answer's head waits for the first frame, to leave with it; most models take longer to say a word."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""Proxies close what is silent."""
STALL_SECONDS: Final = 6.0
"""How long a stream may be without room before its connection is dropped; the client resumes from its cursor."""
TICK_SECONDS: Final = 5.0
MAX_WRITE: Final = 64 * 1024
"""Bytes that are handed over at once; then the connection is asked whether it has room for more."""


class End(enum.Enum):
    """Why a follower stopped."""

    COMPLETE = "complete"
    """The frames said that nothing follows."""
    LOST = "lost"
    """The client is gone, or was dropped because it did not read."""
    OVERFLOWED = "overflowed"
    """More arrived than the client read."""
    DRAINED = "drained"
    """The subscription was closed: by the server, which stops, or by whoever makes the frames."""
    REVOKED = "revoked"
    """The client's credentials are no longer valid."""


COMPLETE: Final = End.COMPLETE
"""How nearly every answer ends. Python 3.11 looks a member up through a hook of its class, which takes 1,200
instructions."""


class Frames(Protocol):
    """A dialect for one client: the bytes of each event."""

    ended: bool
    """Nothing follows what was made last."""
    keep_alive: bytes
    """Written into a stream that is silent; empty where the connection keeps itself alive."""

    def of(self, event: Event, followed: bool, /) -> bytes | None:
        """The event's bytes; None when something has to be loaded first.

        `followed` says that its thread is one of the client's; other events are news for every listener.
        """
        ...

    async def load(self, event: Event, followed: bool, /) -> bytes:
        """As `of`, after waiting for what it lacked."""
        ...


class ThreadFollower:
    """`cursors` are the threads with the last `seq` that the client has; None follows a thread from now on.

    With `live` the subscription is older than the cursors, so nothing has to be read from the store.
    """

    def __init__(
        self,
        connection: Connection,
        subscription: Subscription,
        read: ReadPage,
        frames: Frames,
        cursors: Mapping[str, int | None],
        *,
        live: bool = False,
        stall_seconds: float | None = None,
        keep_alive_seconds: float | None = None,
    ) -> None:
        self._connection, self._subscription, self._read, self._frames = connection, subscription, read, frames
        self.cursors = dict(cursors)
        self._behind = set() if live else {thread for thread, after in cursors.items() if after is not None}
        """Threads whose stored events have to be read before anything else."""
        self._replaced = 0
        """How often the cursors were replaced: what was read for earlier ones is not sent."""
        self._stall_seconds = STALL_SECONDS if stall_seconds is None else stall_seconds
        self._keep_alive_seconds = KEEP_ALIVE_SECONDS if keep_alive_seconds is None else keep_alive_seconds
        self._loop = asyncio.get_running_loop()
        self._working: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unwatch: Callable[[], None] | None = None
        self._flush_due = self._flushing = False
        self._on_end: Callable[[End], None] | None = None
        self.error: BaseException | None = None
        """What broke the stream, if that was the reason."""
        self._wrote_at = self._loop.time()
        self._check_at = 0.0
        self.end_reason: End | None = None

    # -- life ----------------------------------------------------------------------------------------

    async def run(self) -> End:
        """Until the frames, the client or the server come to their end; raises what broke the stream."""
        ended: asyncio.Future[End] = self._loop.create_future()
        # Whoever waits may have been cancelled, and not have come to `close` yet.
        self.start(lambda end: None if ended.done() else ended.set_result(end))
        try:
            end = await ended
        finally:
            await self.close()
        if self.error is not None:
            raise self.error
        return end

    def start(self, on_end: Callable[[End], None]) -> None:
        """For a caller that has something else to wait for; it must `close` afterwards."""
        self._on_end = on_end
        connection, credentials = self._connection, self._connection.credentials
        connection.on_lost = self._lost
        connection.on_room = self._room
        self._subscription.on_news = self._flush
        if credentials is not None:
            self._unwatch = credentials.watch(self._check)
            self._check_at = self._loop.time() + credentials.check_after()
        if credentials is not None or self._frames.keep_alive:
            seconds = HEAD_SECONDS if credentials is None else self._until_tick(HEAD_SECONDS)
            self._timer = self._loop.call_later(seconds, self._tick)
        self._flush()

    def end(self, reason: End) -> None:
        """From whoever finds that the stream must end; the first reason counts."""
        if self.end_reason is None:
            self.end_reason = reason
            if self._on_end is not None:
                self._on_end(reason)

    async def close(self) -> None:
        connection, subscription = self._connection, self._subscription
        connection.on_lost = connection.on_room = None
        subscription.on_news = None
        subscription.close()
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        if self._unwatch is not None:
            self._unwatch()
        if self._working is not None or self._checking is not None:
            tasks = {task for task in (self._working, self._checking) if task is not None}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def replace(self, cursors: Mapping[str, int | None] | None) -> None:
        """Follow other threads from now on; None follows every thread of the tenant, live."""
        self._replaced += 1
        self.cursors = dict(cursors or {})
        self._behind = {thread for thread, after in self.cursors.items() if after is not None}
        subscription = self._subscription
        queued = subscription.take()
        # What the earlier cursors asked for is on its way out: the new ones are heard from now on.
        subscription.paused = False
        subscription.missed.clear()
        subscription.listen_to(None if cursors is None else cursors.keys())
        for event in queued:
            if event.type in EVERYWHERE:  # the rest was for the earlier threads
                subscription.offer(event)
        self._flush_soon()

    # -- where events arrive -------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """For whoever is in the middle of something."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Writes what can be written at once, for a batch that was published in one write; starts the work that cannot.

        Called where events are published, so it never raises."""
        self._flush_due = False
        if self._flushing or self.end_reason is not None:
            return
        subscription = self._subscription
        must_wait = False
        if self._working is None and self._checking is None:  # else whoever works comes back here
            self._flushing = True  # frames that end the subscription would come back here too
            try:
                must_wait = self._write_queued()
            except Exception as error:
                self._fail(error)
                return
            finally:
                self._flushing = False
        if self._frames.ended:
            self.end(COMPLETE)
        elif subscription.overflowed:
            self.end(End.OVERFLOWED)
        elif must_wait and self._connection.has_room:
            self._working = self._loop.create_task(self._work())
            self._working.add_done_callback(self._worked)
        elif subscription.closed and (self._working is None or not self._connection.has_room):
            self.end(End.DRAINED)  # a page that is being read is sent before, unless its reader does not read

    def _write_queued(self) -> bool:
        """Whether something has to be waited for. Without room nothing is taken: the queue is where events wait."""
        if self._behind:
            return True
        subscription, connection, frames = self._subscription, self._connection, self._frames
        events = subscription.take() if connection.has_room and not frames.ended else []
        chunks: list[bytes] = []
        size, must_wait = 0, False
        for event in events:
            thread, seq = event.thread_id, event.seq
            if self.cursors.get(thread) == seq - 1:  # nearly every event: the next one of its thread
                data = frames.of(event, True)
                if data is not None:
                    self.cursors[thread] = seq
            else:
                data = self._frames_of(event)
            if data is None:
                subscription.put_back(events[events.index(event) :])
                must_wait = True
                break
            if frames.ended:
                chunks.append(data)
                break
            if not data:
                continue
            chunks.append(data)
            size += len(data)
            if size > MAX_WRITE:
                self._write(b"".join(chunks))
                chunks, size = [], 0
                if not connection.has_room:
                    subscription.put_back(events[events.index(event) + 1 :])
                    return False
        if chunks or frames.ended:
            self._write(b"".join(chunks) if len(chunks) != 1 else chunks[0])
        return must_wait

    def _frames_of(self, event: Event) -> bytes | None:
        """The event's frames, and the cursor of its thread moves. None when something has to be waited for."""
        thread = event.thread_id
        if thread not in self.cursors:
            return self._frames.of(event, False)
        last, seq = self.cursors[thread], event.seq
        if last is not None and seq != last + 1:
            if seq <= last:
                return b""
            # Another replica wrote in between and its news may come late: the store has it all.
            self._behind.add(thread)
            return None
        data = self._frames.of(event, True)
        if data is not None:
            self.cursors[thread] = seq
        return data

    def _write(self, data: bytes) -> None:
        connection = self._connection
        self._wrote_at = self._loop.time()
        connection.write(data, last=self._frames.ended)
        if not connection.has_room and self._stall is None:
            self._stall = self._loop.call_later(self._stall_seconds, self._stalled)

    # -- what has to be waited for -------------------------------------------------------------------

    async def _work(self) -> None:
        subscription, frames = self._subscription, self._frames
        while not (subscription.overflowed or frames.ended):
            await self._connection.room()
            if self._behind:
                await self._catch_up(self._behind.pop())
            elif (event := subscription.next()) is None:
                return
            else:
                replaced = self._replaced
                data = self._frames_of(event)
                if data is None and event.thread_id not in self._behind:
                    data = await self._load(event)
                    if replaced != self._replaced:
                        data = self._frames_of(event) if event.type in EVERYWHERE else b""
                if data or frames.ended:
                    self._write(data or b"")

    async def _load(self, event: Event) -> bytes:
        replaced, followed = self._replaced, event.thread_id in self.cursors
        data = await self._frames.load(event, followed)
        if followed and replaced == self._replaced:
            self.cursors[event.thread_id] = event.seq
        return data

    async def _catch_up(self, thread: str) -> None:
        """Pages of the store, until there is nothing that is only there."""
        after, replaced = self.cursors.get(thread), self._replaced
        if after is None:
            return
        subscription = self._subscription
        pages = backfill(subscription, self._read, subscription.tenant, thread, after)
        async with contextlib.aclosing(pages):
            async for page in pages:
                await self._send_page(page, replaced)
                if self._frames.ended or replaced != self._replaced or subscription.closed:
                    break
        # What other threads of this client said while their queue was off has to be read as well.
        for other, (first, newest) in subscription.missed.items():
            last = self.cursors.get(other)
            if other in self.cursors and (last is None or newest > last):
                self.cursors[other] = first - 1 if last is None else last
                self._behind.add(other)
        subscription.missed.clear()

    async def _send_page(self, page: list[Event], replaced: int) -> None:
        chunks: list[bytes] = []
        size = 0
        for event in page:
            thread, last = event.thread_id, self.cursors.get(event.thread_id)
            if last is not None and last < event.seq - 1 and replaced == self._replaced:
                self.cursors[thread] = event.seq - 1  # what a page of the store lacks, retention dropped
            data = self._frames_of(event)
            if data is None:
                data = await self._load(event)
            if replaced != self._replaced:
                return
            chunks.append(data)
            size += len(data)
            if self._frames.ended:
                break
            if size > MAX_WRITE:
                self._write(b"".join(chunks))
                chunks, size = [], 0
                await self._connection.room()
                if replaced != self._replaced:
                    return
        if size or self._frames.ended:
            self._write(b"".join(chunks))
            await self._connection.room()

    def _worked(self, work: "asyncio.Task[None]") -> None:
        self._working = None
        if not work.cancelled() and (error := work.exception()) is not None:
            self._fail(error)
        elif self.end_reason is None:
            self._flush()

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self.end(End.LOST)

    # -- the client ----------------------------------------------------------------------------------

    def _lost(self) -> None:
        self.end(End.LOST)

    def _room(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        self._flush_soon()

    def _stalled(self) -> None:
        self._stall = None
        self._connection.drop()
        self.end(End.LOST)

    def _check(self) -> None:
        if self._checking is None and self.end_reason is None:
            self._checking = self._loop.create_task(self._check_credentials())

    async def _check_credentials(self) -> None:
        credentials = self._connection.credentials
        assert credentials is not None
        try:
            if not await credentials.still_valid():
                self.end(End.REVOKED)
            self._check_at = self._loop.time() + credentials.check_after()
        except Exception as error:
            self._fail(error)
        finally:
            self._checking = None
        if self.end_reason is None:
            self._flush()

    def _until_tick(self, seconds: float) -> float:
        if self._connection.credentials is None:
            return seconds
        return max(0.0, min(seconds, self._check_at - self._loop.time()))

    def _tick(self) -> None:
        """What is not answered at once gets its head; what is silent is kept open; credentials are checked."""
        connection, frames, now = self._connection, self._frames, self._loop.time()
        if connection.credentials is not None and now >= self._check_at:
            self._check_at = now + TICK_SECONDS
            self._check()
        if frames.keep_alive and connection.has_room and not frames.ended:
            if not connection.begun:
                connection.write(b"")
            elif now - self._wrote_at > self._keep_alive_seconds - TICK_SECONDS:
                self._write(frames.keep_alive)
        self._timer = self._loop.call_later(self._until_tick(TICK_SECONDS), self._tick)
