"""Reads a request as a stranger's: strict JSON, then a model. Errors name places, never values.

What a body costs is bounded before it is parsed (`json.MAX_VALUES`), and a large one is read in a thread: the loop goes
on serving others meanwhile. Leaves to others: the size of a body and its time (the gate), what is wrong with a body and
how that is listed (`body_issues`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from app.core import json
from app.core.errors import Failure
from app.protocols.http.body_issues import problem_of, refuse_unknown_fields
from app.protocols.http.errors import HttpProblem
from app.protocols.wire.connection import CONNECTION, HttpConnection

MAX_SEQ: Final = 2**63 - 1
"""What the databases hold; a cursor over it can only be a mistake."""
LARGE_BYTES: Final = 256 * 1024
"""A body over this size is read in a thread. A smaller one takes a few milliseconds, most take microseconds."""

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

Cursor = Annotated[int, Query(ge=0, le=MAX_SEQ)]

# Two, so that few large bodies are in memory in parsed form at once; further ones wait.
_readers: Final = ThreadPoolExecutor(2, thread_name_prefix="holdfast-body")


async def read_body(request: Request, limit: int | None = None) -> bytes:
    """The whole body. The gate bounds its size and time for everybody; `limit` is for a route that wants less."""
    connection: HttpConnection | None = request.scope.get(CONNECTION)
    if connection is not None and (taken := connection.take_body()) is not None:
        if limit is not None and len(taken) > limit:
            raise _too_large(limit)
        return taken
    whole = BytesIO()  # grows in place; joining a list of pieces at the end would hold the loop
    size, more, receive = 0, True, request.receive
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if limit is not None and size > limit:
            raise _too_large(limit)
        if not more and size == len(chunk):
            return chunk
        whole.write(chunk)
    return whole.getvalue()


def _too_large(limit: int) -> HttpProblem:
    return HttpProblem(Failure("BODY_TOO_LARGE", f"The body is larger than {limit} bytes."))


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """`work` on this many bytes: at once if they are few, else in a thread. It must not touch what the loop uses."""
    if size <= LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_readers, work)


def parsed(raw: bytes) -> Any:
    return json.loads_strict(raw, max_values=json.MAX_VALUES)


async def read_model(request: Request, model: type[M]) -> tuple[M, bytes]:
    """The parsed body and its bytes."""
    raw = await read_body(request)
    return await validated(raw, model), raw


async def validated(raw: bytes, model: type[M]) -> M:
    return await off_loop(len(raw), partial(_validate, raw, model))


def _validate(raw: bytes, model: type[M]) -> M:
    value = parsed(raw)
    refuse_unknown_fields(value, model)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise problem_of(error, model) from None
