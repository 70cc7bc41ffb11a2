"""What the audit needs besides the events: the hooks that a run's agent had, by the workspace it ran with."""

from app.views.audit_hooks import ExpectedHook
from app.workspace.compiled import CompiledWorkspace


def expected_hooks(workspace: CompiledWorkspace, agent: str | None) -> list[ExpectedHook]:
    """`agent` is None for a tool that was asked for directly."""
    found = workspace.everyone_acting.get(agent or "")
    own = found.spec.hooks if found is not None else ()
    expected = []
    for name, hook in workspace.hooks.items():
        match = hook.spec.match
        listed = name in workspace.runtime.hooks or name in own
        if listed and (not match.agents or agent in match.agents):
            expected.append(ExpectedHook(name, frozenset(hook.spec.on), frozenset(match.tools)))
    return expected
