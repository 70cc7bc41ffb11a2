"""Which scope each route needs: one table, so that a reader sees all of it. A route that is not here denies.

The server does not start with a route that is missing from the table, that does not ask who calls, or that lets the
framework read its body (which is neither strict nor silent about what was sent).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
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

LANGGRAPH: Final = {
    "GET /info": ANYBODY,
    "GET /ok": ANYBODY,
    "POST /assistants": "workspace:read",
    "POST /assistants/search": "workspace:read",
    "POST /assistants/count": "workspace:read",
    "GET /assistants/{}": "workspace:read",
    "PATCH /assistants/{}": "workspace:read",
    "DELETE /assistants/{}": "workspace:read",
    "GET /assistants/{}/graph": "workspace:read",
    "GET /assistants/{}/schemas": "workspace:read",
    "GET /assistants/{}/subgraphs": "workspace:read",
    "GET /assistants/{}/subgraphs/{}": "workspace:read",
    "POST /assistants/{}/versions": "workspace:read",
    "POST /assistants/{}/latest": "workspace:read",
    "POST /threads": "threads:write",
    "POST /threads/search": "threads:read",
    "POST /threads/count": "threads:read",
    "POST /threads/prune": "threads:write",
    "GET /threads/{}": "threads:read",
    "PATCH /threads/{}": "threads:write",
    "DELETE /threads/{}": "threads:write",
    "POST /threads/{}/copy": "threads:write",
    "GET /threads/{}/state": "threads:read",
    "POST /threads/{}/state": "threads:write",
    "GET /threads/{}/stream": "threads:read",
    "GET /threads/{}/state/{}": "threads:read",
    "POST /threads/{}/state/checkpoint": "threads:read",
    "GET /threads/{}/history": "threads:read",
    "POST /threads/{}/history": "threads:read",
    "POST /threads/{}/commands": "threads:read",  # each command asks for what it needs besides
    "POST /threads/{}/stream/events": "threads:read",
    "WS /threads/{}/stream/events": "threads:read",
    "POST /threads/{}/runs": "runs:write",
    "GET /threads/{}/runs": "runs:read",
    "POST /threads/{}/runs/stream": "runs:write",
    "POST /threads/{}/runs/wait": "runs:write",
    "GET /threads/{}/runs/{}": "runs:read",
    "DELETE /threads/{}/runs/{}": "runs:write",
    "GET /threads/{}/runs/{}/join": "runs:read",
    "GET /threads/{}/runs/{}/stream": "runs:read",
    "POST /threads/{}/runs/{}/cancel": "runs:write",
    "POST /runs": "runs:write",
    "POST /runs/stream": "runs:write",
    "POST /runs/wait": "runs:write",
    "POST /runs/batch": "runs:write",
    "POST /runs/cancel": "runs:write",
    "POST /runs/crons": "schedules:manage",
    "POST /threads/{}/runs/crons": "schedules:manage",
    "POST /runs/crons/search": "runs:read",
    "POST /runs/crons/count": "runs:read",
    "PATCH /runs/crons/{}": "schedules:manage",
    "DELETE /runs/crons/{}": "schedules:manage",
    "PUT /store/items": "memory:write",
    "GET /store/items": "memory:read",
    "DELETE /store/items": "memory:write",
    "POST /store/items/search": "memory:read",
    "POST /store/namespaces": "memory:read",
}
"""LangGraph's interface, which is served under a prefix and, if the settings say so, at the root."""


def _at(prefix: str, table: dict[str, str]) -> dict[str, str]:
    return {key.replace(" ", f" {prefix}", 1): needs for key, needs in table.items()}


