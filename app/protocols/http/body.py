"""Reads a request as a stranger's: strict JSON, then a model. Errors name places, never values.

Leaves to others: the size of a body and its time (the gate).
"""

from typing import Annotated, Final, TypeVar

from fastapi import Query, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from app.core import json
from app.core.errors import Failure
from app.core.schemas import Issue
from app.protocols.http.errors import Problem

MAX_SEQ: Final = 2**63 - 1
"""What the databases hold; a cursor over it can only be a mistake."""

M = TypeVar("M", bound=BaseModel)

Cursor = Annotated[int, Query(ge=0, le=MAX_SEQ)]


async def read_body(request: Request, limit: int | None = None) -> bytes:
    """The whole body. The gate bounds its size and time for everybody; `limit` is for a route that wants less."""
    chunks: list[bytes] = []
    size, more, receive = 0, True, request.receive
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if limit is not None and size > limit:
            raise Problem(Failure("BODY_TOO_LARGE", f"the body is larger than {limit} bytes"))
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_model(request: Request, model: type[M]) -> tuple[M, bytes]:
    """The parsed body and its bytes."""
    raw = await read_body(request)
    try:
        return model.model_validate(json.loads_strict(raw)), raw
    except ValidationError as error:
        issues = [Issue("/" + "/".join(map(str, e["loc"])), e["msg"]) for e in error.errors(include_input=False)]
        raise Problem(Failure("INVALID_REQUEST", "a field is missing or wrong"), issues) from None
