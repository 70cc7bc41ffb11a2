"""A document as a plain value: what is read for every model call is read from slots.

An attribute of a pydantic model costs ten times as much to read as one of any other object, because the class has a
`__getattr__`, and one model call reads some sixty of them.
"""

from dataclasses import make_dataclass
from functools import cache
from typing import Any, TypeVar

from app.workspace.specs.base import Spec

S = TypeVar("S", bound=Spec)


def plain(document: S) -> S:
    """The document's fields and properties, and those of the documents that are its fields. It has the type of the
    document only for mypy, and none of its methods."""
    values = {name: plain(held) if isinstance(held, Spec) else held for name, held in document.__dict__.items()}
    made: S = _plain_class(type(document))(**values, model_fields_set=document.model_fields_set)
    return made


@cache
def _plain_class(of: type[Spec]) -> type[Any]:
    bases = [base for base in reversed(of.__mro__) if issubclass(base, Spec)]
    properties = {name: held for base in bases for name, held in vars(base).items() if isinstance(held, property)}
    names = (*of.model_fields, "model_fields_set")
    return make_dataclass(of.__name__, [(name, Any) for name in names], namespace=properties, slots=True)
