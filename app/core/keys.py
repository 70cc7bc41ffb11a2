"""API keys: how a secret is made, and what is kept of it. Only its hash is; the secret itself is shown once.

Leaves to others: storing keys (the store), granting and revoking them (the runtime).
"""

import re
import secrets
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final

from app.core.access import scopes_of
from app.core.clock import iso
from app.core.principal import Principal
from app.core.value import value

_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{32,256}")


def new_secret() -> str:
    """256 random bits behind a prefix by which scanners of leaked secrets can know it."""
    return "hf_" + secrets.token_urlsafe(32)


def is_secret(text: str) -> bool:
    return _SECRET.fullmatch(text) is not None


def id_of(secret: str) -> str:
    """The key's public name. Made from the secret, so that a secret alone says where to look; it cannot be undone."""
    return "key_" + sha256(b"holdfast key id\0" + secret.encode()).hexdigest()[:24]


def digest_of(secret: str) -> bytes:
    """A plain hash will do: there is nothing to guess in 256 random bits, and every request computes it."""
    return sha256(secret.encode()).digest()


@value(frozen=True, slots=True)
class ApiKey:
    id: str
    tenant: str
    name: str
    digest: bytes
    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    created_at: int
    created_by: str
    expires_at: int | None = None
    revoked_at: int | None = None

    def matches(self, secret: str) -> bool:
        return compare_digest(self.digest, digest_of(secret))

    def is_live(self, now_ms: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now_ms < self.expires_at)

    def principal(self) -> Principal:
        return Principal(
            self.id,
            self.tenant,
            frozenset(self.roles),
            scopes_of(self.roles, self.scopes),
            key_id=self.id,
            expires_at=self.expires_at,
        )


def key_json(key: ApiKey) -> dict[str, Any]:
    """What may be shown of it at any time: never the secret nor its hash."""

    def moment(at: int | None) -> str | None:
        return None if at is None else iso(at)

    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "roles": list(key.roles),
        "scopes": list(key.scopes),
        "createdAt": iso(key.created_at),
        "createdBy": key.created_by,
        "expiresAt": moment(key.expires_at),
        "revokedAt": moment(key.revoked_at),
    }
