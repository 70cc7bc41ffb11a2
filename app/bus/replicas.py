"""The servers on one database as one: who is there, what they say to each other, and polling while nobody can.

Every server says hello regularly and hears itself: as long as it does, the bus works. If it does not, threads that
somebody follows are looked up every few seconds, which finds everything a message would have said. Leaves to others:
the messages (`outbox`, `relay`), carrying them (a kind), and what commands do (the callbacks).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

import structlog

from app.bus import messages
from app.bus.attention import Attention
from app.bus.contract import CONTROL, Bus, BusDown
from app.bus.messages import (
    ENDS,
    ExtensionsChange,
    Hello,
    KeyRevocation,
    Message,
    News,
    NewsWish,
    RateUse,
    RunCommand,
    WorkOffer,
    WorkspaceChange,
)
from app.bus.outbox import Outbox, subject_of
from app.bus.rate_exchange import CountRates, RateExchange
from app.bus.relay import Relay
from app.core.clock import CorrectedClock
from app.core.ids import new_id
from app.core.json import JsonObject
from app.events.hub import Hub
from app.events.ports import StoreError

BEAT_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 3.0
"""Without an own hello for so long the bus counts as lost, whatever its connection says."""
POLL_SECONDS: Final = 4.0
"""While the bus is lost. With the time of a poll itself nobody waits longer than five seconds."""
CHECK_SECONDS: Final = 30.0
"""While the bus works: a message can be lost although nobody noticed."""
DOUBT_SECONDS: Final = 3.0
"""After the bus came back or a server joined, which may not have known of each other: polled with every beat."""
PEER_SECONDS: Final = 10.0
"""A server that was silent for so long is gone."""
LINGER_SECONDS: Final = 60.0
"""How long a tenant is heard after its last listener left."""
COMMAND_SECONDS: Final = 1.0
SKEW_MS: Final = 1000
MAX_PEERS: Final = 1000

log = structlog.get_logger("holdfast.bus")


class ThreadPositions(Protocol):
    """Where threads are, from the store."""

    async def last_seqs(self, tenant: str, threads: Sequence[str]) -> list[tuple[str, int]]: ...

    async def recent_threads(self, tenant: str, limit: int) -> list[tuple[str, int, int]]:
        """(thread, first `seq` of its newest run, last `seq`) of the threads with the newest runs."""
        ...

    async def now_ms(self) -> int:
        """The database's clock."""
        ...


class FindOwner(Protocol):
    async def __call__(self, tenant: str, run_id: str) -> str | None: ...


