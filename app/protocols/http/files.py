"""/api/files: what clients hand in, streamed to the store, and out again."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from app.core.errors import Failure
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.caller import Caller
from app.protocols.http.content import PART, Content, content_answer
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.parameters import Limit
from app.protocols.http.uploads import MAX_NAME, FileUpload, clean_name
from app.views.file import NewFile, StoredFile, file_json

_GONE: Final = ("UPLOAD_NOT_FOUND", "UPLOAD_DELETED")
_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": _BYTES,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            },
        },
    }
}


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/files", tags=["files"])
    _add_all(router, server)
    _add_one(router, server)
    return router


def _add_all(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "",
        status_code=201,
        response_model=shapes.File,
        summary="Upload a file",
        openapi_extra=_BODY,
        responses=may_answer("UPLOAD_INVALID", "BODY_TOO_LARGE", "STORAGE_FULL"),
    )
    async def upload(
        request: Request, caller: Caller, name: Annotated[str | None, Query(min_length=1, max_length=MAX_NAME)] = None
    ) -> Response:
        """The bytes as the body, or one file as multipart/form-data. `name` wins over the form's."""
        coming = FileUpload(request, server.max_upload_bytes, name)
        await coming.begin()
        new = NewFile(clean_name(coming.name), coming.mime, caller.actor)
        return json_answer(file_json(await server.files.put(caller.tenant, new, coming.content())), 201)

    @router.get("", response_model=shapes.FilePage, summary="The files, oldest first")
    async def list_files(
        caller: Caller, after: Annotated[str, Query(max_length=200)] = "", limit: Limit = 100
    ) -> Response:
        found = await server.files.files(caller.tenant, after, limit)
        return page_answer(map(file_json, found), found[-1].id if len(found) == limit else None)


def _add_one(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/{file_id}", response_model=shapes.File, summary="What is known about it", responses=may_answer(*_GONE)
    )
    async def show(file_id: str, caller: Caller) -> Response:
        return json_answer(file_json(await existing_file(server, caller, file_id)))

    @router.get(
        "/{file_id}/content",
        response_class=Response,
        summary="Its content",
        responses={
            **streams("*/*", "The content, to be saved."),
            **PART,
            **may_answer(*_GONE, "RANGE_NOT_SATISFIABLE"),
        },
    )
    @router.head("/{file_id}/content", include_in_schema=False)
    async def content(file_id: str, request: Request, caller: Caller) -> Response:
        """`Range` asks for a part of it."""
        file = await existing_file(server, caller, file_id)
        stored = Content(file.name, file.mime, file.sha256, file.size)
        return content_answer(request, stored, partial(server.files.read_range, caller.tenant, file_id))

    @router.delete("/{file_id}", status_code=204, summary="Delete the file", responses=may_answer(*_GONE))
    async def delete(file_id: str, caller: Caller) -> Response:
        """Out of sight at once, purged when retention says so. Runs that used it have a copy in their thread."""
        await existing_file(server, caller, file_id)
        await server.files.delete(caller.tenant, file_id)
        return Response(status_code=204)


async def existing_file(server: ServerContext, caller: Principal, file_id: str) -> StoredFile:
    file = await server.files.get(caller.tenant, file_id)
    if file is None:
        raise HttpProblem(Failure("UPLOAD_NOT_FOUND", "There is no such file."))
    if file.deleted_at is not None:
        raise HttpProblem(Failure("UPLOAD_DELETED", "The file was deleted."))
    return file
