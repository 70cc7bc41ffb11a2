"""Tools with varied schemas, valid calls of them, and faults put into those calls; all from one seed.

Each schema has a strict twin, written with `additionalProperties: false` by the generator itself, so that an
oracle (the jsonschema package) can say which calls are faulty without asking the guard or its way of closing.
"""

import copy
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import jsonschema

from app.core import json
from app.tools.contract import ArgumentRule, ToolDefinition

Schema = dict[str, Any]

# Plain texts may look like paths, JSON, numbers or names of tools: a guard that minds is wrong.
_TEXTS = ["Oslo", "a/b/c", "/etc/passwd", "../up", "3", "true", "null", "{}", "it's", 'say "hi"', "ß und é", "x" * 300,
          "search_items", "%2e%2e", "C:\\dir", "line\nbreak", "", "[1, 2]", "~/home"]  # fmt: skip
_FORMATS = {
    "date": ["2026-01-31", "1999-12-01"],
    "date-time": ["2026-01-31T09:30:00Z"],
    "email": ["ada@example.org"],
    "uuid": ["123e4567-e89b-42d3-a456-426614174000"],
    "uri": ["https://example.org/a/../b?c=d"],
    "ipv4": ["192.0.2.1"],
}
_PATHS = ["notes/today.md", "a.txt", "deep/er/and/er/file.tar.gz", "100%/done.txt", "..hidden/x", "a..b", "file (1).md"]
_BAD_PATHS = ["/etc/passwd", "../secret", "a/../../b", "%2e%2e/secret", "%252e%252e%252fx", "..\\secret", "C:\\Windows",
              "~/.ssh/id", "file:///etc/passwd", "\uff0e\uff0e/x", "\\\\host\\share"]  # fmt: skip
_WORDS = ["search", "items", "order", "user", "report", "index", "invoice", "market", "ticket", "export", "fetch"]
_ENUMS = [["celsius", "kelvin", "fahrenheit"], ["LOW", "HIGH"], ["asc", "desc"], ["Open", "Closed", "In Progress"]]


class TickerRule:
    """What a workspace would write as CEL: the symbol is one to five capital letters."""

    def evaluate(self, values: Any) -> bool:
        symbol = values["args"].get("symbol")
        return symbol is None or (symbol.isascii() and symbol.isupper() and symbol.isalpha() and len(symbol) <= 5)


@dataclass(frozen=True, slots=True)
class Generated:
    definition: ToolDefinition
    strict: Schema
    oracle: jsonschema.Draft202012Validator = field(repr=False)
    root: "Node" = field(repr=False)


@dataclass(slots=True)
class Node:
    """A schema, its strict twin, and how to make a valid value of it."""

    kind: str
    schema: Schema
    strict: Schema
    make: Any
    fields: dict[str, "Node"] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)


def generate(seed: int, count: int) -> list[Generated]:
    rng = Random(seed)
    names = _names(rng, count)
    return [_tool(rng, name, number) for number, name in enumerate(names)]


def _names(rng: Random, count: int) -> list[str]:
    """Some of them near one another, as in real workspaces."""
    names: dict[str, None] = {"search_items": None, "search_item": None, "get_user": None, "get_users": None}
    while len(names) < count:
        separator = rng.choice("_-_.")
        base = separator.join(rng.sample(_WORDS, rng.choice([1, 2, 2, 3])))
        names[base if rng.random() < 0.3 else f"{base}{separator}{rng.choice(string.ascii_lowercase)}{len(names)}"] = (
            None
        )
    return list(names)[:count]


def _tool(rng: Random, name: str, number: int) -> Generated:
    root = _object(rng, 3, at_least=2)
    with_rule = number % 3 == 0
    if with_rule:
        symbol = Node("text", {"type": "string"}, {"type": "string"}, lambda r: r.choice(["ACME", "X", "HOLDF"]))
        _add(root, "symbol", symbol, required=True)
    if number % 2 == 0:
        _add(root, "file", _path(), required=rng.random() < 0.5)
    schema = root.schema
    if rng.random() < 0.3:
        schema = {**schema, "$defs": {"unused": {"type": "string"}}}
    definition = ToolDefinition(
        name=name,
        input=schema,
        effect=rng.choice(["readonly", "readonly", "keyed", "unsafe"]),
        rules=(ArgumentRule(TickerRule(), "symbol must be 1 to 5 capital letters", "/symbol"),) if with_rule else (),
    )
    checker = jsonschema.FormatChecker()
    return Generated(
        definition, root.strict, jsonschema.Draft202012Validator(root.strict, format_checker=checker), root
    )


def _add(root: Node, name: str, node: Node, *, required: bool) -> None:
    root.fields[name] = node
    root.schema["properties"][name] = node.schema
    root.strict["properties"][name] = node.strict
    if required:
        root.required.append(name)
        root.schema["required"] = root.strict["required"] = list(root.required)


