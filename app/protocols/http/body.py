"""Reads a request's body as a stranger's: bounded, strict JSON, then a model. Errors name places, never values."""

from typing import Final, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.core import json
from app.core.errors import Failure
from app.core.schemas import Issue
from app.protocols.http.errors import Problem

MAX_BODY_BYTES: Final = 1024 * 1024

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise Problem(Failure("BODY_TOO_LARGE", f"the body is larger than {limit} bytes"))
        chunks.append(chunk)
    return b"".join(chunks)


async def read_model(request: Request, model: type[M]) -> tuple[M, bytes]:
    """The parsed body and its bytes."""
    raw = await read_body(request)
    try:
        return model.model_validate(json.loads_strict(raw)), raw
    except ValidationError as error:
        issues = [Issue("/" + "/".join(map(str, e["loc"])), e["msg"]) for e in error.errors(include_input=False)]
        raise Problem(Failure("INVALID_REQUEST", "a field is missing or wrong"), issues) from None
