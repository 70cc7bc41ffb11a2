"""From the names in a compiled workspace to a plan of models: primary, its stand-ins, what all must be able to do.

One per compiled workspace; what it made is kept. Leaves to `negotiate`: who of them qualifies.
"""

from collections.abc import Iterator, Mapping

from app.models.config import ModelConfig, model_config
from app.models.negotiate import ModelChoice, ProtocolConstraints
from app.workspace.compiled import Named
from app.workspace.specs import agent
from app.workspace.specs.model import ModelSpec


class ModelPlans:
    def __init__(self, models: Mapping[str, Named[ModelSpec]]) -> None:
        self._models = models
        self._configs: dict[str, ModelConfig] = {}
        self._plans: dict[tuple[object, ...], ModelChoice] = {}

    def plan(self, wanted: agent.ModelPlan) -> ModelChoice:
        """The plan's own order first; after it come the stand-ins that its models name themselves."""
        constraints = ProtocolConstraints(wanted.min_provider_api_version, wanted.strict_capability_negotiation)
        key = (wanted.primary, tuple(wanted.fallbacks), tuple(wanted.required_capabilities), constraints)
        made = self._plans.get(key)
        if made is None:
            primary, *others = self._in_order((wanted.primary, *wanted.fallbacks))
            required = frozenset(wanted.required_capabilities)
            made = self._plans[key] = ModelChoice(primary, tuple(others), required, constraints)
        return made

    def config(self, name: str) -> ModelConfig:
        made = self._configs.get(name)
        if made is None:
            made = self._configs[name] = model_config(name, self._models[name].spec)
        return made

    def _in_order(self, names: tuple[str, ...]) -> Iterator[ModelConfig]:
        waiting = list(dict.fromkeys(names))
        known = set(waiting)
        while waiting:
            config = self.config(waiting.pop(0))
            yield config
            more = [name for name in config.fallbacks if name not in known]
            known.update(more)
            waiting += more
