"""The server itself: who asks, whether it is well, what it can do."""

from typing import Literal

from pydantic import Field

from app.protocols.http.shapes.base import Shape


class Me(Shape):
    id: str
    tenant: str
    roles: list[str]
    scopes: list[str]
    authentication: bool = Field(description="false: everybody on this machine may do everything")
    csrf_token: str | None = Field(description="of a browser session; goes into the header `X-CSRF-Token` of changes")
    expires_at: str | None = Field(description="when these credentials stop counting")
    version: str = Field(description="of the server")


class TenantPage(Shape):
    items: list[str]
    next_cursor: str | None


class HealthShape(Shape):
    status: Literal["ok"]


class Sandbox(Shape):
    level: Literal["full", "partial", "none"]
    missing: list[str] = Field(description="what programs are not kept from; docs/security.md explains each")


class BusShape(Shape):
    kind: str = Field(description="`postgres`, `nats`, `local` or one of an installed package")
    connected: bool = Field(description="false: servers poll the database for what is new")
    peers: int = Field(description="other servers on the same database that were heard lately")


class Readiness(Shape):
    status: Literal["ready", "not ready"]
    code: str | None = None
    sandbox: Sandbox | None = Field(None, description="of tools and hooks that are programs; null: not known yet")


class DoctorFinding(Shape):
    about: str = Field(description="what was checked, such as `database` or `disk`")
    level: Literal["ok", "warning", "wrong"]
    message: str
    remedy: str | None


class DoctorReport(Shape):
    ok: bool = Field(description="false if something is wrong; warnings do not count")
    checked_at: str
    findings: list[DoctorFinding]


class RetentionRule(Shape):
    what: Literal["deltas", "threads", "deleted"] = Field(
        description="deltas of completed messages after a run's end, threads without an event, what was deleted"
    )
    days: int | None = Field(description="how long it is kept; null: for ever")
    workspace_days: int | None = Field(description="what the workspace says")
    setting_days: int | None = Field(description="the server's own limit")


class RetentionReport(Shape):
    items: list[RetentionRule]
