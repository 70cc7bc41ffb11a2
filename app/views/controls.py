"""Session controls: what a conversation was asked to use, as its thread's metadata has it.

One key of the metadata for each control and for each setting, because the fold of the log merges metadata key by key:
two clients that change different ones at once lose nothing. A null takes its key out, so a setting whose value is null
is stored as `NULL`. Leaves to others: what a control does (the runtime), where defaults are kept and how any of it is
spelt (the protocols).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from app.core import json

PREFIX: Final = "session."
SETTING: Final = "session.settings."
PROJECT: Final = "session.project"
"""The key of the project that a session belongs to; changed by `projects` alone."""
NULL: Final[Mapping[str, bool]] = {"$null": True}
"""How a setting is stored whose value is null."""


class _Removed:
    """Given instead of a setting's value, takes the setting out."""


REMOVED: Final = _Removed()

ApprovalPolicy = Literal["untrusted", "on-failure", "on-request", "never"]
APPROVAL_POLICIES: Final[Mapping[str, ApprovalPolicy]] = {
    "untrusted": "untrusted",
    "on-failure": "on-failure",
    "on-request": "on-request",
    "never": "never",
}


def controls_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Whoever may change a thread can write its metadata: what no control can be is passed over."""
    kept = {
        name: metadata[PREFIX + name]
        for name, is_one in _CONTROLS.items()
        if PREFIX + name in metadata and is_one(metadata[PREFIX + name])
    }
    settings = {
        key.removeprefix(SETTING): None if value == NULL else value
        for key, value in metadata.items()
        if key.startswith(SETTING)
    }
    return kept | {"settings": settings}


def project_of(metadata: Mapping[str, Any]) -> str | None:
    found = metadata.get(PROJECT)
    return found if isinstance(found, str) else None


def approval_policy(metadata: Mapping[str, Any]) -> ApprovalPolicy | None:
    """None where nobody said anything, or nothing that counts."""
    found = metadata.get(PREFIX + "approvalPolicy")
    return APPROVAL_POLICIES.get(found) if isinstance(found, str) else None


LIMITS: Final = ("networkAccess", "filesystemSandbox", "cwd")
"""Controls that narrow what tools may reach."""


TOOL_SETTINGS: Final[Mapping[str, list[str]]] = {"allowedTools": [], "deniedTools": ["*"], "approvalTools": ["*"]}
"""Settings that narrow which tools may be called, with what holds where somebody stored no list of names."""
MAX_NAMES: Final = 128
MAX_NAME: Final = 200


def names_tools(value: Any) -> bool:
    """Whether it is a list of tools, by name or by a pattern with `*`."""
    return (
        isinstance(value, list)
        and len(value) <= MAX_NAMES
        and all(isinstance(name, str) and 0 < len(name) <= MAX_NAME for name in value)
    )


def session_limits(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Those that somebody set; None where nobody did."""
    kept = controls_of(metadata)
    limits = {name: kept[name] for name in LIMITS if kept.get(name)}
    for name, strictest in TOOL_SETTINGS.items():
        # Whoever writes a thread's metadata can store anything: what cannot be understood allows nothing.
        if (named := kept["settings"].get(name)) is not None:
            limits[name] = named if names_tools(named) else strictest
    return limits or None


def changes(metadata: Mapping[str, Any], given: Mapping[str, Any], *, replace: bool = False) -> dict[str, Any]:
    """The metadata to merge so that the controls are as given; empty when they are so already.

    A control that is given as null goes. Of `settings` those that are given change, and with `replace` the others go;
    a setting that is given as `REMOVED` goes too.
    """
    merged = {PREFIX + name: value for name, value in given.items() if name in _CONTROLS}
    if replace:
        merged |= {key: None for key in metadata if key.startswith(SETTING)}
    merged |= {SETTING + key: _stored(value) for key, value in (given.get("settings") or {}).items()}
    return {key: value for key, value in merged.items() if not same(metadata.get(key), value)}


def _stored(value: Any) -> Any:
    if value is REMOVED:
        return None
    return dict(NULL) if value is None else value


def same(one: Any, other: Any) -> bool:
    """As JSON: true is not 1."""
    return one == other and json.canonical(one) == json.canonical(other)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def _are_tools(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(tool, dict)
        and _is_text(tool.get("name"))
        and _is_text(tool.get("description"))
        and isinstance(tool.get("inputSchema"), dict)
        for tool in value
    )


_CONTROLS: Final[dict[str, Callable[[Any], bool]]] = {
    "cwd": _is_text,
    "model": _is_text,
    "approvalPolicy": _one_of(*APPROVAL_POLICIES),
    "networkAccess": _one_of("restricted", "enabled"),
    "filesystemSandbox": _one_of("read-only", "workspace-write", "danger-full-access"),
    "effort": _one_of("none", "minimal", "low", "medium", "high", "xhigh"),
    "dynamicTools": _are_tools,
}
