"""Random delays where a loaded machine stalls: around commits, reads of the database, and calls of models and tools.

`make shake` runs the suite with them. Whatever a test takes for granted about who is first shows itself within a few
runs, where the undisturbed suite would fail once in fifty. Leaves to others: what servers wait for (`tests.patience`).
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.runtime.run.model_calls import ModelCalls
from app.store import postgres, sqlite
from app.store.log import Log
from app.tools import stages

SHAKE: Final = "TESTS_SHAKE"
"""The variable with the longest delay in milliseconds; servers that tests start inherit it."""
_SPARED: Final = 0.5
"""The share of places that are passed without delay: what is always late is as regular as what never is."""
_STUCK: Final = 0.05
"""The share of places that are left ten times later than others, so that one branch falls far behind its siblings."""

Call = Callable[..., Awaitable[Any]]


def shake() -> None:
    """From now on in this process, if the variable asks for it."""
    longest = float(os.environ.get(SHAKE, "0")) / 1000
    if not longest:
        return

    async def stall() -> None:
        luck = random.random()
        if luck > _SPARED:
            await asyncio.sleep(random.random() * longest * (10 if luck > 1 - _STUCK else 1))

    def late(call: Call) -> Call:
        async def stalled(*args: Any, **named: Any) -> Any:
            await stall()
            return await call(*args, **named)

        return stalled

    def late_both_ways(call: Call) -> Call:
        async def stalled(*args: Any, **named: Any) -> Any:
            await stall()
            result = await call(*args, **named)
            await stall()
            return result

        return stalled

    for place, name in [(Log, "_commit"), (stages, "invoke")]:
        setattr(place, name, late_both_ways(getattr(place, name)))
    databases = postgres.PostgresDatabase, sqlite.SqliteDatabase
    reads = [(database, name) for database in databases for name in ("read", "look")]
    # Models only before they answer: the last event of an answer waits to be stored with the end of the run.
    for place, name in [(ModelCalls, "_complete"), *reads]:
        setattr(place, name, late(getattr(place, name)))
