"""Shapes of answers, named by routes and imported for the OpenAPI document: nothing else looks at them.

To mypy these are the modules themselves. When the program runs, an attribute is a promise of the shape of that name,
which a route keeps until it is described. Leaves to others: the shapes (`shapes`, `eval_shapes`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.protocols.http import eval_shapes, shapes


class LateShape:
    def __init__(self, *alternatives: tuple[str, str]) -> None:
        self._alternatives = alternatives

    def __or__(self, other: "LateShape") -> "LateShape":
        return LateShape(*self._alternatives, *other._alternatives)

    def found(self) -> Any:
        first, *others = (getattr(import_module(module), name) for module, name in self._alternatives)
        for other in others:
            first = first | other
        return first


class LateShapes:
    """A module of shapes that is imported when one of them is looked for."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> LateShape:
        return LateShape((self._module, name))


if not TYPE_CHECKING:
    shapes = LateShapes("app.protocols.http.shapes")
    eval_shapes = LateShapes("app.protocols.http.eval_shapes")


def with_shapes(options: dict[str, Any]) -> dict[str, Any]:
    """What a route was declared with, and the shapes themselves where it names them."""
    found = {name: _found(value) for name, value in options.items()}
    if responses := options.get("responses"):
        found["responses"] = {
            status: {name: _found(value) for name, value in answer.items()} for status, answer in responses.items()
        }
    return found


def _found(value: Any) -> Any:
    return value.found() if isinstance(value, LateShape) else value


__all__ = [
    "LateShape",
    "LateShapes",
    "eval_shapes",
    "shapes",
    "with_shapes",
]
