"""Providers by the name of their kind, each made when first used."""

import structlog

from app.models.capabilities import TOOL_CHOICE
from app.models.config import ModelConfig
from app.models.contract import Provider, ProviderDeps, ProviderKind
from app.workspace.catalog import Kinds

log = structlog.get_logger("holdfast.models")


class Providers:
    def __init__(self, kinds: Kinds[ProviderKind], deps: ProviderDeps) -> None:
        self._kinds, self._deps = kinds, deps
        self._made: dict[str, Provider | None] = {}

    def names(self) -> list[str]:
        return sorted(self._kinds)

    def get(self, name: str) -> Provider | None:
        """None when there is no such kind, or when it cannot be made; then its models are passed over."""
        if name not in self._made:
            kind = self._kinds.usable(name)
            try:
                self._made[name] = None if kind is None else kind.make(self._deps)
            except Exception as error:
                # A kind may come from another package; whatever it raises says that it cannot be used.
                log.warning("provider cannot be made", kind=name, reason=f"{type(error).__name__}: {error}")
                self._made[name] = None
        return self._made[name]

    def capabilities(self, config: ModelConfig) -> frozenset[str] | None:
        """What the model declares, else what its kind usually has; None for a kind that nobody offers."""
        provider = self.get(config.provider)
        if provider is None:
            return None
        return provider.capabilities if config.declared is None else config.declared

    def all_capabilities(self, config: ModelConfig) -> frozenset[str] | None:
        """The same with what only the kind knows of itself, for the few requests that ask for it."""
        provider, has = self.get(config.provider), self.capabilities(config)
        return has if provider is None or has is None else has | (provider.capabilities & {TOOL_CHOICE})
