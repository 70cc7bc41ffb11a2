"""The log's single writer: whatever is waiting is committed as one transaction, then published.

The next batch gathers while the last one syncs (group commit, no timer). Deltas of one message that wait together
become one event. After a commit of unknown outcome the writer looks for its events before it answers.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from app.core import json
from app.core.clock import Clock
from app.core.recent import RecentDict
from app.events.envelope import Event
from app.events.ports import (
    Answer,
    Appended,
    Command,
    StorageDown,
    StoreError,
)
from app.store import materialize
from app.store.commit_watch import CommitWatch
from app.store.decide import ThreadHead, decide
from app.store.engine import CommitUnknown, Conflict, Database, Locked, Row, Sql, Tx
from app.store.event_rows import DELTA
from app.store.heads import Needs, load_heads, load_keys, load_records
from app.store.outbox import PUT_UNREAD, OutboxTable
from app.store.parked import AGAIN_SECONDS, ParkedCommands, locked_threads
from app.store.plain_batch import MemoryTrust, PlainBatch, append_plain, place_batch, plain_heads
from app.store.project_lines import load_turns
from app.store.waiting import WaitingCommand, merge

MAX_BATCH_EVENTS: Final = 2000
"""Bounds how long one transaction takes; what is over waits for the next."""
GATHERING_TURNS: Final = 4
"""Of the event loop, at most, in which commands are gathered before a commit, as long as each brings more."""
HOT_THREADS: Final = 1024
"""Threads whose records are kept between commits, 3 KB each: enough for conversations that go on at once."""
PROBE_SECONDS: Final = 0.2
PATIENCE_SECONDS: Final = 1.0
"""How long callers of a commit of unknown outcome wait for the database to come back."""
MAX_TRIES: Final = 5
"""Batches that lose a race against another replica are decided again on what it left."""

_IS_THERE: Final = Sql(
    "SELECT 1 FROM events e JOIN threads t ON t.key = e.thread_key "
    "WHERE t.tenant = $1 AND t.id = $2 AND e.seq = $3 AND e.hash = $4 UNION ALL "
    "SELECT 1 FROM deltas d JOIN threads t ON t.key = d.thread_key "
    "WHERE t.tenant = $1 AND t.id = $2 AND d.seq = $3 AND d.hash = $4"
)

Heads: TypeAlias = dict[tuple[str, str], ThreadHead]
"""By tenant and thread."""


class Log:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        publish: Callable[[Sequence[Event]], None],
        max_pending: int = 20_000,
        patience: float = 10.0,
        hot_threads: int = HOT_THREADS,
    ) -> None:
        """`patience` is how long a caller waits for its commit, in seconds; `hot_threads` how many threads are kept in
        memory, which must be more than have a run at work: each of their commits would look them up again."""
        self._database = database
        self._clock = clock
        self._publish = publish
        self._max_pending = max_pending
        self._patience = patience
        self._watch = CommitWatch[list[WaitingCommand]](patience, self._give_up)
        self._waiting: deque[WaitingCommand] = deque()
        self._last_deltas: dict[tuple[str, str], WaitingCommand] = {}
        """Of each thread the last waiting command, if it is a delta: the next one may be merged into it."""
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._parked = ParkedCommands[WaitingCommand]()
        self._hot = RecentDict[tuple[str, str], ThreadHead](hot_threads)
        self._trust = MemoryTrust()
        self._accepted = 0
        self._turn = 0
        self._after_others = 0
        self._down: StoreError | None = None
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._unparking: asyncio.Task[None] | None = None
        self.outbox: OutboxTable | None = None
        """Where events are noted for consumers that want them, with the commit that stores them."""
        self._noted = False
        self.on_commit: Callable[[Sequence[Event], float], None] = lambda events, seconds: None
        """Called with the events and the duration of every commit, after everybody else, for metrics and traces."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._write_forever(), name="holdfast-log")

    async def close(self) -> None:
        """Commit what is waiting, then stop."""
        self._closing = True
        self._something.set()
        if self._task is not None:
            await self._task
            self._task = None
        self._watch.close()
        self._fail(self._parked.take_all(), Locked())

    @property
    def hot_threads(self) -> int:
        return len(self._hot)

    @property
    def pending(self) -> int:
        return len(self._waiting) + len(self._parked)

    def append(self, command: Command) -> Awaitable[Answer]:
        if self._down is not None or len(self._waiting) >= self._max_pending:
            return self._append_in_time(command)
        self._accepted += 1
        answer: asyncio.Future[Answer] = asyncio.Future()  # of the running loop; to ask it for one costs twice as much
        waiting = WaitingCommand(command, answer)
        if (parked := self._parked.lines) and (command.tenant, command.thread_id) in parked:
            self._parked.add(waiting)  # behind those that came before
            return answer
        drafts = command.drafts
        if len(drafts) == 1 and drafts[0].type == DELTA:
            thread = (command.tenant, command.thread_id)
            last = self._last_deltas.get(thread)
            if last is not None and merge(last, command, answer):
                return answer
            self._last_deltas[thread] = waiting
        elif self._last_deltas:  # a delta that comes later must not be merged into one before this
            self._last_deltas.pop((command.tenant, command.thread_id), None)
        if not self._waiting:  # otherwise the writer knows
            self._something.set()
        self._waiting.append(waiting)
        return answer

    async def _append_in_time(self, command: Command) -> Answer:
        while len(self._waiting) >= self._max_pending and self._down is None:
            # Producers are held back, nothing is dropped: the queue is the recorder's own.
            self._room.clear()
            await self._room.wait()
        if self._down is not None:
            # A fresh one each: an exception that is raised again and again keeps every caller's frames.
            raise StorageDown(self._down.failure.message) from self._down
        return await self.append(command)

    # -- the writer ----------------------------------------------------------------------------------

    async def _write_forever(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                await self._gather()
                await self._write_batch(self._take())
            if self._closing:
                return

    async def _gather(self) -> None:
        """Whoever is ready on the loop now is part of the next batch: no timer, but no commit for every one of them
        either. Somebody who is alone waits for one turn of the loop."""
        for _ in range(GATHERING_TURNS):
            accepted = self._accepted
            await asyncio.sleep(0)
            if self._accepted == accepted:
                return

    def _take(self) -> list[WaitingCommand]:
        batch: list[WaitingCommand] = []
        events = 0
        while self._waiting and events < MAX_BATCH_EVENTS:
            waiting = self._waiting.popleft()
            if waiting.merged is not None and waiting.merged.followers:
                # The merged event keeps the first one's id, time and place.
                draft = waiting.command.drafts[0]
                signal = {**draft.payload["event"], "text": "".join(waiting.merged.pieces)}
                draft.payload = {"event": signal}
                draft.encoded = json.canonical(draft.payload)
            batch.append(waiting)
            events += len(waiting.command.drafts)
        if self._waiting:
            taken = set(map(id, batch))
            for key in [key for key, last in self._last_deltas.items() if id(last) in taken]:
                del self._last_deltas[key]
        else:
            self._last_deltas.clear()
        self._room.set()
        return batch

    async def _write_batch(self, batch: list[WaitingCommand]) -> None:
        started = self._clock.monotonic()
        commands = [waiting.command for waiting in batch]
        self._watch.begin(batch)
        try:
            answers, heads = await self._commit(commands, batch)
        except Locked:
            self._forget(commands)
            await self._write_apart(batch)
            return
        except StoreError as error:
            self._fail(batch, error)
            if isinstance(error, StorageDown):
                await self._wait_for_the_database(error)
            self._down = None
            return
        except Exception as error:
            self._forget(commands)
            self._fail(batch, error)
            return
        finally:
            self._watch.end()
        self._down = None
        events = [event for answer in answers if isinstance(answer, Appended) for event in answer.events]
        self._hot.put_all(heads)
        self._publish(events)
        if self._noted and self.outbox is not None:
            self._noted = False
            self.outbox.on_written()
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(answer)
            if waiting.merged is not None:
                for future in waiting.merged.followers:
                    if not future.done():
                        future.set_result(answer)
        self.on_commit(events, self._clock.monotonic() - started)

    async def _commit(self, commands: Sequence[Command], batch: Sequence[WaitingCommand]) -> tuple[list[Answer], Heads]:
        for attempt in range(MAX_TRIES):
            decided: tuple[list[Answer], Heads] | None = None

            async def work(tx: Tx, again: bool = attempt > 0) -> tuple[list[Answer], Heads]:
                nonlocal decided
                disturbed = self._disturbed(tx.turn)
                plain = plain_heads(commands, self._hot, disturbed)
                if plain is not None and self._trust.allows():
                    placed = place_batch(commands, plain, tx.turn)
                    unread = self._unread(placed.answers)
                    decided = placed.answers, self._to_keep(plain)  # before it is sent: it may commit by itself
                    await self._append_from_memory(tx, placed, alone=not unread)
                else:
                    decided = await self._append_any(tx, commands, disturbed, again=again)
                    unread = self._unread(decided[0])
                if unread:
                    await tx.many(PUT_UNREAD, unread)
                    self._noted = True
                return decided

            try:
                return await self._database.write(work)
            except Conflict:
                self._forget(commands)
            except CommitUnknown:
                assert decided is not None
                if await self._was_committed(decided[0], batch):
                    return decided
                self._forget(commands)
                raise StorageDown from None
            except BaseException:
                self._forget(commands)
                raise
        raise StorageDown("too many replicas write to the same threads")

    async def _write_apart(self, batch: list[WaitingCommand]) -> None:
        """Another server keeps rows of this batch locked: what needs them waits apart, the rest is written now."""
        try:
            locked = await locked_threads(self._database, [waiting.command for waiting in batch])
        except StoreError as error:
            self._fail(batch, error)
            return
        places = {(waiting.command.tenant, waiting.command.thread_id) for waiting in batch}
        if not locked and len(places) == 1:
            locked = places  # not the thread's own row, but one that only this thread's commands need
        for waiting in batch:
            if (waiting.command.tenant, waiting.command.thread_id) in locked:
                self._park(waiting)
        rest = [w for w in batch if (w.command.tenant, w.command.thread_id) not in locked]
        if locked and rest:
            await self._write_batch(rest)
        elif rest:  # whichever it is that needs the locked row: each thread by itself
            for place in places:
                await self._write_batch([w for w in rest if (w.command.tenant, w.command.thread_id) == place])

    def _park(self, waiting: WaitingCommand) -> None:
        loop = asyncio.get_running_loop()
        if not self._parked:
            loop.call_later(AGAIN_SECONDS, self._try_parked)
        self._parked.add(waiting)
        loop.call_later(self._patience, self._fail, [waiting], Locked())

    def _try_parked(self) -> None:
        self._unparking = asyncio.create_task(self._unpark())

    async def _unpark(self) -> None:
        """Those whose threads are free again, or whose callers do not wait any more, go first."""
        try:
            locked = await locked_threads(self._database, self._parked.commands())
        except StoreError:
            locked = set()  # the log finds out what is wrong, and says it to them
        free = self._parked.take(locked)
        for waiting in reversed(free):
            if not waiting.answer.done():
                self._waiting.appendleft(waiting)
        self._something.set()
        if self._parked:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._try_parked)

    def _to_keep(self, heads: Sequence[ThreadHead]) -> Heads:
        if self._hot.roomy:  # they are kept already, and nothing has to go soon
            return {}
        return {(head.tenant, head.records.thread.id): head for head in heads}

    async def _append_from_memory(self, tx: Tx, batch: PlainBatch, *, alone: bool) -> None:
        try:
            await append_plain(tx, batch, alone=alone)
        except Conflict:
            self._trust.broken()
            raise
        self._trust.kept()

    def _unread(self, answers: Sequence[Answer]) -> list[Row]:
        outbox = self.outbox
        if outbox is None or not outbox.wanted:
            return []
        return outbox.rows([answer.events for answer in answers if isinstance(answer, Appended)])

    async def _append_any(
        self, tx: Tx, commands: Sequence[Command], disturbed: int | None, *, again: bool
    ) -> tuple[list[Answer], Heads]:
        """Decides and writes a batch that is not plain; the heads are ready for the next batch then."""
        needs = Needs.of(commands, again=again)
        heads = await load_heads(tx, needs, self._hot, disturbed)
        keys = await load_keys(tx, needs, self._clock.now_ms()) if needs.keys else {}
        turns = await load_turns(tx, needs.lines) if needs.lines else {}
        placed = [(command, heads[command.tenant, command.thread_id]) for command in commands]
        await load_records(tx, placed)
        answers: list[Answer] = []
        accepted: list[materialize.Accepted] = []
        for command, head in placed:
            answer = decide(command, head, keys, turns)
            answers.append(answer)
            if isinstance(answer, Appended):
                accepted.append((head, command, answer.events))
        if accepted:
            await materialize.write(tx, accepted, heads.values())
        # Before the commit, because nothing after it looks: a head whose commit fails is forgotten as it is.
        for head in heads.values():
            head.settle(tx.turn or 0)
        # Not worth keeping for the next batch: a thread that does not exist.
        return answers, {place: head for place, head in heads.items() if head.exists}

    def _disturbed(self, turn: int | None) -> int | None:
        """The last turn before which somebody else wrote: retention, an import, the leases. None if nobody can know."""
        if turn is None:
            return None
        if turn != self._turn + 1:
            self._after_others = turn
        self._turn = turn
        return self._after_others

    async def _was_committed(self, answers: Sequence[Answer], batch: Sequence[WaitingCommand]) -> bool:
        """The batch is one transaction: one of its events answers for all. Asks until the database answers.

        Callers are let go after a moment: what turns out to be stored is published all the same.
        """
        probe = next((answer.events[0] for answer in answers if isinstance(answer, Appended)), None)
        if probe is None:
            return True

        async def look(tx: Tx) -> bool:
            digest = bytes.fromhex(probe.hash)
            return bool(await tx.rows(_IS_THERE, probe.tenant, probe.thread_id, probe.seq, digest))

        give_up_at = self._clock.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await self._database.settle()
                found = await self._database.read(look)
            except StoreError as error:
                self._refuse_all(error)
                if self._clock.monotonic() >= give_up_at:
                    if self._closing:
                        return False  # whoever reads the log next sees what is there
                    self._fail(batch, StorageDown("the connection was lost while committing"))
                await asyncio.sleep(PROBE_SECONDS)
            else:
                self._down = None
                return found

    async def _wait_for_the_database(self, error: StoreError) -> None:
        """Every caller gets an error at once instead of waiting; work goes on as soon as the database answers."""
        while not self._closing:
            self._refuse_all(error)
            try:
                await self._database.ping()
            except StoreError:
                await asyncio.sleep(PROBE_SECONDS)
            else:
                break
        self._down = None

    def _give_up(self, batch: Sequence[WaitingCommand]) -> None:
        """Nobody waits longer for this commit; if it is made after all, its events are published as ever."""
        slow = StorageDown(f"the database has not answered for {self._patience:g} seconds")
        self._refuse_all(slow)
        self._fail(batch, slow)

    def _refuse_all(self, error: StoreError) -> None:
        self._down = error
        refused = list(self._waiting)
        self._waiting.clear()
        self._last_deltas.clear()
        self._room.set()
        self._fail(refused, error)

    def _fail(self, batch: Sequence[WaitingCommand], error: Exception) -> None:
        for waiting in batch:
            for future in waiting.futures():
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # a caller that went away must not be reported as forgotten

    # -- what the next batch will want ---------------------------------------------------------------

    def _forget(self, commands: Sequence[Command]) -> None:
        """The records in memory were folded ahead of a commit that did not happen."""
        for command in commands:
            self._hot.pop((command.tenant, command.thread_id), None)
