"""What callers use at other servers, found in the database while no bus says it.

The database keeps one number for each caller: its requests at all servers. A server adds its own since the last time,
and what the number grew by besides is what the others let through. Leaves to others: when to ask (`replicas`), and the
limits themselves.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from app.core.recent import RecentDict

MAX_CALLERS: Final = 1000
"""Callers that are counted together; the ones that were silent longest are counted by each server."""
MAX_SILENT: Final = 15
"""Exchanges, about a minute, for which a caller is asked for that makes no requests here."""

Use: TypeAlias = tuple[str, str, int]
"""Tenant, caller and number."""
CountRates: TypeAlias = Callable[[Sequence[Use]], Awaitable[list[Use]]]
"""Adds to what is counted, and answers the sums of the same callers. Raises `StoreError`."""


class RateExchange:
    def __init__(self) -> None:
        self._used = RecentDict[tuple[str, str], int](MAX_CALLERS)
        """Here, since it was last counted."""
        self._sums = RecentDict[tuple[str, str], tuple[int, int]](MAX_CALLERS)
        """As they were last seen, and how often since the caller was last active here."""

    def used_here(self, who: tuple[str, str], count: int) -> None:
        self._used.put(who, self._used.get(who, 0) + count)

    async def exchange(self, count: CountRates) -> tuple[Use, ...]:
        """What others let through since the last time."""
        used = dict(self._used)
        callers = list(dict.fromkeys([*used, *self._sums]))
        if not callers:
            return ()
        sums = await count([(*who, used.get(who, 0)) for who in callers])
        elsewhere: list[Use] = []
        for tenant, caller, total in sums:
            who = (tenant, caller)
            mine = used.get(who, 0)
            if mine:
                left = self._used.get(who, 0) - mine
                if left > 0:
                    self._used[who] = left
                else:
                    self._used.pop(who, None)
            before, silent = self._sums.get(who, (total - mine, 0))
            if (others := total - before - mine) > 0:
                elsewhere.append((tenant, caller, others))
            if mine or silent < MAX_SILENT:
                self._sums.put(who, (total, 0 if mine else silent + 1))
            else:
                del self._sums[who]
        return tuple(elsewhere)

    def clear(self) -> None:
        """The bus says it again."""
        self._used.clear()
        self._sums.clear()
