"""Provider kinds by name: ours from wiring, others from installed packages, each built when first used.

A package offers a kind as an entry point of the group `holdfast.providers`: a callable that takes
`ProviderDeps` and gives a `Provider`. Its name is what a Model document says in `provider`.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Final

import structlog

from app.models.capabilities import TOOL_CHOICE
from app.models.config import ModelConfig
from app.models.contract import Provider, ProviderDeps, ProviderFactory

log = structlog.get_logger("holdfast.models")
ENTRY_POINT_GROUP: Final = "holdfast.providers"


def installed_kinds() -> dict[str, ProviderFactory]:
    """What packages offer. Nothing of theirs is imported before it is used."""
    return {point.name: _Later(point.load) for point in entry_points(group=ENTRY_POINT_GROUP)}


class _Later:
    def __init__(self, load: Callable[[], ProviderFactory]) -> None:
        self._load = load

    def __call__(self, deps: ProviderDeps) -> Provider:
        return self._load()(deps)


class Providers:
    def __init__(self, kinds: Mapping[str, ProviderFactory], deps: ProviderDeps) -> None:
        self._kinds = dict(kinds)
        self._deps = deps
        self._built: dict[str, Provider] = {}

    def names(self) -> list[str]:
        return sorted(self._kinds)

    def get(self, kind: str) -> Provider | None:
        """None when nobody offers the kind, or when the package that does cannot be imported."""
        if kind not in self._built and kind in self._kinds:
            try:
                self._built[kind] = self._kinds[kind](self._deps)
            except ImportError as error:
                log.warning("provider kind cannot be imported", kind=kind, reason=str(error))
                del self._kinds[kind]
        return self._built.get(kind)

    def capabilities(self, config: ModelConfig) -> frozenset[str] | None:
        """What the model declares, else what its kind usually has; None for a kind that nobody offers."""
        provider = self.get(config.provider)
        if provider is None:
            return None
        return provider.capabilities if config.capabilities is None else config.capabilities

    def all_capabilities(self, config: ModelConfig) -> frozenset[str] | None:
        """The same with what only the kind knows of itself, for the few requests that ask for it."""
        provider, has = self.get(config.provider), self.capabilities(config)
        return has if provider is None or has is None else has | (provider.capabilities & {TOOL_CHOICE})
