"""/api/keys: grant, list and revoke API keys. A secret is in one answer only, the one that creates it."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core.access import scopes_of
from app.core.errors import Failure
from app.core.keys import key_json
from app.core.principal import Principal
from app.protocols.auth.bootstrap import BOOTSTRAP
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.body import read_model
from app.protocols.http.caller import Caller, refusal
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.runtime.intake.keys import DAY_MS, Grant


class CreateKey(BaseModel):
    """What the key is to allow. Nobody grants what they may not do themselves."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, defer_build=True)

    name: str = Field(min_length=1, max_length=200)
    tenant: str | None = Field(None, max_length=64)
    roles: list[str] = Field(default_factory=list, max_length=10)
    scopes: list[str] = Field(default_factory=list, max_length=50)
    expires_in_days: float | None = Field(None, gt=0, le=36_500)


class KeyShape(BaseModel):
    """A key as it may be shown at any time."""

    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    id: str
    tenant: str
    name: str
    roles: list[str]
    scopes: list[str]
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None


class NewKeyShape(KeyShape):
    """A key with its secret."""

    key: str


class KeyPage(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    items: list[KeyShape]
    next_cursor: str | None


Tenant = Annotated[str | None, Query(max_length=64)]


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/keys", tags=["keys"])

    @router.post(
        "",
        status_code=201,
        summary="Create a key; its secret is shown here and never again",
        response_model=NewKeyShape,
        openapi_extra=takes(CreateKey),
    )
    async def create(request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, CreateKey)
        lifetime = None if body.expires_in_days is None else round(body.expires_in_days * DAY_MS)
        bootstrap = server.access.bootstrap
        if caller is BOOTSTRAP and bootstrap is not None:
            first = Grant(body.name, body.tenant or caller.tenant, body.roles, body.scopes, lifetime)
            made = await bootstrap.make(first, partial(server.keys.create, first, caller.actor))
        else:
            tenant = _tenant(request, caller, body.tenant)
            if beyond := scopes_of(body.roles, body.scopes) - caller.scopes:
                raise refusal(request, caller, min(beyond))
            grant = Grant(body.name, tenant, body.roles, body.scopes, lifetime)
            made = await server.keys.create(grant, caller.actor)
        if isinstance(made, Failure):
            raise HttpProblem(made)
        return json_answer({**key_json(made.key), "key": made.secret}, 201)

    @router.get("", response_model=KeyPage, summary="The keys, revoked ones included")
    async def list_keys(
        request: Request,
        caller: Caller,
        tenant: Tenant = None,
        after: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        found = await server.keys.list(_tenant(request, caller, tenant), after, limit)
        cursor = found[-1].id if len(found) == limit else None
        return json_answer({"items": [key_json(key) for key in found], "nextCursor": cursor})

    @router.delete(
        "/{key_id}",
        response_model=KeyShape,
        summary="Revoke a key; what it opened is closed",
        responses=may_answer("KEY_NOT_FOUND"),
    )
    async def revoke(request: Request, key_id: str, caller: Caller, tenant: Tenant = None) -> Response:
        revoked = await server.keys.revoke(_tenant(request, caller, tenant), key_id, caller.actor)
        if isinstance(revoked, Failure):
            raise HttpProblem(revoked)
        return json_answer(key_json(revoked))

    return router


def _tenant(request: Request, caller: Principal, wanted: str | None) -> str:
    """One's own, unless one may manage all of them. The token for the first key makes that key and nothing else."""
    if caller is BOOTSTRAP:
        raise refusal(request, caller, "keys:manage")
    if wanted is not None and wanted != caller.tenant and not caller.may("tenants:manage"):
        raise refusal(request, caller, "tenants:manage")
    return wanted or caller.tenant
