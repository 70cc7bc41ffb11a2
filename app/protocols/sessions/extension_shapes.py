"""What the routes about extensions answer, as the OpenAPI document shows it."""

from typing import Any, Literal

from app.protocols.http.shapes import Shape


class ExtensionProblem(Shape):
    extension: str
    code: str
    message: str


class ExtensionModule(Shape):
    module_name: str
    name: str
    version: str
    agent_id: str
    display_name: str
    manifest_path: str
    entrypoint_path: str
    events: list[str]
    origin: dict[str, str]
    compatibility: dict[str, Any]
    capabilities: dict[str, list[str]]
    trust: dict[str, Any]
    diagnostics: list[str]


class ExtensionList(Shape):
    status: Literal["ok"]
    snapshot_version: int
    loaded_at: str
    modules: list[ExtensionModule]
    errors: list[ExtensionProblem]


class ReloadedModule(Shape):
    name: str
    version: str
    agent_id: str
    events: list[str]


class ExtensionsReloadedAnswer(Shape):
    status: Literal["ok"]
    reload_id: str
    loaded_count: int
    failed_count: int
    snapshot_version: int
    loaded_at: str
    modules: list[ReloadedModule]


class ReloadFailed(Shape):
    status: Literal["error"]
    code: str
    message: str
    reload_id: str | None = None
    snapshot_version: int | None = None
    errors: list[ExtensionProblem] | None = None


class ReloadBusy(Shape):
    status: Literal["error"]
    code: Literal["reload_in_progress"]
    message: str
