"""Recognises API keys. Keys that were looked up are remembered for a moment, so that a request costs no query.

A key that this process or another server revokes is forgotten at once; while servers cannot hear each other, all keys
are forgotten with every poll.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from cachetools import TTLCache

from app.core.clock import Clock
from app.core.keys import ApiKey, id_of, is_secret
from app.core.principal import Principal
from app.protocols.auth.verdict import Denied

REMEMBER_SECONDS: Final = 10.0
"""Whoever revokes a key says so; this is for the case that the word of it got lost."""
MAX_REMEMBERED: Final = 10_000

Find = Callable[[str], Awaitable[ApiKey | None]]


class Keyring:
    def __init__(self, find: Find, clock: Clock) -> None:
        self._find, self._clock = find, clock
        self._known: TTLCache[str, tuple[ApiKey | None, Principal | None]] = TTLCache(
            MAX_REMEMBERED, REMEMBER_SECONDS, timer=clock.monotonic
        )
        self._revocations = 0
        self._watchers: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def watch(self, on_revoked: Callable[[], None]) -> Callable[[], None]:
        """Calls back when a key may have been revoked, whichever; gives what ends that."""
        watcher = object()
        self._watchers[watcher] = on_revoked
        return lambda: self._watchers.pop(watcher, None) and None

    def forget(self, key_id: str | None) -> None:
        """The key was revoked, here or at another server; None if any could have been."""
        if key_id is None:
            self._known.clear()
        else:
            self._known.pop(key_id, None)
        self._revocations += 1
        for on_revoked in list(self._watchers.values()):
            on_revoked()

    async def recognise(self, secret: str) -> Principal | Denied:
        if not is_secret(secret):
            return Denied("malformed")
        key_id = id_of(secret)
        key, principal = await self._look_up(key_id)
        if key is None or principal is None or not key.matches(secret):
            return Denied("unknown_key")
        if not key.is_live(self._clock.now_ms()):
            return Denied("revoked_key" if key.revoked_at is not None else "expired_key", key.id, key.tenant)
        return principal

    async def principal_of(self, key_id: str) -> Principal | None:
        """Of a key that still counts."""
        key, principal = await self._look_up(key_id)
        return principal if key is not None and key.is_live(self._clock.now_ms()) else None

    async def is_live(self, key_id: str) -> bool:
        key, _ = await self._look_up(key_id)
        return key is not None and key.is_live(self._clock.now_ms())

    async def _look_up(self, key_id: str) -> tuple[ApiKey | None, Principal | None]:
        known = self._known.get(key_id)
        if known is not None:
            return known
        revocations = self._revocations
        key = await self._find(key_id)
        principal = None if key is None else key.principal()
        # What was read before a revocation must not be remembered after it.
        if revocations == self._revocations:
            self._known[key_id] = (key, principal)
        return key, principal
