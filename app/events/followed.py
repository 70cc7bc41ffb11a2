"""Following the log from where one left off: the port of whoever must hear of every event, at least once.

What a consumer has not acknowledged is stored by the append that stores the event, in its transaction. So a crash
loses nothing, and finding threads with news reads only news. Where no consumer exists, an append does nothing more.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from app.core.value import value
from app.events.envelope import Event


@value(frozen=True, slots=True)
class UnreadEvent:
    """An event that a consumer has not acknowledged."""

    place: int
    """Its place in the consumer's line: greater for later events of the same thread."""
    tenant: str
    thread_id: str
    seq: int


class Consumer(Protocol):
    """Hears of every event of its types that is committed after it was added, in all tenants.

    - **At least once.** A batch is acknowledged when `handle` returns, and offered again when it raises, or when the
      process dies first. Whatever a consumer does must therefore be harmless when it is done twice: give it the
      event's id as its key.
    - **Order.** Events of one thread come in the order of their `seq`. Between threads there is no order.
    - **One at a time.** Of all servers on a database, one offers batches to the consumer of a name, by a lease of
      30 seconds. `handle` has 20 seconds: after that it is cancelled and the batch is offered again.
    - **A failing batch** is offered again after 1, 2, 4 ... at most 60 seconds, and holds up the events behind it. A
      consumer that does not want that catches its failures, notes them, and returns.
    - **Content.** `handle` gets the events as they are stored. Those of threads that were purged meanwhile are left
      out. Values that became blobs are references.
    - **Beginning.** An event that another server commits within two seconds after the consumer was first added may be
      missed; from then on none is. Nothing that was stored before is offered.
    """

    @property
    def name(self) -> str:
        """Stable and unique: what it has not acknowledged is stored under it."""
        ...

    @property
    def types(self) -> frozenset[str]:
        """The types of the events it wants. Not deltas."""
        ...

    async def handle(self, events: Sequence[Event]) -> None: ...


class ConsumerOutbox(Protocol):
    """What consumers have not acknowledged, in the database."""

    wanted: Mapping[str, tuple[str, ...]]
    """By type: the names of the consumers that want it. Appends look at it."""
    on_written: Callable[[], None]
    """Called after each commit that stored something for a consumer."""

    async def refresh(self) -> None:
        """Read from the database which consumers exist."""
        ...

    async def add(self, name: str, types: frozenset[str]) -> None:
        """From now on the consumer exists, until it is removed; its types replace those it had."""
        ...

    async def remove(self, name: str) -> None:
        """It no longer exists, and what it did not acknowledge is dropped."""
        ...

    async def take_lease(self, name: str, owner: str, seconds: float) -> bool:
        """Whether this owner has the consumer now, for so long. Whoever has it may take it again."""
        ...

    async def give_back(self, name: str, owner: str) -> None: ...

    async def unread(self, name: str, limit: int) -> list[UnreadEvent]: ...

    async def acknowledge(self, name: str, places: Sequence[int]) -> None: ...


ReadEvents = Callable[[str, str, Sequence[int]], Awaitable[list[Event]]]
"""The events of a thread, by tenant, thread and `seq`; those that exist."""
