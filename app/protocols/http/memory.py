"""/api/memory: search, list, put, change, decide, forget and export what agents remember."""

from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from app.core.clock import ms_of
from app.core.errors import Failure
from app.memory.contract import RecordFilter
from app.memory.decisions import MAX_RECORD
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer, page_answer
from app.protocols.http.body import Cursor, read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.parameters import Limit
from app.runtime.intake.memory_desk import ForgetRequest, MemoryPlace, NewRecord

_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"
Word = Annotated[str, Field(min_length=1, max_length=200)]
NamespaceName = Annotated[str, Field(min_length=3, max_length=2000)]


class _MemoryBody(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, defer_build=True)


class _Placed(_MemoryBody):
    memory: Word = Field(description="a Memory of the workspace")
    namespace: NamespaceName | None = Field(None, description="else its template is filled with the next three")
    agent: Word | None = None
    user: Word | None = Field(None, description="null: the caller")
    thread_id: Word | None = None

    def place(self) -> MemoryPlace:
        return MemoryPlace(self.memory, self.namespace, self.agent, self.user, self.thread_id)


class MemorySearch(_Placed):
    """What to look for, and where."""

    query: str = Field(min_length=1, max_length=8000)
    limit: int = Field(8, ge=1, le=100)


class PutMemory(_Placed):
    """A record that the caller vouches for."""

    text: str = Field(min_length=1, max_length=MAX_RECORD)
    about: Word | None = Field(None, description="what it is about; it supersedes a record about the same")
    attributes: dict[str, Any] = Field(default_factory=dict, max_length=50)
    confidence: float = Field(1.0, ge=0, le=1)


class ChangeMemory(_MemoryBody):
    """A new text becomes a new record that supersedes this one."""

    text: str | None = Field(None, min_length=1, max_length=MAX_RECORD)
    confidence: float | None = Field(None, ge=0, le=1)
    expires_at: str | None = Field(None, pattern=_TIME)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.text is None and self.confidence is None and self.expires_at is None:
            raise ValueError("give text, confidence or expiresAt")
        return self

    @field_validator("expires_at")
    @classmethod
    def _a_real_time(cls, value: str | None) -> str | None:
        if value is not None:
            ms_of(value)  # raises for a day that no calendar has
        return value


class DecideMemory(_MemoryBody):
    decision: Literal["accept", "reject"]
    reason: str | None = Field(None, max_length=1000)


class ForgetMemory(_MemoryBody):
    """What to forget: records by id, everything about a user, a namespace, or what a query finds in a memory."""

    records: list[Word] = Field(default_factory=list, max_length=1000)
    user: Word | None = None
    namespace: NamespaceName | None = None
    search: MemorySearch | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        given = (bool(self.records), self.user is not None, self.namespace is not None, self.search is not None)
        if sum(given) != 1:
            raise ValueError("give one of records, user, namespace or search")
        return self


class MemoryRecordShape(BaseModel):
    """A record; its text is `[FORGOTTEN]` once it was forgotten."""

    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    id: str
    memory: str
    namespace: str
    kind: str
    status: Literal["proposed", "accepted", "rejected", "superseded", "forgotten"]
    source: str
    text: str | None
    attributes: dict[str, Any]
    confidence: float
    sources: list[str]
    user: str | None
    created_by: str | None
    run_id: str | None
    interrupt_id: str | None
    decided_by: str | None
    superseded_by: str | None
    reason: str | None
    created_at: str
    updated_at: str
    last_used_at: str | None
    expires_at: str | None


class MemoryPage(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, defer_build=True)

    items: list[MemoryRecordShape]
    next_cursor: str | None


class MemoryHit(MemoryRecordShape):
    score: float


class MemoryHits(BaseModel):
    model_config = ConfigDict(defer_build=True)

    items: list[MemoryHit]


class PutOutcome(BaseModel):
    model_config = ConfigDict(defer_build=True)

    outcome: Literal["accepted", "merged", "asked"]
    reason: str
    record: MemoryRecordShape


class Forgotten(BaseModel):
    model_config = ConfigDict(defer_build=True)

    forgotten: list[str]


class Reindexed(BaseModel):
    model_config = ConfigDict(defer_build=True)

    counts: dict[str, int]


class DeclaredMemory(BaseModel):
    model_config = ConfigDict(defer_build=True)

    name: str
    description: str
    kind: str
    type: str
    namespace: str | None
    write: str


class MemoryOverview(BaseModel):
    model_config = ConfigDict(defer_build=True)

    memories: list[DeclaredMemory]
    namespaces: dict[str, int]


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/memory", tags=["memory"])
    _add_reading(router, server)
    _add_records(router, server)
    _add_forgetting(router, server)
    return router


