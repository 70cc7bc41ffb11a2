"""The generated half of `holdfast.client`: a type for each JSON object, a method for each route, and the blocking twin.

The methods only say what is sent and what comes back; sending, retries and streams are written by hand in
`async_client.py`, and everything blocking is made from what is awaited.
"""

import keyword
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from scripts.client_model import ClientModel, Operation, Parameter, Schema, reference

_NOTE: Final = "Generated from the OpenAPI document by `make generate`; changes are made there."
_PLAIN: Final = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_INDENT: Final = "    "
_ROOT: Final = Path(__file__).parents[1]
_BY_HAND: Final = frozenset({"runs", "threads", "interrupts", "files"})
"""Resources whose class in `async_client.py` adds to its routes."""

_TWIN_NOTE: Final = "The blocking twin of the module for asyncio.\n\nGenerated from it by `make generate`."
_TWINS: Final = (
    (r'(?s)\A""".*?\n"""', f'"""{_TWIN_NOTE}\n"""'),
    (r"\basync_(routes|client)\b", r"sync_\1"),
    (r"\b(aiter_lines|aread|aclose)\b", lambda found: found.group().removeprefix("a")),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bimport asyncio\n", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\baclosing\b", "closing"),
    (r"\b(async|await) ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\bfor (\w+) in (.*):\n +yield \1\n", r"yield from \2\n"),
)
"""What is awaited, and what stands for it in the blocking client."""


def files(model: ClientModel) -> dict[str, bytes]:
    return {
        "holdfast/client/types.py": _text(_types(model)),
        "holdfast/client/async_routes.py": (awaited := _text(_Routes(model).lines())),
        "holdfast/client/sync_routes.py": _blocking(awaited.decode()),
        "holdfast/client/sync_client.py": _blocking((_ROOT / "holdfast/client/async_client.py").read_text()),
    }


def _blocking(source: str) -> bytes:
    """The same without waiting on a loop; its first paragraph says where it comes from."""
    for awaited, blocking in _TWINS:
        source = re.sub(awaited, blocking, source)
    return _text(source.splitlines())


def _text(lines: Iterable[str]) -> bytes:
    """As the formatter lays it out, so that generated code is checked like any other."""
    made = ("\n".join(lines) + "\n").encode()
    command = [sys.executable, "-m", "ruff", "format", "--config", str(_ROOT / "pyproject.toml"), "-"]
    return subprocess.run(command, input=made, capture_output=True, check=True).stdout


# -- types --------------------------------------------------------------------------------------------


def _types(model: ClientModel) -> Iterator[str]:
    bodies = [_type(name, schema) for name, schema in model.schemas.items()]
    yield '"""The JSON objects of the API, as types: field names are those of the wire.'
    yield ""
    yield _NOTE
    yield '"""'
    yield ""
    yield f"from typing import {', '.join(_imports(bodies))}"
    for body in bodies:
        yield from ["", "", *body]


