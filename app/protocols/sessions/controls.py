"""/api/sessions/{id}/session-controls, /settings and /approval-policy: what a session is asked to use.

Controls of a session are metadata of its thread, those that new sessions begin with are metadata of the tenant's
ledger: one append-only log holds both, and says who changed them. Leaves to others: what a control does (the runtime).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NoReturn

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, Field, model_validator

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.thread import ThreadUpdated
from app.events.ports import Refused as NotRecorded
from app.protocols.context import ServerContext
from app.protocols.dialects import codex_sessions as dialect
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.documents import takes
from app.protocols.http.errors import HttpProblem
from app.protocols.sessions.late_shapes import shapes
from app.protocols.sessions.refusals import Responses, may_refuse
from app.protocols.sessions.route import SessionBody, SessionRefused, SessionRoute, expect_thread, read, session
from app.runtime.intake.ledger import LEDGER_THREAD
from app.runtime.intake.threads import ThreadChange, is_too_large
from app.views.controls import (
    MAX_NAME,
    MAX_NAMES,
    REMOVED,
    TOOL_SETTINGS,
    ApprovalPolicy,
    changes,
    controls_of,
    names_tools,
)
from app.views.thread import Thread

DEFAULTS_NEED: Final = "workspace:reload"
"""The scope of who decides what everybody's new sessions begin with."""
MAX_SETTINGS: Final = 256

Scope = Literal["session", "default"]
NetworkAccess = Literal["restricted", "enabled"]
Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ModelName = Annotated[str, Field(min_length=1, max_length=200)]
SettingKey = Annotated[str, Field(min_length=1, max_length=200)]


def _understood(settings: dict[str, Any]) -> dict[str, Any]:
    """What narrows tools must be understood, or it would not do what it says; null takes the limit away."""
    for name in TOOL_SETTINGS:
        if settings.get(name) is not None and not names_tools(settings[name]):
            raise ValueError(
                f"{name} must be null or a list of at most {MAX_NAMES} tools' names of 1 to {MAX_NAME} characters"
            )
    return settings


Settings = Annotated[dict[SettingKey, Any], Field(max_length=MAX_SETTINGS), AfterValidator(_understood)]


class DynamicTool(SessionBody):
    name: str = Field(min_length=1, max_length=64)
    description: str = Field("", max_length=4000)
    input_schema: dict[str, Any] = Field(default_factory=lambda: {"type": "object"})


class Controls(SessionBody):
    """What a session is asked to use. Stored and returned; the workspace decides what takes effect."""

    cwd: str | None = Field(None, max_length=4096)
    model: ModelName | None = None
    approval_policy: ApprovalPolicy | None = None
    network_access: NetworkAccess | None = None
    filesystem_sandbox: Sandbox | None = None
    effort: Effort | None = None
    settings: Settings | None = None
    dynamic_tools: list[DynamicTool] | None = Field(None, max_length=128)

    def values(self) -> dict[str, Any]:
        named = set(Controls.model_fields)
        return self.model_dump(by_alias=True, exclude_none=True, include=named)


class ControlsTuple(SessionBody):
    """All controls at once; a null model is the workspace's own choice. Settings that are left out stay."""

    model: ModelName | None
    approval_policy: ApprovalPolicy
    network_access: NetworkAccess
    filesystem_sandbox: Sandbox
    settings: Settings | None = Field(None, description="takes the place of all settings")

    def values(self) -> dict[str, Any]:
        given = self.model_dump(by_alias=True, exclude_unset=True)
        return {name: value for name, value in given.items() if value is not None or name == "model"}


class ApplyControls(SessionBody):
    scope: Scope
    controls: ControlsTuple


class ApplySettings(SessionBody):
    """Either one setting, `key` with its `value`, or several. A null is a value; DELETE takes a setting out."""

    scope: Scope
    key: SettingKey | None = None
    value: Any = None
    settings: Settings | None = None
    mode: Literal["merge", "replace"] = "merge"

    @model_validator(mode="after")
    def _one_way(self) -> "ApplySettings":
        one = self.key is not None and "value" in self.model_fields_set
        if one == (self.settings is not None) or (not one and {"key", "value"} & self.model_fields_set):
            raise ValueError("either key and value, or settings")
        _understood(self.values())
        return self

    def values(self) -> dict[str, Any]:
        return self.settings if self.settings is not None else {str(self.key): self.value}

    @property
    def replaces(self) -> bool:
        return self.settings is not None and self.mode == "replace"


