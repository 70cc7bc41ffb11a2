"""Grants, lists and revokes API keys. Each change is one commit with its entry in the tenant's ledger.

Leaves to others: recognising a key that is shown (the protocols) and who may ask for a change (likewise).
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from app.core.access import is_tenant, scopes_of, unknown
from app.core.clock import Clock, iso
from app.core.errors import Failure
from app.core.keys import ApiKey, digest_of, id_of, new_secret
from app.core.principal import DEFAULT_TENANT
from app.core.value import value
from app.events import ports
from app.events.catalog.ledger import KeyCreated, KeyRevoked
from app.events.ports import Refused
from app.runtime.intake.ledger import Ledger

MAX_NAME: Final = 200
DAY_MS: Final = 86_400_000
_PAGE: Final = 1000


class KeyStore(Protocol):
    async def find(self, key_id: str) -> ApiKey | None: ...

    async def of_tenant(self, tenant: str, after: str, limit: int) -> list[ApiKey]: ...

    async def tenants(self, after: str, limit: int) -> list[str]: ...

    async def living(self, after: str, limit: int) -> list[ApiKey]: ...


@value(frozen=True, slots=True)
class Grant:
    """What a new key is to allow."""

    name: str
    tenant: str = DEFAULT_TENANT
    roles: Sequence[str] = ()
    scopes: Sequence[str] = ()
    lifetime_ms: int | None = None


@value(frozen=True, slots=True)
class NewKey:
    """The only moment at which the secret is known."""

    key: ApiKey
    secret: str


class Keys:
    def __init__(self, ledger: Ledger, store: KeyStore, clock: Clock) -> None:
        self._ledger, self._store, self._clock = ledger, store, clock
        self.on_revoked: Callable[[str], None] = lambda key_id: None
        """Called with every key that this process revokes, for whoever remembers keys."""

    async def create(self, grant: Grant, by: str, secret: str | None = None) -> NewKey | Failure:
        """`by` is an actor. A secret is given only for the first key, which is made outside."""
        if wrong := self._mistake(grant):
            return Failure("INVALID_REQUEST", wrong)
        secret, now = secret or new_secret(), self._clock.now_ms()
        key = ApiKey(
            id_of(secret),
            grant.tenant,
            grant.name,
            digest_of(secret),
            tuple(grant.roles),
            tuple(grant.scopes),
            now,
            by,
            None if grant.lifetime_ms is None else now + grant.lifetime_ms,
        )
        event = KeyCreated(
            key_id=key.id,
            name=key.name,
            roles=list(key.roles),
            scopes=list(key.scopes),
            expires_at=None if key.expires_at is None else iso(key.expires_at),
        )
        answer = await self._ledger.record(key.tenant, event, actor=by, conditions=[ports.ApiKeyStored(key)])
        return answer.failure if isinstance(answer, Refused) else NewKey(key, secret)

    def _mistake(self, grant: Grant) -> str | None:
        if not is_tenant(grant.tenant):
            return "a tenant's name is 1 to 64 letters, digits, dots, dashes and underscores"
        if not 0 < len(grant.name) <= MAX_NAME:
            return f"a key's name has 1 to {MAX_NAME} characters"
        if unknown(grant.roles, grant.scopes):
            return "there is no such role or scope"
        if not grant.roles and not grant.scopes:
            return "a key needs a role or a scope"
        if grant.lifetime_ms is not None and grant.lifetime_ms <= 0:
            return "the key would have expired already"
        return None

    async def ensure_first(self, secret: str) -> ApiKey | Failure:
        """The key that an operator made outside. Known already: nothing happens, also if it was revoked since."""
        known = await self._store.find(id_of(secret))
        if known is not None:
            return known
        made = await self.create(Grant("first admin key", roles=("system",)), "system", secret)
        return made if isinstance(made, Failure) else made.key

    async def has_admin(self) -> bool:
        """Whether there is a key, of whichever tenant, that counts and may manage keys."""
        after, now = "", self._clock.now_ms()
        while page := await self._store.living(after, _PAGE):
            if any(key.is_live(now) and "keys:manage" in scopes_of(key.roles, key.scopes) for key in page):
                return True
            after = page[-1].id
        return False

    async def list(self, tenant: str, after: str = "", limit: int = 100) -> list[ApiKey]:
        return await self._store.of_tenant(tenant, after, limit)

    async def tenants(self, after: str = "", limit: int = 100) -> Sequence[str]:
        """Those that have keys, also revoked ones, by name."""
        return await self._store.tenants(after, limit)

    async def revoke(self, tenant: str, key_id: str, by: str, reason: str | None = None) -> ApiKey | Failure:
        """Idempotent: a revoked key stays as it is."""
        known = await self._store.find(key_id)
        if known is None or known.tenant != tenant:
            return Failure("KEY_NOT_FOUND", "There is no such key.")
        if known.revoked_at is None:
            revoked = ports.ApiKeyRevoked(key_id, self._clock.now_ms())
            event = KeyRevoked(key_id=key_id, reason=reason)
            answer = await self._ledger.record(tenant, event, actor=by, conditions=[revoked])
            if isinstance(answer, Refused) and answer.failure.code != "KEY_NOT_FOUND":
                return answer.failure
            self.on_revoked(key_id)
            known = await self._store.find(key_id)
            assert known is not None
        return known
