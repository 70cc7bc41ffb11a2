"""YAML to plain values by way of composed nodes, so that every mistake has a line and a column.

The types are those of YAML 1.2's core schema (`on` and `yes` are text). Aliases, tags, duplicate keys,
endless depth and numbers that JSON cannot hold are refused. What a document means is decided elsewhere.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from app.core.value import value
from app.workspace.diagnostics import DocPath

MAX_DEPTH: Final = 64
MAX_DOCUMENTS: Final = 10_000
MAX_PROBLEMS: Final = 100
"""Listed of one document; whoever has more of them has one mistake that was copied."""

MAX_VALUES: Final = 100_000
"""Of one file. Each costs ten microseconds and half a kilobyte, however short it is."""

# The C composer recurses without a limit of its own and overflows the stack at some ten thousands of
# levels. A level costs one bracket, or (in block style) a column; a text with many brackets or a long line
# is therefore measured event by event before it is composed.
_SAFE_BRACKETS: Final = 1_000
_SAFE_LINE: Final = 1_000

_PLAIN: Final = "plain"
_QUOTED: Final = "quoted"
_COLLECTION: Final = "collection"
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SPECIAL_START: Final = frozenset("-+.0123456789~nNtTfF")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1


@value(frozen=True, slots=True)
class RawDocument:
    """One document of a file. `index` counts documents from 0, `line` lines from 1."""

    index: int
    line: int
    value: Any


@value(frozen=True, slots=True)
class YamlProblem:
    code: str
    line: int
    column: int
    message: str
    path: DocPath = ()


@value(frozen=True, slots=True)
class ParsedYaml:
    documents: tuple[RawDocument, ...]
    problems: tuple[YamlProblem, ...]
    count: int


def parse_yaml(content: bytes, *, line_offset: int = 0) -> ParsedYaml:
    """Every good document, and every problem; a document with a problem is left out."""
    documents: list[RawDocument] = []
    problems: list[YamlProblem] = []
    count = 0
    try:
        content.decode()
        for node in _compose(content):
            if count == MAX_DOCUMENTS:
                raise _Refused("TOO_MANY_DOCUMENTS", node, f"there are more than {MAX_DOCUMENTS} documents")
            reader = _Reader(node, watch_aliases=b"*" in content)
            value = reader.read(node, 1)
            problems += reader.problems()
            if not reader.failed and value is not None:
                documents.append(RawDocument(count, node.start_mark.line + 1 + line_offset, value))
            count += 1
    except UnicodeDecodeError as error:
        line, column = _position(content, error.start)
        problems.append(YamlProblem("FILE_ENCODING", line, column, "the file is not UTF-8 text"))
    except _Refused as refused:
        problems.append(refused.problem)
    except yaml.YAMLError as error:
        problems.append(_syntax_problem(content, error))
    if line_offset:
        problems = [YamlProblem(p.code, p.line + line_offset, p.column, p.message, p.path) for p in problems]
    return ParsedYaml(tuple(documents), tuple(problems), count)


class Locator:
    """Line and column of places in a text, or of the nearest thing around one that exists.

    Composes the text again: mistakes are rare, and keeping every node would cost more than all values.
    """

    def __init__(self, content: bytes, line_offset: int = 0) -> None:
        self._offset = line_offset
        self._nodes: list[Node] = []
        try:
            for node in _compose(content):
                self._nodes.append(node)
                if len(self._nodes) > MAX_DOCUMENTS:
                    break
        except (yaml.YAMLError, _Refused):
            pass  # what comes before the mistake can still be found

    def find(self, index: int, path: DocPath, *, key: bool = False) -> tuple[int, int]:
        if index >= len(self._nodes):
            return 1, 1
        line, column = _find(self._nodes[index], path, key)
        return line + self._offset, column


def _find(node: Node, path: DocPath, key: bool) -> tuple[int, int]:
    mark = node.start_mark
    for step in path:
        below = _step(node, step)
        if below is None:
            break
        name, node = below
        block = isinstance(node, ScalarNode) and node.style in ("|", ">")
        scalar = isinstance(node, ScalarNode) and not block and node.value != ""
        mark = node.start_mark if name is None or (scalar and not key) else name.start_mark
    return mark.line + 1, mark.column + 1


def _step(node: Node, step: str | int) -> tuple[Node | None, Node] | None:
    if isinstance(node, MappingNode):
        # The last one wins, so that a duplicate is shown where it was repeated.
        for name, value in reversed(node.value):
            if name.value == str(step):
                return name, value
    elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None


class _Loader(CParser):
    """Tags what the text leaves open with how it was written, so that an explicit tag stands out."""

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        if kind is ScalarNode:
            return _PLAIN if implicit[0] else _QUOTED
        return _COLLECTION

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Part of what the composer calls; paths decide nothing here."""

    def ascend_resolver(self) -> None:
        """As above."""


class _Refused(Exception):
    def __init__(self, code: str, at: Any, message: str) -> None:
        super().__init__(message)
        mark = at.start_mark
        self.problem = YamlProblem(code, mark.line + 1, mark.column + 1, message)


def _compose(content: bytes) -> Iterator[Node]:
    if _may_be_deep(content) or _may_hold_many(content):
        _measure(content)
    loader = _Loader(content)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None, "the parser said there is one"
            yield node
    finally:
        loader.dispose()


def _may_be_deep(content: bytes) -> bool:
    if content.count(b"[") + content.count(b"{") > _SAFE_BRACKETS:
        return True
    return len(content) > _SAFE_LINE and max(map(len, content.splitlines())) > _SAFE_LINE


