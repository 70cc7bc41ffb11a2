"""Which models of a plan can do what is asked: required capabilities against declared ones, in the plan's
order.

Pure; `router` records the outcome and calls whoever qualified.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from app.core.errors import Failure
from app.core.value import value
from app.events.catalog.builders import BuiltModelNegotiated
from app.models.capabilities import MEDIA, needed, strictly_needed
from app.models.completion import CompletionRequest
from app.models.config import ModelConfig

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(-preview)?")
_NUMBER: Final = re.compile(r"v([0-9]{1,4})(?:(alpha|beta)([0-9]{0,4}))?")
_STAGES: Final = {"alpha": 0, "beta": 1, "": 2}


@value(frozen=True, slots=True)
class ProtocolConstraints:
    min_api_version: str | None = None
    """Of the provider's interface, e.g. `2023-06-01`; a model that declares none does not qualify."""
    strict: bool = False
    """Whether a model that could answer only with less than the request asks for does not qualify."""


_MEDIA: Final = frozenset(f"{way}.{medium}" for way in ("input", "output") for medium in MEDIA)


@value(frozen=True, slots=True)
class ModelChoice:
    """Who is asked first, who stands in, and what all of them must be able to do."""

    primary: ModelConfig
    fallbacks: tuple[ModelConfig, ...] = ()
    required: frozenset[str] = frozenset()
    constraints: ProtocolConstraints = ProtocolConstraints()
    outcomes: "dict[frozenset[str], Negotiation]" = field(default_factory=dict, compare=False, repr=False)
    """What came of it so far, by what was required: nearly every call requires the same."""


@dataclass(frozen=True)
class Negotiation:
    required: tuple[str, ...]
    candidates: tuple[tuple[str, tuple[str, ...]], ...]
    """Each model that was considered, with what it lacks."""
    qualified: tuple[ModelConfig, ...]

    @cached_property
    def payload(self) -> BuiltModelNegotiated:
        chosen = self.qualified[0] if self.qualified else None
        return BuiltModelNegotiated(
            required=self.required,
            candidates=self.candidates,
            model=None if chosen is None else chosen.name,
            provider=None if chosen is None else chosen.provider,
        )

    def failure(self) -> Failure:
        lacking = [{"model": name, "lacks": list(lacks)} for name, lacks in self.candidates]
        detail = {"required": list(self.required), "candidates": lacking}
        missing = sorted({what for _, lacks in self.candidates for what in lacks})
        message = f"No model of the plan can do what is required ({', '.join(missing)})."
        return Failure("NEGOTIATION_FAILED", message, detail=detail)


CapabilitiesOf = Callable[[ModelConfig], frozenset[str] | None]
"""What a model has; None when nobody knows its provider kind."""


def negotiate(plan: ModelChoice, request: CompletionRequest, capabilities_of: CapabilitiesOf) -> Negotiation:
    required = plan.required | (strictly_needed(request) if plan.constraints.strict else needed(request))
    found = plan.outcomes.get(required)
    if found is None:
        found = plan.outcomes[required] = _negotiated(plan, required, capabilities_of)
    return found


def media_of(plan: ModelChoice, capabilities_of: CapabilitiesOf) -> frozenset[str]:
    """What the models take and make that qualify at all, as `input.image` or `output.audio`."""
    qualified = _negotiated(plan, plan.required, capabilities_of).qualified
    has = frozenset[str]().union(*(capabilities_of(model) or () for model in qualified))
    return has & _MEDIA


def _negotiated(plan: ModelChoice, required: frozenset[str], capabilities_of: CapabilitiesOf) -> Negotiation:
    models = (plan.primary, *plan.fallbacks)
    candidates = tuple((model.name, _lacks(model, required, plan.constraints, capabilities_of)) for model in models)
    qualified = tuple(model for model, (_, lacks) in zip(models, candidates, strict=True) if not lacks)
    return Negotiation(tuple(sorted(required)), candidates, qualified)


def _lacks(
    model: ModelConfig,
    required: frozenset[str],
    constraints: ProtocolConstraints,
    capabilities_of: CapabilitiesOf,
) -> tuple[str, ...]:
    has = capabilities_of(model)
    if has is None:
        return (f"provider:{model.provider}",)
    lacks = sorted(required - has)
    version = constraints.min_api_version
    if version is not None and not _is_at_least(model.api_version, version):
        lacks.append(f"apiVersion>={version}")
    return tuple(lacks)


def _is_at_least(declared: str | None, wanted: str) -> bool:
    """Versions are dates (`2024-10-21`, before it its `-preview`) or numbers (`v1alpha`, `v1beta2`, `v1`); one of the
    other form, or of none, is never enough."""
    has, least = _order(declared or ""), _order(wanted)
    return has is not None and least is not None and has[0] == least[0] and has >= least


def _order(version: str) -> tuple[str, int, int, int] | None:
    if found := _DATE.fullmatch(version):
        return "date", int(found[1] + found[2] + found[3]), 0 if found[4] else 1, 0
    if found := _NUMBER.fullmatch(version):
        return "number", int(found[1]), _STAGES[found[2] or ""], int(found[3] or 0)
    return None
