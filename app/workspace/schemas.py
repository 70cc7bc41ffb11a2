"""JSON Schemas of the documents, generated from the models, for editors and readers."""

from pathlib import Path
from typing import Any, Final

from app.core import json
from app.workspace.specs import KINDS
from app.workspace.specs.descriptions import ENVELOPE, description

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def workspace_schemas() -> dict[str, bytes]:
    """File name to content: one schema a kind, and `Document.json` for files that hold several kinds."""
    schemas = {kind: described(model.model_json_schema(by_alias=True)) for kind, model in KINDS.items()}
    files = {f"{kind}.json": _file(kind, schema) for kind, schema in schemas.items()}
    files["Document.json"] = json.pretty(_any_kind())
    return files


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a description of each field, where somebody wrote one."""
    for name, found in schema.get("properties", {}).items():
        found["description"] = ENVELOPE.get(name) or found.get("description", "")
    for model, below in schema.get("$defs", {}).items():
        for name, found in below.get("properties", {}).items():
            said = description(model, name)
            if said is not None:
                found["description"] = said
    return schema


def write_workspace_schemas(root: Path) -> dict[str, bytes]:
    """Write them into `root` (`schemas/workspace`) and return what was written."""
    files = workspace_schemas()
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / name).write_bytes(content)
    return files


def _file(kind: str, schema: dict[str, Any]) -> bytes:
    return json.pretty({"$schema": _DIALECT, "$id": f"holdfast/v1/{kind}", **schema, "title": kind})


def _any_kind() -> dict[str, Any]:
    rules = [{"if": {"properties": {"kind": {"const": kind}}}, "then": {"$ref": f"{kind}.json"}} for kind in KINDS]
    return {
        "$schema": _DIALECT,
        "$id": "holdfast/v1/Document",
        "title": "Document",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {"kind": {"enum": list(KINDS), "description": ENVELOPE["kind"]}},
        "allOf": rules,
    }
