"""Foreign JSON Schemas and values for them: what a client's `response_format`, a tool or an MCP server may send."""

from collections.abc import Callable
from typing import Any, Final

from app.core import json
from app.core.errors import HoldfastError
from app.core.schemas import Validator
from app.tools.contract import ToolDefinition
from app.tools.guard import Guard
from app.tools.repair import repair_arguments
from tests.faults.cost.case import Case, Draw

UNIONS: Final = ("anyOf", "oneOf", "allOf")
REGEXES: Final = (
    "^(a+)+$", "^(a|a)*$", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?=(a+))\\1b", "^(?:a?){60}a{60}$",
    "^(x{50}){50}$", "^(\\p{L}{1,50}){1,40}$", "(.*)(.*)(.*)(.*)(.*)[^a]$", "[", "\\u0000", "(?<!a{9})b",
)  # fmt: skip
Made = tuple[str, dict[str, Any], Any]


def doubling(draw: Draw) -> Made:
    """Each link names the next one twice: 2^links paths to one leaf."""
    links, union, width = draw.count(4, 60), draw.one(UNIONS), draw.one((2, 2, 3, 8))
    defs: dict[str, Any] = {
        f"d{n}": {union: [{"$ref": f"#/$defs/d{n + 1}"}] * width} for n in range(links)
    }  # fmt: skip
    defs[f"d{links}"] = draw.one(({"type": "integer"}, {"required": ["a", "b", "c"]}, {"enum": [1, 2]}, False))
    schema = {"type": "object", "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": defs}
    return f"{links} links of {union} x {width}", schema, {"v": "x"}


def doubling_over_values(draw: Draw) -> Made:
    """The same, but each link also goes one level deeper into the value."""
    depth, union = draw.count(4, 30), draw.one(UNIONS)
    defs: dict[str, Any] = {
        f"d{n}": {union: [{"properties": {"k": {"$ref": f"#/$defs/d{n + 1}"}}, "required": ["k"]}] * 2}
        for n in range(depth)
    }
    defs[f"d{depth}"] = {"type": "integer"}
    value: Any = "x"
    for _ in range(depth):
        value = {"k": value}
    return f"{depth} levels of {union}", {"$ref": "#/$defs/d0", "$defs": defs}, value


