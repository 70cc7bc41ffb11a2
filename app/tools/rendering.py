"""Fills templates with the arguments of a call and with secrets, and takes the secrets out of what comes back.

Secrets are resolved at the moment of use and only in a template's literal texts: an argument that looks like
`${env:NAME}` stays what it is. Leaves to `workspace.templates`: compiling and filling them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.value import mutable
from app.workspace.templates import Template

_SECRET: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_REDACTED: Final = "[REDACTED:secret]"
_SHORTEST_SECRET: Final = 6  # replacing something shorter would tear words apart and hide nothing

Secret = Callable[[str], str | None]
"""The value of an environment variable that the workspace may use, None when there is none."""


class SecretRedaction:
    """Secrets that were given to somebody, and their removal from whatever comes back from there."""

    def __init__(self) -> None:
        self._fixed: set[str] = set()
        self._renewed: dict[str, tuple[str, ...]] = {}
        self._spellings: tuple[str, ...] = ()

    def add(self, secret: str) -> None:
        if len(secret) >= _SHORTEST_SECRET and secret not in self._fixed:
            self._fixed.add(secret)
            self._spell()

    def renew(self, owner: str, secret: str) -> None:
        """One that replaces what its owner had before; the former one is still taken out, older ones are not."""
        former = self._renewed.get(owner, ())
        if len(secret) >= _SHORTEST_SECRET and secret not in former:
            self._renewed[owner] = (*former[-1:], secret)
            self._spell()

    def _spell(self) -> None:
        secrets = self._fixed.union(*self._renewed.values())
        # Also as it is spelt within JSON. The longest first, for one secret may contain another.
        spellings = secrets | {json.dumps(secret).decode()[1:-1] for secret in secrets}
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


@mutable(slots=True)
class Rendering:
    """One call's rendering; remembers the secrets that it used."""

    arguments: Mapping[str, Any]
    secret: Secret
    secrets: "SecretRedaction" = field(default_factory=lambda: SecretRedaction())
    """Those that were used."""

    def text(self, template: Template, quote: Callable[[str], str] = str) -> str:
        text: str = _rendered(template.render({"args": self.arguments}, quote, literal=self._literal))
        return text

    def value(self, template: Template) -> Any:
        """The argument itself, with its type, when the template is one place and nothing else."""
        return _rendered(template.value({"args": self.arguments}, literal=self._literal))

    def _literal(self, text: str) -> str:
        return _SECRET.sub(self._resolved, text)

    def _resolved(self, found: re.Match[str]) -> str:
        value = self.secret(found[1])
        if value is None:
            raise RenderingError(Failure("TOOL_UNAVAILABLE", f"The environment variable {found[1]} is not set."))
        self.secrets.add(value)
        return value


class RenderingError(Exception):
    """Carries the failure out of a rendering; never leaves the kind that renders."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _rendered(result: Any) -> Any:
    if isinstance(result, Failure):
        if result.code == "TEMPLATE_VALUE_MISSING":
            argument = result.detail["path"].partition(".")[2]
            result = Failure("INVALID_ARGUMENTS", f"The tool needs the argument {argument}.")
        raise RenderingError(result)
    return result