class Replicas:
    def __init__(
        self, bus: Bus, kind: str, hub: Hub, relay: Relay, positions: ThreadPositions, clock: CorrectedClock
    ) -> None:
        self._bus, self.kind, self._hub, self._relay = bus, kind, hub, relay
        self._positions, self._clock = positions, clock
        self._time = asyncio.get_running_loop().time
        self.id = new_id("key").replace("key_", "server_")
        self._outbox = Outbox(bus, self.id)
        self.attention = Attention(hub, lambda waits: self._say(NewsWish(self.id, waits)))
        self._own_news = messages.beginning_of_news(self.id)
        self._peers: dict[str, float] = {}
        """When each of the other servers was last heard."""
        self._tenants: dict[str, float] = {}
        """Tenants that are heard, and when somebody last listened there."""
        self._primed: set[str] = set()
        self._echo_at = float("-inf")
        self._doubt_until = float("-inf")
        self._polled_at = float("-inf")
        self._beat_at = self._time()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop_task: asyncio.Task[None] | None = None
        self._poll_now = asyncio.Event()
        self.lost = True
        """Whether news has to be polled for."""
        self.received = self.malformed = self.polls = self.unanswered = self.losses = 0
        self.waiting: Callable[[], int] = lambda: 0
        """Runs that wait for a worker here."""
        self.on_work: Callable[[], None] = lambda: None
        self.on_command: Callable[[str, str], None] = lambda tenant, run_id: None
        self.on_ended: Callable[[str, str], None] = lambda tenant, thread_id: None
        self.on_revoked: Callable[[str | None], None] = lambda key_id: None
        """With None for any key: the bus is lost, and nobody would say it."""
        self.on_workspace: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.on_extensions: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.on_rates: Callable[[RateUse], None] = lambda used: None
        self._rates = RateExchange()
        self.count_rates: CountRates | None = None
        self.on_poll: Callable[[], Awaitable[None]] | None = None
        """Looks in the store for what commands would have said."""
        self.find_owner: FindOwner | None = None

    # -- what others of this server say ----------------------------------------------------------------

    @property
    def peers(self) -> int:
        return len(self._peers)

    @property
    def connected(self) -> bool:
        return not self.lost

    def as_json(self) -> JsonObject:
        return {"kind": self.kind, "connected": self.connected, "peers": self.peers}

    def say_work(self) -> None:
        """There are runs here that another server could take."""
        self._say(WorkOffer(self.id))

    def say_revoked(self, key_id: str) -> None:
        self._say(KeyRevocation(self.id, key_id))

    def say_workspace(self) -> None:
        self._say(WorkspaceChange(self.id))

    def say_extensions(self) -> None:
        self._say(ExtensionsChange(self.id))

    def say_rate(self, who: tuple[str, str], count: int) -> None:
        """A caller of a tenant made this number of requests here."""
        if self.lost:
            self._rates.used_here(who, count)
        elif self._peers:
            self._outbox.say_use(who, count)

    def _say(self, message: Message) -> None:
        if self._peers:
            self._outbox.say(message)

    def command(self, tenant: str, run_id: str) -> None:
        """A command to a run that another server works on is stored: its owner looks at it at once."""
        if self._peers:
            self._start(self._command(tenant, run_id))

    async def _command(self, tenant: str, run_id: str) -> None:
        assert self.find_owner is not None
        try:
            owner = await self.find_owner(tenant, run_id)
            if owner is None:
                return  # whoever takes the run up reads its commands
            message = messages.encode(RunCommand(self.id, tenant, run_id))
            if await self._bus.request(f"owner.{owner}", message, COMMAND_SECONDS):
                return
        except (BusDown, StoreError):
            pass
        self.unanswered += 1

    def listen_to(self, tenant: str) -> None:
        """Hear this tenant's news for a while, although nobody listens: a run waits for another server's to end."""
        self._interested(tenant)
        self.attention.wait()

    # -- life ------------------------------------------------------------------------------------------

    async def start(self, owner: str) -> None:
        """`owner` is the name under which this server holds runs."""
        self._hub.on_tenant, self._hub.on_listener = self._interested, self.attention.listened
        for subject in (CONTROL, f"owner.{owner}"):
            await self._bus.listen(subject)
        self._relay.shared = True
        self._bus.start(self._heard, self._connected)
        self._outbox.start()
        self._loop_task = asyncio.create_task(self._beat_forever(), name="bus heartbeat")

    async def set_clock(self) -> None:
        """All servers go by the database's clock, whatever their own ones say: times, and what expires at them."""
        before, offset = self._clock.now_ms(), self._clock.offset_ms
        self._clock.correct(before, await self._positions.now_ms())
        moved = self._clock.offset_ms - offset
        if abs(moved) >= SKEW_MS:
            log.warning("clock.corrected", milliseconds=moved, reason="this machine's clock is not the database's")

    async def close(self) -> None:
        for task in (self._loop_task, *self._tasks):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.attention.close()
        await self._outbox.close()
        await self._relay.close()
        await self._bus.close()

    def _connected(self) -> None:
        self._outbox.say(Hello(self.id, self.waiting(), True))
        self._doubt()

    async def _beat_forever(self) -> None:
        while True:
            now = self._time()
            if now - self._beat_at > SILENCE_SECONDS:
                self._doubt()  # this process stood still, and nobody knows what it missed
            self._beat_at = now
            self._look_at_peers(now)
            if self._bus.connected:
                self._outbox.say(Hello(self.id, self.waiting()))
                self.attention.beat()
            self._look_at_bus(now)
            if self._is_poll_due(now):
                await self._poll()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._poll_now.wait()
                    await asyncio.sleep(0.02)
            self._poll_now.clear()

    def _look_at_peers(self, now: float) -> None:
        for peer in [peer for peer, heard in self._peers.items() if now - heard > PEER_SECONDS]:
            del self._peers[peer]
        self._relay.note = self._outbox.note if self._peers else None
        self._outbox.calm = self.attention.nobody_waits(self._peers)
        for tenant in [t for t, used in self._tenants.items() if now - used > LINGER_SECONDS]:
            if self._hub.has_listeners(tenant):
                self._tenants[tenant] = now
            else:
                del self._tenants[tenant]
                self._primed.discard(tenant)
                self._relay.forget(tenant)
                self._start(self._bus.leave(subject_of(tenant)))

    def _look_at_bus(self, now: float) -> None:
        lost = now - self._echo_at > SILENCE_SECONDS
        if lost and not self.lost:
            self.losses += 1
            log.warning("bus.silent", kind=self.kind, effect=f"servers poll every {POLL_SECONDS:.0f} seconds")
        if (
            lost
            and self._bus.connected
            and now - max(self._echo_at, self._doubt_until - DOUBT_SECONDS) > SILENCE_SECONDS
        ):
            self._doubt_until = now + DOUBT_SECONDS  # and as long as that no further attempt
            self._bus.reconnect()
        self.lost = lost

    def _is_poll_due(self, now: float) -> bool:
        every = BEAT_SECONDS if now < self._doubt_until else POLL_SECONDS if self.lost else CHECK_SECONDS
        return now - self._polled_at >= every - BEAT_SECONDS / 2

    def _doubt(self) -> None:
        self._doubt_until = self._time() + DOUBT_SECONDS
        self._poll_now.set()

    # -- what others say -------------------------------------------------------------------------------

    def _heard(self, subject: str, data: bytes) -> None:
        if data.startswith(self._own_news):
            return
        message = messages.decode(data)
        if message is None:
            self.malformed += 1
            return
        now = self._time()
        if message.sender == self.id:
            if isinstance(message, Hello):
                self._echo_at, self.lost = now, False
            return
        self.received += 1
        if message.sender not in self._peers:
            if len(self._peers) >= MAX_PEERS:
                return
            self._relay.note = self._outbox.note
            self._outbox.hurry()
            self._doubt()
        self._peers[message.sender] = now
        self._act_on(subject, message)

    def _act_on(self, subject: str, message: Message) -> None:
        match message:
            case News(threads=threads):
                tenant = subject.removeprefix("news.")
                for news in threads:
                    self._relay.heard(tenant, news)
                    if news.flags & ENDS:
                        self.on_ended(tenant, news.thread_id)
            case Hello(waiting=waiting, answer=answer):
                if answer:
                    self._outbox.say(Hello(self.id, self.waiting()))
                if waiting:
                    self.on_work()
            case NewsWish(sender=sender, waits=waits):
                self.attention.heard(sender, waits)
                if waits:
                    self._outbox.hurry()
            case WorkOffer():
                self.on_work()
            case RunCommand(tenant=tenant, run_id=run_id):
                self.on_command(tenant, run_id)
            case KeyRevocation(key_id=key_id):
                self.on_revoked(key_id)
            case WorkspaceChange() if self.on_workspace is not None:
                self._start(self._look(self.on_workspace))
            case ExtensionsChange() if self.on_extensions is not None:
                self._start(self._look(self.on_extensions))
            case RateUse():
                self.on_rates(message)

    async def _look(self, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with contextlib.suppress(StoreError):  # the next poll looks again
            await look()

    def _interested(self, tenant: str) -> None:
        known = tenant in self._tenants
        self._tenants[tenant] = self._time()
        if not known:
            self._start(self._listen(tenant))

    async def _listen(self, tenant: str) -> None:
        """What was said before it is heard is looked up."""
        await self._bus.listen(subject_of(tenant))
        if self._peers or self.lost:
            with contextlib.suppress(StoreError):
                await self._poll_tenant(tenant)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- polling ---------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        self._polled_at = self._time()
        self.polls += 1
        try:
            for tenant in self._hub.tenants():
                await self._poll_tenant(tenant)
            if self.on_poll is not None:
                await self.on_poll()
            await self.set_clock()
            if self.lost and self.count_rates is not None:
                used = await self._rates.exchange(self.count_rates)
                self.on_rates(RateUse(self.id, used))
        except StoreError:
            return  # the next one is soon
        if self.lost:
            self.on_revoked(None)
        else:
            self._rates.clear()

    async def _poll_tenant(self, tenant: str) -> None:
        if self._hub.hears_all(tenant):
            for thread_id, first, last in await self._positions.recent_threads(tenant, 500):
                if tenant in self._primed or self._relay.known(tenant, thread_id):
                    self._relay.found(tenant, thread_id, 1 if first <= 3 else first, last)
                else:
                    self._relay.prime(tenant, thread_id, last)
            self._primed.add(tenant)
        else:
            self._primed.discard(tenant)
        threads = self._hub.followed(tenant)
        for start in range(0, len(threads), 1000):
            for thread_id, last in await self._positions.last_seqs(tenant, threads[start : start + 1000]):
                # Of a thread that is not known its last event is enough: whoever follows it finds what it lacks.
                self._relay.found(tenant, thread_id, last, last)
