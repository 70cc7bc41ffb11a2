"""Who asks: an identity, its tenant, its roles and scopes. A value; authentication makes it."""

from dataclasses import dataclass, field
from typing import Final

DEFAULT_TENANT: Final = "default"


@dataclass(frozen=True, slots=True)
class Principal:
    id: str
    tenant: str = DEFAULT_TENANT
    roles: frozenset[str] = field(default_factory=frozenset)
    scopes: frozenset[str] = field(default_factory=frozenset)

    @property
    def actor(self) -> str:
        """How this principal is named in events."""
        return f"user:{self.id}"


LOCAL: Final = Principal("local", roles=frozenset({"admin"}), scopes=frozenset({"*"}))
"""The caller of a server without authentication, which listens on loopback only."""
