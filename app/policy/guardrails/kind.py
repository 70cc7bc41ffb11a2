"""How a kind of guardrail describes itself, and what it may use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from app.core import json
from app.core.errors import Failure
from app.core.value import contract_value
from app.policy.guardrails.contract import Judge, Scanner
from app.policy.kind import Load
from app.workspace.catalog import RuleKind
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.others import GuardrailSpec

ModelT = TypeVar("ModelT", bound=BaseModel)


@contract_value(frozen=True, slots=True)
class GuardrailDeps:
    load: Load
    """Loads `module:function`, for a kind that calls one."""


Made = tuple[Scanner, ...] | Judge | Failure
"""Scanners, for a kind that can follow a stream, or a judge of whole contents."""


@dataclass(frozen=True, kw_only=True)
class GuardrailKind(RuleKind):
    """A package offers one as an entry point of the group `holdfast.guardrails`."""

    make: Callable[[Named[GuardrailSpec], CompiledWorkspace, GuardrailDeps], Made]
    """Makes the scanners or the judge of one Guardrail document; called once for a workspace."""
    repeatable: bool = True
    """Whether a judge answers the same about the same content. If not, its answers are recorded for resumed runs."""


def config_of(declared: Named[GuardrailSpec], model: type[ModelT]) -> ModelT:
    """The document's `config` as the kind's own model has it; the compiler has checked it."""
    return model.model_validate_json(json.dumps(dict(declared.spec.config)))
