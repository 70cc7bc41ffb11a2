"""Texts of a workspace and of a model: YAML, Markdown, templates, expressions, JSON and what is almost JSON."""

from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.expressions import Expression, compile_expression
from app.tools.contract import ToolDefinition, ToolRequest
from app.tools.guard import Guard
from app.tools.repair import repair_text
from app.workspace.compiled import Compiled
from app.workspace.templates import Template, compile_template
from tests.faults.cost.case import Case, Draw
from tests.workspace.building import AGENT, TOOL, build

MAX_FILE: Final = 1024 * 1024
"""Larger files of a workspace are not read at all."""


def yaml(draw: Draw) -> Case:
    attack, text = draw.one(_YAML)(draw)
    path = draw.one(("tools/x.yaml", "agents/x.yaml", "runtime.yaml", "models/x.yml"))
    return Case(f"{attack} in {path}", lambda: _compiled({path: text.encode()[:MAX_FILE]}))


def markdown(draw: Draw) -> Case:
    attack, text = draw.one(_MARKDOWN)(draw)
    path = draw.one(("skills/x/SKILL.md", "roles/x.md", "workflows/cycles/x.md", "workflows/personas/x.md"))
    return Case(f"{attack} in {path}", lambda: _compiled({path: text.encode()[:MAX_FILE]}))


def _compiled(files: dict[str, bytes]) -> str:
    result = build(files)
    if isinstance(result, Compiled):
        return "compiled"
    return f"{len(result.as_text())} characters of diagnostics"


def _nested_flow(draw: Draw) -> tuple[str, str]:
    depth, opener = draw.count(10, 500_000), draw.one(("[", "{a: ", "[{a: ", "- "))
    return f"{opener!r} {depth} times", "spec: " + opener * depth


def _nested_block(draw: Draw) -> tuple[str, str]:
    depth = draw.count(10, 1400)
    return f"{depth} levels of block", "".join(f"{' ' * n}a:\n" for n in range(depth))


def _aliases(draw: Draw) -> tuple[str, str]:
    links, width = draw.count(2, 2000), draw.one((2, 9))
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, links)]
    return f"{links} aliases of {width}", "\n".join(lines)


def _one_alias(draw: Draw) -> tuple[str, str]:
    uses = draw.count(10, 200_000)
    return f"{uses} uses of one alias", "a: &a [1]\nb: [" + "*a, " * uses + "]"


def _documents(draw: Draw) -> tuple[str, str]:
    count, body = draw.count(10, 200_000), draw.one(("", "a: 1\n", AGENT, TOOL, TOOL.replace("echo", "{n}")))
    pieces = (body.replace("{n}", f"t{n}") for n in range(count))
    return f"{count} documents", "---\n".join(pieces if body else ["\n"] * count)[: 2 * MAX_FILE]


