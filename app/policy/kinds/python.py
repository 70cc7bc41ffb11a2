"""Python functions as hooks, async ones on the loop and plain ones in a thread. Trusted code.

A function takes the subject and, if it declares a parameter `ctx`, the HookContext; `config` likewise gets what the
Hook document says in `config`. It is the workspace's own, an installed module's, or a package's entry point.
"""

import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.outside.threads import in_thread
from app.policy.contract import HookContext
from app.policy.kind import HookDeps, HookKind
from app.workspace.catalog import AnyConfig
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.entries import module_file
from app.workspace.specs.others import HookSpec


class FunctionHandler:
    def __init__(self, function: Callable[..., Any], config: Mapping[str, Any] | None = None) -> None:
        self._function = function
        self._config = {} if config is None else config
        self._takes = frozenset(inspect.signature(function).parameters)

    async def decide(self, subject: JsonObject, ctx: HookContext) -> object:
        extra = {"ctx": ctx, "config": self._config}
        call = partial(self._function, subject, **{name: extra[name] for name in extra if name in self._takes})
        if inspect.iscoroutinefunction(self._function):
            return await call()
        return await in_thread(partial(copy_context().run, call), f"hook-{ctx.hook}")


def make(declared: Named[HookSpec], workspace: CompiledWorkspace, deps: HookDeps) -> FunctionHandler | Failure:
    entry = declared.spec.entry or ""
    own = module_file(entry.partition(":")[0], workspace.files) is not None
    loaded = deps.load(entry, workspace.files, own)
    if isinstance(loaded, Failure):
        return Failure("HOOK_INVALID", f"{declared.name}: {loaded.message}")
    if not callable(loaded):
        return Failure("HOOK_INVALID", f"{declared.name}: {entry} is not a function")
    return FunctionHandler(loaded, declared.spec.config)


KIND: Final = HookKind(name="python", make=make, config=AnyConfig)
