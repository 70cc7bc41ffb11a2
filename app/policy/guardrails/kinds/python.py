"""Python functions as rules, async ones on the loop and plain ones in a thread. Trusted code.

A function takes the content and, if it declares a parameter `ctx`, the Subject; `config` likewise gets what the
document says in `config`. It returns False or None if the rule does not apply, True if it does, or the places: a list
of `{start, end, label?, path?}`.
"""

import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.outside.threads import in_thread
from app.policy.guardrails.contract import Found, Judgement, Passed, Position, Subject
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made
from app.workspace.catalog import AnyConfig
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.entries import module_file
from app.workspace.specs.others import GuardrailSpec


class FunctionJudge:
    def __init__(self, function: Callable[..., Any], config: Mapping[str, Any]) -> None:
        self._function, self._config = function, config
        self._takes = frozenset(inspect.signature(function).parameters)

    async def judge(self, subject: Subject) -> Judgement:
        extra = {"ctx": subject, "config": self._config}
        # A copy: what a function does to its input must change nothing.
        content = json.loads(json.dumps(subject.content))
        call = partial(self._function, content, **{name: extra[name] for name in extra if name in self._takes})
        if inspect.iscoroutinefunction(self._function):
            return _judgement(await call())
        return _judgement(await in_thread(partial(copy_context().run, call), "guardrail"))


def _judgement(answer: object) -> Judgement:
    if answer is None or answer is False:
        return Passed()
    if answer is True:
        return Found()
    if isinstance(answer, list | tuple):
        return Found(tuple(_position(place) for place in answer)) if answer else Passed()
    raise TypeError("a guardrail function returns a bool or a list of places")


def _position(place: Any) -> Position:
    start, end, label = place["start"], place["end"], place.get("label", "content")
    if not (isinstance(start, int) and isinstance(end, int) and isinstance(label, str)):
        raise TypeError("a place has numbers for `start` and `end` and a text for `label`")
    return Position(str(place.get("path", "")), start, end, _plain(label))


def _plain(label: str) -> str:
    """A label is recorded, so it is a short name and nothing else."""
    return label if label.replace("_", "").isalnum() and label.isascii() and len(label) <= 40 else "content"


def make(declared: Named[GuardrailSpec], workspace: CompiledWorkspace, deps: GuardrailDeps) -> Made:
    entry = declared.spec.entry
    if entry is None:
        return Failure("GUARDRAIL_INVALID", f"{declared.name}: a guardrail of kind python needs `entry`")
    loaded = deps.load(entry, workspace.files, module_file(entry.partition(":")[0], workspace.files) is not None)
    if isinstance(loaded, Failure):
        return Failure("GUARDRAIL_INVALID", f"{declared.name}: {loaded.message}")
    if not callable(loaded):
        return Failure("GUARDRAIL_INVALID", f"{declared.name}: {entry} is not a function")
    return FunctionJudge(loaded, dict(declared.spec.config))


KIND: Final = GuardrailKind(name="python", config=AnyConfig, make=make, needs_entry=True, repeatable=False)
