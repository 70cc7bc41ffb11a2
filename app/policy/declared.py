"""From a workspace's Hook documents to the runner that asks them: each kind reads its own fields.

A hook is asked where the Runtime lists it, for every agent, or an agent does, for that one; `match` narrows it further.
`build` is given the kinds by wiring and answers a runner, or every reason why there is none.
"""

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.policy.contract import Hook, Point
from app.policy.hooks import HookRunner
from app.policy.kind import HookDeps, HookKind
from app.workspace.catalog import Kinds
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.others import HookSpec


def build(
    workspace: CompiledWorkspace,
    kinds: Kinds[HookKind],
    deps: HookDeps,
    *,
    schemas: SchemaRegistry,
    clock: Clock | None = None,
) -> HookRunner | list[Failure]:
    """All hooks, or all failures: a workspace with a hook that cannot work is not served."""
    hooks: list[Hook] = []
    failures: list[Failure] = []
    for declared in workspace.hooks.values():
        made = make(declared, workspace, kinds, deps)
        if isinstance(made, Failure):
            failures.append(made)
        else:
            hooks.append(made)
    return failures or HookRunner(hooks, schemas=schemas, clock=clock)


def make(
    declared: Named[HookSpec], workspace: CompiledWorkspace, kinds: Kinds[HookKind], deps: HookDeps
) -> Hook | Failure:
    spec = declared.spec
    kind = kinds.usable(spec.kind)
    if kind is None:
        return Failure("HOOK_INVALID", f"{declared.name}: there is no kind of hook {spec.kind!r} here")
    handler = kind.make(declared, workspace, deps)
    if isinstance(handler, Failure):
        return handler
    return Hook(
        declared.name,
        points_of(spec),
        handler,
        spec.priority,
        float(spec.timeout_seconds),
        frozenset(spec.match.tools),
        _agents(declared, workspace),
    )


def points_of(spec: HookSpec) -> frozenset[Point]:
    return frozenset(Point(name) for name in spec.on)


def _agents(declared: Named[HookSpec], workspace: CompiledWorkspace) -> frozenset[str] | None:
    matched = frozenset(declared.spec.match.agents)
    if declared.name in workspace.runtime.hooks:
        return matched or None
    listed = frozenset(name for name, agent in workspace.everyone_acting.items() if declared.name in agent.spec.hooks)
    return listed & matched if matched else listed
