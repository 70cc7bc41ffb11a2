"""Python functions as evaluators, async ones on the loop and plain ones in a thread. Trusted code.

A function takes the run as a dict and, if it declares a parameter `config`, the document's `config`. It returns a
number from 0 to 1, a bool, or `{"score": ..., "reason": ...}`.
"""

import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.evals.kind import EvaluatorDeps, EvaluatorKind
from app.outside.threads import in_thread
from app.policy.evaluator import AskJudge, NotEvaluated, Score
from app.views.run_record import RunRecord
from app.workspace.catalog import AnyConfig
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.entries import module_file
from app.workspace.specs.others import EvaluatorSpec


class FunctionEvaluator:
    def __init__(self, name: str, function: Callable[..., Any], config: Mapping[str, Any]) -> None:
        self._name, self._function, self._config = name, function, config
        self._takes_config = "config" in inspect.signature(function).parameters

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        # A copy: what a function does to its input must change nothing.
        document = json.loads(json.dumps(record.to_json()))
        extra = {"config": dict(self._config)} if self._takes_config else {}
        call = partial(self._function, document, **extra)
        if inspect.iscoroutinefunction(self._function):
            return _score(await call())
        return _score(await in_thread(partial(copy_context().run, call), f"evaluator-{self._name}"))


def _score(given: Any) -> Score:
    reason: Any = ""
    if isinstance(given, Mapping):
        given, reason = given.get("score"), given.get("reason") or ""
    if isinstance(given, bool):
        given = 1.0 if given else 0.0
    if not isinstance(given, int | float):
        raise NotEvaluated("the function returned no score")
    return Score(given, str(reason))


def make(
    declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps
) -> FunctionEvaluator | Failure:
    entry = declared.spec.entry or ""
    own = module_file(entry.partition(":")[0], workspace.files) is not None
    loaded = deps.load(entry, workspace.files, own)
    if isinstance(loaded, Failure):
        return Failure("EVALUATOR_INVALID", f"{declared.name}: {loaded.message}")
    if not callable(loaded):
        return Failure("EVALUATOR_INVALID", f"{declared.name}: {entry} is not a function")
    return FunctionEvaluator(declared.name, loaded, declared.spec.config)


KIND: Final = EvaluatorKind(name="python", make=make, config=AnyConfig, needs_entry=True)
