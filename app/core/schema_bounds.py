"""What checking a value against a JSON Schema may cost, known before anything is checked.

Foreign schemas (of clients, of MCP servers, of workspaces) are untrusted: a chain of references in 2 KB can stand for
millions of branches. The cost is bounded from the schema alone: how many subschemas look at one place of a value, by
its depth, counted over all paths through references. Multiplied by the size of a value this bounds a verdict and a
list of errors. Leaves to others: compiling and checking (`schemas`, the guard of the tools).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from app.core import json
from app.core.errors import Failure
from app.core.value import mutable

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
"""Levels of the document, and of a value that is checked against a schema which refers to itself."""
MAX_SUBSCHEMAS: Final = 5_000
MAX_REFERENCES: Final = 1_000
MAX_BRANCHES: Final = 1_000
"""Members of all `anyOf`, `oneOf` and `allOf`."""
MAX_PATTERNS: Final = 100
MAX_PATTERN_CHARACTERS: Final = 1_000
MAX_STEPS: Final = 10_000
"""Subschemas that may look at one place of a value, counted over all paths that lead to it."""

MAX_VERDICT_STEPS: Final = 5_000_000
"""Of one value; a step takes about 40 ns."""
MAX_LIST_STEPS: Final = 10_000
"""Of listing what is wrong with one value; every error is an object of up to 7 kB and 80 µs."""

BACKTRACK_LIMIT: Final = 10_000
"""Steps of one match of a pattern that needs backtracking; one that takes more does not match."""
REGEX_BYTES: Final = 1024 * 1024
"""Of one compiled pattern."""

_PLAIN_STEPS: Final = 64
"""A schema below this costs so little that values need not be measured."""
_FOLLOWED_NODES: Final = 1_000
"""A schema that refers to itself is followed to `MAX_DEPTH` when it is compiled if it has no more subschemas."""
MAX_BACKTRACKED_TEXT: Final = 4096
"""Characters of a text that a pattern with lookaround or a back reference sees: from each of them it may look at all
that follow, which the limit above does not count."""
_BACKTRACKING_STEPS: Final = 2_000
"""Of a pattern with lookaround or back references: one match takes up to 0.8 ms."""
_FOREIGN_STEPS: Final = 50
"""Of a reference out of the document: the compiler refuses it, or knows it as one of the published meta-schemas."""
_AGAIN: Final = 3
"""`unevaluatedProperties` asks its siblings again which properties they have looked at."""
_ENOUGH: Final = 10**12
"""Counts end here."""

_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE: Final = ("not", "if", "then", "else")
_IN_PLACE_MAPS: Final = ("dependentSchemas", "dependencies")
_OF_ALL_KEYS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_OF_ALL_ITEMS: Final = ("items", "contains", "additionalItems", "unevaluatedItems")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAMES: Final = frozenset({"$id", "id", "$anchor", "$dynamicAnchor"})
_PATTERNS: Final = frozenset({"pattern", "patternProperties"})
_OWN: Final = _PATTERNS | {"required", "dependentRequired", "dependencies", "enum", "const"}
"""Keywords that take more than one step by themselves."""
_LEADS: Final = frozenset(
    (*_IN_PLACE_LISTS, *_IN_PLACE, *_IN_PLACE_MAPS, *_OF_ALL_KEYS, *_OF_ALL_ITEMS, *_REFERENCES)
) | {"properties", "patternProperties", "prefixItems"}
"""Keywords with a subschema; most subschemas of a large document are leaves, without any of them."""
_BACKTRACKS: Final = re.compile(r"\(\?[=!<>(]|\\[1-9kgGK]|[+*?}]\+")


@mutable(slots=True)
class _Node:
    """A subschema and where it leads."""

    steps: int = 1
    here: list[int] = field(default_factory=list)
    """Subschemas for the same place."""
    of_one_key: list[int] = field(default_factory=list)
    of_all_keys: list[int] = field(default_factory=list)
    of_one_item: list[int] = field(default_factory=list)
    of_all_items: list[int] = field(default_factory=list)
    asks_again: bool = False


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
"""Most of what a document holds, and nothing is inside."""


_LISTS_OF_VALUES: Final = frozenset({"enum", "examples"})
_REFERENCE_NAMES: Final = tuple(f'"{key}"'.encode() for key in _REFERENCES)


class _TooComplex(Exception):
    """With what there is too much of."""


class _NotJson(Exception):
    """A value in it cannot be written as JSON."""


def bounds_of(document: Mapping[str, Any]) -> "Bounds | Failure":
    """What checking against the schema may cost, or why that is too much."""
    try:
        return Bounds(_Graph(document))
    except _TooComplex as reason:
        return Failure("SCHEMA_TOO_COMPLEX", f"The JSON Schema is too complex: {reason}")
    except _NotJson:
        return Failure("SCHEMA_INVALID", "The JSON Schema cannot be written as JSON, or is nested too deeply.")


class Bounds:
    """The cost of a schema, by depth of the place in the value."""

    def __init__(self, graph: "_Graph") -> None:
        self._nodes, self._order = graph.nodes, graph.in_place_order()
        self._names_checked, self._backtracks = graph.names_checked, graph.backtracks
        self._rows: list[list[int]] = []
        self._growing = Lock()
        """What is shipped is shared by threads, and a row is made from the one before it."""
        self._ends = False
        """Nothing of the schema looks deeper than the rows there are."""
        recursive = graph.is_recursive()
        while not self._ends and len(self._rows) < (1 if recursive else MAX_DEPTH):
            self._add_row()
        if max(row[0] for row in self._rows) > MAX_STEPS:
            raise _TooComplex(f"more than {MAX_STEPS:,} subschemas apply to one place, counted through references")
        if recursive and len(self._nodes) <= _FOLLOWED_NODES:
            while not self._ends and len(self._rows) < MAX_DEPTH and self._rows[-1][0] <= _PLAIN_STEPS:
                self._add_row()
        followed = self._ends or len(self._rows) >= MAX_DEPTH
        most = max(row[0] for row in self._rows)
        self.plain = followed and most <= _PLAIN_STEPS and not self._names_checked and not self._backtracks
        """Whether values may be checked without measuring them. What grows only beyond the last row grows too slowly
        to matter: its circle is longer than the deepest value that can be parsed has levels to repeat it."""

    def allow_verdict(self, value: Any) -> bool:
        """Whether finding out if the value is valid costs little enough."""
        steps = 0
        for depth, level in _levels(value):
            if depth >= MAX_DEPTH and not self._ends:
                return False
            steps += self._steps(depth) * sum(_size(item, 256) for item in level)
            if steps > MAX_VERDICT_STEPS or (self._backtracks and any(map(_has_long_text, level))):
                return False
        return True

    def allow_list(self, value: Any) -> bool:
        """Whether listing everything that is wrong costs little enough: each error holds a copy of its place."""
        steps, held = 0.0, 0
        for depth, level in _levels(value):
            if depth >= MAX_DEPTH and not self._ends:
                return False
            looking = self._steps(depth)
            keys = max((len(item) for item in level if isinstance(item, dict)), default=0)
            held = min(_ENOUGH, held + looking * (1 + (keys if self._names_checked else 0)))
            steps += looking * len(level) + held * sum(_size(item, 64) for item in level) / 32
            if steps > MAX_LIST_STEPS or (self._backtracks and any(map(_has_long_text, level))):
                return False
        return True

    def _steps(self, depth: int) -> int:
        if depth >= len(self._rows):
            with self._growing:
                while depth >= len(self._rows):
                    if self._ends:
                        return 0
                    self._add_row()
        return self._rows[depth][0]

    def _add_row(self) -> None:
        """How many subschemas look at a place so deep, from each subschema on; the root is the first."""
        nodes, above = self._nodes, self._rows[-1] if self._rows else None
        row = [0] * len(nodes)
        for number in self._order:
            node = nodes[number]
            steps = sum(row[inner] for inner in node.here) * (_AGAIN if node.asks_again else 1)
            if above is None:
                steps += node.steps
            else:
                of_key = max((above[n] for n in node.of_one_key), default=0) + sum(above[n] for n in node.of_all_keys)
                of_item = max((above[n] for n in node.of_one_item), default=0) + sum(
                    above[n] for n in node.of_all_items
                )
                steps += max(of_key, of_item)
            row[number] = min(steps, _ENOUGH)
        if above is not None and not any(row):
            self._ends = True
        else:
            self._rows.append(row)


class _Graph:
    """The subschemas that are reachable from the root, by number; raises where there are too many of anything."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._resources: dict[str, Mapping[str, Any]] = {"": document}
        self._anchors: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._dynamic: dict[str, list[Mapping[str, Any]]] = {}
        self._bases: dict[int, str] = {}
        self._count(document)
        self._numbers: dict[int, int] = {}
        self._open: list[Mapping[str, Any]] = []
        self.nodes: list[_Node] = []
        self.names_checked = self.backtracks = False
        self._number(document)
        while self._open:
            schema = self._open.pop()
            self._connect(schema, self.nodes[self._numbers[id(schema)]])

    # -- the document as it is written ---------------------------------------------------------------

    def _count(self, document: Mapping[str, Any]) -> None:
        try:
            written = json.dumps(document)
        except json.JsonError:
            raise _NotJson from None
        if len(written) > MAX_BYTES:
            raise _TooComplex(f"it has {len(written):,} bytes, the limit is {MAX_BYTES:,}")
        # A list of values holds no schemas, unless a reference leads into it.
        data = frozenset[str]() if any(name in written for name in _REFERENCE_NAMES) else _LISTS_OF_VALUES
        references = branches = patterns = 0
        todo: list[tuple[Any, int, str]] = [(document, 1, "")]
        while todo:
            item, depth, base = todo.pop()
            if depth == MAX_DEPTH and item:
                raise _TooComplex(f"it is nested more than {MAX_DEPTH} levels deep")
            if isinstance(item, Mapping):
                base = self._name(item, base)
                if not _LEADS.isdisjoint(item):
                    references += sum(1 for key in _REFERENCES if key in item)
                    branches += sum(len(item[key]) for key in _IN_PLACE_LISTS if isinstance(item.get(key), list))
                patterns += self._count_patterns(item)
                todo += [
                    (inner, depth + 1, base)
                    for key, inner in item.items()
                    if type(inner) not in _SCALARS and not (key in data and isinstance(inner, list))
                ]
            elif isinstance(item, list | tuple):
                todo += [(inner, depth + 1, base) for inner in item if type(inner) not in _SCALARS]
        for found, limit, what in (
            (references, MAX_REFERENCES, "references"),
            (branches, MAX_BRANCHES, "branches of `anyOf`, `oneOf` and `allOf`"),
            (patterns, MAX_PATTERNS, "patterns"),
        ):
            if found > limit:
                raise _TooComplex(f"it has {found:,} {what}, the limit is {limit:,}")

    def _name(self, item: Mapping[str, Any], base: str) -> str:
        """Note how references may name it; the base for what is inside."""
        self._bases[id(item)] = base
        if _NAMES.isdisjoint(item):
            return base
        for key in ("$id", "id"):
            if isinstance(item.get(key), str) and not item[key].startswith("#"):
                base = urldefrag(_joined(base, item[key])).url
                self._resources.setdefault(base, item)
        self._bases[id(item)] = base
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(item.get(key), str):
                self._anchors.setdefault((base, item[key]), item)
        if isinstance(item.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(item["$dynamicAnchor"], []).append(item)
        return base

    def _count_patterns(self, item: Mapping[str, Any]) -> int:
        patterns = _patterns(item)
        if any(len(pattern) > MAX_PATTERN_CHARACTERS for pattern in patterns):
            raise _TooComplex(f"a pattern has more than {MAX_PATTERN_CHARACTERS:,} characters")
        return len(patterns)

    # -- what leads where ----------------------------------------------------------------------------

    def _number(self, schema: Any) -> int | None:
        if not isinstance(schema, Mapping):
            return None
        number = self._numbers.get(id(schema))
        if number is None:
            number = self._numbers[id(schema)] = len(self.nodes)
            self.nodes.append(_Node(_own_steps(schema)))
            self._open.append(schema)
            if len(self.nodes) > MAX_SUBSCHEMAS:
                raise _TooComplex(f"it has more than {MAX_SUBSCHEMAS:,} subschemas")
        return number

    def _add(self, to: list[int], schemas: Any) -> None:
        for schema in schemas:
            number = self._number(schema)
            if number is not None:
                to.append(number)

    def _connect(self, schema: Mapping[str, Any], node: _Node) -> None:
        self.backtracks = self.backtracks or any(map(_BACKTRACKS.search, _patterns(schema)))
        if _LEADS.isdisjoint(schema):
            return
        for key in _IN_PLACE_LISTS:
            self._add(node.here, _listed(schema, key))
        self._add(node.here, [schema.get(key) for key in _IN_PLACE])
        for key in _IN_PLACE_MAPS:
            self._add(node.here, _mapped(schema, key))
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                self._refer(schema, node, key)
        self._add(node.of_one_key, _mapped(schema, "properties"))
        self._add(node.of_all_keys, [*_mapped(schema, "patternProperties"), *(schema.get(key) for key in _OF_ALL_KEYS)])
        self._add(node.of_one_item, [*_listed(schema, "prefixItems"), *_listed(schema, "items")])
        self._add(node.of_all_items, [schema.get(key) for key in _OF_ALL_ITEMS])
        node.asks_again = any(key in schema for key in _UNEVALUATED)
        self.names_checked = self.names_checked or "propertyNames" in schema

    def _refer(self, schema: Mapping[str, Any], node: _Node, key: str) -> None:
        found = list(self._targets(schema, key))
        if found:
            self._add(node.here, found)
        else:
            node.steps += _FOREIGN_STEPS

    def _targets(self, schema: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
        """Every schema that the reference may mean."""
        base = self._bases.get(id(schema), "")
        url, fragment = urldefrag(_joined(base, schema[key]))
        if key == "$dynamicRef":
            yield from self._dynamic.get(fragment, ())
        resource = self._resources.get(url)
        if resource is None:
            return
        if fragment and not fragment.startswith("/"):
            target: Any = self._anchors.get((url, fragment))
            if key == "$dynamicRef" and target in self._dynamic.get(fragment, ()):
                return
        else:
            target = _at(resource, fragment)
        if isinstance(target, Mapping):
            yield target

    # -- its shape -----------------------------------------------------------------------------------

    def in_place_order(self) -> list[int]:
        """The subschemas, each after those it applies to the same place."""
        order = _after_their_own([node.here for node in self.nodes])
        if order is None:
            raise _TooComplex("a subschema refers to itself without going deeper into the value")
        return order

    def is_recursive(self) -> bool:
        leads_to = [
            [*node.here, *node.of_one_key, *node.of_all_keys, *node.of_one_item, *node.of_all_items]
            for node in self.nodes
        ]
        return _after_their_own(leads_to) is None


def _after_their_own(leads_to: list[list[int]]) -> list[int] | None:
    """Numbers in an order in which each stands after all that it leads to; None if there is a circle."""
    order: list[int] = []
    state = bytearray(len(leads_to))  # 1 while on the way, 2 when done
    for start in range(len(leads_to)):
        todo = [(start, False)]
        while todo:
            number, done = todo.pop()
            if done:
                state[number] = 2
                order.append(number)
            elif state[number] == 0:
                state[number] = 1
                todo.append((number, True))
                for inner in leads_to[number]:
                    if state[inner] == 1:
                        return None
                    if state[inner] == 0:
                        todo.append((inner, False))
    return order


def _own_steps(schema: Mapping[str, Any]) -> int:
    """Of its own keywords. An error of `enum` or `const` copies the options, one of `required` is one for each name."""
    if _OWN.isdisjoint(schema):
        return 1
    steps = 1 + len(_listed(schema, "required")) + sum(len(names) for names in _name_lists(schema))
    for key in ("enum", "const"):
        if key in schema:
            written = len(json.dumps(schema[key]))
            steps += written // 64 + len(_listed(schema, key)) // 8
    return steps + sum(_BACKTRACKING_STEPS if _BACKTRACKS.search(p) else 1 for p in _patterns(schema))


def _name_lists(schema: Mapping[str, Any]) -> list[list[Any]]:
    found = [*_mapped(schema, "dependentRequired"), *_mapped(schema, "dependencies")]
    return [names for names in found if isinstance(names, list)]


def _patterns(schema: Mapping[str, Any]) -> list[str]:
    if _PATTERNS.isdisjoint(schema):
        return []
    by_name = schema.get("patternProperties")
    patterns = [*by_name] if isinstance(by_name, Mapping) else []
    return [*patterns, schema["pattern"]] if isinstance(schema.get("pattern"), str) else patterns


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _mapped(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return list(found.values()) if isinstance(found, Mapping) else []


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference  # no address at all: nothing has that name


def _at(place: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(place, Mapping):
            place = place.get(step)
        elif isinstance(place, list) and step.isdecimal() and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place


def _has_long_text(item: Any) -> bool:
    texts = item if isinstance(item, dict) else (item,)
    return any(isinstance(text, str) and len(text) > MAX_BACKTRACKED_TEXT for text in texts)


def _levels(value: Any) -> Iterator[tuple[int, list[Any]]]:
    """The places of a value, level by level."""
    depth, level = 0, [value]
    while level:
        yield depth, level
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        depth, level = depth + 1, below


def _size(item: Any, characters: int) -> int:
    """One, and for a text one more for each time that it contains `characters` characters."""
    return 1 + len(item) // characters if isinstance(item, str) else 1
