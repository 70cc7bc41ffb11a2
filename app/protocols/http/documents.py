"""What routes state for the OpenAPI document: the bodies they take and the answers they may give.

Routes read and write bytes by themselves, so the framework cannot know it. Leaves to others: the document (`openapi`).
"""

import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel

from app.core.error_codes import CODES
from app.protocols.http.errors import STATUS
from app.protocols.http.late_shapes import shapes

Document = dict[str, Any]

REF: Final = "#/components/schemas/"
_JSON: Final = "application/json"


def takes(model: type[BaseModel] | Callable[[], type[BaseModel]], *, required: bool = True) -> Document:
    """For `openapi_extra`: the body that a route reads by itself, strictly. A function is called for the document."""
    return {"requestBody": {"required": required, "content": {_JSON: {"schema": model}}}}


def with_body_schema(extra: Document | None) -> Document | None:
    """What `takes` stated, with the schema in place of the model: it is made only for the document."""
    body = (extra or {}).get("requestBody", {})
    model = body.get("content", {}).get(_JSON, {}).get("schema")
    if inspect.isfunction(model):
        model = model()
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        return extra
    schema = model.model_json_schema(by_alias=True, ref_template=REF + "{model}")
    return {"requestBody": body | {"content": {_JSON: {"schema": schema}}}}


def may_answer(*codes: str) -> dict[int | str, Document]:
    """For `responses`: the failures of a route, by status, with what each code means."""
    by_status: defaultdict[int | str, list[str]] = defaultdict(list)
    for code in codes:
        by_status[STATUS.get(code, 400)].append(code)
    return {status: _problem(found) for status, found in by_status.items()}


def _sse(event: str) -> Document:
    """The content of a stream of events of that shape, frame by frame."""
    shapes_of_data = [{"$ref": REF + name} for name in (event, "StreamEnd", "StreamProblem")]
    return {
        "text/event-stream": {
            "itemSchema": {
                "type": "object",
                "required": ["event", "data"],
                "properties": {
                    "id": {"type": "string", "description": "the event's `seq`; absent on `end` and `problem`"},
                    "event": {"type": "string", "description": "the event's type, `end` or `problem`"},
                    "data": {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": {"anyOf": shapes_of_data},
                    },
                },
            }
        }
    }


SSE: Final[Document] = _sse("Event")


def streams(media_type: str, description: str) -> dict[int | str, Document]:
    """For `responses`: a 200 that is not JSON."""
    schema = {"type": "string"} if media_type.startswith("text/") else {"type": "string", "format": "binary"}
    return {200: {"description": description, "content": {media_type: {"schema": schema}}}}


def follows(description: str, event: str = "Event") -> dict[int | str, Document]:
    """For `responses`: a 200 that is a stream of events; `event` is the shape of each."""
    return {200: {"description": description, "content": _sse(event)}}


def _problem(codes: list[str]) -> Document:
    lines = [f"`{code}` {CODES[code].meaning}" for code in sorted(codes)]
    return {"model": shapes.ProblemShape, "description": "\n".join(lines)}
