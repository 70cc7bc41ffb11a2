"""Templates without logic: text with `{{ args.name }}` places, compiled once and filled for each call.

A place is a path of names from a known root. Whoever renders says how a value is quoted for its target, and what
becomes of the literal texts, which may refer to secrets.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.value import value

# Without a lazy part or optional spaces: those would try every split of a long run of spaces.
_PLACE: Final = re.compile(r"\{\{([^{}]*)\}\}")
_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_][A-Za-z0-9_-]*)*")
_MAX_PLACES: Final = 200
_MAX_PATH: Final = 500  # characters; deeper values than this are no arguments
MAX_FILLED: Final = 4 * 1024 * 1024
"""Characters that values may fill one template with: a value may be used in many places."""


@value(frozen=True, slots=True)
class TemplateProblem:
    message: str


@value(frozen=True, slots=True)
class Template:
    """Literal texts and paths, in turn: `literals` has one more element than `places`."""

    source: str
    literals: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]

    def render(
        self,
        values: Mapping[str, Any],
        quote: Callable[[str], str] = str,
        *,
        literal: Callable[[str], str] = str,
        most: int = MAX_FILLED,
    ) -> str | Failure:
        """The text, each value passed through `quote` (for a URL, a header, an argument of a program)."""
        parts, filled = [literal(self.literals[0])], 0
        for place, text in zip(self.places, self.literals[1:], strict=True):
            value = _look_up(values, place)
            if isinstance(value, Failure):
                return value
            parts += [quote(_as_text(value)), literal(text)]
            filled += len(parts[-2])
            if filled > most:
                message = f"the arguments fill a template with more than {most} characters"
                return Failure("INVALID_ARGUMENTS", message)
        return "".join(parts)

    def value(self, values: Mapping[str, Any], *, literal: Callable[[str], str] = str) -> Any | Failure:
        """The value itself, with its type, when the template is one place and nothing else; else the text."""
        if len(self.places) == 1 and self.literals == ("", ""):
            return _look_up(values, self.places[0])
        return self.render(values, literal=literal)


def compile_template(source: str, roots: Collection[str]) -> Template | TemplateProblem:
    """What is in two braces must be a path from one of the roots."""
    literals: list[str] = []
    places: list[tuple[str, ...]] = []
    end = 0
    for found in _PLACE.finditer(source):
        if len(places) == _MAX_PLACES:
            return TemplateProblem(f"there are more than {_MAX_PLACES} places")
        steps = _steps(found[1])
        if steps is None:
            return TemplateProblem(f"{found[0][:_MAX_PATH]!r} is not a path such as {{{{ {min(roots)}.name }}}}")
        if steps[0] not in roots:
            return TemplateProblem(f"{steps[0]!r} is not known here; use one of: {', '.join(sorted(roots))}")
        literals.append(source[end : found.start()])
        places.append(steps)
        end = found.end()
    literals.append(source[end:])
    if any("{{" in text or "}}" in text for text in literals):
        return TemplateProblem("a place is not closed")
    return Template(source, tuple(literals), tuple(places))


def tolerant_template(source: str, roots: Collection[str]) -> Template:
    """For texts that may hold braces of their own: whatever is not a path from one of the roots stays as it is."""
    literals: list[str] = []
    places: list[tuple[str, ...]] = []
    end = 0
    for found in _PLACE.finditer(source):
        steps = _steps(found[1])
        if steps is not None and steps[0] in roots:
            literals.append(source[end : found.start()])
            places.append(steps)
            end = found.end()
    return Template(source, (*literals, source[end:]), tuple(places))


def _steps(inside: str) -> tuple[str, ...] | None:
    path = inside.strip()
    return tuple(path.split(".")) if len(path) <= _MAX_PATH and _PATH.fullmatch(path) else None


def _look_up(values: Mapping[str, Any], place: tuple[str, ...]) -> Any | Failure:
    value: Any = values
    for step in place:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            path = ".".join(place)
            return Failure("TEMPLATE_VALUE_MISSING", f"there is no value for {path}", detail={"path": path})
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value).decode()
