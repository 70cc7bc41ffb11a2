"""Which scope each route needs: one table, so that a reader sees all of it. A route that is not here denies.

The server does not start with a route that is missing from the table, that does not ask who calls, or that lets the
framework read its body (which is neither strict nor silent about what was sent).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, get_args

from fastapi import params
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from app.core.errors import HoldfastError
from app.core.principal import Principal

OPEN: Final = "open"
"""Served to anybody, with credentials or without."""
ANYBODY: Final = "anybody"
"""Served to whoever has credentials that count, whatever their scopes."""

_SYSTEM_THREADS: Final = "sys_"

NEEDS: Final[dict[str, str]] = {
    # operation
    "GET /": OPEN,
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": "metrics:read",
    "GET /openapi.json": ANYBODY,
    "GET /asyncapi.json": ANYBODY,
    "GET /docs": ANYBODY,
    "GET /api": ANYBODY,
    "GET /api/health": ANYBODY,
    "GET /api/capabilities": ANYBODY,
    # runs
    "POST /api/runs": "runs:write",
    "GET /api/runs": "runs:read",
    "GET /api/runs/{}": "runs:read",
    "GET /api/runs/{}/events": "runs:read",
    "GET /api/runs/{}/stream": "runs:read",
    "GET /api/runs/{}/trace": "runs:read",
    "GET /api/runs/{}/snapshot": "runs:read",
    "GET /api/runs/{}/journal": "runs:read",
    "GET /api/runs/{}/audit": "runs:read",
    "GET /api/runs/{}/artifacts": "runs:read",
    "GET /api/runs/{}/usage": "runs:read",
    "GET /api/runs/{}/todos": "runs:read",
    "POST /api/runs/{}/cancel": "runs:write",
    "POST /api/runs/{}/commands": "runs:write",
    "POST /api/runs/{}/rerun": "runs:write",
    "GET /api/runs/{}/replay-token": "runs:read",
    "POST /api/runs/{}/feedback": "runs:write",
    "GET /api/runs/{}/feedback": "runs:read",
    "POST /api/runs/{}/gates": "runs:write",
    # evaluations
    "GET /api/gates": "runs:read",
    "GET /api/gates/report": "runs:read",
    "POST /api/datasets": "runs:write",
    "GET /api/datasets": "runs:read",
    "GET /api/datasets/{}": "runs:read",
    "GET /api/datasets/{}/cases": "runs:read",
    "GET /api/datasets/{}/export": "runs:read",
    "POST /api/datasets/{}/import": "runs:write",
    "POST /api/datasets/{}/sample": "runs:write",
    "POST /api/evals": "runs:write",
    "GET /api/evals": "runs:read",
    "GET /api/evals/{}": "runs:read",
    "GET /api/evals/{}/results": "runs:read",
    "GET /api/evals/{}/report": "runs:read",
    "POST /api/evals/{}/cancel": "runs:write",
    # threads
    "POST /api/threads": "threads:write",
    "GET /api/threads": "threads:read",
    "GET /api/threads/{}": "threads:read",
    "PATCH /api/threads/{}": "threads:write",
    "DELETE /api/threads/{}": "threads:write",
    "POST /api/threads/{}/fork": "threads:write",
    "POST /api/threads/{}/messages": "runs:write",
    "GET /api/threads/{}/messages": "threads:read",
    "POST /api/threads/{}/amendments": "audit:amend",
    "GET /api/threads/{}/runs": "runs:read",
    "GET /api/threads/{}/events": "threads:read",
    "GET /api/threads/{}/stream": "threads:read",
    "GET /api/threads/{}/transcript": "threads:read",
    "GET /api/threads/{}/artifacts": "threads:read",
    "GET /api/threads/{}/todos": "threads:read",
    "GET /api/threads/{}/export": "threads:read",
    "GET /api/threads/{}/blobs/{}": "files:read",
    "WS /api/stream": "threads:read",
    # people in the loop
    "GET /api/interrupts": "interrupts:read",
    "GET /api/interrupts/{}": "interrupts:read",
    "POST /api/interrupts/{}/answer": "interrupts:answer",
    "POST /api/approvals/{}/decision": "interrupts:answer",
    "POST /api/tool-input/{}/decision": "interrupts:answer",
    "POST /api/tool-calls/{}/response": "interrupts:answer",
    # tools and files
    "GET /api/tools": "tools:read",
    "GET /api/tools/{}": "tools:read",
    "POST /api/tools/{}/invoke": "tools:invoke",
    "POST /api/files": "files:write",
    "GET /api/files": "files:read",
    "DELETE /api/files/{}": "files:write",
    "GET /api/files/{}": "files:read",
    "GET /api/files/{}/content": "files:read",
    "GET /api/artifacts/{}": "files:read",
    "GET /api/artifacts/{}/content": "files:read",
    "GET /api/artifacts/{}/diff": "files:read",
    # workspace
    "GET /api/workspace": "workspace:read",
    "POST /api/workspace/reload": "workspace:reload",
    "GET /api/agents": "workspace:read",
    "GET /api/agents/{}": "workspace:read",
    "GET /api/workflows": "workspace:read",
    "GET /api/workflows/{}": "workspace:read",
    "GET /api/workflows/{}/graph": "workspace:read",
    "POST /api/workflows/{}/plan": "workspace:read",
    "GET /api/runs/{}/graph": "runs:read",
    # memory
    "GET /api/memory": "memory:read",
    "POST /api/memory/search": "memory:read",
    "GET /api/memory/records": "memory:read",
    "POST /api/memory/records": "memory:write",
    "GET /api/memory/records/{}": "memory:read",
    "PATCH /api/memory/records/{}": "memory:write",
    "DELETE /api/memory/records/{}": "memory:write",
    "POST /api/memory/records/{}/decide": "interrupts:answer",
    "POST /api/memory/forget": "memory:write",
    "POST /api/memory/reindex": "memory:write",
    "GET /api/memory/export": "memory:read",
    "GET /api/skills/candidates": "runs:read",
    "GET /api/skills/candidates/{}": "runs:read",
    "POST /api/skills/candidates/{}/accept": "memory:write",
    # UI events
    "GET /api/threads/{}/ui/events": "threads:read",
    "GET /api/threads/{}/ui/stream": "threads:read",
    "GET /api/threads/{}/ui/state": "threads:read",
    "GET /api/threads/{}/ui/state/{}": "threads:read",
    "GET /api/runs/{}/ui/events": "runs:read",
    "GET /api/runs/{}/ui/stream": "runs:read",
    "GET /api/runs/{}/ui/state": "runs:read",
    "GET /api/runs/{}/ui/state/{}": "runs:read",
    "POST /api/ui/validate": ANYBODY,
    "POST /api/ui/project": ANYBODY,
    "GET /api/ui/capabilities": ANYBODY,
    "GET /api/threads/{}/evidence": "audit:read",
    "GET /api/runs/{}/evidence": "audit:read",
    # keys
    "POST /api/keys": "keys:manage",
    "GET /api/keys": "keys:manage",
    "DELETE /api/keys/{}": "keys:manage",
    # the published session interface
    "GET /api/sessions": "threads:read",
    "POST /api/sessions": "threads:write",
    "GET /api/sessions/{}": "threads:read",
    "DELETE /api/sessions/{}": "threads:write",
    "POST /api/sessions/{}/rename": "threads:write",
    "POST /api/sessions/{}/archive": "threads:write",
    "POST /api/sessions/{}/unarchive": "threads:write",
    "POST /api/sessions/{}/fork": "threads:write",
    "POST /api/sessions/{}/resume": "threads:write",
    "POST /api/sessions/{}/messages": "runs:write",
    "POST /api/sessions/{}/interrupt": "runs:write",
    "POST /api/sessions/{}/turns/{}/steer": "runs:write",
    "POST /api/sessions/{}/transcript/upsert": "threads:write",
    "GET /api/sessions/{}/approvals": "interrupts:read",
    "GET /api/sessions/{}/tool-input": "interrupts:read",
    "GET /api/sessions/{}/tool-calls": "interrupts:read",
    "GET /api/sessions/{}/session-controls": "threads:read",
    "POST /api/sessions/{}/session-controls": "threads:write",
    "GET /api/sessions/{}/settings": "threads:read",
    "POST /api/sessions/{}/settings": "threads:write",
    "DELETE /api/sessions/{}/settings/{}": "threads:write",
    "POST /api/sessions/{}/approval-policy": "threads:write",
    # OpenAI's
    "GET /v1/models": "workspace:read",
    "GET /v1/models/{}": "workspace:read",
    "POST /v1/chat/completions": "runs:write",
    "POST /v1/responses": "runs:write",
    "GET /v1/responses/{}": "runs:read",
    "DELETE /v1/responses/{}": "runs:write",
    "POST /v1/responses/{}/cancel": "runs:write",
    "GET /v1/responses/{}/input_items": "runs:read",
}

OPEN_PATHS: Final = frozenset(key.partition(" ")[2] for key, needs in NEEDS.items() if needs == OPEN)

_PARAMETER: Final = re.compile(r"\{[^}]*\}")


def may_follow(principal: Principal, thread_id: str) -> bool:
    """Threads of the system's own, such as the ledger, are for auditors. Other tenants' are not there at all."""
    return not thread_id.startswith(_SYSTEM_THREADS) or principal.may("audit:read")


def template(path: str) -> str:
    """A path with its parameters left blank, as the table has it."""
    return _PARAMETER.sub("{}", path)


def needs_of(route: object) -> str | None:
    """What `guard` found; None for a route that never passed it."""
    found: str | None = getattr(route, "holdfast_needs", None)
    return found


def guard(routes: Iterable[BaseRoute], authorise: Callable[..., object]) -> None:
    """Give every route its permission; raise for those that have none. `authorise` is the dependency that asks."""
    unguarded = [problem for route in routes if (problem := _guard_one(route, authorise)) is not None]
    if unguarded:
        raise HoldfastError("ROUTE_UNGUARDED", "; ".join(unguarded))


def _guard_one(route: BaseRoute, authorise: Callable[..., object]) -> str | None:
    path = template(getattr(route, "path", "?"))
    methods = ["WS"] if isinstance(route, APIWebSocketRoute) else sorted(getattr(route, "methods", None) or ["?"])
    # HEAD shows less than GET does, and needs the same.
    methods = sorted({"GET" if method == "HEAD" else method for method in methods})
    needed = {NEEDS.get(f"{method} {path}") for method in methods}
    if None in needed or len(needed) != 1:
        return f"{'/'.join(methods)} {path} has no one permission"
    needs = needed.pop()
    if isinstance(route, APIRoute | APIWebSocketRoute):
        if needs != OPEN and not _asks(route.endpoint, authorise):
            return f"{path} does not ask who calls"
        if isinstance(route, APIRoute) and _reads_json(route):
            return f"{path} lets the framework read its body"
        setattr(route, "holdfast_needs", needs)  # noqa: B010  # our mark on the framework's object
    elif needs not in (OPEN, ANYBODY):
        return f"{path} cannot ask who calls"
    return None


def _reads_json(route: APIRoute) -> bool:
    """Whether the framework would look for a parameter in the body: one that says nothing else about its place."""
    for name, annotation, notes in _parameters(route.endpoint):
        if any(isinstance(note, params.Body) and not isinstance(note, params.Form) for note in notes):
            return True
        elsewhere = any(isinstance(note, params.Param | params.Depends | params.Form) for note in notes)
        connection = isinstance(annotation, type) and issubclass(annotation, HTTPConnection)
        if not (elsewhere or connection or name in route.param_convertors):
            return True
    return False


def _asks(call: Callable[..., object], authorise: Callable[..., object]) -> bool:
    for _, annotation, notes in _parameters(call):
        for note in notes:
            if isinstance(note, params.Depends):
                called = note.dependency or annotation
                if called is authorise or _asks(called, authorise):
                    return True
    return False


def _parameters(call: Callable[..., object]) -> Iterator[tuple[str, Any, tuple[object, ...]]]:
    """Name, type and notes of each parameter, read from the signature: the framework takes it apart later."""
    for parameter in inspect.signature(call).parameters.values():
        annotation = parameter.annotation
        notes = getattr(annotation, "__metadata__", ())
        yield parameter.name, get_args(annotation)[0] if notes else annotation, notes
