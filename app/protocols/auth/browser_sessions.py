"""Browser sessions: a signed cookie in place of a key, so that scripts never hold the key and a reload keeps working.

The cookie names the key (or repeats what a token said) and when it ends; the server's secret signs it, so nothing is
stored. A key that is revoked ends its sessions. Whatever changes something must also show the session's CSRF token in a
header. Leaves to others: the routes (`http.sign_in`), what a principal may do (`permissions`).
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from starlette.types import Scope

from app.core import json
from app.core.clock import Clock
from app.core.principal import Principal
from app.core.signing import Signer
from app.core.value import value
from app.protocols.auth.shown import Headers
from app.protocols.auth.verdict import Denied

SESSION_MS: Final = 12 * 3600 * 1000
"""A working day; then the person signs in again."""
CSRF_HEADER: Final = b"x-csrf-token"
CSRF_MISSING: Final = "csrf_token"
_COOKIE: Final = "holdfast"
_MAX_CHARACTERS: Final = 3500
"""What browsers keep of one cookie is about 4,000."""
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_SESSION, _CSRF = "browser session", "browser session csrf"


@value(frozen=True, slots=True)
class BrowserSession:
    token: str
    csrf: str
    expires_at: int


class BrowserSessions:
    def __init__(
        self, signer: Signer, clock: Clock, principal_of: Callable[[str], Awaitable[Principal | None]] | None
    ) -> None:
        """`principal_of` answers who a key that still counts belongs to; None where keys are off."""
        self._signer, self._clock, self._principal_of = signer, clock, principal_of

    def open(self, principal: Principal, tenant: str | None = None) -> BrowserSession | None:
        """None for a principal that shows nothing lasting: the first key's token, or whom a proxy names each time.

        With `tenant` the session acts in that one, as long as its key may manage all of them."""
        ends = self._clock.now_ms() + SESSION_MS
        if principal.expires_at is not None:
            ends = min(ends, principal.expires_at)
        if principal.key_id is not None:
            said: dict[str, Any] = {"key": principal.key_id} | ({} if tenant is None else {"tenant": tenant})
        elif principal.expires_at is not None:
            said = {"who": principal.id, "tenant": principal.tenant}
            said |= {"roles": sorted(principal.roles), "scopes": sorted(principal.scopes)}
        else:
            return None
        content = json.dumps(said | {"ends": ends})
        token = f"{_encode(content)}.{_encode(self._signer.sign(_SESSION, content))}"
        return BrowserSession(token, self.csrf_of(token), ends) if len(token) <= _MAX_CHARACTERS else None

    def csrf_of(self, token: str) -> str:
        return _encode(self._signer.sign(_CSRF, token.encode()))

    async def recognise(self, scope: Scope, headers: Headers) -> Principal | Denied | None:
        """None without a cookie. A change needs the CSRF token too, a websocket an Origin, which the gate checks."""
        token = token_of(headers)
        if token is None:
            return None
        said = self._verified(token)
        if said is None or self._clock.now_ms() >= said["ends"]:
            return Denied("ended_session")
        principal = await self._principal(said)
        if principal is None:
            return Denied("ended_session")
        if scope["type"] == "websocket":
            proven = b"origin" in headers
        else:
            proven = scope["method"] in _SAFE or self._shows_csrf(token, headers.get(CSRF_HEADER, b""))
        return principal if proven else Denied(CSRF_MISSING, principal.id, principal.tenant)

    async def _principal(self, said: dict[str, Any]) -> Principal | None:
        ends: int = said["ends"]
        if "key" not in said:
            roles, scopes = frozenset(said["roles"]), frozenset(said["scopes"])
            return Principal(said["who"], said["tenant"], roles, scopes, expires_at=ends)
        found = None if self._principal_of is None else await self._principal_of(said["key"])
        tenant = said.get("tenant")
        if found is None or (tenant is not None and not found.may("tenants:manage")):
            return None
        return replace(found, expires_at=ends, tenant=tenant or found.tenant)

    def _verified(self, token: str) -> dict[str, Any] | None:
        content, _, signature = token.partition(".")
        decoded, mac = _decode(content), _decode(signature)
        if decoded is None or mac is None or not self._signer.verify(_SESSION, decoded, mac):
            return None
        said: dict[str, Any] = json.loads(decoded)
        return said

    def _shows_csrf(self, token: str, shown: bytes) -> bool:
        mac = _decode(shown.decode("latin-1"))
        return mac is not None and self._signer.verify(_CSRF, token.encode(), mac)


def cookie_name(headers: Headers) -> str:
    """With the port: browsers give the cookies of one host to all of its ports, and two servers may run there."""
    port = headers.get(b"host", b"").decode("latin-1").rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isdigit() else _COOKIE


def token_of(headers: Headers) -> str | None:
    """The session that the cookies carry; "" for one that is too long to be ours."""
    cookies = headers.get(b"cookie")
    if cookies is None:
        return None
    wanted = cookie_name(headers)
    for cookie in cookies.decode("latin-1").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == wanted:
            return value if len(value) <= _MAX_CHARACTERS else ""
    return None


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes | None:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return None
