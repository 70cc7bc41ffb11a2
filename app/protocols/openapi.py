"""The OpenAPI document of all protocols: what the routes say about themselves, joined with what is true of all of them.

Leaves to others: what a route states (`http.documents`), the page that shows the document (`http.docs`), and whether
answers keep to it (the tests).
"""

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from starlette.routing import BaseRoute

from app.protocols.http import shapes
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import REF, Document, may_answer, with_body_schema
from app.protocols.http.errors import dialect_of, is_session_path, langgraph, openai
from app.protocols.sessions import shapes as session_shapes
from app.protocols.sessions.refusals import add_refusals

_SUFFIX: Final = "Shape"
_EVERYWHERE: Final = (
    "STORAGE_DOWN",
    "NOT_READY",
    "UNAUTHENTICATED",
    "FORBIDDEN",
    "HOST_REFUSED",
    "ORIGIN_REFUSED",
    "HEADERS_TOO_LARGE",
    "RATE_LIMITED",
    "TENANT_BUSY",
    "OVERLOADED",
    "UNKNOWN_PARAMETER",
)
"""What any call may answer: of the gate, and of whatever looks at the store."""
_WITH_BODY: Final = (
    "BODY_TIMEOUT",
    "BODY_TOO_LARGE",
    "INVALID_REQUEST",
    "JSON_INVALID",
    "JSON_DUPLICATE_KEY",
    "JSON_NUMBER_RANGE",
    "JSON_NUL",
    "JSON_TOO_DEEP",
    "JSON_TOO_MANY_VALUES",
)
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def document(app: FastAPI) -> Document:
    made = get_openapi(
        title=app.title,
        version=app.version,
        routes=[_described(route) for route in app.routes],
        summary=app.summary,
        separate_input_output_schemas=False,
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for referred in (
        shapes.ProblemShape,
        shapes.StreamEnd,
        shapes.StreamProblem,
        shapes.OpenAiProblem,
        shapes.LangGraphProblem,
        *session_shapes.REFUSING,
    ):
        schemas.update(_schemas_of(referred))
    made["components"]["responses"] = session_shapes.SHARED
    for path, operation in _operations(made):
        _lift_body(operation, schemas)
        _drop_the_framework_s_errors(operation)
        spelling = dialect_of(path)
        if spelling is openai:
            _add_answers_of_openai(operation)
        elif spelling is langgraph:
            _add_answers_of_langgraph(operation)
        elif is_session_path(path):
            add_refusals(operation)
        elif path.startswith(("/api", "/metrics", "/agui")):
            _add_common_answers(operation)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    made["components"]["securitySchemes"] = _SECURITY
    made["security"] = [{name: []} for name in _SECURITY]
    public: Document = _with_public_names(made)
    public["components"]["schemas"] = dict(sorted(public["components"]["schemas"].items()))
    return public


def _described(route: BaseRoute) -> BaseRoute:
    if not isinstance(route, DeferredRoute):
        return route
    described = route.described()
    described.openapi_extra = with_body_schema(described.openapi_extra)
    return described


def _with_public_names(value: Any, key: str = "") -> Any:
    """Classes of shapes end in `Shape`, where something else here has their name; clients know them without."""
    if isinstance(value, dict):
        rename = key == "schemas"
        return {
            name.removesuffix(_SUFFIX) if rename else name: _with_public_names(item, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_with_public_names(item) for item in value]
    return value.removesuffix(_SUFFIX) if key in ("$ref", "title") and isinstance(value, str) else value


def _operations(made: Document) -> Iterator[tuple[str, Document]]:
    for path, item in made["paths"].items():
        for method in _METHODS:
            if method in item:
                yield path, item[method]


def _lift_body(operation: Document, schemas: Document) -> None:
    """A body's schema joins the components under its title, with whatever it refers to."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is None or "title" not in content["schema"]:
        return
    schema = content["schema"]
    schemas.update(schema.pop("$defs", {}))
    schemas[schema["title"]] = schema
    content["schema"] = {"$ref": REF + schema["title"]}


def _drop_the_framework_s_errors(operation: Document) -> None:
    """The framework documents its own 422, which our routes never answer like that."""
    found = operation["responses"].get("422")
    if found is not None and "HTTPValidationError" in str(found):
        del operation["responses"]["422"]


def _add_common_answers(operation: Document) -> None:
    codes = list(_EVERYWHERE)
    if "requestBody" in operation:
        codes += _WITH_BODY
    elif operation.get("parameters"):
        codes.append("INVALID_REQUEST")
    for status, problem in may_answer(*codes).items():
        known = operation["responses"].get(str(status))
        if known is None:
            operation["responses"][str(status)] = problem | {"content": _PROBLEM_CONTENT}
            operation["responses"][str(status)].pop("model")
        else:
            lines = set(known["description"].splitlines()) | set(problem["description"].splitlines())
            known["description"] = "\n".join(sorted(lines))
    operation["responses"] = dict(sorted(operation["responses"].items()))


_SECURITY: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a token of a listed issuer."},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "An API key."},
}
_PROBLEM_CONTENT: Final = {"application/json": {"schema": {"$ref": REF + "Problem"}}}


def _add_answers_of_openai(operation: Document) -> None:
    """Errors in the shape that its clients read, whatever the status."""
    content = {"application/json": {"schema": {"$ref": REF + "OpenAiProblem"}}}
    operation["responses"].setdefault(
        "default", {"description": "An error, in this interface's shape.", "content": content}
    )
    good = operation["responses"].get("200", {}).get("content", {})
    if "requestBody" in operation:
        good["text/event-stream"] = {}


def _add_answers_of_langgraph(operation: Document) -> None:
    """Its clients show `detail`, whatever the status."""
    content = {"application/json": {"schema": {"$ref": REF + shapes.LangGraphProblem.__name__}}}
    operation["responses"].setdefault(
        "default", {"description": "An error, in this interface's shape.", "content": content}
    )


def _schemas_of(model: type[BaseModel]) -> Document:
    schema = model.model_json_schema(by_alias=True, ref_template=REF + "{model}")
    referred: Document = schema.pop("$defs", {})
    return referred | {model.__name__: schema}
