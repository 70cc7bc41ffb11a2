"""What session routes state for the OpenAPI document about their refusals.

A refusal that many routes share is one response of the document (`shapes`), which the routes refer to.
"""

from typing import Any, Final

from app.protocols.sessions.late_shapes import discovery_shapes

Responses = dict[int | str, dict[str, Any]]

_EVERYWHERE: Final = (400, 401, 403, 429, 431, 503)
"""What any call may answer: of the gate, and of whatever looks at the store."""
_WITH_BODY: Final = (408, 413)

NOT_SUPPORTED: Final[Responses] = {
    501: {
        "model": discovery_shapes.NotSupported,
        "description": "`method_not_supported`: this server has no equivalent",
    }
}


def may_refuse(*statuses: int) -> Responses:
    """For `responses`: refusals as all session routes have them, besides those that any of them may answer."""
    return {status: {"$ref": f"#/components/responses/Session{status}"} for status in statuses}


def conflicts(model: Any, description: str) -> Responses:
    """For `responses`: a 409 of the route's own."""
    return {409: {"model": model, "description": description}}


def add_refusals(operation: dict[str, Any]) -> None:
    """What is true of all session routes joins what one says about itself."""
    statuses = _EVERYWHERE + (_WITH_BODY if "requestBody" in operation else ())
    answers = {str(status): refusal for status, refusal in may_refuse(*statuses).items()} | operation["responses"]
    # The framework describes every response; beside a reference that would hide the shared description.
    operation["responses"] = {
        status: {"$ref": answer["$ref"]} if "$ref" in answer else answer for status, answer in sorted(answers.items())
    }
