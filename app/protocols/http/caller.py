"""Who calls, if they may: the dependency of every route. What the gate left undone is denied here.

Leaves to others: who it is (`auth.access`, asked by the gate) and what a route needs (`auth.permissions`).
"""

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from app.core.errors import Failure
from app.core.principal import Principal
from app.protocols.auth.access import Access
from app.protocols.auth.permissions import ANYBODY, may_follow, needs_of
from app.protocols.http.errors import HttpProblem
from app.protocols.http.strictness import refuse_undeclared

_THREADS = frozenset({"thread_id", "session_id"})


async def authorise(connection: HTTPConnection) -> Principal:
    scope = connection.scope
    principal = permitted(connection, needs_of(scope.get("route")), scope["path_params"])
    await refuse_undeclared(connection)
    return principal


def permitted(connection: HTTPConnection, needs: str | None, path_params: Mapping[str, str]) -> Principal:
    """The principal that the gate noted, if it may call a route with these needs."""
    principal = connection.scope.get("holdfast.principal")
    if not isinstance(principal, Principal):
        raise HttpProblem(Failure("UNAUTHENTICATED", "Credentials are needed."))
    if needs is None or not (needs == ANYBODY or needs in principal.scopes):
        raise refusal(connection, principal, needs)
    for name, value in path_params.items():
        if name in _THREADS and not may_follow(principal, value):
            raise refusal(connection, principal, "audit:read")
    return principal


def refusal(connection: HTTPConnection, principal: Principal, needs: str | None) -> HttpProblem:
    """A 403 that is counted; `needs` is the scope that is missing."""
    access: Access | None = connection.scope.get("holdfast.access")
    if access is not None:
        access.denials.count(principal.tenant, principal.id, f"forbidden {needs}")
    return HttpProblem(Failure("FORBIDDEN", "The caller may not do this."), None, needs=needs)


Caller = Annotated[Principal, Depends(authorise)]
