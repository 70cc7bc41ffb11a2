"""JWT mode: tokens of listed issuers, each with one algorithm and keys from a local file. Nothing is fetched.

`HOLDFAST_JWT_ISSUERS` names a JSON file: a list of `{issuer, audience, algorithm, keys}`, where `keys` is a PEM public
key, a JWKS, or for HS* a secret, beside it on disk. Optional: `leewaySeconds` (at most 60), `tenant` (the same for all
its tokens) or `tenantClaim` (default `tenant`), `rolesClaim` (default `roles`), `roles` (those that its tokens may
claim, default viewer and member) and `scopes` (likewise, in addition to the scopes of those roles).
"""

from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import jwt
from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from app.core import json
from app.core.access import NEVER_CLAIMED, is_tenant, scopes_of, unknown
from app.core.clock import Clock
from app.core.errors import HoldfastError
from app.core.principal import Principal
from app.core.settings import PREFIX, SettingsError
from app.core.value import value
from app.protocols.auth.verdict import Denied

MAX_LEEWAY_SECONDS: Final = 60
MAX_TOKEN_CHARACTERS: Final = 8192
MAX_REMEMBERED: Final = 4096
"""Tokens whose signature was checked before; checking one costs more than the rest of a request's way in."""
_ALGORITHM: Final = "^(HS256|HS384|HS512|RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|ES512|EdDSA)$"


class _Listed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    algorithm: str = Field(pattern=_ALGORITHM)
    keys: Path
    leeway_seconds: int = Field(30, ge=0, le=MAX_LEEWAY_SECONDS)
    tenant: str | None = None
    tenant_claim: str = "tenant"
    roles_claim: str = "roles"
    roles: list[str] = Field(default=["viewer", "member"], max_length=100)
    scopes: list[str] = Field(default=[], max_length=100)


@value(frozen=True, slots=True)
class Issuer:
    name: str
    audience: str
    algorithm: str
    keys: Mapping[str | None, Any] = field(repr=False)
    """By `kid`; under None the one that a token without a `kid` is checked with."""
    leeway: int
    tenant: str | None
    tenant_claim: str
    roles_claim: str
    roles: frozenset[str]
    """Roles that a token may claim; others are passed over."""
    scopes: frozenset[str]
    """Scopes that a token may end up with, whether by a role or by name."""


class Tokens:
    def __init__(self, issuers: Mapping[str, Issuer], clock: Clock) -> None:
        self._issuers, self._clock = issuers, clock
        self._known: LRUCache[bytes, Principal] = LRUCache(MAX_REMEMBERED)

    def __len__(self) -> int:
        return len(self._known)

    def recognise(self, token: str) -> Principal | Denied:
        if len(token) > MAX_TOKEN_CHARACTERS:
            return Denied("malformed")
        name = sha256(token.encode()).digest()
        known = self._known.get(name)
        if known is not None:
            assert known.expires_at is not None
            if self._clock.now_ms() < known.expires_at:
                return known
            del self._known[name]
        verdict = self._verify(token)
        if isinstance(verdict, Principal):
            self._known[name] = verdict
        return verdict

    def _verify(self, token: str) -> Principal | Denied:
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            return Denied("malformed")
        listed = claims.get("iss")
        issuer = self._issuers.get(listed) if isinstance(listed, str) else None
        # `crit` names extensions that must be understood; we understand none.
        if issuer is None or "crit" in header or header.get("alg") != issuer.algorithm:
            return Denied("token_refused")
        key = issuer.keys.get(header.get("kid")) or issuer.keys.get(None)
        if key is None:
            return Denied("token_refused")
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[issuer.algorithm],
                audience=issuer.audience,
                issuer=issuer.name,
                leeway=issuer.leeway,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            return Denied("token_expired")
        except (jwt.PyJWTError, ValueError, TypeError):
            return Denied("token_refused")
        return _principal(issuer, claims)