def _add_reading(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "", response_model=MemoryOverview, summary="The memories of the workspace, and how many records there are"
    )
    async def overview(caller: Caller) -> Response:
        declared = [
            {
                "name": memory.name,
                "description": memory.description,
                "kind": memory.spec.kind,
                "type": memory.spec.type,
                "namespace": memory.spec.namespace,
                "write": memory.spec.write,
            }
            for memory in server.memory.declared()
        ]
        return json_answer({"memories": declared, "namespaces": await server.memory.namespaces(caller)})

    @router.post(
        "/search",
        response_model=MemoryHits,
        summary="Search a memory, best first",
        openapi_extra=takes(MemorySearch),
        responses=may_answer("MEMORY_NOT_DECLARED"),
    )
    async def search(request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, MemorySearch)
        return json_answer(
            {"items": _or_problem(await server.memory.search(caller, body.place(), body.query, body.limit))}
        )

    @router.get("/records", response_model=MemoryPage, summary="The records, oldest first")
    async def list_records(
        caller: Caller,
        namespace: Annotated[str | None, Query(max_length=2000)] = None,
        status: Annotated[
            Literal["proposed", "accepted", "rejected", "superseded", "forgotten"] | None, Query()
        ] = None,
        kind: Annotated[Literal["working", "episodic", "semantic"] | None, Query()] = None,
        user: Annotated[str | None, Query(max_length=200)] = None,
        after: Cursor = 0,
        limit: Limit = 100,
    ) -> Response:
        filter_ = RecordFilter(namespace=namespace, status=status, kind=kind, user=user)
        return page_answer(*await server.memory.records(caller, filter_, after, limit))

    @router.get("/export", response_model=MemoryPage, summary="Everything about one user, with all texts")
    async def export(
        caller: Caller,
        user: Annotated[str, Query(min_length=1, max_length=200)],
        after: Cursor = 0,
        limit: Limit = 1000,
    ) -> Response:
        return page_answer(*await server.memory.records(caller, RecordFilter(user=user), after, limit))


def _add_records(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/records",
        status_code=201,
        response_model=PutOutcome,
        summary="Store a record; the policy of the memory decides",
        openapi_extra=takes(PutMemory),
        responses=may_answer("MEMORY_NOT_DECLARED", "MEMORY_REJECTED", "STORAGE_FULL"),
    )
    async def put(request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, PutMemory)
        new = NewRecord(body.text, body.about, body.attributes, body.confidence)
        return json_answer(_or_problem(await server.memory.put(caller, body.place(), new)), 201)

    @router.get(
        "/records/{record_id}",
        response_model=MemoryRecordShape,
        summary="One of them",
        responses=may_answer("MEMORY_NOT_FOUND"),
    )
    async def show_record(record_id: str, caller: Caller) -> Response:
        return json_answer(_or_problem(await server.memory.record(caller, record_id)))

    @router.patch(
        "/records/{record_id}",
        response_model=MemoryRecordShape,
        summary="Change the text, confidence or expiry",
        openapi_extra=takes(ChangeMemory),
        responses=may_answer("MEMORY_NOT_FOUND", "MEMORY_RECORD_CHANGED", "MEMORY_REJECTED", "MEMORY_NOT_DECLARED"),
    )
    async def change(record_id: str, request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, ChangeMemory)
        changed = await server.memory.change(
            caller, record_id, text=body.text, confidence=body.confidence, expires_at=body.expires_at
        )
        return json_answer(_or_problem(changed))

    @router.post(
        "/records/{record_id}/decide",
        response_model=MemoryRecordShape,
        summary="Accept or reject a candidate; the first answer wins",
        openapi_extra=takes(DecideMemory),
        responses=may_answer("MEMORY_NOT_FOUND", "MEMORY_RECORD_CHANGED", "INTERRUPT_NOT_OPEN", "APPROVER_NOT_ALLOWED"),
    )
    async def decide(record_id: str, request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, DecideMemory)
        accept = body.decision == "accept"
        return json_answer(
            _or_problem(await server.memory.decide(caller, record_id, accept=accept, reason=body.reason))
        )


def _add_forgetting(router: APIRouter, server: ServerContext) -> None:
    @router.delete(
        "/records/{record_id}",
        response_model=Forgotten,
        summary="Forget a record: its text is deleted, a tombstone stays",
        responses=may_answer("MEMORY_NOT_FOUND"),
    )
    async def forget_one(record_id: str, caller: Caller) -> Response:
        gone = await server.memory.forget(caller, ForgetRequest(records=[record_id]))
        return json_answer({"forgotten": _or_problem(gone)})

    @router.post(
        "/forget",
        response_model=Forgotten,
        summary="Forget records, a user, a namespace, or what a query finds",
        openapi_extra=takes(ForgetMemory),
        responses=may_answer("MEMORY_NOT_FOUND", "MEMORY_NOT_DECLARED"),
    )
    async def forget(request: Request, caller: Caller) -> Response:
        body, _ = await read_model(request, ForgetMemory)
        search = body.search
        asked = ForgetRequest(
            records=body.records,
            user=body.user,
            namespace=body.namespace,
            place=search.place() if search is not None else None,
            query=search.query if search is not None else None,
        )
        return json_answer({"forgotten": _or_problem(await server.memory.forget(caller, asked))})

    @router.post("/reindex", response_model=Reindexed, summary="Rebuild the search index")
    async def reindex(caller: Caller) -> Response:
        return json_answer({"counts": await server.memory.reindex(caller)})


def _or_problem(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise HttpProblem(answer)
    return answer
