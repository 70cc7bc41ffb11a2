"""What the client packages offer, read from the OpenAPI document: resources, their methods, and the types they use.

Language by language, `client_python` and `client_javascript` write it down. Left out on purpose: routes of other
products' protocols, whose own clients serve them, and streams, which the packages follow by hand-written code.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Schema = Mapping[str, Any]

_FOREIGN: Final = frozenset({"sessions", "openai"})
"""Tags of routes that speak for another product."""
_SERVER: Final = {"/healthz": "health", "/readyz": "ready", "/metrics": "metrics"}
_ITEM_VERBS: Final = {"get": "get", "patch": "update", "put": "put", "delete": "delete", "post": "post"}
_STREAM: Final = "text/event-stream"
_REF: Final = "#/components/schemas/"

_NAMES: Final = {
    ("post", "/api/threads/{thread_id}/messages"): "send",
    ("post", "/api/threads/{thread_id}/todos"): "update_todos",
    ("post", "/api/runs/{run_id}/feedback"): "give_feedback",
    ("post", "/api/files"): "upload",
    ("delete", "/api/keys/{key_id}"): "revoke",
    ("post", "/api/runs/{run_id}/commands"): "command",
    ("post", "/api/runs/{run_id}/gates"): "judge",
    ("post", "/api/datasets/{name}/import"): "import_cases",
}
"""Where the rule of `_name` gives a word that nobody would look for."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    """As it is on the wire."""
    schema: Schema
    required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    """In lower case with underscores."""
    method: str
    path: str
    summary: str
    path_names: tuple[str, ...]
    query: tuple[Parameter, ...]
    body: str | None
    """The schema's name, of a JSON body."""
    raw_body: str | None
    """The content type of a body that is not JSON."""
    answer: str | None
    """The schema's name, of a JSON answer."""
    binary: bool
    """The answer is bytes; without this and `answer` there is none."""
    keyed: bool
    """Takes an Idempotency-Key, so that it can be repeated after a lost connection."""
    paged: bool
    """`after` and `nextCursor` lead from page to page."""


@dataclass(frozen=True, slots=True)
class ClientModel:
    resources: Mapping[str, tuple[Operation, ...]]
    schemas: Mapping[str, Schema]
    """Those that the operations use, and those that these use."""


def read(document: Mapping[str, Any]) -> ClientModel:
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    resources: dict[str, list[Operation]] = {}
    for path, methods in sorted(document["paths"].items()):
        for method, described in sorted(methods.items()):
            if _is_ours(path, described):
                made = _operation(method, path, described, set(methods), schemas)
                resources.setdefault(_resource(path), []).append(made)
    for resource, operations in resources.items():
        names = [operation.name for operation in operations]
        if len(names) != len(set(names)):
            raise ValueError(f"two routes of {resource} have one name: {sorted(names)}; add one to _NAMES")
    used = _closure(schemas, {name for found in resources.values() for one in found for name in (one.body, one.answer)})
    return ClientModel({name: tuple(found) for name, found in sorted(resources.items())}, used)


def reference(schema: Schema) -> str | None:
    ref = schema.get("$ref")
    return None if ref is None else str(ref).removeprefix(_REF)


def _is_ours(path: str, described: Mapping[str, Any]) -> bool:
    if _FOREIGN & set(described["tags"]) or not (path.startswith("/api/") or path in _SERVER):
        return False
    return set(_contents(described)) != {_STREAM}


def _contents(described: Mapping[str, Any]) -> dict[str, Schema]:
    """By content type, of every answer that is no error."""
    found: dict[str, Schema] = {}
    for status, answer in described["responses"].items():
        if status.startswith("2"):
            found.update({kind: content.get("schema", {}) for kind, content in answer.get("content", {}).items()})
    return found


def _operation(
    method: str, path: str, described: Mapping[str, Any], siblings: set[str], schemas: Mapping[str, Schema]
) -> Operation:
    parameters = described.get("parameters", ())
    query = tuple(
        Parameter(one["name"], one["schema"], one["required"], one.get("description", ""))
        for one in parameters
        if one["in"] == "query" and one["name"] != "stream"
    )
    bodies = described.get("requestBody", {}).get("content", {})
    body = reference(bodies["application/json"]["schema"]) if "application/json" in bodies else None
    contents = {kind: schema for kind, schema in _contents(described).items() if kind != _STREAM}
    answer = reference(contents["application/json"]) if set(contents) == {"application/json"} else None
    page = schemas.get(answer or "", {}).get("properties", {})
    return Operation(
        name=_NAMES.get((method, path)) or _name(method, path, siblings, {"items", "nextCursor"} <= page.keys()),
        method=method.upper(),
        path=path,
        summary=described["summary"],
        path_names=tuple(one["name"] for one in parameters if one["in"] == "path"),
        query=query,
        body=body,
        raw_body=None if body or not bodies else min(bodies),
        answer=answer,
        binary=bool(contents) and answer is None,
        keyed=any(one["name"] == "idempotency-key" for one in parameters),
        paged={"items", "nextCursor"} <= page.keys() and any(one.name == "after" for one in query),
    )


def _resource(path: str) -> str:
    return "server" if path in _SERVER else path.split("/")[2].replace("-", "_")


def _name(method: str, path: str, siblings: set[str], lists: bool) -> str:
    """`list`, `get`, `cancel`, `undo_plan`, `decide_record`: what the route's last words come to."""
    if path in _SERVER:
        return _SERVER[path]
    words = path.split("/")[3:]
    fixed = [word.replace("-", "_") for word in words if not word.startswith("{")]
    if not fixed:
        if words:
            return _ITEM_VERBS[method]
        return {"get": "list" if lists else "get", "post": "create"}.get(method, method)
    if words[-1].startswith("{"):
        of = "_".join([*fixed[:-1], _singular(fixed[-1])])
        if of == "_".join(fixed):
            of += "_" + words[-1].strip("{}").removesuffix("_id")
        return of if method == "get" and siblings == {"get"} else f"{_ITEM_VERBS[method]}_{of}"
    inner = [at for at, word in enumerate(words) if word.startswith("{") and at > 0]
    if inner and len(fixed) > 1:
        return f"{fixed[-1]}_{_singular(fixed[-2])}"
    name = "_".join(fixed)
    if method == "get" or "get" not in siblings:
        return name if method in {"get", "post"} else f"{_ITEM_VERBS[method]}_{name}"
    return f"create_{_singular(name)}" if method == "post" else f"{_ITEM_VERBS[method]}_{name}"


def _singular(word: str) -> str:
    return word.removesuffix("s")


def _closure(schemas: Mapping[str, Schema], names: Iterable[str | None]) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    open_names = [name for name in names if name is not None]
    while open_names:
        name = open_names.pop()
        if name not in found:
            found[name] = schemas[name]
            open_names.extend(_references(schemas[name]))
    return dict(sorted(found.items()))


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield str(value["$ref"]).removeprefix(_REF)
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
