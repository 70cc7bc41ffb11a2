"""What this server has to say about threads, gathered while the last message is on its way.

A storm of commits becomes one line per thread and message. Bounded by the threads that can change in that time; a
message that cannot be sent is dropped, and whoever missed it polls.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from app.bus.contract import CONTROL, Bus, BusDown
from app.bus.messages import ANNOUNCES, ENDS, Message, ThreadNews, encode, portions, use_portions
from app.events.catalog import request
from app.events.envelope import Event
from app.events.hub import ANNOUNCED

GATHER_SECONDS: Final = 0.02
"""Between two messages. The first one after a rest leaves at once. A busy server says fifty times a second what is new:
more often would cost everybody more than it is worth to a reader."""

_FLAGS: Final = {
    name: (ANNOUNCES if name in ANNOUNCED else 0) | (ENDS if name in request.TERMINAL else 0)
    for name in {*ANNOUNCED, *request.TERMINAL}
}


class Outbox:
    def __init__(self, bus: Bus, sender: str) -> None:
        self._bus, self._sender = bus, sender
        self._news: dict[str, dict[str, list[int]]] = {}
        """By tenant and thread: first, last, flags."""
        self._control: list[Message] = []
        self._used: dict[tuple[str, str], int] = {}
        """By caller, since it was last said."""
        self._something = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        self.failed = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._send_forever(), name="bus outbox")

    def note(self, events: Sequence[Event]) -> None:
        """The events of a commit. Called for every one: it only remembers."""
        news = self._news
        for event in events:
            threads = news.get(event.tenant)
            if threads is None:
                threads = news[event.tenant] = {}
            row = threads.get(event.thread_id)
            if row is None:
                row = threads[event.thread_id] = [event.seq, event.seq, 0]
            else:
                row[1] = event.seq
            flags = _FLAGS.get(event.type)
            if flags:
                row[2] |= flags
        self._something.set()

    def say(self, message: Message) -> None:
        """To every server of the installation."""
        if message in self._control:
            return  # one of these says it for all
        self._control.append(message)
        self._something.set()

    def say_use(self, who: tuple[str, str], count: int) -> None:
        """Added up: Postgres carries two equal messages of one transaction as one."""
        self._used[who] = self._used.get(who, 0) + count
        self._something.set()

    async def _send_forever(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            messages = self._take()
            try:
                await self._bus.publish(messages)
                self.sent += len(messages)
            except BusDown:
                self.failed += len(messages)
            await asyncio.sleep(GATHER_SECONDS)

    def _take(self) -> list[tuple[str, bytes]]:
        news, self._news = self._news, {}
        control, self._control = self._control, []
        used, self._used = self._used, {}
        messages = [(CONTROL, encode(message)) for message in control]
        messages += [(CONTROL, one) for one in use_portions(self._sender, ((*who, n) for who, n in used.items()))]
        for tenant, threads in news.items():
            rows = [ThreadNews(thread, *row) for thread, row in threads.items()]
            messages += [(subject_of(tenant), message) for message in portions(self._sender, rows)]
        return messages

    async def flush(self) -> None:
        """What is waiting goes out now; for a server that stops."""
        if messages := self._take():
            with contextlib.suppress(BusDown, TimeoutError):
                async with asyncio.timeout(1):
                    await self._bus.publish(messages)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            await self.flush()


def subject_of(tenant: str) -> str:
    return f"news.{tenant}"