class SetApprovalPolicy(SessionBody):
    approval_policy: ApprovalPolicy


# -- where they are kept ------------------------------------------------------------------------------


async def default_metadata(server: ServerContext, caller: Principal) -> Mapping[str, Any]:
    """What new sessions of the tenant begin with, as the ledger has it."""
    ledger = await server.reader.thread(caller.tenant, LEDGER_THREAD)
    return ledger.metadata if isinstance(ledger, Thread) else {}


def change_of(thread: Thread, values: Mapping[str, Any]) -> ThreadUpdated | None:
    """What makes a session's own what a request named; None when it is so already."""
    wanted = changes(thread.metadata, values)
    if is_too_large(thread.metadata | wanted):
        raise _too_large()
    return ThreadUpdated(metadata=wanted) if wanted else None


async def keep(
    server: ServerContext, caller: Principal, thread: Thread, values: Mapping[str, Any], *, replace: bool = False
) -> tuple[Thread, bool]:
    """The session with the values, and whether that changed anything."""
    wanted = changes(thread.metadata, values, replace=replace)
    if not wanted:
        return thread, False
    changed = await server.threads.update(caller, thread.id, ThreadChange(metadata=wanted))
    if not isinstance(changed, Thread) and changed.failure.code == "INVALID_REQUEST":
        raise _too_large()
    return expect_thread(changed, thread.id), True


async def _keep_default(
    server: ServerContext, caller: Principal, values: Mapping[str, Any], *, replace: bool = False
) -> bool:
    if not caller.may(DEFAULTS_NEED):
        raise HttpProblem(Failure("FORBIDDEN", "Only administrators may change what new sessions begin with."))
    known = await default_metadata(server, caller)
    wanted = changes(known, values, replace=replace)
    if is_too_large({**known, **wanted}):
        raise _too_large()
    if wanted:
        answer = await server.ledger.record(caller.tenant, ThreadUpdated(metadata=wanted), actor=caller.actor)
        if isinstance(answer, NotRecorded):
            raise HttpProblem(answer.failure)
    return bool(wanted)


def _too_large() -> HttpProblem:
    return HttpProblem(
        Failure(
            "INVALID_REQUEST", "The controls, the settings and the thread's other metadata together may have 16 KiB."
        )
    )


async def _apply(
    server: ServerContext,
    caller: Principal,
    thread: Thread,
    scope: Scope,
    values: Mapping[str, Any],
    *,
    replace: bool = False,
) -> tuple[Thread, Literal["ok", "unchanged"]]:
    """One change, in either scope. Defaults that are locked refuse it, also if it would change nothing."""
    if scope == "session":
        thread, changed = await keep(server, caller, thread, values, replace=replace)
    elif server.settings.session_defaults_locked:
        await _locked(server, caller, thread)
    else:
        changed = await _keep_default(server, caller, values, replace=replace)
    return thread, "ok" if changed else "unchanged"


async def _locked(server: ServerContext, caller: Principal, thread: Thread) -> NoReturn:
    values = {
        "status": "locked",
        "code": "defaults_locked",
        "scope": "default",
        "message": "What new sessions begin with is fixed by the server's configuration.",
        "settings": await _settings(server, caller, thread, "default"),
    }
    raise SessionRefused(423, values | await _both_scopes(server, caller, thread))


async def _both_scopes(server: ServerContext, caller: Principal, thread: Thread) -> dict[str, Any]:
    locked = server.settings.session_defaults_locked
    return {
        "sessionId": thread.id,
        "controls": dialect.tuple_of(dialect.controls(thread)),
        "defaults": dialect.tuple_of(controls_of(await default_metadata(server, caller))),
        "defaultsEditable": not locked,
        "defaultLockReason": "HOLDFAST_SESSION_DEFAULTS_LOCKED" if locked else None,
    }


