"""What the executor says to other servers on the same database, and the commands it looks up when they say something.

A message only says where to look: commands are read from the log. Leaves to others: carrying messages (the bus).
"""

from typing import Any, Final, Protocol

from app.events.catalog.execution import CommandInjected
from app.runtime.schedule.held_run import HeldRun
from app.views.ports import Reader

_MAX_SEQ: Final = 2**62
_LIMIT: Final = 1000


class OtherServers(Protocol):
    def command(self, tenant: str, run_id: str) -> None:
        """A command is stored for a run that this process does not hold."""
        ...

    def say_work(self) -> None:
        """There are runs that another server could take."""
        ...

    def listen_to(self, tenant: str) -> None:
        """A run waits for one of the tenant's that another server works on."""
        ...


class NoOtherServers:
    def command(self, tenant: str, run_id: str) -> None:
        return

    def say_work(self) -> None:
        return

    def listen_to(self, tenant: str) -> None:
        return


async def new_commands(reader: Reader, held: HeldRun) -> list[dict[str, Any]]:
    """Those of the run that were stored since it was looked at last, oldest first."""
    ref, after = held.ref, held.looked_seq
    found = await reader.events_of(ref.tenant, ref.thread_id, [CommandInjected.type], after, _MAX_SEQ, _LIMIT)
    if found:
        held.looked_seq = max(held.looked_seq, found[-1].seq)
    return [event.payload for event in found if event.run_id == ref.run_id]
