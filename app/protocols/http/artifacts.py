"""/api/artifacts: what runs made. An artifact never changes; its content is a blob of its thread."""

from fastapi import APIRouter, Request, Response

from app.core.errors import Failure
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.http import shapes
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.content import PART
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.http.thread_views import blob_answer
from app.views.artifact import Artifact, artifact_json


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
            raise HttpProblem(Failure("ARTIFACT_HAS_NO_CONTENT", "the artifact names no stored content"))
        name, mime = str(artifact.value["name"]), str(artifact.value.get("mime"))
        return await blob_answer(server, caller, request, artifact.thread_id, sha256, name, mime)

    return router


async def _existing(server: ServerContext, caller: Principal, artifact_id: str) -> Artifact:
    artifact = await server.reader.artifact(caller.tenant, artifact_id)
    if artifact is None:
        raise HttpProblem(Failure("ARTIFACT_NOT_FOUND", "there is no such artifact"))
    await existing_thread(server, caller, artifact.thread_id)
    return artifact