def _principal(issuer: Issuer, claims: Mapping[str, Any]) -> Principal | Denied:
    subject, tenant = claims["sub"], issuer.tenant or claims.get(issuer.tenant_claim)
    if not isinstance(subject, str) or not 0 < len(subject) <= 200 or not subject.isprintable():
        return Denied("token_refused")
    if not isinstance(tenant, str) or not is_tenant(tenant):
        return Denied("token_without_tenant", subject)
    roles = claims.get(issuer.roles_claim, [])
    roles = [roles] if isinstance(roles, str) else roles
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        return Denied("token_refused", subject)
    scope = claims.get("scope", "")
    scopes = scope.split() if isinstance(scope, str) else []
    expires_at = (int(claims["exp"]) + issuer.leeway) * 1000
    claimed = frozenset(roles) & issuer.roles
    allowed = scopes_of(claimed, scopes) & issuer.scopes
    return Principal(subject, tenant, claimed, allowed, expires_at=expires_at)


def load_issuers(path: Path) -> dict[str, Issuer]:
    """All mistakes are found at start-up, not by the first caller."""
    where = f"{PREFIX}JWT_ISSUERS"
    try:
        listed = TypeAdapter(list[_Listed]).validate_python(json.loads_strict(path.read_bytes()))
    except OSError as error:
        raise SettingsError([f"{where}: {path}: {error.strerror}"]) from None
    except ValidationError as error:
        places = ["/".join(map(str, e["loc"])) + ": " + e["msg"] for e in error.errors(include_input=False)]
        raise SettingsError([f"{where}: {path}: {place}" for place in places]) from None
    except HoldfastError as error:
        raise SettingsError([f"{where}: {path}: {error.failure.message}"]) from None
    if not listed or len({one.issuer for one in listed}) != len(listed):
        raise SettingsError([f"{where}: {path}: must list each issuer once, and at least one"])
    issuers = {}
    for one in listed:
        if one.tenant is not None and not is_tenant(one.tenant):
            raise SettingsError([f"{where}: {path}: the tenant of an issuer is no tenant's name"])
        if wrong := NEVER_CLAIMED & {*one.roles, *one.scopes} or unknown((), one.scopes):
            raise SettingsError([f"{where}: {path}: an issuer cannot be given {', '.join(sorted(wrong))}"])
        keys = _load_keys(path.parent / one.keys, one.algorithm)
        issuers[one.issuer] = Issuer(
            one.issuer,
            one.audience,
            one.algorithm,
            keys,
            one.leeway_seconds,
            one.tenant,
            one.tenant_claim,
            one.roles_claim,
            frozenset(one.roles),
            scopes_of(one.roles, one.scopes) - NEVER_CLAIMED,
        )
    return issuers


def _load_keys(path: Path, algorithm: str) -> dict[str | None, Any]:
    where = f"{PREFIX}JWT_ISSUERS: {path}"
    try:
        content = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError([f"{where}: {error.strerror}"]) from None
    try:
        if content.startswith(b"{"):
            keys = _from_jwks(json.loads_strict(content), algorithm)
        elif algorithm.startswith("HS"):
            # A public key used as a shared secret is known to everybody.
            least = int(algorithm[2:]) // 8
            if len(content) < least or content.startswith(b"-----"):
                raise SettingsError([f"{where}: a secret for {algorithm} has at least {least} bytes and is no PEM"])
            keys = {None: content}
        else:
            if b"PRIVATE" in content:
                raise SettingsError([f"{where}: holds a private key; only the public one is needed here"])
            keys = {None: jwt.get_algorithm_by_name(algorithm).prepare_key(content)}
    except (jwt.PyJWTError, ValueError, TypeError, HoldfastError) as error:
        if isinstance(error, SettingsError):
            raise
        raise SettingsError([f"{where}: holds no key for {algorithm}"]) from None
    if not keys:
        raise SettingsError([f"{where}: holds no key for {algorithm}"])
    return keys


def _from_jwks(document: Any, algorithm: str) -> dict[str | None, Any]:
    entries = document.get("keys") if "keys" in document else [document]
    keys: dict[str | None, Any] = {}
    for entry in entries:
        if entry.get("use", "sig") != "sig" or entry.get("alg", algorithm) != algorithm:
            continue
        try:
            keys[entry.get("kid")] = jwt.PyJWK(entry, algorithm=algorithm).key
        except jwt.PyJWTError:
            continue  # a key of another kind; the issuer may have several
    if len(keys) == 1:
        keys[None] = next(iter(keys.values()))
    return keys