def _scalar(draw: Draw) -> tuple[str, str]:
    size = draw.count(100, MAX_FILE)
    text = draw.one(
        ("x" * size, "9" * size, "'" + "''" * (size // 2), '"' + "\\u0041" * (size // 6), "|\n" + "  a\n" * (size // 4))
    )
    return f"a scalar of {size}", AGENT.replace("model: main", f"instructions: {text}")


def _keys(draw: Draw) -> tuple[str, str]:
    count = draw.count(10, 100_000)
    same = draw.chance(0.5)
    keys = "".join(f"    {'k' if same else f'k{n}'}: {n}\n" for n in range(count))
    return f"{count} keys{', all the same' if same else ''}", AGENT.replace("tools: [echo]", f"config:\n{keys}")


def _unknown_fields(draw: Draw) -> tuple[str, str]:
    count = draw.count(10, 60_000)
    return f"{count} unknown fields", AGENT + "".join(f"  model{n}: 1\n" for n in range(count))


def _unknown_names(draw: Draw) -> tuple[str, str]:
    count = draw.count(10, 60_000)
    return f"{count} unknown tools", AGENT.replace("[echo]", "[" + ", ".join(f"ecgo{n}" for n in range(count)) + "]")


def _tags(draw: Draw) -> tuple[str, str]:
    count, what = draw.count(10, 60_000), draw.one(("!!python/object:os.system x", "? [a]", "&a x", "<<: 1", "!<x> y"))
    return f"{count} times {what}", "".join(f"- {what}\n" for _ in range(count))


def _tool_schema(draw: Draw) -> tuple[str, str]:
    levels = draw.count(2, 60)
    chain = "".join(
        f"      d{n}: {{anyOf: [{{$ref: '#/$defs/d{n + 1}'}}, {{$ref: '#/$defs/d{n + 1}'}}]}}\n" for n in range(levels)
    )
    schema = f"  input:\n    $ref: '#/$defs/d0'\n    $defs:\n{chain}      d{levels}: {{type: integer}}\n"
    return f"a tool's schema with {levels} doublings and an example", TOOL + schema + "  examples: [{a: 1}]\n"


def _environment(draw: Draw) -> tuple[str, str]:
    count = draw.count(10, 60_000)
    return f"{count} references to the environment", AGENT + "  config:\n    a: '" + "${env:X} ${" * count + "'\n"


def _noise(draw: Draw) -> tuple[str, str]:
    size = draw.count(10, 20_000)
    return f"{size} random characters", "".join(draw.random.choices(" \n\t-:[]{}&*!|>'\"%@`#,?ab01", k=size))


_YAML: Final = (
    _nested_flow, _nested_block, _aliases, _one_alias, _documents, _scalar, _keys, _unknown_fields, _unknown_names,
    _tags, _tool_schema, _environment, _noise, _noise,
)  # fmt: skip


def _frontmatter(draw: Draw) -> tuple[str, str]:
    attack, text = draw.one(_YAML)(draw)
    return f"frontmatter: {attack}", f"---\n{text}\n---\nbody"


def _fences(draw: Draw) -> tuple[str, str]:
    count, line = draw.count(10, 250_000), draw.one(("---\n", "--- \n", "----\n", "---\r", "```\n"))
    return f"{count} fences", line * count


def _triggers(draw: Draw) -> tuple[str, str]:
    count, word = draw.count(10, 50_000), draw.one(("(a+)+$", "x", "*" * 50, "é"))
    triggers = ", ".join(f"{word!r}" if draw.chance(0.5) else f"w{n}" for n in range(count))
    return f"{count} triggers", f"---\nname: x\ndescription: d\ntriggers: [{triggers}]\n---\nbody"


def _body(draw: Draw) -> tuple[str, str]:
    count, piece = draw.count(10, 300_000), draw.one(("# ", "> ", "[a](", "{{ x }}", "<!--", "\\", "| - "))
    return f"{piece!r} {count} times", f"---\nname: x\ndescription: d\n---\n{piece * count}"


_MARKDOWN: Final = (_frontmatter, _frontmatter, _fences, _triggers, _body)


def template(draw: Draw) -> Case:
    count = draw.count(10, 200_000)
    piece = draw.one(
        ("{{ args.a }}", "{{args.b.c.0.d}}", "{{", "{{ " + " " * 500, "}}", "{{ args." + "a." * 200 + "a }}")
    )
    source = (piece * count)[: 4 * MAX_FILE]
    value = draw.one(("x" * draw.count(10, 100_000), {"c": [{"d": 1}]}, list(range(draw.count(10, 100_000)))))
    return Case(f"{piece[:20]!r} {count} times", lambda: _rendered(source, {"args": {"a": value, "b": value}}))


def _rendered(source: str, values: dict[str, Any]) -> str:
    made = compile_template(source, ("args",))
    if not isinstance(made, Template):
        return "refused"
    text = made.render(values)
    return "no value" if isinstance(text, Failure) else f"{len(text)} characters"


_RULES: Final = (
    "args.l.all(a, args.l.all(b, args.l.all(c, a + b + c >= 0)))",
    "args.l.map(a, args.l.map(b, args.l)).size() > 0",
    "args.l.exists(a, args.s.contains(string(a)))",
    "args.l.all(a, args.s.matches('(a|a)*b'))",
    "args.s.matches('^(a+)+$')",
    "args.s.matches('(x{200}){200}')",
    "args.s.matches(args.s)",
    "(args.s + args.s + args.s + args.s).size() > 1",
    "args.l.map(a, args.s + args.s).size() > 0",
    "args.l.filter(a, args.l.exists(b, b == a)).size() == 0",
    "args.m.all(k, args.m[k] == args.m)",
    "args.l == args.l && args.m == args.m",
    "args.s < args.s + 'a'",
    "has(args.m.k) || args.l[0] in args.l",
)


def expression(draw: Draw) -> Case:
    nested = draw.count(2, 60)
    source = draw.one(
        (
            *_RULES, *_RULES,
            "[" + "1," * draw.count(10, 990) + "1].size() > 0",
            "(" * nested + "true" + ")" * nested,
            "!" * draw.count(2, 1900) + "true",
            " && ".join(["args.s == 'a'"] * draw.count(2, 110)),
            "args.l" + ".map(x, [x, x])" * draw.count(1, 100) + ".size() > 0",
            "args.l" + ".map(x, args.l" * draw.count(1, 30) + ")" * nested + ".size() > 0",
            "'" + "a" * 900 + "'.matches('" + "(a?)" * 200 + "')",
            "[1,2,3,4,5,6,7].all(a, [1,2,3,4,5,6,7].all(b, [1,2,3,4,5,6,7].all(c, [1,2,3].all(d, a+b+c+d > 0))))",
            "args.l.all(a, (args.s" + " + args.s" * draw.count(1, 150) + ").size() > 0)",
            "args.l.map(a, args.s" + " + args.s" * draw.count(1, 150) + ").size() > 0",
            "args.l.all(a, " + " || ".join(["args.s.matches('(a|aa)*b')"] * draw.count(1, 60)) + ")",
            "args.l.map(a, args.l).size() > 0", "args.m.map(k, args.m).size() > 0",
            "args.l.all(a, a.all(b, a.all(c, a.size() > 0)))",
            " + ".join(f"name{n}" for n in range(draw.count(2, 200))) + " > 0",
            "a" * draw.count(10, 5000), "{" * nested + "}" * nested,
            draw.word(40) + draw.one(("(", "[", "'", "?", "..")),
        )
    )  # fmt: skip
    items = draw.count(1, 20_000)
    args = {
        "l": draw.one((list(range(items)), [[1] * 50] * (items // 50 + 1), ["a" * 100] * (items // 10 + 1))),
        "s": "a" * draw.count(1, 1_000_000),
        "m": draw.one(({f"k{n}": n for n in range(items)}, {"k": {"k": {"k": list(range(items))}}})),
    }
    return Case(f"{source[:80]} over {items} items", lambda: _evaluated(source, args))


def _evaluated(source: str, args: dict[str, Any]) -> str:
    made = compile_expression(source, {"args": "map"})
    if not isinstance(made, Expression):
        return "refused"
    answer = made.evaluate(dict.fromkeys(made.variables, args))
    return answer.code if isinstance(answer, Failure) else str(answer)


_JSON_PIECES: Final = (
    '{"a":0}', "{}", "[]", "0", '"ab"', "1.5", "[[]]", '{"a":{}}', "null", "1e308", "12345678901234567890", '"\\u0041"',
)  # fmt: skip


def json_text(draw: Draw) -> Case:
    """What a stranger sends, of at most 1 MB: parsed strictly, then written as the log writes it. Larger bodies are
    the business of the edge, and of the live cases."""
    size = draw.count(1000, draw.one((100_000, 1_000_000)))
    piece = draw.one(_JSON_PIECES)
    count = max(1, size // (len(piece) + 1))
    shape = draw.one(("list", "keys", "same keys", "deep", "open", "string"))
    match shape:
        case "list":
            text = "[" + ",".join([piece] * count) + "]"
        case "keys":
            text = "{" + ",".join(f'"{n}":{piece}' for n in range(count)) + "}"
        case "same keys":
            text = "{" + ",".join([f'"k":{piece}'] * count) + "}"
        case "deep":
            text = "[" * min(count, 100_000) + "]" * min(count, 100_000)
        case "open":
            text = '{"a":[' * count
        case _:
            text = '"' + draw.one(("x", "\\\\", "é", "\\ud83d\\ude00", ":,{")) * count + '"'
    data = text.encode()[:size]
    return Case(f"{shape} of {count} x {piece}, {len(data)} bytes", lambda: _parsed(data))


def _parsed(data: bytes) -> str:
    try:
        value = json.loads_strict(data)
        return f"{len(json.canonical(value))} bytes"
    except json.JsonError as error:
        return error.code


_TOOL: Final = ToolDefinition(
    "t",
    input={
        "type": "object",
        "properties": {
            "n": {"type": "integer"}, "list": {"type": "array", "items": {"type": "integer"}},
            "kind": {"enum": ["celsius", "kelvin"]}, "o": {"anyOf": [{"type": "object"}, {"type": "number"}]},
        },
        "required": ["n"],
    },
)  # fmt: skip


def arguments(draw: Draw) -> Case:
    """What a model wrote as the arguments of a call, and what repair makes of it."""
    count = draw.count(10, 250_000)
    text = draw.one(
        (
            "{" + "'a': " * count, '{"list": [' + '"1",' * count + "]}", "{n: 1, list: [" + "1 " * count,
            "```json\n" * count, "```json\n" + "{" * count + "\n```", "{" + "'k': {" * min(count, 30) + "n: '1'",
            '{"n": "' + "1" * count + '"}', '{"n": ' + "1" * count + ".0e" + "9" * 10 + "}", "{'s': '" + "\\" * count,
            '{"o": ' + '"' + "9" * count + '"}', "{" + " " * count + "n" + "\n" * count + ": 1,}",
            '"' + "\\\"" * count + '"', "{" + ",".join(f"k{n}: '{n}'" for n in range(count // 8)) + "}",
            '{"list": ["' + '","'.join(["x"] * count) + '"], "n": "1"}', "{n: 1," + "'kind': 'KELVIN'," * count + "}",
        )
    )[: MAX_FILE + 10]  # fmt: skip
    return Case(f"{text[:30]!r}... of {len(text)} characters", lambda: _repaired(text, draw.chance(0.5)))


def _repaired(text: str, complete: bool) -> str:
    guard = Guard(_TOOL)
    repaired = repair_text(guard, ToolRequest("c", "t", raw=text, complete=complete))
    return "repaired" if repaired else "not repaired"