NEEDS: Final[dict[str, str]] = {
    **_at("/langgraph", LANGGRAPH),
    **LANGGRAPH,
    # operation
    "GET /": OPEN,
    "GET /console": OPEN,
    "GET /console/{}": OPEN,
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": "metrics:read",
    "GET /openapi.json": ANYBODY,
    "GET /asyncapi.json": ANYBODY,
    "GET /docs": ANYBODY,
    "GET /api": ANYBODY,
    "GET /api/health": ANYBODY,
    "GET /api/capabilities": ANYBODY,
    "GET /api/me": ANYBODY,
    "POST /api/sign-in": ANYBODY,
    "POST /api/sign-out": ANYBODY,
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
    "GET /api/runs/{}/diff": "runs:read",
    "GET /api/runs/{}/usage": "runs:read",
    "GET /api/runs/{}/todos": "runs:read",
    "POST /api/runs/{}/cancel": "runs:write",
    "POST /api/runs/{}/commands": "runs:write",
    "POST /api/runs/{}/rerun": "runs:write",
    "POST /api/runs/{}/undo/plan": "runs:read",
    "POST /api/runs/{}/undo": "runs:write",
    "GET /api/runs/{}/replay-token": "runs:read",
    "POST /api/runs/{}/feedback": "runs:write",
    "GET /api/runs/{}/feedback": "runs:read",
    "POST /api/runs/{}/gates": "runs:write",
    "GET /api/jobs": "runs:read",
    "GET /api/jobs/{}": "runs:read",
    "POST /api/jobs/{}/cancel": "runs:write",
    # schedules
    "GET /api/schedules": "runs:read",
    "POST /api/schedules": "schedules:manage",
    "GET /api/schedules/{}": "runs:read",
    "DELETE /api/schedules/{}": "schedules:manage",
    "POST /api/schedules/{}/pause": "schedules:manage",
    "POST /api/schedules/{}/resume": "schedules:manage",
    "POST /api/schedules/{}/run": "schedules:manage",
    # webhooks
    "POST /api/webhooks": "webhooks:manage",
    "GET /api/webhooks": "webhooks:manage",
    "GET /api/webhooks/{}": "webhooks:manage",
    "PATCH /api/webhooks/{}": "webhooks:manage",
    "DELETE /api/webhooks/{}": "webhooks:manage",
    "POST /api/webhooks/{}/rotate-secret": "webhooks:manage",
    "GET /api/webhooks/{}/deliveries": "webhooks:manage",
    "POST /api/webhooks/{}/redeliver": "webhooks:manage",
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
    "POST /api/threads/{}/events/{}/amend": "audit:amend",
    "GET /api/threads/{}/runs": "runs:read",
    "GET /api/threads/{}/events": "threads:read",
    "GET /api/threads/{}/stream": "threads:read",
    "GET /api/threads/{}/transcript": "threads:read",
    "GET /api/threads/{}/artifacts": "threads:read",
    "GET /api/threads/{}/todos": "threads:read",
    "POST /api/threads/{}/todos": "threads:write",
    "GET /api/threads/{}/export": "threads:read",
    "GET /api/threads/{}/verify": "threads:read",
    "GET /api/threads/{}/blobs/{}": "files:read",
    "WS /api/stream": "threads:read",
    # people in the loop
    "GET /api/interrupts": "interrupts:read",
    "GET /api/interrupts/{}": "interrupts:read",
    "GET /api/interrupts/{}/similar": "interrupts:read",
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
    "GET /api/agents/extensions": "workspace:read",
    "POST /api/agents/extensions/reload": "workspace:reload",
    "GET /api/workflows": "workspace:read",
    "GET /api/workflows/{}": "workspace:read",
    "GET /api/workflows/{}/graph": "workspace:read",
    "POST /api/workflows/{}/plan": "workspace:read",
    "GET /api/runs/{}/graph": "runs:read",
    "GET /api/stats/series": "runs:read",
    "GET /api/ledger": "audit:read",
    "GET /api/tenants": "tenants:manage",
    "GET /api/workspace/compare": "audit:read",
    "GET /api/doctor": "metrics:read",
    "GET /api/retention": "workspace:read",
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
    "POST /api/sessions/{}/project": "threads:write",
    "POST /api/sessions/{}/compact": "runs:write",
    "POST /api/sessions/{}/rollback": "threads:write",
    "POST /api/sessions/{}/background-terminals/clean": "runs:write",
    "POST /api/sessions/{}/review": "runs:write",
    "GET /api/orchestrator/jobs/{}": "runs:read",
    "POST /api/orchestrator/jobs/{}/cancel": "runs:write",
    "GET /api/projects/{}/orchestrator/jobs": "runs:read",
    "POST /api/sessions/{}/suggested-request/jobs": "runs:write",
    "POST /api/sessions/{}/suggested-request": "runs:write",
    "POST /api/sessions/{}/suggested-request/upsert": "threads:write",
    "GET /api/projects": "threads:read",
    "POST /api/projects": "threads:write",
    "POST /api/projects/{}/rename": "threads:write",
    "DELETE /api/projects/{}": "threads:write",
    "GET /api/projects/{}/agent-sessions": "threads:read",
    "POST /api/projects/{}/chats/move-all": "threads:write",
    "POST /api/projects/{}/chats/delete-all": "threads:write",
    "GET /api/models": "workspace:read",
    "GET /api/apps": "workspace:read",
    "GET /api/skills": "workspace:read",
    "GET /api/mcp/servers": "workspace:read",
    "GET /api/config": "workspace:read",
    "GET /api/config/requirements": "workspace:read",
    "POST /api/mcp/reload": "workspace:reload",
    "POST /api/mcp-servers/{}/login": "mcp:manage",
    "POST /api/mcp-servers/{}/login/complete": "mcp:manage",
    "DELETE /api/mcp-servers/{}/login": "mcp:manage",
    "GET /api/features/experimental": ANYBODY,
    "GET /api/collaboration/modes": ANYBODY,
    "POST /api/skills/config": ANYBODY,
    "GET /api/skills/remote": ANYBODY,
    "POST /api/skills/remote": ANYBODY,
    "POST /api/mcp/servers/{}/oauth/login": ANYBODY,
    "GET /api/account": ANYBODY,
    "POST /api/account/login/start": ANYBODY,
    "POST /api/account/login/cancel": ANYBODY,
    "POST /api/account/logout": ANYBODY,
    "GET /api/account/rate-limits": ANYBODY,
    "POST /api/config/value": ANYBODY,
    "POST /api/config/batch": ANYBODY,
    "POST /api/commands/exec": ANYBODY,
    "POST /api/feedback": ANYBODY,
    # OpenAI's
    "GET /v1/models": "workspace:read",
    "GET /v1/models/{}": "workspace:read",
    "POST /v1/chat/completions": "runs:write",
    "POST /v1/embeddings": "runs:write",
    "POST /v1/responses": "runs:write",
    "GET /v1/responses/{}": "runs:read",
    "DELETE /v1/responses/{}": "runs:write",
    "POST /v1/responses/{}/cancel": "runs:write",
    "GET /v1/responses/{}/input_items": "runs:read",
    # MCP: each method asks for its own scope (`mcp.methods`)
    "POST /mcp": ANYBODY,
    "GET /mcp": ANYBODY,
    # AG-UI
    "POST /agui/{}": "runs:write",
    # A2A: each method of JSON-RPC asks for its own scope (`a2a.tasks`); the card may be shown to anybody (settings)
    "GET /.well-known/agent-card.json": ANYBODY,
    "GET /a2a/{}/.well-known/agent-card.json": ANYBODY,
    "GET /a2a/{}/extendedAgentCard": ANYBODY,
    "POST /a2a/{}": ANYBODY,
    "POST /a2a/{}/message:send": "runs:write",
    "POST /a2a/{}/message:stream": "runs:write",
    "GET /a2a/{}/tasks": "runs:read",
    "GET /a2a/{}/tasks/{}": "runs:read",
    "POST /a2a/{}/tasks/{}:cancel": "runs:write",
    "GET /a2a/{}/tasks/{}:subscribe": "runs:read",
    "POST /a2a/{}/tasks/{}:subscribe": "runs:read",
    "GET /a2a/{}/tasks/{}/pushNotificationConfigs": "runs:read",
    "POST /a2a/{}/tasks/{}/pushNotificationConfigs": "runs:write",
    "GET /a2a/{}/tasks/{}/pushNotificationConfigs/{}": "runs:read",
    "DELETE /a2a/{}/tasks/{}/pushNotificationConfigs/{}": "runs:write",
}

