"""How a kind of evaluator describes itself, and what it may use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from app.core import json
from app.core.errors import Failure
from app.core.value import contract_value
from app.policy.evaluator import Evaluator
from app.workspace.catalog import Kind
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.files import WorkspaceFiles
from app.workspace.specs.others import EvaluatorSpec

C = TypeVar("C", bound=BaseModel)

LoadFunction = Callable[[str, WorkspaceFiles, bool], Any]
"""Loads `module:function`; the last argument says that the module is a file of the workspace."""


@contract_value(frozen=True, slots=True)
class EvaluatorDeps:
    load: LoadFunction


@dataclass(frozen=True, kw_only=True)
class EvaluatorKind(Kind):
    make: Callable[[Named[EvaluatorSpec], CompiledWorkspace, EvaluatorDeps], Evaluator | Failure]
    """Makes the evaluator of one Evaluator document."""


def read_config(model: type[C], declared: Named[EvaluatorSpec]) -> C:
    """The document's `config` as the kind's model reads it, which the compiler has checked."""
    return model.model_validate_json(json.dumps(dict(declared.spec.config)))