def recursive(draw: Draw) -> Made:
    names, depth = draw.count(1, 50), draw.count(4, 30)
    defs = {
        f"d{n}": {draw.one(UNIONS): [{"$ref": f"#/$defs/d{draw.random.randrange(names)}"} for _ in range(3)]}
        for n in range(names)
    }
    schema: dict[str, Any] = draw.one(
        (
            {"$ref": "#"},
            {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
            {"properties": {"k": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "required": ["k", "l"]},
            {"$dynamicAnchor": "n", "properties": {"k": {"$dynamicRef": "#n"}}, "required": ["l"]},
            {"$ref": "#/$defs/d0", "$defs": defs},
        )
    )
    value: Any = 0
    for _ in range(depth):
        value = draw.one(({"k": value}, {"k": value, "l": 1}))
    return f"references in a circle over {depth} levels", schema, value


def deep(draw: Draw) -> Made:
    levels, keyword = draw.count(8, 4000), draw.one(("properties", "items", "not", "allOf", "additionalProperties"))
    schema: Any = {"type": "integer"}
    value: Any = "x"
    for level in range(levels):
        if keyword == "properties":
            schema = {"type": "object", "properties": {"k": schema}}
        elif keyword == "allOf":
            schema = {"allOf": [schema]}
        else:
            schema = {keyword: schema}
        if level < 30 and keyword in ("properties", "additionalProperties"):
            value = {"k": value}
        elif level < 30 and keyword == "items":
            value = [value]
    return f"{keyword} nested {levels} deep", schema, value


def long_enum(draw: Draw) -> Made:
    entries = draw.count(10, 100_000)
    options = [draw.one((n, f"word{n}", {"n": n}, [n])) for n in range(entries)]
    value = draw.one((-1, "WORD7", ["Word7"] * draw.count(1, 500)))
    schema: dict[str, Any] = {"enum": options}
    return f"an enum of {entries}", {"items": schema} if isinstance(value, list) else schema, value


def regex(draw: Draw) -> Made:
    pattern, length = draw.one(REGEXES), draw.count(10, 200_000)
    text = draw.one(("a" * length + "!", "x" * length, "é" * length, "aB" * (length // 2 + 1)))
    shape = draw.one(("pattern", "patternProperties", "propertyNames"))
    if shape == "pattern":
        return f"pattern {pattern} on {length} characters", {"pattern": pattern}, text
    if shape == "propertyNames":
        return f"propertyNames {pattern} on {length} characters", {"propertyNames": {"pattern": pattern}}, {text: 1}
    patterns = {f"{pattern}|k{n}": {"type": "integer"} for n in range(draw.count(1, 200))}
    value = {f"{n}{text[:500]}": "x" for n in range(draw.count(1, 500))}
    return f"{len(patterns)} patternProperties {pattern} on {len(value)} keys", {"patternProperties": patterns}, value


def unique(draw: Draw) -> Made:
    items, kind = draw.count(10, 100_000), draw.one(("numbers", "objects", "lists", "equal", "floats"))
    values: list[Any] = [
        {"numbers": n, "objects": {"a": {"b": n}}, "lists": [[n], [n]], "equal": {"a": 0, "n": n}, "floats": n / 7}[
            kind
        ]
        for n in range(items)
    ]
    return f"uniqueItems over {items} {kind}", {"uniqueItems": True}, values


def many_errors(draw: Draw) -> Made:
    items = draw.count(100, 500_000)
    schema: dict[str, Any] = draw.one(
        (
            {"items": {"type": "string"}},
            {"items": {"anyOf": [{"type": "string"}, {"type": "object"}, {"enum": ["a", "b"]}]}},
            {"items": {"oneOf": [{"minimum": n} for n in range(1, 9)]}},
            {"contains": {"type": "string"}, "minContains": 3},
            {"prefixItems": [{"type": "string"}] * 500, "unevaluatedItems": False},
        )
    )
    return f"{items} zeros", schema, [0] * items


def many_keys(draw: Draw) -> Made:
    keys = draw.count(100, 200_000)
    schema: dict[str, Any] = draw.one(
        (
            {"additionalProperties": False},
            {"unevaluatedProperties": False, "anyOf": [{"properties": {f"p{n}": {}}} for n in range(100)]},
            {"properties": {f"p{n}": {"type": "string"} for n in range(5000)}, "additionalProperties": False},
            {"required": [f"p{n}" for n in range(10_000)]},
            {"dependentRequired": {f"k{n}": [f"q{m}" for m in range(50)] for n in range(500)}},
            {"dependentSchemas": {f"k{n}": {"required": ["z"]} for n in range(2000)}},
        )
    )
    return f"{keys} keys", schema, {f"k{n}": n for n in range(keys)}


def wide_union(draw: Draw) -> Made:
    branches, items = draw.count(2, 3000), draw.count(1, 300)
    options = [{"type": "object", "properties": {"t": {"const": n}}, "required": ["t"]} for n in range(branches)]
    return f"a union of {branches} over {items} items", {"items": {draw.one(UNIONS): options}}, [{"t": -1}] * items


def conditions(draw: Draw) -> Made:
    links = draw.count(2, 9)  # each link writes the last one three times: more would not fit into a request
    schema: Any = {"type": "integer"}
    for n in range(links):
        schema = {"if": {"required": [f"k{n}"]}, "then": schema, "else": {"allOf": [schema, {"not": schema}]}}
    return f"{links} conditions in one another", schema, {"k0": 1}


def numbers(draw: Draw) -> Made:
    value = draw.one((10**15 + 0.5, 2**62, 1e308, 5e-324, -0.0))
    schema = draw.one(({"multipleOf": 5e-324}, {"multipleOf": 1e-300, "maximum": 1e-9}, {"multipleOf": 0.1}))
    return "numbers at the edge", schema, value


def anything(draw: Draw) -> Made:
    return "a random schema", _schema(draw, 4), _value(draw, 4)


def _schema(draw: Draw, depth: int) -> Any:
    made: dict[str, Any] = {}
    for keyword in draw.random.sample(_KEYWORDS, draw.random.randrange(1, 5)):
        below: Callable[[], Any] = lambda: _schema(draw, depth - 1) if depth else draw.chance(0.5)  # noqa: E731
        match keyword:
            case "type":
                made[keyword] = draw.one(("string", "integer", "object", "array", ["null", "boolean"]))
            case "properties" | "patternProperties" | "$defs" | "dependentSchemas":
                made[keyword] = {draw.one(("a", "b", "c")): below() for _ in range(draw.random.randrange(4))}
            case "anyOf" | "oneOf" | "allOf" | "prefixItems":
                made[keyword] = [below() for _ in range(draw.random.randrange(1, 4))]
            case "$ref":
                made[keyword] = draw.one(("#", "#/$defs/a", "#/properties/b", "#/$defs/absent", "other.json"))
            case "enum":
                made[keyword] = [draw.one((1, "a", None, 2.5)) for _ in range(3)]
            case "minimum" | "maxLength" | "minItems" | "multipleOf":
                made[keyword] = draw.random.randrange(1, 5)
            case "pattern":
                made[keyword] = draw.one(REGEXES)
            case "format":
                made[keyword] = draw.one(("date-time", "email", "idn-hostname", "uri", "regex", "path", "unknown"))
            case _:
                made[keyword] = below()
    return made


_KEYWORDS: Final = (
    "type", "properties", "patternProperties", "$defs", "dependentSchemas", "anyOf", "oneOf", "allOf", "prefixItems",
    "$ref", "enum", "minimum", "maxLength", "minItems", "multipleOf", "pattern", "format", "items", "not", "if", "then",
    "else", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames",
)  # fmt: skip


def _value(draw: Draw, depth: int) -> Any:
    kind = draw.random.randrange(7 if depth else 5)
    if kind == 5:
        return [_value(draw, depth - 1) for _ in range(draw.random.randrange(4))]
    if kind == 6:
        return {draw.one(("a", "b", "c", "d")): _value(draw, depth - 1) for _ in range(draw.random.randrange(4))}
    return (draw.random.randrange(-9, 9), draw.word(), None, draw.chance(0.5), draw.random.random())[kind]


ATTACKS: Final = (
    doubling, doubling, doubling_over_values, recursive, deep, long_enum, regex, unique, many_errors, many_keys,
    wide_union, conditions, numbers, anything, anything, anything,
)  # fmt: skip


def schema(draw: Draw) -> Case:
    """A validator is made, asked for the verdict, and asked what is wrong."""
    attack, document, value = draw.one(ATTACKS)(draw)
    return Case(attack, lambda: _validated(document, value))


def guard(draw: Draw) -> Case:
    """The same schema as a tool's input: the guard checks the arguments and repair is tried."""
    attack, document, value = draw.one(ATTACKS)(draw)
    closed = draw.chance(0.5)
    arguments = value if isinstance(value, dict) else {"v": value}
    if not isinstance(value, dict):
        document = {"type": "object", "properties": {"v": document}, "$defs": document.pop("$defs", {})}
    return Case(f"{attack}, {'closed' if closed else 'as written'}", lambda: _guarded(document, arguments, closed))


def _validated(document: dict[str, Any], value: Any) -> str:
    try:
        validator = Validator(document)
    except (HoldfastError, json.JsonError):
        return "refused"
    return "accepted" if validator.accepts(value) else f"{len(validator.issues(value))} issues"


def _guarded(document: dict[str, Any], arguments: dict[str, Any], closed: bool) -> str:
    try:
        made = Guard(ToolDefinition("t", input=document, closed=closed))
    except HoldfastError:
        return "refused"
    if made.accepts(arguments):
        return "accepted"
    findings = made.check(arguments)
    return f"{len(findings)} findings, {'repaired' if repair_arguments(made, arguments) else 'not repaired'}"
