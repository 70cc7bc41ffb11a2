"""The page of every field of every document kind, made from the schemas; `make generate` writes it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.core import json
from app.workspace.schemas import workspace_schemas
from app.workspace.served import UNSERVED
from app.workspace.specs import KINDS

_HEAD: Final = """\
# Workspace reference

Generated from the models in `app/workspace/specs`. This page lists every field of every kind of document; see
[workspaces](workspace.md) for explanations and examples. Fields that are not marked as required may be omitted. A
document has four parts:

| field | type | default | description |
|---|---|---|---|
| `apiVersion` | `holdfast/v1` | required | Always `holdfast/v1`. |
| `kind` | text | required | One of the kinds below. |
| `metadata` | mapping | required | `name`, `description` and `labels`. |
| `spec` | mapping | required | The fields below. |

Parts that this version does not implement are marked. Using one is the error NOT_SERVED.
"""


def page() -> bytes:
    schemas = {kind: json.loads(workspace_schemas()[f"{kind}.json"]) for kind in KINDS}
    lines = [_HEAD, *_section("metadata", "Metadata", schemas["Agent"]["$defs"])]
    for kind, schema in schemas.items():
        name = schema["properties"]["spec"]["$ref"].rpartition("/")[2]
        lines += _section(kind, name, schema["$defs"], kind)
    return "\n".join(lines).rstrip("\n").encode() + b"\n"


def undescribed() -> list[str]:
    """Fields that nobody described, as `Model.field`."""
    found = set()
    for file, content in workspace_schemas().items():
        schema = json.loads(content)
        for model, below in [(file, schema), *schema.get("$defs", {}).items()]:
            found |= {
                f"{model}.{name}" for name, one in below.get("properties", {}).items() if not one.get("description")
            }
    return sorted(found)


def _section(title: str, name: str, definitions: Mapping[str, Any], kind: str = "") -> list[str]:
    lines = [f"## {title}", ""]
    if kind in UNSERVED.kinds:
        lines += [f"**Not implemented yet (NOT_SERVED):** {UNSERVED.kinds[kind]}.", ""]
    unserved = {".".join(map(str, part.path)) for part in UNSERVED.fields.get(kind, ()) if part.values is None}
    said = definitions[name].get("description")
    lines += [str(said), ""] if said else []
    lines += ["| field | type | default | description |", "|---|---|---|---|"]
    return [*lines, *_rows(definitions[name], definitions, "", (), frozenset(unserved)), ""]


def _rows(
    model: Mapping[str, Any],
    definitions: Mapping[str, Any],
    prefix: str,
    above: tuple[str, ...],
    unserved: frozenset[str],
) -> Iterator[str]:
    required = set(model.get("required", ()))
    for name, schema in model.get("properties", {}).items():
        default = "required" if name in required else _default(schema)
        said = schema.get("description", "")
        said = f"Not implemented yet (NOT_SERVED). {said}" if f"{prefix}{name}" in unserved else said
        cells = (f"`{prefix}{name}`", _type(schema, definitions), default, said)
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
        below, mark = _model_in(schema)
        if below is not None and below not in above:
            yield from _rows(definitions[below], definitions, f"{prefix}{name}{mark}.", (*above, below), unserved)


def _model_in(schema: Mapping[str, Any]) -> tuple[str | None, str]:
    """The model that the field's value, its elements or its values are, and how that is written in a path."""
    for option in schema.get("anyOf", [schema]):
        for inner, mark in ((option, ""), (option.get("items"), "[]"), (option.get("additionalProperties"), ".*")):
            if isinstance(inner, Mapping) and "$ref" in inner:
                return str(inner["$ref"]).rpartition("/")[2], mark
    return None, ""


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if value is None or value in ({}, []):
        return ""
    return "as below" if isinstance(value, dict) else f"`{json.dumps(value).decode()}`"


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    return " or ".join(dict.fromkeys(_one_type(option, definitions) for option in options))


def _one_type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        target = definitions[str(schema["$ref"]).rpartition("/")[2]]
        return _one_type(target, definitions)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}), definitions)}"
    words = {
        "string": "text",
        "object": "mapping",
        "boolean": "true or false",
        "integer": "integer",
        "number": "number",
    }
    word = words.get(str(kind), "anything")
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    bounded = kind in ("integer", "number") and low is not None
    return word if not bounded else f"{word}, {low}..{high}" if high is not None else f"{word}, at least {low}"
