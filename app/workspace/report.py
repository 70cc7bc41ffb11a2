"""Collects diagnostics and finds the line and column of each place that is named."""

from collections.abc import Collection, Iterable
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


_Found = dict[tuple[int, DocPath, bool], tuple[int, int]]


class FoundPlaces:
    """Lines and columns that were looked up before, of files that are still the same.

    Finding one means to read its file's YAML again; most of what is reported after a change was reported before it.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, _Found]] = {}

    def keep_only(self, files: Collection[str]) -> None:
        """What the workspace no longer has is forgotten, so that it is bounded by the workspace."""
        self._files = {file: found for file, found in self._files.items() if file in files}

    def of(self, source: Source) -> _Found:
        known = self._files.get(source.file)
        if known is None or known[0] != source.content:
            known = self._files[source.file] = source.content, {}
        return known[1]


class Report:
    def __init__(self, tolerated: frozenset[str] = frozenset(), found: FoundPlaces | None = None) -> None:
        """`tolerated` are codes of errors that are only warnings here."""
        self.items: list[Diagnostic] = []
        self._tolerated = tolerated
        self.suggest = Suggester()
        self._found = found or FoundPlaces()
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
        line, column = self._position(place, path, key)
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
        line, column = self._position(place, path)
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

    def _position(self, place: DocumentPlace, path: DocPath, key: bool = False) -> tuple[int, int]:
        found, wanted = self._found.of(place.source), (place.index, path, key)
        position = found.get(wanted)
        if position is None:
            position = found[wanted] = self._locator(place.source).find(place.index, path, key=key)
        return position

    def _locator(self, source: Source) -> Locator:
        found = self._locators.get(source.file)
        if found is None:
            found = self._locators[source.file] = Locator(source.content, source.line_offset)
        return found
