"""Collects diagnostics and finds the line and column of each place that is named."""

from collections.abc import Iterable
from dataclasses import replace

from app.core.value import value
from app.workspace.diagnostics import Diagnostic, DocPath, Severity, dotted
from app.workspace.documents import Locator, YamlProblem
from app.workspace.names import Suggester


@value(frozen=True, slots=True)
class Source:
    """The YAML text of a file: all of it, or the frontmatter of a Markdown file, which begins on line 2."""

    file: str
    content: bytes
    line_offset: int = 0


@value(frozen=True, slots=True)
class DocumentPlace:
    """One document: where it stands and what it is called in messages, such as `Agent/assistant`."""

    source: Source
    index: int = 0
    title: str = ""


class Report:
    def __init__(self, tolerated: frozenset[str] = frozenset()) -> None:
        """`tolerated` are codes of errors that are only warnings here."""
        self.items: list[Diagnostic] = []
        self._tolerated = tolerated
        self.suggest = Suggester()
        self._locators: dict[str, Locator] = {}

    def error(
        self,
        code: str,
        place: DocumentPlace,
        path: DocPath,
        message: str,
        *,
        expected: str | None = None,
        hint: str | None = None,
        key: bool = False,
    ) -> None:
        line, column = self._locator(place.source).find(place.index, path, key=key)
        where = (place.source.file, line, column, dotted(path))
        severity: Severity = "warning" if code in self._tolerated else "error"
        self.items.append(Diagnostic(code, severity, *where, message, place.title, expected, hint))

    def add(self, items: Iterable[Diagnostic]) -> None:
        """What was found elsewhere."""
        self.items += [replace(item, severity="warning") if item.code in self._tolerated else item for item in items]

    def warning(
        self,
        code: str,
        place: DocumentPlace,
        path: DocPath,
        message: str,
        *,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        line, column = self._locator(place.source).find(place.index, path)
        where = (place.source.file, line, column, dotted(path))
        self.items.append(Diagnostic(code, "warning", *where, message, place.title, expected, hint))

    def at(self, code: str, file: str, message: str, *, line: int = 1, column: int = 1, warning: bool = False) -> None:
        """About a file, or a line of one that is not YAML."""
        self.items.append(Diagnostic(code, "warning" if warning else "error", file, line, column, "", message))

    def yaml(self, file: str, problem: YamlProblem, *, warning: bool = False) -> None:
        severity = "warning" if warning else "error"
        where = (file, problem.line, problem.column, dotted(problem.path))
        self.items.append(Diagnostic(problem.code, severity, *where, problem.message))  # type: ignore[arg-type]  # two literals

    @property
    def failed(self) -> bool:
        return any(item.severity == "error" for item in self.items)

    def _locator(self, source: Source) -> Locator:
        found = self._locators.get(source.file)
        if found is None:
            found = self._locators[source.file] = Locator(source.content, source.line_offset)
        return found
