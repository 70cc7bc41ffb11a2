"""/api/artifacts: what runs made. An artifact never changes; its content is a blob of its thread."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.core.errors import Failure
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.content import PART
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import existing_thread
from app.protocols.http.thread_views import blob_answer
from app.views.artifact import Artifact, artifact_json
from app.views.text_diff import MAX_COMPARED_BYTES, unified_diff

Against = Annotated[str | None, Query(max_length=100, description="the id of another artifact of the thread")]


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(
        route_class=DeferredRoute,
        prefix="/api/artifacts/{artifact_id}",
        tags=["artifacts"],
        responses=may_answer("ARTIFACT_NOT_FOUND", "THREAD_DELETED"),
    )

    @router.get("", response_model=shapes.ArtifactShape, summary="What is known about it")
    async def show(artifact_id: str, caller: Caller) -> Response:
        return json_answer(artifact_json(await _existing(server, caller, artifact_id)))

    @router.get(
        "/content",
        response_class=Response,
        summary="Its content",
        responses={
            **streams("*/*", "The content, to be saved."),
            **PART,
            **may_answer("ARTIFACT_NOT_FOUND", "ARTIFACT_HAS_NO_CONTENT", "BLOB_NOT_FOUND", "RANGE_NOT_SATISFIABLE"),
        },
    )
    @router.head("/content", include_in_schema=False)
    async def content(artifact_id: str, request: Request, caller: Caller) -> Response:
        """`Range` asks for a part of it."""
        artifact = await _existing(server, caller, artifact_id)
        sha256 = artifact.value.get("sha256")
        if not isinstance(sha256, str):
            raise HttpProblem(Failure("ARTIFACT_HAS_NO_CONTENT", "The artifact names no stored content."))
        name, mime = str(artifact.value["name"]), str(artifact.value.get("mime"))
        return await blob_answer(server, caller, request, artifact.thread_id, sha256, name, mime)

    @router.get(
        "/diff",
        response_class=Response,
        summary="What changed since another version",
        responses={
            **streams("text/x-diff", "A unified diff; empty when nothing changed."),
            **may_answer("ARTIFACT_NOT_FOUND", "ARTIFACT_HAS_NO_DIFF", "BLOB_NOT_FOUND"),
        },
    )
    async def diff(artifact_id: str, caller: Caller, against: Against = None) -> Response:
        """Of the version before it, unless `against` names another artifact of the same thread."""
        artifact = await _existing(server, caller, artifact_id)
        other_id = against or artifact.value.get("previous")
        if not isinstance(other_id, str):
            raise HttpProblem(Failure("ARTIFACT_HAS_NO_DIFF", "The artifact is the first of its name."))
        other = await _existing(server, caller, other_id)
        if other.thread_id != artifact.thread_id:
            raise HttpProblem(Failure("ARTIFACT_NOT_FOUND", "There is no such artifact on this thread."))
        before, after = await _text(server, caller, other), await _text(server, caller, artifact)
        names = (
            f"{it.value['name']} ({it.value.get('version') or it.id})".replace("\n", " ") for it in (other, artifact)
        )
        made = await asyncio.to_thread(unified_diff, before, after, *names)
        return Response(made, media_type="text/x-diff; charset=utf-8", headers={"x-content-type-options": "nosniff"})

    return router


async def _text(server: ServerContext, caller: Principal, artifact: Artifact) -> str:
    """The artifact's content, where it is a text that can be compared."""
    sha256, size = artifact.value.get("sha256"), artifact.value.get("size")
    if not isinstance(sha256, str) or (isinstance(size, int) and size > MAX_COMPARED_BYTES):
        raise HttpProblem(Failure("ARTIFACT_HAS_NO_DIFF", "One of the artifacts is too large or not stored here."))
    found = await server.reader.blob(caller.tenant, artifact.thread_id, sha256)
    if found is None:
        raise HttpProblem(Failure("BLOB_NOT_FOUND", "The content is not there any more."))
    if len(found[1]) > MAX_COMPARED_BYTES or b"\x00" in found[1]:
        raise HttpProblem(Failure("ARTIFACT_HAS_NO_DIFF", "One of the artifacts is too large or not a text."))
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        raise HttpProblem(Failure("ARTIFACT_HAS_NO_DIFF", "One of the artifacts is not a text.")) from None


async def _existing(server: ServerContext, caller: Principal, artifact_id: str) -> Artifact:
    artifact = await server.reader.artifact(caller.tenant, artifact_id)
    if artifact is None:
        raise HttpProblem(Failure("ARTIFACT_NOT_FOUND", "There is no such artifact."))
    await existing_thread(server, caller, artifact.thread_id)
    return artifact
