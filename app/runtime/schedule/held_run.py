"""A run that has a worker of this process, from before its claim until its task has ended."""

import asyncio
from dataclasses import field

from app.core.value import mutable
from app.runtime.run.control import Control
from app.runtime.schedule.queue import RunRef
from app.runtime.scheduler import AcceptedRun


@mutable(slots=True)
class HeldRun:
    ref: RunRef
    task: "asyncio.Task[None]"
    epoch: int = 0
    """0 until its claim is stored."""
    control: Control = field(default_factory=Control)
    requested_epoch: int = 0
    """Set before the claim is answered, because the answer may get lost."""
    submission: "asyncio.Future[AcceptedRun | None] | None" = None
    """Of a run that is claimed by the commit that accepts it: what became of its submission."""
    woken: bool = False
    """It was woken while it was held: it may be claimable again when it is let go."""
    ended_before: bool = False
    """It had ended when its turn came, for example because it was cancelled in the queue."""
    looked_seq: int = 0
    """Up to here the run's thread was looked at for commands that other servers accepted."""
    retry_at: str | None = None
    """Its attempt failed, and the next one begins then."""
    project: str | None = None
    """In whose line it stands, of which one runs at a time."""
    delivered: set[str] = field(default_factory=set)
    """Ids of the commands that its control has."""
