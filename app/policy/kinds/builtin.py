"""The hooks that ship, and those that installed packages offer under a name.

    deny_tools     PreToolUse         config {tools: [delete, "admin_*"]}: these are never called
    redact_cards   UserPromptSubmit, PreToolUse, PostToolUse
                                      card numbers become [REDACTED:card]; config {checksum: false} for any such run
    max_turns      Stop               config {turns: 3}: the loop goes on until it had that many turns

A package offers one as an entry point of the group `holdfast.hooks`: a callable that takes the HookConfig of a Hook
document and gives a function as the python kind takes it.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import entry_points
from typing import Any, Final

from app.core import json
from app.core.decisions import ALLOW, Decision, Deny, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Validator
from app.outside.threads import in_thread
from app.policy import cards
from app.policy.contract import Handler, HookConfig, HookContext, Point
from app.policy.declared import points_of
from app.policy.kinds.python import FunctionHandler
from app.policy.points import prompt_input, prompt_subject
from app.workspace.catalog import HOOKS_GROUP
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.others import HookSpec

Decide = Callable[[JsonObject, Point], Decision]
Factory = Callable[[HookConfig], Callable[..., Any]]


_LARGE: Final = 64 * 1024  # bytes; what takes the loop longer than a moment is left to a thread


class BuiltinHandler:
    """Quick and without side effects, so it needs no thread unless there is much to look at."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    async def decide(self, subject: JsonObject, ctx: HookContext) -> object:
        if len(json.dumps(subject)) > _LARGE:
            return await in_thread(partial(self._decide, subject, ctx.point), f"hook-{ctx.hook}")
        return self._decide(subject, ctx.point)


def _deny_tools(subject: JsonObject, _point: Point, *, tools: list[str]) -> Decision:
    tool = subject["tool"]
    return Deny(f"the tool {tool} is on the deny-list") if any(fnmatchcase(tool, name) for name in tools) else ALLOW


def _redact_cards(subject: JsonObject, point: Point, *, checksum: bool = True) -> Decision:
    if point is Point.USER_PROMPT_SUBMIT:
        given = prompt_input(subject)
        field = "input" if "input" in subject else "prompt"
        clean = cards.redact_all(given, checksum=checksum)
        changed = prompt_subject(clean) != prompt_subject(given)
    else:
        field = "arguments" if point is Point.PRE_TOOL_USE else "output"
        given = subject.get(field)
        clean = cards.redact_all(given, checksum=checksum)
        changed = clean != given
    return Transform({field: clean}, reason="a card number was redacted") if changed else ALLOW


def _max_turns(subject: JsonObject, _point: Point, *, turns: int) -> Decision:
    return Deny(f"the loop had its {turns} turns") if subject["turn"] >= turns else ALLOW


def _closed(properties: Mapping[str, Any], *required: str) -> Validator:
    return Validator({
        "type": "object", "properties": properties, "required": list(required), "additionalProperties": False,
    })  # fmt: skip


_TEXTS: Final = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
_SHIPPED: Final[Mapping[str, tuple[Callable[..., Decision], frozenset[Point], Validator]]] = {
    "deny_tools": (_deny_tools, frozenset({Point.PRE_TOOL_USE}), _closed({"tools": _TEXTS}, "tools")),
    "redact_cards": (
        _redact_cards,
        frozenset({Point.USER_PROMPT_SUBMIT, Point.PRE_TOOL_USE, Point.POST_TOOL_USE}),
        _closed({"checksum": {"type": "boolean"}}),
    ),
    "max_turns": (
        _max_turns,
        frozenset({Point.STOP}),
        _closed({"turns": {"type": "integer", "minimum": 1}}, "turns"),
    ),
}


def names() -> frozenset[str]:
    return frozenset(_SHIPPED)


def make_builtin(declared: Named[HookSpec], _workspace: CompiledWorkspace) -> Handler | Failure:
    """Ours first: a package cannot take the place of a hook that ships."""
    entry = declared.spec.entry or ""
    config = HookConfig(declared.name, points_of(declared.spec), dict(declared.spec.config))
    if entry in _SHIPPED:
        return _make_shipped(entry, config)
    for point in entry_points(group=HOOKS_GROUP, name=entry):
        return _make_installed(point.load, config)
    return Failure("HOOK_INVALID", f"{declared.name}: there is no built-in hook {entry!r}")


def _make_shipped(entry: str, config: HookConfig) -> Handler | Failure:
    decide, points, validator = _SHIPPED[entry]
    elsewhere = sorted(config.points - points)
    if elsewhere:
        return Failure("HOOK_INVALID", f"{config.name}: {entry} has nothing to say at {', '.join(elsewhere)}")
    issues = validator.issues(config.config, show_keys=True)
    if issues:
        where = f"config{issues[0].path}: {issues[0].message}"
        return Failure("HOOK_INVALID", f"{config.name}: {where}")
    return BuiltinHandler(partial(decide, **config.config))


def _make_installed(load: Callable[[], Factory], config: HookConfig) -> Handler | Failure:
    try:
        return FunctionHandler(load()(config), config.config)
    except Exception as error:
        # Loading runs the package; whatever it raises says that this hook cannot be had.
        return Failure("HOOK_INVALID", f"{config.name}: cannot be made: {type(error).__name__}")
