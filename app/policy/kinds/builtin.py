"""The hooks that ship, and those that installed packages offer under a name.

    deny_tools     PreToolUse         config {tools: [delete, "admin_*"]}: these are never called
    redact_cards   UserPromptSubmit, PreToolUse, PostToolUse
                                      card numbers become [REDACTED:card]; config {checksum: false} for any such run
    max_turns      Stop               config {turns: 3}: the loop goes on until it had that many turns

A package offers one as an entry point of the group `holdfast.hooks`: a `BuiltinHook`, as those below are.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from pydantic import Field

from app.core import json
from app.core.decisions import ALLOW, Decision, Deny, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.outside.threads import in_thread
from app.policy import cards
from app.policy.contract import Handler, HookConfig, HookContext, Point
from app.policy.declared import points_of
from app.policy.kind import BuiltinHook, HookDeps, HookKind
from app.policy.kinds.python import FunctionHandler
from app.policy.points import prompt_input, prompt_subject
from app.workspace.catalog import AnyConfig
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Count, Spec, Text
from app.workspace.specs.others import HookSpec

Decide = Callable[[JsonObject, Point], Decision]

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


class DenyToolsConfig(Spec):
    tools: tuple[Text, ...] = Field(min_length=1)


class RedactCardsConfig(Spec):
    checksum: bool = True


class MaxTurnsConfig(Spec):
    turns: Count


def _deciding(decide: Callable[..., Decision]) -> Callable[[HookConfig], BuiltinHandler]:
    return lambda config: BuiltinHandler(partial(decide, **config.config))


BUILTINS: Final = (
    BuiltinHook(
        name="deny_tools",
        config=DenyToolsConfig,
        make=_deciding(_deny_tools),
        points=frozenset({Point.PRE_TOOL_USE}),
    ),
    BuiltinHook(
        name="redact_cards",
        config=RedactCardsConfig,
        make=_deciding(_redact_cards),
        points=frozenset({Point.USER_PROMPT_SUBMIT, Point.PRE_TOOL_USE, Point.POST_TOOL_USE}),
    ),
    BuiltinHook(
        name="max_turns",
        config=MaxTurnsConfig,
        make=_deciding(_max_turns),
        points=frozenset({Point.STOP}),
    ),
)


def make(declared: Named[HookSpec], _workspace: CompiledWorkspace, deps: HookDeps) -> Handler | Failure:
    entry = declared.spec.entry or ""
    config = HookConfig(declared.name, points_of(declared.spec), dict(declared.spec.config))
    hook = deps.builtins.usable(entry)
    if hook is None:
        return Failure("HOOK_INVALID", f"{declared.name}: there is no built-in hook {entry!r}")
    elsewhere = sorted(config.points - hook.points)
    if elsewhere:
        return Failure("HOOK_INVALID", f"{config.name}: {entry} has nothing to decide at {', '.join(elsewhere)}")
    try:
        made = hook.make(config)
    except Exception as error:
        # A hook may come from another package; whatever it raises says that it cannot be used.
        return Failure("HOOK_INVALID", f"{config.name}: cannot be made: {type(error).__name__}")
    return FunctionHandler(made, config.config) if callable(made) else made


KIND: Final = HookKind(name="builtin", make=make, config=AnyConfig)
"""The config is the named hook's to judge."""
