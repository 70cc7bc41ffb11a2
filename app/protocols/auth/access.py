"""The modes of authentication together: what a request shows becomes a principal, or is denied.

Leaves to others: what a principal may do (`permissions`), and answering (the edge).
"""

from collections.abc import Callable
from typing import Final, Protocol

from starlette.types import Scope

from app.core.clock import Clock
from app.core.principal import LOCAL, Principal
from app.protocols.auth.bootstrap import Bootstrap
from app.protocols.auth.browser_sessions import BrowserSessions
from app.protocols.auth.denials import Denials
from app.protocols.auth.keyring import Keyring
from app.protocols.auth.proxies import TrustedProxies
from app.protocols.auth.shown import Headers, peer_of, secret_of
from app.protocols.auth.verdict import Denied

CHECK_SECONDS: Final = 10.0
"""How often the credentials of a long connection are checked; a revocation in this process is noticed at once."""


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
        proxies: TrustedProxies | None = None,
        bootstrap: Bootstrap | None = None,
        browsers: BrowserSessions | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.browsers = browsers
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
            principal = self._proxies.recognise(headers)
            if principal is not None:
                return principal
        secret = secret_of(scope, headers)
        if secret is None:
            session = None if self.browsers is None else await self.browsers.recognise(scope, headers)
            return Denied("no_credentials") if session is None else session
        if self.bootstrap is not None and (first := await self.bootstrap.recognise(secret)) is not None:
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

    def credentials_of(self, principal: Principal) -> "ShownCredentials | None":
        """For a long connection; None when nothing can end them."""
        if principal.expires_at is None and (principal.key_id is None or self._keyring is None):
            return None
        return ShownCredentials(self, principal)

    def forget(self, key_id: str | None) -> None:
        """Another server revoked the key; None if it could be any."""
        if self._keyring is not None:
            self._keyring.forget(key_id)

    def watch(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back when credentials may have been revoked; gives what ends that."""
        return (lambda: None) if self._keyring is None else self._keyring.watch(on_change)

    def check_after(self, principal: Principal) -> float:
        if principal.expires_at is None:
            return CHECK_SECONDS
        return min(CHECK_SECONDS, max(0.0, (principal.expires_at - self._clock.now_ms()) / 1000))


class ShownCredentials:
    """What a principal showed when it came, for the follower of its stream."""

    def __init__(self, access: Access, principal: Principal) -> None:
        self._access, self._principal = access, principal

    def check_after(self) -> float:
        return self._access.check_after(self._principal)

    async def still_valid(self) -> bool:
        return await self._access.still_valid(self._principal)

    def watch(self, on_change: Callable[[], None]) -> Callable[[], None]:
        return self._access.watch(on_change)