async def _settings(server: ServerContext, caller: Principal, thread: Thread, scope: Scope) -> dict[str, Any]:
    kept = thread.metadata if scope == "session" else await default_metadata(server, caller)
    found: dict[str, Any] = controls_of(kept)["settings"]
    return found


# -- routes -------------------------------------------------------------------------------------------

_LOCKED: Final[Responses] = {
    423: {"model": shapes.DefaultsLocked, "description": "the configuration fixes what new sessions begin with"}
}


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        prefix="/api/sessions/{session_id}",
        tags=["sessions"],
        route_class=SessionRoute,
        responses=may_refuse(404, 410),
    )
    _add_controls(router, server)
    _add_settings(router, server)
    return router


def _add_controls(router: APIRouter, server: ServerContext) -> None:
    @router.get("/session-controls", response_model=shapes.ControlsShown, summary="What the session is asked to use")
    async def show_controls(session_id: str, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        return json_answer({"status": "ok", **await _both_scopes(server, caller, thread)})

    @router.post(
        "/session-controls",
        response_model=shapes.ControlsApplied,
        summary="Change what this session, or a new one, is asked to use",
        openapi_extra=takes(ApplyControls),
        responses=may_refuse(409) | _LOCKED,
    )
    async def apply_controls(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, ApplyControls)
        values = body.controls.values()
        thread, status = await _apply(server, caller, thread, body.scope, values, replace="settings" in values)
        both = await _both_scopes(server, caller, thread)
        applied = both["controls" if body.scope == "session" else "defaults"]
        values = {"status": status, "scope": body.scope, "applied": applied, "summary": dialect.summary_of(applied)}
        return json_answer(values | both)

    @router.post(
        "/approval-policy",
        response_model=shapes.PolicyApplied,
        summary="Say when the session's calls of tools need a person",
        openapi_extra=takes(SetApprovalPolicy),
        responses=may_refuse(409),
    )
    async def set_policy(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, SetApprovalPolicy)
        thread, _ = await keep(server, caller, thread, {"approvalPolicy": body.approval_policy})
        policy = dialect.summary(thread)["approvalPolicy"]
        return json_answer({"status": "ok", "sessionId": session_id, "approvalPolicy": policy})


def _add_settings(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/settings",
        response_model=shapes.SettingsShown | shapes.SettingShown,
        summary="The settings, or one of them",
    )
    async def show_settings(
        session_id: str,
        caller: Caller,
        scope: Annotated[Scope, Query()] = "session",
        key: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    ) -> Response:
        thread = await session(server, caller, session_id)
        found = await _settings(server, caller, thread, scope)
        values: dict[str, Any] = {"status": "ok", "sessionId": session_id, "scope": scope}
        if key is None:
            return json_answer(values | {"settings": found})
        return json_answer(values | {"key": key, "found": key in found, "value": found.get(key)})

    @router.post(
        "/settings",
        response_model=shapes.SettingsApplied,
        summary="Change settings",
        openapi_extra=takes(ApplySettings),
        responses=may_refuse(409) | _LOCKED,
    )
    async def apply_settings(session_id: str, request: Request, caller: Caller) -> Response:
        thread = await session(server, caller, session_id)
        body = await read(request, ApplySettings)
        values = {"settings": body.values()}
        thread, status = await _apply(server, caller, thread, body.scope, values, replace=body.replaces)
        found = await _settings(server, caller, thread, body.scope)
        answer = {"status": status, "sessionId": session_id, "scope": body.scope, "settings": found}
        return json_answer(answer | ({} if body.key is None else {"key": body.key}))

    @router.delete(
        "/settings/{key:path}",
        response_model=shapes.SettingRemoved,
        summary="Take a setting out",
        responses=may_refuse(409) | _LOCKED,
    )
    async def remove_setting(
        session_id: str,
        key: Annotated[str, Path(min_length=1, max_length=200)],
        caller: Caller,
        scope: Annotated[Scope, Query()] = "session",
    ) -> Response:
        thread = await session(server, caller, session_id)
        thread, status = await _apply(server, caller, thread, scope, {"settings": {key: REMOVED}})
        found = await _settings(server, caller, thread, scope)
        values = {"status": status, "sessionId": session_id, "scope": scope, "key": key, "removed": status == "ok"}
        return json_answer(values | {"settings": found})
