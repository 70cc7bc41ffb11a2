"""A model of the workspace with its name: the spec of its document, and what this package derives from it once.

Keys stay references (`${env:NAME}`) here; a provider resolves them when it calls.
"""

from typing import Any

from app.workspace.specs.base import Name
from app.workspace.specs.model import ModelSpec
from app.workspace.specs.plain import plain


class ModelConfig(ModelSpec):
    name: Name
    declared: frozenset[str] | None = None
    """Its capabilities as the words of `requiredCapabilities`; None takes what its provider usually has."""

    @property
    def api_version(self) -> str | None:
        version = self.config.get("apiVersion")
        return version if isinstance(version, str) else None

    @property
    def extra_body(self) -> dict[str, Any]:
        return dict(self.config.get("body") or {})


def model_config(name: str, spec: ModelSpec) -> ModelConfig:
    """Not validated again: the compiler did."""
    return plain(ModelConfig.model_construct(name=name, declared=spec.capabilities.names(), **spec.__dict__))
