"""The generated half of the JavaScript client: a method for each route, and TypeScript types for all of it.

Sending, retries and streams are written by hand in `clients/js/src/index.js`.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from scripts.client_model import ClientModel, Operation, Schema, reference

_NOTE: Final = "// Generated from the OpenAPI document by `make generate`; changes are made there."
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_BY_HAND: Final = frozenset({"runs", "threads", "interrupts"})
"""Resources whose class in `index.js` adds to its routes."""


def files(model: ClientModel) -> dict[str, bytes]:
    return {
        "clients/js/src/types.d.ts": _text(_types(model)),
        "clients/js/src/routes.js": _text(_routes(model)),
        "clients/js/src/routes.d.ts": _text(_route_types(model)),
    }


def _text(lines: Iterable[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


# -- types --------------------------------------------------------------------------------------------


def _types(model: ClientModel) -> Iterator[str]:
    yield _NOTE
    for name, schema in model.schemas.items():
        yield ""
        if said := " ".join(schema.get("description", "").split()):
            yield f"/** {said} */"
        properties = schema.get("properties", {})
        if not properties:
            yield f"export type {name} = {type_of(schema)};"
            continue
        required = set(schema.get("required", ()))
        yield f"export interface {name} {{"
        for key, value in properties.items():
            if said := " ".join(value.get("description", "").split()):
                yield f"  /** {said} */"
            yield f"  {_key(key)}{'' if key in required else '?'}: {type_of(value)};"
        yield "}"


def type_of(schema: Schema, prefix: str = "") -> str:
    if (name := reference(schema)) is not None:
        return prefix + name
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(one) for one in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            options = list(dict.fromkeys(type_of(option, prefix) for option in schema[word]))
            return "unknown" if "unknown" in options else " | ".join(options)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_PLAIN.get(one, "unknown") for one in kind)
    if kind == "array":
        return f"Array<{type_of(schema.get('items', {}), prefix)}>"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Record<string, {type_of(values, prefix) if isinstance(values, dict) else 'unknown'}>"
    return _PLAIN.get(kind or "", "unknown")


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


# -- routes -------------------------------------------------------------------------------------------


def _routes(model: ClientModel) -> Iterator[str]:
    yield _NOTE
    for resource, operations in model.resources.items():
        yield ""
        yield f"export class {_class_name(resource)} {{"
        yield "  constructor(connection) {"
        yield "    this.connection = connection;"
        yield "  }"
        for operation in operations:
            yield ""
            yield from _method(operation)
            if operation.paged:
                yield ""
                yield from _iteration(operation)
        yield "}"
    yield ""
    yield "/** The resources that have nothing but their routes. */"
    yield "export class Resources {"
    yield "  constructor(connection) {"
    for resource in sorted(model.resources.keys() - _BY_HAND):
        yield f"    this.{_camel(resource)} = new {_class_name(resource)}(connection);"
    yield "  }"
    yield "}"


def _method(operation: Operation) -> Iterator[str]:
    given = [*_arguments(operation), "options = {}"]
    sent = []
    if operation.query:
        sent.append(f"query: [{', '.join(json.dumps(one.name) for one in operation.query)}]")
    if operation.body:
        sent.append("body")
    if operation.raw_body:
        sent.append(f"content, contentType: {json.dumps(operation.raw_body)}")
    if operation.keyed:
        sent.append("keyed: true")
    kind = "json" if operation.answer else "bytes" if operation.binary else "nothing"
    yield f"  /** {operation.summary} */"
    yield f"  {_camel(operation.name)}({', '.join(given)}) {{"
    request = f", {{ {', '.join(sent)} }}" if sent else ""
    yield f"    const path = {_path(operation)};"
    yield f"    return this.connection.{kind}({json.dumps(operation.method)}, path, options{request});"
    yield "  }"


def _iteration(operation: Operation) -> Iterator[str]:
    name = _camel(_iterator_name(operation))
    given = ", ".join([*_arguments(operation), "options = {}"])
    handed = ", ".join([*_arguments(operation), "{ ...options, after }"])
    yield f"  /** {operation.summary}: every item, page after page. */"
    yield f"  async *{name}({given}) {{"
    yield "    let after = options.after;"
    yield "    do {"
    yield f"      const page = await this.{_camel(operation.name)}({handed});"
    yield "      yield* page.items;"
    yield "      after = page.nextCursor ?? undefined;"
    yield "    } while (after !== undefined);"
    yield "  }"


def _route_types(model: ClientModel) -> Iterator[str]:
    yield _NOTE
    yield 'import type * as types from "./types.d.ts";'
    yield 'import type { CallOptions, Connection, Content } from "./index.d.ts";'
    for resource, operations in model.resources.items():
        yield ""
        yield f"export declare class {_class_name(resource)} {{"
        yield "  constructor(connection: Connection);"
        for operation in operations:
            given = _typed(operation, model)
            answer = f"types.{operation.answer}" if operation.answer else "Uint8Array" if operation.binary else "void"
            yield f"  /** {operation.summary} */"
            yield f"  {_camel(operation.name)}({given}): Promise<{answer}>;"
            if operation.paged:
                item = model.schemas[operation.answer or ""]["properties"]["items"]["items"]
                yield f"  /** {operation.summary}: every item, page after page. */"
                yield (
                    f"  {_camel(_iterator_name(operation))}({given}): "
                    f"AsyncGenerator<{type_of(item, 'types.')}, void, undefined>;"
                )
        yield "}"
    yield ""
    yield "export declare class Resources {"
    yield "  constructor(connection: Connection);"
    for resource in sorted(model.resources.keys() - _BY_HAND):
        yield f"  {_camel(resource)}: {_class_name(resource)};"
    yield "}"


def _typed(operation: Operation, model: ClientModel) -> str:
    given = [f"{_camel(name)}: string" for name in operation.path_names]
    if operation.body:
        given.append(f"body: types.{operation.body}")
    if operation.raw_body:
        given.append("content: Content")
    fields = [
        f"{_key(one.name)}{'' if one.required else '?'}: "
        + ("string | number" if one.name == "after" else type_of(one.schema, "types."))
        for one in operation.query
    ]
    if operation.keyed:
        fields.append("idempotencyKey?: string")
    options = f"CallOptions & {{ {'; '.join(fields)} }}" if fields else "CallOptions"
    optional = "" if any(one.required for one in operation.query) else "?"
    return ", ".join([*given, f"options{optional}: {options}"])


def _arguments(operation: Operation) -> list[str]:
    return [
        *(_camel(name) for name in operation.path_names),
        *(["body"] if operation.body else []),
        *(["content"] if operation.raw_body else []),
    ]


def _path(operation: Operation) -> str:
    path = operation.path
    for name in operation.path_names:
        path = path.replace(f"{{{name}}}", f"${{encodeURIComponent({_camel(name)})}}")
    return f"`{path}`" if operation.path_names else json.dumps(path)


def _iterator_name(operation: Operation) -> str:
    return "iterate" if operation.name == "list" else f"iterate_{operation.name}"


def _class_name(resource: str) -> str:
    return "".join(word.capitalize() for word in resource.split("_")) + "Routes"


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