def _object(rng: Random, depth: int, at_least: int = 1) -> Node:
    fields = {f"{rng.choice(_WORDS)}_{i}": _node(rng, depth - 1) for i in range(rng.randint(at_least, 5))}
    required = [name for name in fields if rng.random() < 0.6] or [next(iter(fields))]
    base = {"type": "object", "required": list(required)}
    schema = {**base, "properties": {name: node.schema for name, node in fields.items()}}
    strict = {**base, "properties": {n: node.strict for n, node in fields.items()}, "additionalProperties": False}
    node = Node("object", schema, strict, None, fields, required)
    node.make = lambda r: {
        name: sub.make(r) for name, sub in node.fields.items() if name in node.required or r.random() < 0.5
    }
    return node


def _node(rng: Random, depth: int) -> Node:
    simple = [_text, _integer, _number, _boolean, _enum, _format, _nullable, _int_enum]
    deep = [_array, _map, _union, _nested, _variants, _array_of_objects]
    return rng.choice(simple + (deep if depth > 0 else []))(rng, depth)


def _same(kind: str, schema: Schema, make: Any) -> Node:
    return Node(kind, schema, schema, make)


def _text(rng: Random, _depth: int) -> Node:
    return _same("text", {"type": "string", "description": "any text"}, lambda r: r.choice(_TEXTS))


def _path() -> Node:
    return _same("path", {"type": "string", "format": "path"}, lambda r: r.choice(_PATHS))


def _integer(rng: Random, _depth: int) -> Node:
    low = rng.randint(-5, 5)
    schema: Schema = {"type": "integer", "minimum": low, "maximum": low + 100}
    if rng.random() < 0.5:
        schema["default"] = low
    return _same("integer", schema, lambda r: r.randint(low, low + 100))


def _number(rng: Random, _depth: int) -> Node:
    return _same("number", {"type": "number"}, lambda r: round(r.uniform(-100, 100), 3))


def _boolean(rng: Random, _depth: int) -> Node:
    return _same("boolean", {"type": "boolean", "default": False}, lambda r: r.random() < 0.5)


def _enum(rng: Random, _depth: int) -> Node:
    options = rng.choice(_ENUMS)
    return _same("enum", {"type": "string", "enum": options}, lambda r: r.choice(options))


def _int_enum(rng: Random, _depth: int) -> Node:
    return _same("int_enum", {"enum": [1, 2, 5, 10]}, lambda r: r.choice([1, 2, 5, 10]))


def _format(rng: Random, _depth: int) -> Node:
    name = rng.choice(list(_FORMATS))
    return _same("format", {"type": "string", "format": name}, lambda r: r.choice(_FORMATS[name]))


def _nullable(rng: Random, _depth: int) -> Node:
    return _same("nullable", {"type": ["integer", "null"]}, lambda r: r.choice([None, 0, 7]))


def _array(rng: Random, depth: int) -> Node:
    item = _node(rng, 0)
    schema = {"type": "array", "items": item.schema, "maxItems": 4}
    return Node(
        "array", schema, {**schema, "items": item.strict}, lambda r: [item.make(r) for _ in range(r.randint(0, 4))]
    )


def _array_of_objects(rng: Random, depth: int) -> Node:
    item = _object(rng, depth - 1)
    schema = {"type": "array", "items": item.schema, "minItems": 1}
    return Node(
        "array", schema, {**schema, "items": item.strict}, lambda r: [item.make(r) for _ in range(r.randint(1, 3))]
    )


def _map(rng: Random, depth: int) -> Node:
    item = _node(rng, 0)
    schema = {"type": "object", "additionalProperties": item.schema}
    keys = ["a/b", "x y", "KEY", "key", "ß", "__proto__"]
    make = lambda r: {key: item.make(r) for key in r.sample(keys, r.randint(0, 3))}  # noqa: E731  # as its siblings
    return Node("map", schema, {**schema, "additionalProperties": item.strict}, make)


def _union(rng: Random, _depth: int) -> Node:
    schema = {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["all", "none"]}, {"type": "null"}]}
    return _same("union", schema, lambda r: r.choice([3, "all", "none", None]))


def _variants(rng: Random, depth: int) -> Node:
    made = []
    for tag in ("by_id", "by_name"):
        node = _object(rng, 1)
        for schema in (node.schema, node.strict):
            schema["properties"] = {"kind": {"const": tag}, **schema["properties"]}
            schema["required"] = ["kind", *schema["required"]]
        made.append((tag, node))
    schema = {"oneOf": [node.schema for _, node in made]}
    strict = {"oneOf": [node.strict for _, node in made]}

    def make(r: Random) -> Any:
        tag, node = r.choice(made)
        return {"kind": tag, **node.make(r)}

    return Node("variants", schema, strict, make)


def _nested(rng: Random, depth: int) -> Node:
    return _object(rng, depth)


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    variant: str
    name: str
    arguments: dict[str, Any] | None
    raw: str | None = None
    complete: bool | None = None