def _imports(bodies: Iterable[list[str]]) -> list[str]:
    text = "\n".join(line for body in bodies for line in body)
    return [word for word in ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict") if word in text]


def _type(name: str, schema: Schema) -> list[str]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    if not properties:
        return [f"{name}: TypeAlias = {annotation(schema)}"]
    required = set(schema.get("required", ()))
    fields = {
        key: annotation(value) if key in required else f"NotRequired[{annotation(value)}]"
        for key, value in properties.items()
    }
    if any(not key.isidentifier() or keyword.iskeyword(key) for key in fields):
        return [f'{name} = TypedDict("{name}", {{{", ".join(f"{key!r}: {value}" for key, value in fields.items())}}})']
    said = _sentence(schema.get("description", ""))
    return [
        f"class {name}(TypedDict):",
        *([f'{_INDENT}"""{said}"""', ""] if said else []),
        *(f"{_INDENT}{key}: {value}" for key, value in fields.items()),
    ]


def annotation(schema: Schema, prefix: str = "") -> str:
    """The Python type of a value; names of other types are quoted unless a prefix finds them."""
    if (name := reference(schema)) is not None:
        return f"{prefix}{name}" if prefix else f'"{name}"'
    if "const" in schema:
        return f"Literal[{_literal(schema['const'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(_literal, schema['enum']))}]"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            options = list(dict.fromkeys(annotation(option, prefix) for option in schema[word]))
            return "Any" if "Any" in options else _union(options)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([_PLAIN.get(one, "Any") for one in kind])
    if kind == "array":
        return f"list[{annotation(schema.get('items', {}), prefix)}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {annotation(values, prefix) if isinstance(values, Mapping) else 'Any'}]"
    return _PLAIN.get(kind or "", "Any")


def _literal(value: Any) -> str:
    return '"' + value + '"' if isinstance(value, str) else repr(value)


def _union(options: list[str]) -> str:
    if any(option.startswith('"') for option in options):
        # One string for the whole: a quoted name has no operator `|`.
        joined = " | ".join(option.strip('"') for option in options)
        return f"'{joined}'" if '"' in joined else f'"{joined}"'
    return " | ".join(options)


# -- routes -------------------------------------------------------------------------------------------


class _Routes:
    def __init__(self, model: ClientModel) -> None:
        self._model = model

    def lines(self) -> Iterator[str]:
        classes = [self._class(name, found) for name, found in self._model.resources.items()]
        yield '"""A class for each resource, a method for each route.'
        yield ""
        yield _NOTE
        yield '"""'
        yield ""
        yield "from collections.abc import AsyncIterator"
        yield f"from typing import {', '.join(_words(classes, 'Any', 'Literal', 'Unpack', 'cast'))}"
        yield ""
        yield "from holdfast.client import types"
        yield "from holdfast.client.request import AsyncContent, AsyncSender, new_key, path_of"
        for lines in classes:
            yield from ["", "", *lines]
        yield from [
            "",
            "",
            "class AsyncResources:",
            f'{_INDENT}"""The resources that have nothing but their routes."""',
            "",
        ]
        yield f"{_INDENT}def __init__(self, sender: AsyncSender) -> None:"
        for name in sorted(self._model.resources.keys() - _BY_HAND):
            yield f"{_INDENT * 2}self.{name} = {_class_name(name)}(sender)"

    def _class(self, resource: str, operations: tuple[Operation, ...]) -> list[str]:
        lines = [
            f"class {_class_name(resource)}:",
            f"{_INDENT}def __init__(self, sender: AsyncSender) -> None:",
            f"{_INDENT * 2}self._sender = sender",
        ]
        # `list` comes last: within the class its name hides Python's own.
        for operation in sorted(operations, key=lambda one: one.name == "list"):
            if operation.paged:
                lines += ["", *self._iteration(operation)]
            lines += ["", *self._method(operation)]
        return lines

    def _method(self, operation: Operation) -> list[str]:
        call = [f'"{operation.method}"', _path(operation)]
        if operation.query:
            call.append("query={" + ", ".join(f'"{one.name}": {one.name}' for one in operation.query) + "}")
        if operation.body:
            call.append("body=body")
        if operation.raw_body:
            call += ["content=content", f'content_type="{operation.raw_body}"']
        if operation.keyed:
            call.append("key=idempotency_key or new_key()")
        answer = f"types.{operation.answer}" if operation.answer else "bytes" if operation.binary else "None"
        send = {"None": "nothing", "bytes": "content"}.get(answer, "json")
        sent = f"await self._sender.{send}({', '.join(call)})"
        returned = {"None": sent, "bytes": f"return {sent}"}.get(answer, f"return cast({answer}, {sent})")
        return [
            f"{_INDENT}async def {operation.name}({self._parameters(operation)}) -> {answer}:",
            f'{_INDENT * 2}"""{_sentence(operation.summary)}"""',
            f"{_INDENT * 2}{returned}",
        ]

    def _iteration(self, operation: Operation) -> list[str]:
        """All items, page after page."""
        items: Schema = self._model.schemas[operation.answer or ""]["properties"]["items"]["items"]
        name = "iterate" if operation.name == "list" else f"iterate_{operation.name}"
        handed = ", ".join([*operation.path_names, *(f"{one.name}={one.name}" for one in operation.query)])
        return [
            f"{_INDENT}async def {name}({self._parameters(operation)})"
            f" -> AsyncIterator[{annotation(items, 'types.')}]:",
            f'{_INDENT * 2}"""{_sentence(operation.summary)[:-1]}: every item, page after page."""',
            f"{_INDENT * 2}while True:",
            f"{_INDENT * 3}page = await self.{operation.name}({handed})",
            f'{_INDENT * 3}for item in page["items"]:',
            f"{_INDENT * 4}yield item",
            f'{_INDENT * 3}after = page["nextCursor"]',
            f"{_INDENT * 3}if after is None:",
            f"{_INDENT * 4}return",
        ]

    def _parameters(self, operation: Operation) -> str:
        given = ["self", *(f"{name}: str" for name in operation.path_names)]
        if operation.raw_body:
            given.append("content: AsyncContent")
        named = [f"{one.name}: {_wanted(one)}" for one in sorted(operation.query, key=lambda one: not one.required)]
        if operation.keyed:
            named.append("idempotency_key: str | None = None")
        spread = self._is_spread(operation)
        if operation.body is not None and not spread:
            given.append(f"body: types.{operation.body}")
        if named:
            given += ["*", *named]
        if spread:
            given.append(f"**body: Unpack[types.{operation.body}]")
        return ", ".join(given)

    def _is_spread(self, operation: Operation) -> bool:
        """Whether the body's fields are parameters of their own: not if one has a parameter's name already, nor of a
        body that may have any fields."""
        if operation.body is None:
            return False
        fields = set(self._model.schemas[operation.body].get("properties", {}))
        taken = {"self", "idempotency_key", *operation.path_names, *(one.name for one in operation.query)}
        return bool(fields) and not fields & taken


def _class_name(resource: str) -> str:
    return "Async" + "".join(word.capitalize() for word in resource.split("_")) + "Routes"


def _words(classes: list[list[str]], *words: str) -> list[str]:
    text = "\n".join(line for lines in classes for line in lines)
    return [word for word in words if f"{word}[" in text or f"{word}(" in text or f"{word}]" in text]


def _wanted(parameter: Parameter) -> str:
    """The type of a query's parameter; one that is left out has the server's default."""
    found = "str | int" if parameter.name == "after" else annotation(parameter.schema, "types.")
    if parameter.required:
        return found
    return f"{found} = None" if found.endswith("None") else f"{found} | None = None"


def _path(operation: Operation) -> str:
    if not operation.path_names:
        return f'"{operation.path}"'
    return f'path_of("{operation.path}", {", ".join(f"{name}={name}" for name in operation.path_names)})'


def _sentence(text: str) -> str:
    first = " ".join(text.split())
    return first if not first or first.endswith((".", "!", "?")) else first + "."
