"""Fills the places of a template with arguments, and its literal parts with secrets, in that separation:

an argument that looks like `${env:NAME}` stays what it is. Secrets are resolved at the moment of use and
scrubbed from whatever comes back. Leaves to the workspace: where templates are written and checked.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from app.core import json
from app.core.errors import Failure

_PLACE: Final = re.compile(r"\{\{\s*(args(?:\.[A-Za-z0-9_-]+)+)\s*\}\}")
_SECRET: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_MAX_TEXT: Final = 4 * 1024 * 1024  # characters of the arguments in one filled template
_REDACTED: Final = "[REDACTED:secret]"
_SHORTEST_SECRET: Final = 6  # replacing something shorter would tear words apart and hide nothing

Secret = Callable[[str], str | None]
"""The value of an environment variable that the workspace may use, None when there is none."""


class Template(Protocol):
    """Literal texts and paths in turn; `literals` has one more element than `places`."""

    @property
    def literals(self) -> tuple[str, ...]: ...

    @property
    def places(self) -> tuple[tuple[str, ...], ...]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """A template of our own, for tools that are declared in code."""

    literals: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, source: str) -> "Text":
        parts = _PLACE.split(source)
        return cls(tuple(parts[0::2]), tuple(tuple(path.split(".")) for path in parts[1::2]))


class Redaction:
    """Secrets that were given to somebody, and their removal from whatever comes back from there."""

    def __init__(self) -> None:
        self._spellings: tuple[str, ...] = ()

    def add(self, secret: str) -> None:
        if len(secret) >= _SHORTEST_SECRET:
            # Also as it is spelt within JSON. The longest first, for one secret may contain another.
            spellings = {*self._spellings, secret, json.dumps(secret).decode()[1:-1]}
            self._spellings = tuple(sorted(spellings, key=len, reverse=True))

    def text(self, text: str) -> str:
        for spelling in self._spellings:
            text = text.replace(spelling, _REDACTED)
        return text

    def data(self, data: bytes) -> bytes:
        for spelling in self._spellings:
            data = data.replace(spelling.encode(), _REDACTED.encode())
        return data

    def value(self, value: Any) -> Any:
        """A JSON value, after it was read: before, any character of a secret may be spelt in several ways."""
        if not self._spellings:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value


@dataclass(slots=True)
class Rendering:
    """One call's rendering; remembers the secrets that it used."""

    arguments: Mapping[str, Any]
    secret: Secret
    secrets: "Redaction" = field(default_factory=lambda: Redaction())
    """Those that were used."""

    def text(self, template: Template, quote: Callable[[str], str] = str) -> str:
        parts = [self._literal(template.literals[0])]
        size = 0
        for place, literal in zip(template.places, template.literals[1:], strict=True):
            parts += [quote(_as_text(self._value(place))), self._literal(literal)]
            size += len(parts[-2])
            if size > _MAX_TEXT:
                # An argument may stand in many places; what it fills must not grow with each of them.
                message = f"the arguments fill a template with more than {_MAX_TEXT} characters"
                raise RenderingError(Failure("INVALID_ARGUMENTS", message))
        return "".join(parts)

    def value(self, template: Template) -> Any:
        """The argument itself, with its type, when the template is one place and nothing else."""
        if len(template.places) == 1 and template.literals == ("", ""):
            return self._value(template.places[0])
        return self.text(template)

    def _literal(self, text: str) -> str:
        return _SECRET.sub(self._resolved, text)

    def _resolved(self, found: re.Match[str]) -> str:
        value = self.secret(found[1])
        if value is None:
            raise RenderingError(Failure("TOOL_UNAVAILABLE", f"the environment variable {found[1]} is not set"))
        self.secrets.add(value)
        return value

    def _value(self, place: tuple[str, ...]) -> Any:
        value: Any = {"args": self.arguments}
        for step in place:
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                message = f"the tool needs the argument {'.'.join(place[1:])}"
                raise RenderingError(Failure("INVALID_ARGUMENTS", message))
        return value


class RenderingError(Exception):
    """Carries the failure out of a rendering; never leaves the kind that renders."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value).decode()
