"""The modes of authentication together: what a request shows becomes a principal, or is denied.

Leaves to others: what a principal may do (`permissions`), and answering (the edge).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from starlette.types import Scope

from app.core.clock import Clock
from app.core.principal import LOCAL, Principal
from app.protocols.auth.bootstrap import Bootstrap
from app.protocols.auth.denials import Denials
from app.protocols.auth.keyring import Keyring
from app.protocols.auth.proxies import Proxies
from app.protocols.auth.shown import Headers, peer_of, secret_of
from app.protocols.auth.verdict import Denied

LOOK_SECONDS: Final = 10.0
"""How often a long connection looks whether its credentials still count; a revocation here is seen at once."""


class TokenMode(Protocol):
    """Its module loads a cryptography library, which servers without the mode do not need."""

    def recognise(self, token: str) -> Principal | Denied: ...

    def __len__(self) -> int: ...


class Access:
    """A mode that is None is off. With all of them off everybody is the local operator: settings allow that on
    loopback only."""

    def __init__(
        self,
        denials: Denials,
        clock: Clock,
        *,
        keyring: Keyring | None = None,
        tokens: TokenMode | None = None,
        proxies: Proxies | None = None,
        bootstrap: Bootstrap | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.denials = denials
        self._clock = clock
        self._keyring, self._tokens, self._proxies = keyring, tokens, proxies
        self.enabled = not (keyring is None and tokens is None and proxies is None)

    @property
    def keys_remembered(self) -> int:
        return 0 if self._keyring is None else len(self._keyring)

    @property
    def tokens_remembered(self) -> int:
        return 0 if self._tokens is None else len(self._tokens)

    async def authenticate(self, scope: Scope, headers: Headers) -> Principal | Denied:
        if not self.enabled:
            return LOCAL
        if self._proxies is not None and self._proxies.lists(peer_of(scope)):
            told = self._proxies.recognise(headers)
            if told is not None:
                return told
        secret = secret_of(scope, headers)
        if secret is None:
            return Denied("no_credentials")
        if self.bootstrap is not None and (first := self.bootstrap.recognise(secret)) is not None:
            return first
        if self._tokens is not None and secret.count(".") == 2:
            return self._tokens.recognise(secret)
        return Denied("unknown_key") if self._keyring is None else await self._keyring.recognise(secret)

    async def still_valid(self, principal: Principal) -> bool:
        """Whether what the principal showed when it came would still let it in."""
        if principal.expires_at is not None and self._clock.now_ms() >= principal.expires_at:
            return False
        if principal.key_id is None or self._keyring is None:
            return True
        return await self._keyring.is_live(principal.key_id)

    @contextlib.contextmanager
    def watching(self, principal: Principal, gone: Callable[[], None]) -> Iterator[None]:
        """For a long connection: calls `gone` when the credentials it was opened with no longer count."""
        if principal.expires_at is None and (principal.key_id is None or self._keyring is None):
            yield
            return

        async def watch() -> None:
            await self._until_invalid(principal)
            gone()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _until_invalid(self, principal: Principal) -> None:
        while await self.still_valid(principal):
            seconds = LOOK_SECONDS
            if principal.expires_at is not None:
                seconds = min(seconds, max(0.0, (principal.expires_at - self._clock.now_ms()) / 1000))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    if self._keyring is None:
                        await asyncio.Event().wait()
                    else:
                        await self._keyring.changed.wait()
