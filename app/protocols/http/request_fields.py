"""Fields that many bodies share and whose content is the client's own: input, metadata, labels. Each has its bounds.

Input and metadata are checked by hand: a union that tries every kind on every element of a long list would cost more
than the rest of the request. Values come from our JSON parser, so keys are strings and nothing else can occur.
"""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AwareDatetime, Field, PlainValidator, WithJsonSchema

from app.core import json
from app.core.clock import is_spelled

MAX_INPUT_ITEMS: Final = 10_000
MAX_KEYS: Final = 256
MAX_METADATA_BYTES: Final = 16 * 1024
"""Metadata is read with every list that shows its owner; large values belong into the input or a file."""
MAX_LABELS: Final = 64
MAX_LABEL_NAME: Final = 100
MAX_LABEL_VALUE: Final = 200


def wrong_input(value: Any) -> str | None:
    if isinstance(value, str | dict):
        return None
    if not isinstance(value, list):
        return "must be a text, an object or a list of objects"
    if len(value) > MAX_INPUT_ITEMS:
        return f"must have at most {MAX_INPUT_ITEMS} items"
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            return f"must be a list of objects; item {number} is not one"
    return None


def wrong_metadata(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "must be an object"
    if len(value) > MAX_KEYS:
        return f"must have at most {MAX_KEYS} keys"
    if len(json.dumps(value)) > MAX_METADATA_BYTES:
        return f"must be at most {MAX_METADATA_BYTES} bytes as JSON"
    return None


def _input(value: Any) -> Any:
    return _refused(wrong_input(value), value)


def _metadata(value: Any) -> Any:
    return _refused(wrong_metadata(value), value)


def _refused(wrong: str | None, value: Any) -> Any:
    if wrong is not None:
        raise ValueError(wrong)
    return value


_OBJECT: Final = {"type": "object", "additionalProperties": True}


def _moment(given: datetime) -> datetime:
    if not is_spelled(round(given.timestamp() * 1000)):
        raise ValueError("must be a time from 1970 to 9999")
    return given


Moment = Annotated[AwareDatetime, AfterValidator(_moment)]
RunInput = Annotated[
    str | dict[str, Any] | list[dict[str, Any]],
    PlainValidator(_input),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, _OBJECT, {"type": "array", "items": _OBJECT, "maxItems": MAX_INPUT_ITEMS}]}
    ),
]
Metadata = Annotated[dict[str, Any], PlainValidator(_metadata), WithJsonSchema({**_OBJECT, "maxProperties": MAX_KEYS})]
_LabelName = Annotated[str, Field(max_length=MAX_LABEL_NAME)]
_LabelValue = Annotated[str, Field(max_length=MAX_LABEL_VALUE)]
Labels = Annotated[dict[_LabelName, _LabelValue], Field(max_length=MAX_LABELS)]
LabelChanges = Annotated[dict[_LabelName, _LabelValue | None], Field(max_length=MAX_LABELS)]
