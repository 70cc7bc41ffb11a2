"""Header mode: a proxy that has authenticated its user says who it is. Only peers on the list are believed.

Two spellings, `x-holdfast-*` and the published `x-codex-*`; a request with both is refused, because one of the two
would come from the proxy's client.
"""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from app.core.access import NEVER_CLAIMED, is_tenant, scopes_of
from app.core.principal import DEFAULT_TENANT, Principal
from app.core.settings import Network
from app.protocols.auth.shown import Headers
from app.protocols.auth.verdict import Denied

IDENTITY_HEADERS: Final = (
    b"x-holdfast-user",
    b"x-holdfast-tenant",
    b"x-holdfast-roles",
    b"x-holdfast-scopes",
    b"x-codex-actor",
    b"x-codex-rbac-actor",
    b"x-codex-role",
    b"x-codex-rbac-role",
)
"""What a proxy has to remove from the requests of its clients."""

_MAX_NAME: Final = 200


class TrustedProxies:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)
        self.lists = lru_cache(maxsize=1024)(self._lists)

    def _lists(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        # An IPv4 peer of a socket that listens on both comes as ::ffff:a.b.c.d.
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks)

    def recognise(self, headers: Headers) -> Principal | Denied | None:
        """Who the listed proxy says it is; None if it says nothing."""
        sent = {name: headers[name] for name in IDENTITY_HEADERS if name in headers}
        if not sent:
            return None
        if len({name.split(b"-")[1] for name in sent}) > 1:
            return Denied("mixed_identity")
        try:
            words = {name.decode(): value.decode("ascii").strip() for name, value in sent.items()}
        except UnicodeDecodeError:
            return Denied("malformed_identity")
        if "x-holdfast-user" in words:
            user, roles = words["x-holdfast-user"], words.get("x-holdfast-roles", "")
        else:
            # The published contract asks for a role and makes the actor optional.
            user = _agreed(words, "proxy", "x-codex-actor", "x-codex-rbac-actor")
            roles = _agreed(words, "", "x-codex-role", "x-codex-rbac-role")
            if not roles:
                return Denied("malformed_identity")
        tenant = words.get("x-holdfast-tenant", DEFAULT_TENANT)
        if not 0 < len(user) <= _MAX_NAME or not user.isprintable() or not is_tenant(tenant):
            return Denied("malformed_identity")
        named = frozenset(word.strip() for word in roles.split(",") if word.strip()) - NEVER_CLAIMED
        scopes = words.get("x-holdfast-scopes", "").replace(",", " ").split()
        return Principal(user, tenant, named, scopes_of(named, scopes) - NEVER_CLAIMED)


def _agreed(words: dict[str, str], default: str, *spellings: str) -> str:
    """What the spellings say; nothing if they do not say the same."""
    values = {words[name] for name in spellings if name in words} or {default}
    return values.pop() if len(values) == 1 else ""
