"""Models that clients use without an agent: what stands for each of them where a run needs one.

An exposed Model is `model:NAME`: no instructions, no tools but those of the client, the Model's own guardrails. Leaves
to the runtime: everything that a run does.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from app.workspace.compiled import CompiledAgent, Named
from app.workspace.index import Index
from app.workspace.report import Report
from app.workspace.specs.agent import AgentSpec
from app.workspace.specs.model import ModelSpec

PREFIX: Final = "model:"
"""Before the name of a Model, where a client names an agent. No agent can be called so."""


def check_plain_models(index: Index, models: Mapping[str, Named[ModelSpec]], report: Report) -> None:
    """The guardrails that they name must be there, and have an effect."""
    for model in models.values():
        place = index.documents["Model"][model.name].place
        for stage, names in model.spec.guardrails.stages.items():
            if names and not model.spec.expose:
                message = "guardrails of a Model hold where clients use it without an agent, and it is not exposed"
                report.error("NOT_SERVED", place, ("spec", "guardrails"), message, hint="add `expose: true`", key=True)
            elif names:
                index.refers_all("Guardrail", names, place, ("spec", "guardrails", stage), report)


def plain_models(models: Mapping[str, Named[ModelSpec]]) -> Mapping[str, CompiledAgent]:
    exposed = (model for model in models.values() if model.spec.expose)
    return MappingProxyType({f"{PREFIX}{model.name}": _standing_for(model) for model in exposed})


def _standing_for(model: Named[ModelSpec]) -> CompiledAgent:
    given = {"model": model.name, "clientTools": True, "guardrails": dict(model.spec.guardrails.stages)}
    spec = AgentSpec.model_validate(given)
    name = f"{PREFIX}{model.name}"
    return CompiledAgent(name, model.description, model.labels, spec, "", spec.plan, (), (), (), None)