def faults(tool: Generated, good: dict[str, Any], known: set[str], rng: Random) -> Iterator[Fault]:
    name = tool.definition.name
    yield from _name_faults(name, good, known, rng)
    yield from _text_faults(name, good, rng)
    for kind, variant, arguments in _value_faults(tool, good, rng):
        # A union may take what was meant as a fault; the oracle, not the guard, says so.
        if kind in ("bad_path", "semantic") or not tool.oracle.is_valid(arguments):
            yield Fault(kind, variant, name, arguments)


def _name_faults(name: str, good: dict[str, Any], known: set[str], rng: Random) -> Iterator[Fault]:
    yield Fault("unknown_tool", "unknown", f"zz_{rng.randint(0, 10**6)}_qq", good)
    at = rng.randrange(len(name))
    letter = rng.choice(string.ascii_lowercase)
    spelt = {
        "case": name.upper(),
        "separator": name.replace("_", "").replace("-", "").replace(".", "") if len(name) > 3 else name,
        "camel": "".join(w.capitalize() for w in name.replace("-", "_").replace(".", "_").split("_")),
        "dropped": name[:at] + name[at + 1 :],
        "doubled": name[:at] + letter + name[at:],
        "changed": name[:at] + letter + name[at + 1 :],
    }
    for variant, wrong in spelt.items():
        if wrong not in known:
            yield Fault("near_miss_name", variant, wrong, good)


def _text_faults(name: str, good: dict[str, Any], rng: Random) -> Iterator[Fault]:
    text = json.dumps(good).decode()
    yield Fault("unparsable_arguments", "fence", name, None, f"```json\n{text}\n```")
    yield Fault("unparsable_arguments", "trailing_comma", name, None, text[:-1] + ",}" if good else "{,}")
    yield Fault("unparsable_arguments", "python", name, None, repr(good))
    yield Fault("unparsable_arguments", "single_quotes", name, None, text.replace('"', "'"))
    yield Fault("unparsable_arguments", "json_in_string", name, None, json.dumps(text).decode())
    closed = text.rstrip("}]")
    yield Fault("unparsable_arguments", "unclosed", name, None, closed)
    yield Fault("unparsable_arguments", "unclosed_but_complete", name, None, closed, complete=True)
    yield Fault("unparsable_arguments", "cut_off", name, None, text[: rng.randrange(1, len(text))])
    yield Fault("unparsable_arguments", "prose", name, None, f"I will call it with {text}")


def _value_faults(tool: Generated, good: dict[str, Any], rng: Random) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for where, node in _places(tool.root, good, ()):
        present = _get(good, where)
        for variant, wrong in _wrong_types(node, present) if where else ():
            yield "wrong_type", variant, _set(good, where, wrong)
        if node.kind == "enum":
            for variant, wrong in (("case", present.swapcase()), ("other", "nowhere")):
                yield "bad_enum", variant, _set(good, where, wrong)
        if node.kind == "path":
            yield "bad_path", "path", _set(good, where, rng.choice(_BAD_PATHS))
        if node.kind == "object":
            for missing in [name for name in node.required if name in present]:
                changed = {k: v for k, v in present.items() if k != missing}
                yield "missing_required", "missing", _set(good, where, changed)
                respelt = {missing.upper() if k == missing else k: v for k, v in present.items()}
                yield "missing_required", "respelt", _set(good, where, respelt)
            yield "extra_argument", "extra", _set(good, where, {**present, f"extra_{rng.randint(0, 99)}": 1})
            optional = [n for n in node.fields if n not in present]
            if optional:
                yield "extra_argument", "other_case", _set(good, where, {**present, optional[0].upper(): "1"})
    if tool.definition.rules:
        yield "semantic", "ticker", {**good, "symbol": "acme corp"}


def _wrong_types(node: Node, value: Any) -> Iterator[tuple[str, Any]]:
    if node.kind in ("integer", "number", "boolean", "int_enum"):
        yield "as_text", json.dumps(value).decode()
        yield "words", "about three"
        yield "list", [value]
    if node.kind in ("array", "object", "map", "variants"):
        yield "as_text", json.dumps(value).decode()
        yield "number", 5
    if node.kind in ("text", "enum", "format", "path"):
        yield "object", {"value": value}
        yield "number", 12345


def _places(node: Node, value: Any, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    if where or node.kind == "object":
        yield where, node
    if node.kind == "object":
        for name, sub in node.fields.items():
            if name in value:
                yield from _places(sub, value[name], (*where, name))


def _get(value: Any, where: tuple[str, ...]) -> Any:
    for step in where:
        value = value[step]
    return value


def _set(value: dict[str, Any], where: tuple[str, ...], new: Any) -> dict[str, Any]:
    if not where:
        return dict(new) if isinstance(new, dict) else {"value": new}
    changed = copy.deepcopy(value)
    place = changed
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = new
    return changed