OPEN_PATHS: Final = frozenset(key.partition(" ")[2] for key, needs in NEEDS.items() if needs == OPEN)
_OPEN_FILES: Final = "/console/"
"""The files of the console: the program of the page, which is the same for everybody and holds no data."""


def is_open(path: str) -> bool:
    """Whether a path is served to anybody, whoever the caller is."""
    return path in OPEN_PATHS or path.startswith(_OPEN_FILES)


_PARAMETER: Final = re.compile(r"\{[^}]*\}")
_ELSEWHERE: Final = (params.Param, params.Depends, params.Form)
"""What says that a parameter is not in the body as JSON."""
Declared = tuple[str, Any, tuple[object, ...]]
_NAME: Final = re.compile(r"\{(\w+)")


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
        declared = list(parameters_of(route.endpoint))
        if needs != OPEN and not _asks(declared, authorise):
            return f"{path} does not ask who calls"
        if isinstance(route, APIRoute) and _reads_json(route.path, declared):
            return f"{path} lets the framework read its body"
        setattr(route, "holdfast_needs", needs)  # noqa: B010  # our mark on the framework's object
    elif needs not in (OPEN, ANYBODY):
        return f"{path} cannot ask who calls"
    return None


def _reads_json(path: str, declared: Iterable[Declared]) -> bool:
    """Whether the framework would look for a parameter in the body: one that says nothing else about its place."""
    in_path = _NAME.findall(path)
    for name, annotation, notes in declared:
        elsewhere = False
        for note in notes:
            if isinstance(note, params.Body) and not isinstance(note, params.Form):
                return True
            elsewhere = elsewhere or isinstance(note, _ELSEWHERE)
        connection = isinstance(annotation, type) and issubclass(annotation, HTTPConnection)
        if not (elsewhere or connection or name in in_path):
            return True
    return False


def _asks(declared: Iterable[Declared], authorise: Callable[..., object]) -> bool:
    for _, annotation, notes in declared:
        for note in notes:
            if isinstance(note, params.Depends):
                called = note.dependency or annotation
                if called is authorise or _asks(parameters_of(called), authorise):
                    return True
    return False


def parameters_of(call: Callable[..., object]) -> Iterator[Declared]:
    """Name, type and notes of each parameter, read from the declaration: the framework takes it apart later."""
    for name, annotation in _declared(call):
        notes = getattr(annotation, "__metadata__", ())
        yield name, get_args(annotation)[0] if notes else annotation, notes


def _declared(call: Callable[..., object]) -> Iterator[tuple[str, Any]]:
    if not isinstance(call, FunctionType) or hasattr(call, "__wrapped__"):
        for parameter in inspect.signature(call).parameters.values():
            yield parameter.name, parameter.annotation
        return
    # Without a signature, which takes ten times as long: a start asks for those of all routes.
    code = call.__code__
    variadic = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]:
        yield name, call.__annotations__.get(name, inspect.Parameter.empty)
