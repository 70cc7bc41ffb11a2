"""What a caller may do: a closed list of scopes, and the roles that stand for sets of them.

Leaves to others: who has which role (authentication) and which route needs which scope (the protocols).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

SCOPES: Final[Mapping[str, str]] = {
    "runs:read": "see runs, their events, traces and artifacts",
    "runs:write": "submit, command, cancel and repeat runs",
    "threads:read": "see threads, follow the stream, export the log",
    "threads:write": "create, change, fork and delete threads",
    "interrupts:read": "see what waits for a person",
    "interrupts:answer": "answer approvals, questions and client-side tool calls",
    "interrupts:recover": "decide what becomes of a tool call whose outcome is unknown",
    "tools:read": "see the tools",
    "tools:invoke": "invoke a tool directly",
    "files:read": "download files and artifacts",
    "files:write": "upload files",
    "memory:read": "search, list and export what agents remember",
    "memory:write": "store, change and forget what agents remember",
    "memory:delegate": "submit runs whose memory is that of another user",
    "workspace:read": "see the workspace and its agents",
    "workspace:reload": "make the server read the workspace's files again",
    "metrics:read": "read the process's metrics",
    "webhooks:manage": "create, change and delete webhooks, see and repeat their deliveries",
    "mcp:manage": "log the tenant in to MCP servers, and out",
    "schedules:manage": "pause, resume and run schedules",
    "audit:read": "read the system's own threads, such as the ledger",
    "audit:amend": "correct a text of an event; the event itself stays as it is",
    "keys:manage": "create, list and revoke keys of the own tenant",
    "tenants:manage": "the same for any tenant",
}
"""Every scope there is, with what it allows. `<family>:*` stands for all of a family."""

_VIEWER: Final = frozenset(
    {"runs:read", "threads:read", "interrupts:read", "tools:read", "files:read", "memory:read", "workspace:read"}
)
_MEMBER: Final = _VIEWER | {
    "runs:write",
    "threads:write",
    "interrupts:answer",
    "tools:invoke",
    "files:write",
    "memory:write",
}
_OPERATOR: Final = _MEMBER | {"interrupts:recover", "metrics:read", "audit:read"}
_ADMIN: Final = frozenset(SCOPES) - {"tenants:manage"}

ROLES: Final[Mapping[str, frozenset[str]]] = {
    "viewer": _VIEWER,
    "member": _MEMBER,
    "operator": _OPERATOR,
    "admin": _ADMIN,
    "owner": _ADMIN,
    "system": frozenset(SCOPES),
}

NEVER_CLAIMED: Final = frozenset({"system", "tenants:manage"})
"""What reaches over all tenants. Only a key that was made here gives it: no token and no proxy can claim it."""

_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def scopes_of(roles: Iterable[str], scopes: Iterable[str] = ()) -> frozenset[str]:
    """All that the roles and scopes together allow. A word that is not in the lists allows nothing."""
    allowed: set[str] = set()
    for role in roles:
        allowed |= ROLES.get(role, frozenset())
    for scope in scopes:
        if scope in SCOPES:
            allowed.add(scope)
        elif scope.endswith(":*"):
            allowed |= {known for known in SCOPES if known.startswith(scope[:-1])}
    return frozenset(allowed)


def unknown(roles: Iterable[str], scopes: Iterable[str]) -> list[str]:
    """The words that are neither a role nor a scope, for whoever grants them by hand."""
    families = {scope.partition(":")[0] + ":*" for scope in SCOPES}
    return [role for role in roles if role not in ROLES] + [
        scope for scope in scopes if scope not in SCOPES and scope not in families
    ]


def is_tenant(name: str) -> bool:
    return _TENANT.fullmatch(name) is not None
