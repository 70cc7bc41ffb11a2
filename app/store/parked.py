"""Commands whose thread another server has locked: they wait apart, so that nobody else waits with them.

A server that was suspended inside a transaction keeps the locks of its threads until the database ends its session. The
commands of those threads are tried again as soon as the locks are free, in their order. Leaves to the log: writing
them, and when a caller has waited long enough.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from app.events.ports import Command
from app.store.engine import Database, Sql, Tx

AGAIN_SECONDS: Final = 0.05

_FREE: Final = Sql("SELECT id FROM threads WHERE tenant = $1 AND id {in:$2} ORDER BY id {lock_free}")
_EXIST: Final = Sql("SELECT id FROM threads WHERE tenant = $1 AND id {in:$2}")


class _Waits(Protocol):
    @property
    def command(self) -> Command: ...


W = TypeVar("W", bound=_Waits)


async def locked_threads(database: Database, commands: Iterable[Command]) -> set[tuple[str, str]]:
    """Those of the commands' threads that somebody else has locked at this moment."""
    asked: dict[str, set[str]] = {}
    for command in commands:
        asked.setdefault(command.tenant, set()).add(command.thread_id)

    async def work(tx: Tx) -> set[tuple[str, str]]:
        locked: set[tuple[str, str]] = set()
        for tenant, threads in asked.items():
            names = sorted(threads)
            free = {row[0] for row in await tx.rows(_FREE, tenant, names)}
            if len(free) < len(names):
                there = {row[0] for row in await tx.rows(_EXIST, tenant, names)}
                locked |= {(tenant, thread) for thread in there - free}
        return locked

    return await database.look(work)


class ParkedCommands(Generic[W]):
    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], list[W]] = {}
        """By tenant and thread."""

    def __len__(self) -> int:
        return sum(map(len, self.lines.values()))

    def add(self, waiting: W) -> None:
        command = waiting.command
        self.lines.setdefault((command.tenant, command.thread_id), []).append(waiting)

    def commands(self) -> list[Command]:
        return [waiting.command for line in self.lines.values() for waiting in line]

    def take(self, still_locked: set[tuple[str, str]]) -> list[W]:
        """What need not wait any longer, each thread's commands in their order."""
        free = [place for place in self.lines if place not in still_locked]
        return [waiting for place in free for waiting in self.lines.pop(place)]

    def take_all(self) -> Sequence[W]:
        return self.take(set())
