"""What the compiler has to say: code, severity, place, what was expected, and a hint.

Values with two renderings, text for a terminal and JSON for programs. Nobody here decides what is wrong.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

from app.core.value import value
from app.workspace.codes import CODES

Severity = Literal["error", "warning"]
DocPath = tuple[str | int, ...]

SYNTAX: Final = frozenset(
    {
        "FILE_TOO_LARGE",
        "FILE_UNREADABLE",
        "FILE_ENCODING",
        "YAML_SYNTAX",
        "YAML_ALIAS",
        "YAML_TAG",
        "YAML_DUPLICATE_KEY",
        "YAML_KEY",
        "YAML_NUMBER",
        "YAML_TOO_DEEP",
        "FRONTMATTER_OPEN",
        "DOCUMENT_NOT_MAPPING",
        "API_VERSION",
        "KIND_MISSING",
        "KIND_UNKNOWN",
        "PYTHON_SYNTAX",
    }
)
"""What keeps a file from being read. Such a mistake may be the cause of others, so it is shown first."""

_RED: Final = "\x1b[31m"
_YELLOW: Final = "\x1b[33m"
_BOLD: Final = "\x1b[1m"
_DIM: Final = "\x1b[2m"
_OFF: Final = "\x1b[0m"


@value(frozen=True, slots=True)
class Diagnostic:
    code: str
    severity: Severity
    file: str
    line: int
    column: int
    path: str
    message: str
    document: str = ""
    expected: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        assert self.code in CODES, f"diagnostic code {self.code} is not in workspace/codes.py"

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else "(workspace)"

    @property
    def remedy(self) -> str:
        return self.hint or CODES[self.code].remedy

    def as_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "document": self.document,
            "path": self.path,
            "message": self.message,
            "expected": self.expected,
            "hint": self.remedy,
        }


@value(frozen=True, slots=True)
class Diagnostics:
    """A complete list: files that cannot be read, then the rest in the order of files and lines. The order is the same
    on every machine."""

    items: tuple[Diagnostic, ...] = ()

    @classmethod
    def of(cls, items: Iterable[Diagnostic]) -> "Diagnostics":
        return cls(tuple(sorted(set(items), key=_order)))

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(item for item in self.items if item.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(item for item in self.items if item.severity == "warning")

    def as_json(self) -> list[dict[str, Any]]:
        return [item.as_json() for item in self.items]

    def as_text(self, *, colour: bool = False) -> str:
        return "\n".join(_render(item, colour) for item in self.items)


def _order(item: Diagnostic) -> tuple[bool, str, int, int, str, str, str]:
    return item.code not in SYNTAX, item.file, item.line, item.column, item.code, item.path, item.message


def dotted(path: DocPath) -> str:
    """`spec.tools[2]`: how a place in a document is written."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def _render(item: Diagnostic, colour: bool) -> str:
    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_OFF}" if colour else text

    severity = paint(_RED if item.severity == "error" else _YELLOW, f"{item.severity:7}")
    where = f" {paint(_DIM, printable(item.path))}" if item.path else ""
    lines = [f"{severity} {paint(_BOLD, printable(item.place))} {item.code}{where}"]
    lines.append(f"        {printable(item.message)}")
    if item.expected:
        lines.append(f"        expected: {printable(item.expected)}")
    lines.append(f"        hint: {printable(item.remedy)}")
    return "\n".join(lines)


def printable(text: str) -> str:
    """Without control characters: names in a workspace must not drive the terminal that shows them."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
