"""/api/skills/candidates: skills that repeated runs suggest. Nothing is installed by itself."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from app.core.errors import Failure
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer
from app.protocols.http.errors import HttpProblem


class SkillCandidateShape(BaseModel):
    """What a skill would be, and the runs that are the evidence."""

    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    id: str
    name: str
    agent: str
    status: Literal["proposed", "accepted"]
    confidence: float
    evidence_count: int
    triggers: list[str]
    tools: list[str]
    runs: list[str]
    proposed_path: str


class SkillCandidateFile(SkillCandidateShape):
    content: str


class SkillCandidates(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    items: list[SkillCandidateShape]
    next_cursor: str | None


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/skills/candidates", tags=["memory"])

    @router.get("", response_model=SkillCandidates, summary="Skills that repeated runs suggest, best first")
    async def list_candidates(caller: Caller) -> Response:
        return page_answer(await server.skills.shown(caller))

    @router.get(
        "/{candidate_id}",
        response_model=SkillCandidateFile,
        summary="One of them, with its SKILL.md",
        responses=may_answer("SKILL_CANDIDATE_NOT_FOUND"),
    )
    async def show_candidate(candidate_id: str, caller: Caller) -> Response:
        return _answer(await server.skills.show(caller, candidate_id))

    @router.post(
        "/{candidate_id}/accept",
        response_model=SkillCandidateFile,
        summary="Record that it is accepted; the caller writes the file",
        responses=may_answer("SKILL_CANDIDATE_NOT_FOUND"),
    )
    async def accept(candidate_id: str, caller: Caller) -> Response:
        return _answer(await server.skills.accept(caller, candidate_id))

    return router


def _answer(found: dict[str, object] | Failure) -> Response:
    if isinstance(found, Failure):
        raise HttpProblem(found)
    return json_answer(found)