def _may_hold_many(content: bytes) -> bool:
    """A value ends its line, or is followed by a comma, a colon or a closing bracket."""
    return sum(map(content.count, (b"\n", b"\r", b",", b":", b"]", b"}"))) > MAX_VALUES


def _measure(content: bytes) -> None:
    depth = values = 0
    for event in yaml.parse(content, Loader=yaml.CBaseLoader):
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            values += 1
            if values > MAX_VALUES:
                raise _Refused("FILE_TOO_LARGE", event, f"the file holds more than {MAX_VALUES} values")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _Refused("YAML_TOO_DEEP", event, f"values are nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Reader:
    """Turns the nodes of one document into values and collects what it refuses."""

    def __init__(self, root: Node, *, watch_aliases: bool) -> None:
        self._root = root
        self._seen: set[int] | None = set() if watch_aliases else None
        self._refused: list[tuple[str, Node, str]] = []
        self._unlisted = 0

    @property
    def failed(self) -> bool:
        return bool(self._refused)

    def problems(self) -> Iterator[YamlProblem]:
        paths = _paths_to(self._root, {id(node) for _, node, _ in self._refused}) if self._refused else {}
        for code, node, message in self._refused:
            mark = node.start_mark
            yield YamlProblem(code, mark.line + 1, mark.column + 1, message, paths.get(id(node), ()))
        if self._unlisted:
            code, node, _ = self._refused[-1]
            message = f"{self._unlisted} more problems of this document are not listed"
            yield YamlProblem(code, node.start_mark.line + 1, node.start_mark.column + 1, message)

    def read(self, node: Node, depth: int) -> Any:
        if self._seen is not None:
            if id(node) in self._seen:
                return self._refuse("YAML_ALIAS", node, "the value is repeated by an alias")
            self._seen.add(id(node))
        if type(node) is ScalarNode:
            return self._scalar(node)
        if node.tag != _COLLECTION:
            return self._refuse("YAML_TAG", node, f"the tag {node.tag} is not allowed")
        if depth > MAX_DEPTH:
            return self._refuse("YAML_TOO_DEEP", node, f"values are nested deeper than {MAX_DEPTH} levels")
        if type(node) is SequenceNode:
            return [self.read(item, depth + 1) for item in node.value]
        return self._mapping(node, depth)

    def _mapping(self, node: Node, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, item in node.value:
            if type(name) is not ScalarNode:
                self._refuse("YAML_KEY", name, "a key must be plain text")
            elif name.tag not in (_PLAIN, _QUOTED):
                self._refuse("YAML_TAG", name, f"the tag {name.tag} is not allowed")
            elif name.value in values:
                self._refuse("YAML_DUPLICATE_KEY", name, f"the key {name.value!r} is named twice")
            else:
                values[name.value] = self.read(item, depth + 1)
        return values

    def _scalar(self, node: ScalarNode) -> Any:
        text: str = node.value
        if node.tag == _QUOTED:
            if "\x00" in text:
                return self._refuse("YAML_SYNTAX", node, "the text contains the NUL character")
            return text
        if node.tag != _PLAIN:
            return self._refuse("YAML_TAG", node, f"the tag {node.tag} is not allowed")
        if text and text[0] not in _SPECIAL_START:
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _INT.fullmatch(text):
            return self._integer(node, text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            finite = number not in (float("inf"), float("-inf"))
            return number if finite else self._refuse("YAML_NUMBER", node, "the number is too large")
        if _NOT_FINITE.fullmatch(text):
            return self._refuse("YAML_NUMBER", node, "infinite and undefined numbers are not allowed")
        return text

    def _integer(self, node: ScalarNode, text: str) -> int | None:
        # Longer texts are not converted at all: int() refuses thousands of digits with an exception.
        if len(text.lstrip("+-0xo")) <= 22:
            number = int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            if _INT_MIN <= number <= _INT_MAX:
                return number
        self._refuse("YAML_NUMBER", node, "the integer does not fit in 64 bits")
        return None

    def _refuse(self, code: str, node: Node, message: str) -> None:
        if len(self._refused) < MAX_PROBLEMS:
            self._refused.append((code, node, message))
        else:
            self._unlisted += 1


def _paths_to(root: Node, wanted: set[int]) -> dict[int, DocPath]:
    """Where nodes are, found in one walk however many they are."""
    waiting: list[tuple[Node, DocPath]] = [(root, ())]
    seen: set[int] = set()
    found: dict[int, DocPath] = {}
    while waiting and len(found) < len(wanted):
        node, path = waiting.pop()
        if id(node) in wanted:
            found.setdefault(id(node), path)
        if id(node) in seen or len(path) > MAX_DEPTH:
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            for name, value in node.value:
                step = name.value if isinstance(name, ScalarNode) else "?"
                waiting += [(name, (*path, step)), (value, (*path, step))]
        elif isinstance(node, SequenceNode):
            waiting += [(item, (*path, number)) for number, item in enumerate(node.value)]
    return found


def _syntax_problem(content: bytes, error: yaml.YAMLError) -> YamlProblem:
    mark = getattr(error, "problem_mark", None)
    text = str(getattr(error, "problem", None) or "the text is not YAML")
    code = "YAML_ALIAS" if "alias" in text else "YAML_SYNTAX"
    if mark is not None:
        return YamlProblem(code, mark.line + 1, mark.column + 1, text)
    line, column = _position(content, int(getattr(error, "position", 0) or 0))
    reason = str(getattr(error, "reason", None) or text)
    return YamlProblem(code, line, column, reason)


def _position(content: bytes, offset: int) -> tuple[int, int]:
    before = content[:offset]
    return before.count(b"\n") + 1, offset - (before.rfind(b"\n") + 1) + 1
