"""A standby of the database for reads that may be a little behind: how far behind it is, and when to use it.

How far it is behind is measured without any clock but this process's own: the standby has what the primary had when it
was asked, once it has replayed up to the position that the primary gave. Whoever wants to read from it says so for the
current task (`reading`); everything else goes to the primary, and so does a read that the standby cannot
answer. Leaves to `protocols`: which requests those are.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Final, TypeVar

import structlog

from app.events.ports import StoreError
from app.store.engine import Database, Sql, Tx

T = TypeVar("T")

MEASURE_SECONDS: Final = 0.5
_MARKS: Final = 1000
_IDENTITY: Final = (
    # Not everybody may ask for the identifier; without it the object id of the database has to do.
    "(SELECT oid::text FROM pg_database WHERE datname = current_database()) || ' ' || "
    "COALESCE(CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE') "
    "THEN (SELECT system_identifier::text FROM pg_control_system()) END, '')"
)
_PRIMARY: Final = Sql(f"SELECT CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS BIGINT), {_IDENTITY}")
_STANDBY: Final = Sql(
    f"SELECT CAST(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') AS BIGINT), {_IDENTITY}, pg_is_in_recovery()"
)

_wanted: ContextVar[bool] = ContextVar("reading_from_standby", default=False)

log = structlog.get_logger("holdfast.storage")


class StandbyDatabase:
    """The primary, with some reads answered by its standby."""

    def __init__(self, primary: Database, standby: Database, max_staleness_seconds: float) -> None:
        self._primary, self._standby = primary, standby
        self._most = max_staleness_seconds
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)
        """When the primary was asked, and its position then; those that the standby has not reached."""
        self._fresh_at = float("-inf")
        self._reached = -1
        self._usable: bool | None = None
        self._task: asyncio.Task[None] | None = None
        self.served = self.refused = 0

    # -- how far behind ------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._measure_forever(), name="standby")

    @property
    def staleness_seconds(self) -> float:
        """At most so far behind; infinite while that is not known."""
        return asyncio.get_running_loop().time() - self._fresh_at

    async def position(self) -> int:
        """Everything that was committed until now is at or before it."""
        return (await self._ask_primary())[0]

    async def may_serve(self, position: int) -> bool:
        """Whether the standby is fresh enough and has this position."""
        if self.staleness_seconds > self._most:
            return False
        if self._reached < position:
            with contextlib.suppress(StoreError):
                await self._look_at_standby()
        return self._reached >= position and self.staleness_seconds <= self._most

    async def _measure_forever(self) -> None:
        while True:
            try:
                await self.measure()
            except StoreError as error:
                self._note(False, error.failure.message)
            await asyncio.sleep(MEASURE_SECONDS)

    async def measure(self) -> None:
        asked = asyncio.get_running_loop().time()
        position, identity = await self._ask_primary()
        self._marks.append((asked, position))
        await self._look_at_standby(identity)

    async def _ask_primary(self) -> tuple[int, str]:
        rows = await self._primary.look(lambda tx: tx.rows(_PRIMARY))
        return int(rows[0][0]), str(rows[0][1])

    async def _look_at_standby(self, identity: str | None = None) -> None:
        rows = await self._standby.look(lambda tx: tx.rows(_STANDBY))
        reached, own, recovering = rows[0]
        if not recovering or reached is None:
            # Promoted, or never one: what it has may not be what the primary has.
            self._note(False, "HOLDFAST_DATABASE_READ_URL does not lead to a standby")
            return
        if identity is not None and own != identity:
            self._note(False, "HOLDFAST_DATABASE_READ_URL leads to a standby of another database")
            return
        self._reached = int(reached)
        while self._marks and self._marks[0][1] <= self._reached:
            self._fresh_at = self._marks.popleft()[0]
        self._note(True, "")

    def _note(self, usable: bool, reason: str) -> None:
        if not usable:
            self._fresh_at, self._reached = float("-inf"), -1
            self._marks.clear()
        if usable != self._usable:
            self._usable = usable
            if usable:
                log.info("standby.used")
            else:
                log.warning("standby.unavailable", message=reason, effect="everything is read from the primary")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Within it, reads of the current task may be answered by the standby."""
        token = _wanted.set(True)
        try:
            yield
        finally:
            _wanted.reset(token)

    # -- as a database -------------------------------------------------------------------------------

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._primary.write(work)

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._from_either(lambda database: database.read(work))

    async def look(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._from_either(lambda database: database.look(work))

    async def _from_either(self, ask: Callable[[Database], Awaitable[T]]) -> T:
        if not _wanted.get() or not self._usable:
            return await ask(self._primary)
        try:
            result = await ask(self._standby)
        except StoreError as error:
            # It is away, or it dropped the query for what it had to replay. The next measurement says whether to go on.
            self.refused += 1
            self._note(False, error.failure.message)
            return await ask(self._primary)
        self.served += 1
        return result

    async def act(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._primary.act(work)

    async def settle(self) -> None:
        await self._primary.settle()

    async def ping(self) -> None:
        await self._primary.ping()

    def load(self) -> dict[str, float]:
        return self._primary.load()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._standby.close()
        await self._primary.close()
