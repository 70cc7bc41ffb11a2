"""What this server has to say about threads, gathered while the last message is on its way.

A storm of commits becomes one line per thread and message. Bounded by the threads that can change in that time; a
message that cannot be sent is dropped, and whoever missed it polls.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from app.bus.contract import CONTROL, Bus, BusDown
from app.bus.messages import ANNOUNCES, ENDS, Hello, Message, NewsWish, ThreadNews, encode, portions, use_portions
from app.events.catalog import request
from app.events.envelope import Event
from app.events.hub import ANNOUNCED

GATHER_SECONDS: Final = 0.02
"""Between two messages. The first one after a rest leaves at once. A server says fifty times a second what is new: more
often would cost everybody more than it is worth to a reader."""
LONGEST_GATHER_SECONDS: Final = 0.08
CALM_GATHER_SECONDS: Final = 0.25
"""While nobody waits for news at any other server."""
_GATHER_TIMES: Final = 4
"""How many times longer than it takes to send: every message wakes every server, and several busy servers would spend
more on hearing each other than on their runs."""

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
        self._calm_wish = NewsWish(sender, False)
        self._used: dict[tuple[str, str], int] = {}
        """By caller, since it was last said."""
        self._something = asyncio.Event()
        self._urgent = asyncio.Event()
        """Something other than news is to be said, which does not wait for more."""
        self._time = asyncio.get_running_loop().time
        self._task: asyncio.Task[None] | None = None
        self.calm = False
        """Nobody waits for news of this server."""
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
                if flags & ANNOUNCES:
                    self._urgent.set()  # for every listener of the tenant
        self._something.set()

    def say(self, message: Message) -> None:
        """To every server of the installation."""
        if message in self._control:
            return  # one of these says it for all
        self._control.append(message)
        self._something.set()
        if not isinstance(message, Hello) and message != self._calm_wish:
            self._urgent.set()

    def hurry(self) -> None:
        """Somebody waits for what is gathered."""
        self.calm = False
        self._urgent.set()

    def say_use(self, who: tuple[str, str], count: int) -> None:
        """Added up: Postgres carries two equal messages of one transaction as one."""
        self._used[who] = self._used.get(who, 0) + count
        self._something.set()

    async def _send_forever(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            began = self._time()
            messages = self._take()
            try:
                await self._bus.publish(messages)
                self.sent += len(messages)
            except BusDown:
                self.failed += len(messages)
            await asyncio.sleep(GATHER_SECONDS)
            # How much later than asked for it is shows how busy this server, its machine and the bus are.
            await self._gather_more(self._time() - began - GATHER_SECONDS)

    async def _gather_more(self, late: float) -> None:
        longest = min(_GATHER_TIMES * late, LONGEST_GATHER_SECONDS)
        more = (CALM_GATHER_SECONDS if self.calm else longest) - GATHER_SECONDS
        if more > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(more):
                    await self._urgent.wait()

    def _take(self) -> list[tuple[str, bytes]]:
        self._urgent.clear()
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
