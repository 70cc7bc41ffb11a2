"""JSON values with templates in their texts, compiled once and filled for each use.

A text that is one place and nothing else gives the value itself, with its type. Leaves to `templates`: one text.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.value import mutable, value
from app.workspace.diagnostics import DocPath
from app.workspace.templates import MAX_FILLED, Template, TemplateProblem, compile_template

_MAX_DEPTH: Final = 32
_FEW: Final = 16
"""Templates whose values are not measured: so few can repeat a value only so often."""


@value(frozen=True, slots=True)
class ValueTemplate:
    value: Any
    """The JSON value, each text with places in it replaced by its `Template`."""
    many: bool = False
    """Whether there are so many templates that a large value could fill the memory."""

    def fill(self, values: Mapping[str, Any]) -> Any | Failure:
        return _filled(self.value, values, _Measured() if self.many else None)

    def places(self) -> Iterator[tuple[DocPath, Template]]:
        """The templates, each with its path in the value."""
        yield from _templates(self.value, ())


@value(frozen=True, slots=True)
class MisplacedText:
    """What is wrong with one text, and where it is."""

    path: DocPath
    message: str


def compile_value(value: Any, roots: Collection[str]) -> ValueTemplate | MisplacedText:
    made = _compiled(value, roots, ())
    if isinstance(made, MisplacedText):
        return made
    return ValueTemplate(made, many=sum(1 for _ in _templates(made, ())) > _FEW)


def _compiled(value: Any, roots: Collection[str], path: DocPath) -> Any:
    if len(path) > _MAX_DEPTH:
        return MisplacedText(path, f"the value is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, str):
        if "{{" not in value and "}}" not in value:
            return value
        made = compile_template(value, roots)
        return MisplacedText(path, made.message) if isinstance(made, TemplateProblem) else made
    if isinstance(value, Mapping):
        items = {key: _compiled(item, roots, (*path, key)) for key, item in value.items()}
        return next((item for item in items.values() if isinstance(item, MisplacedText)), items)
    if isinstance(value, list | tuple):
        listed = [_compiled(item, roots, (*path, number)) for number, item in enumerate(value)]
        return next((item for item in listed if isinstance(item, MisplacedText)), listed)
    return value


@mutable(slots=True)
class _Measured:
    """How much the templates of one value were filled with. A value that is used again is measured once."""

    total: int = 0
    sizes: dict[int, int] = field(default_factory=dict)

    def takes(self, value: Any) -> Failure | None:
        if id(value) not in self.sizes:
            self.sizes[id(value)] = len(value) if isinstance(value, str) else len(json.dumps(value))
        self.total += self.sizes[id(value)]
        if self.total <= MAX_FILLED:
            return None
        message = f"values fill the templates with more than {MAX_FILLED} characters in all"
        return Failure("INVALID_ARGUMENTS", message)


def _filled(value: Any, values: Mapping[str, Any], measured: _Measured | None) -> Any | Failure:
    if isinstance(value, Template):
        found = value.value(values)
        refused = None if measured is None or isinstance(found, Failure) else measured.takes(found)
        return found if refused is None else refused
    if isinstance(value, dict):
        made: dict[str, Any] = {}
        for key, item in value.items():
            made[key] = filled = _filled(item, values, measured)
            if isinstance(filled, Failure):
                return filled
        return made
    if isinstance(value, list):
        listed: list[Any] = []
        for item in value:
            filled = _filled(item, values, measured)
            if isinstance(filled, Failure):
                return filled
            listed.append(filled)
        return listed
    return value


def _templates(value: Any, path: DocPath) -> Iterator[tuple[DocPath, Template]]:
    if isinstance(value, Template):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _templates(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _templates(item, (*path, number))
