"""Who asks: an identity, its tenant, its roles and scopes. A value; authentication makes it."""

from dataclasses import field
from typing import Final

from app.core.access import SCOPES
from app.core.value import value

DEFAULT_TENANT: Final = "default"


@value(frozen=True, slots=True)
class Principal:
    id: str
    tenant: str = DEFAULT_TENANT
    roles: frozenset[str] = field(default_factory=frozenset)
    scopes: frozenset[str] = field(default_factory=frozenset)
    key_id: str | None = None
    """The API key that was shown; it may be revoked while its owner is connected."""
    expires_at: int | None = None
    """When what was shown stops counting, in milliseconds since 1970."""

    @property
    def actor(self) -> str:
        """How this principal is named in events."""
        return f"user:{self.id}"

    def may(self, scope: str) -> bool:
        return scope in self.scopes


LOCAL: Final = Principal("local", roles=frozenset({"system"}), scopes=frozenset(SCOPES))
"""The caller of a server without authentication, which listens on loopback only."""
