"""Which model of a workspace comes nearest to one that a recorded run used. Pure functions.

A capability is a word of `requiredCapabilities`. Leaves to `reruns`: when another model is taken at all.
"""

from collections.abc import Iterable

from app.core.value import value
from app.views.replay_token import capability_hash
from app.workspace.compiled import CompiledWorkspace


@value(frozen=True, slots=True)
class Substitute:
    """A model in place of a recorded one, and how it differs."""

    recorded: str
    model: str
    lacks: tuple[str, ...]
    adds: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return {"recorded": self.recorded, "model": self.model, "lacks": list(self.lacks), "adds": list(self.adds)}


def fingerprint(workspace: CompiledWorkspace | None, names: Iterable[str]) -> str:
    """Of the models with these names; one that the workspace does not have counts by its name."""
    models = workspace.models if workspace is not None else {}
    known = ((name, models.get(name)) for name in names)
    return capability_hash(
        (found.spec.provider, found.spec.capabilities.names()) if found is not None else ("unknown", [name])
        for name, found in known
    )


def nearest(
    workspace: CompiledWorkspace, recorded: str, before: CompiledWorkspace | None, required: frozenset[str]
) -> Substitute | None:
    """The model that has all that is required and differs least from the recorded one; None where none has."""
    former = before.models.get(recorded) if before is not None else None
    wanted = former.spec.capabilities.names() if former is not None else required
    provider = former.spec.provider if former is not None else None
    ranked = []
    for name, model in workspace.models.items():
        has = model.spec.capabilities.names()
        if required <= has:
            lacks, adds = sorted(wanted - has), sorted(has - wanted)
            ranked.append((len(lacks), model.spec.provider != provider, len(adds), name, lacks, adds))
    if not ranked:
        return None
    *_, name, lacks, adds = min(ranked)
    return Substitute(recorded, name, tuple(lacks), tuple(adds))
