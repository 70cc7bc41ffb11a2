"""/api/datasets: cases collected from runs or imported, in versions that never change; samples of them; files."""

import re
from typing import Annotated, Any, Final, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, Field, model_validator

from app.core.errors import Failure
from app.core.principal import Principal
from app.evals import formats
from app.evals.cases import MAX_BYTES, Case, cases_of, to_lines
from app.evals.collection import CollectQuery, ScoreRange
from app.evals.datasets import MIME, DatasetVersion
from app.evals.sampling import DEFAULT_SIZE, sample
from app.policy.redaction import PERSONAL, LogRedaction
from app.protocols.context import ServerContext
from app.protocols.http.answers import content_headers, json_answer, page_answer
from app.protocols.http.body import off_loop, read_body, read_model
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams, takes
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import eval_shapes
from app.protocols.http.parameters import After, Limit
from app.protocols.http.submission import Request as Fields

NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
_YAML: Final = "application/yaml"
Version = Annotated[int | None, Query(ge=1, le=10**9, description="default: the newest")]
Format = Literal["jsonl", "yaml"]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class WantedScore(Fields):
    """A range of scores, and whose."""

    name: str | None = Field(None, min_length=1, max_length=200, description="the gate, or the label; default: any")
    at_least: Score = 0.0
    at_most: Score = 1.0


class CollectRuns(Fields):
    """Which stored runs become cases; all that is given must hold."""

    agent: str | None = Field(None, min_length=1, max_length=200)
    status: Literal["completed", "failed", "cancelled"] = "completed"
    labels: dict[str, str] = Field(default_factory=dict, max_length=10)
    created_from: AwareDatetime | None = None
    created_until: AwareDatetime | None = None
    score: WantedScore | None = Field(None, description="the newest verdict of a gate is within this range")
    feedback: WantedScore | None = Field(None, description="the newest feedback is within this range")
    expected: bool = Field(True, description="whether the run's output becomes the expected one")
    limit: int = Field(1000, ge=1, le=20_000)


class CreateDataset(Fields):
    """From stored runs (`collect`), or from the cases given."""

    name: str = Field(pattern=NAME)
    description: str | None = Field(None, max_length=2000)
    collect: CollectRuns | None = None
    cases: list[dict[str, Any]] | None = Field(None, max_length=20_000)
    redact: list[str] | None = Field(None, max_length=50, description="kinds of personal data to replace; default: all")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.collect is None) == (self.cases is None):
            raise ValueError("give either `collect` or `cases`")
        return self


class SampleDataset(Fields):
    """How many cases, chosen how."""

    run_ids: list[str] | None = Field(
        None, min_length=1, max_length=10_000, description="these runs instead of a dataset"
    )
    version: int | None = Field(None, ge=1, le=10**9)
    size: int = Field(DEFAULT_SIZE, ge=1, le=20_000)
    seed: int = Field(0, ge=0, le=2**53)
    by: str | None = Field(
        None, min_length=1, max_length=200, pattern=r"^[^\x00]+$", description="a field such as `metadata.agent`"
    )
    save_as: str | None = Field(None, pattern=NAME, description="store the sample as a version of this dataset")


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/datasets", tags=["evaluations"])
    _add_making(router, server)
    _add_reading(router, server)
    _add_sampling(router, server)
    return router


def _add_making(router: APIRouter, server: ServerContext) -> None:
    refusals = may_answer("DATASET_INVALID", "DATASET_BUSY", "STORAGE_FULL")

    @router.post(
        "",
        status_code=201,
        response_model=eval_shapes.DatasetShape,
        summary="Create the next version of a dataset",
        openapi_extra=takes(CreateDataset),
        responses=refusals,
    )
    async def create(request: Request, caller: Caller) -> Response:
        """Nothing is collected but what this asks for. Personal data is replaced in what is collected."""
        body, _ = await read_model(request, CreateDataset)
        if body.collect is None:
            made = await _imported(server, caller, body.name, cases_of(body.cases or []), body)
            return json_answer(made.to_json(), 201)
        kinds = _kinds(body.redact)
        redact = LogRedaction(kinds).clean
        cases = await server.evals.collection.collect(caller.tenant, _query(body.collect), redact)
        asked = body.collect.model_dump(mode="json", by_alias=True, exclude_unset=True)
        stored = await server.evals.datasets.create(
            caller.tenant,
            caller.actor,
            body.name,
            cases,
            source="collected",
            description=body.description,
            query=asked,
            redacted=kinds,
        )
        return json_answer(_made(stored).to_json(), 201)

    @router.post(
        "/{name}/import",
        status_code=201,
        response_model=eval_shapes.DatasetShape,
        summary="Create the next version from a file",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {kind: {"schema": {"type": "string"}} for kind in (MIME, _YAML)},
            }
        },
        responses=refusals | may_answer("BODY_TOO_LARGE"),
    )
    async def import_file(
        name: str, request: Request, caller: Caller, format: Annotated[Format, Query()] = "jsonl"
    ) -> Response:
        """JSON lines of our own (`jsonl`), or the YAML of pydantic-evals (`yaml`)."""
        data = await read_body(request, MAX_BYTES)
        read = formats.read_jsonl if format == "jsonl" else formats.read_yaml
        cases = await off_loop(len(data) * 4, lambda: read(data))
        return json_answer((await _imported(server, caller, _checked(name), cases)).to_json(), 201)


def _add_reading(router: APIRouter, server: ServerContext) -> None:
    @router.get("", response_model=eval_shapes.DatasetPage, summary="The newest version of each dataset, by name")
    async def list_datasets(caller: Caller, after: After = "", limit: Limit = 100) -> Response:
        newest = {one.name: one for one in await server.evals.datasets.versions(caller.tenant)}
        names = sorted(name for name in newest if name > after)
        cursor = names[limit - 1] if len(names) > limit else None
        return page_answer([newest[name].to_json() for name in names[:limit]], cursor)

    @router.get(
        "/{name}",
        response_model=eval_shapes.DatasetShape,
        summary="One version of a dataset",
        responses=may_answer("DATASET_NOT_FOUND"),
    )
    async def show_dataset(name: str, caller: Caller, version: Version = None) -> Response:
        return json_answer((await _existing(server, caller, name, version)).to_json())

    @router.get(
        "/{name}/cases",
        response_model=eval_shapes.CasePage,
        summary="Its cases, by id",
        responses=may_answer("DATASET_NOT_FOUND"),
    )
    async def cases(
        name: str, caller: Caller, version: Version = None, after: After = "", limit: Limit = 100
    ) -> Response:
        dataset = await _existing(server, caller, name, version)
        found = await server.evals.datasets.cases(caller.tenant, dataset)
        left = sorted((case for case in found if case.id > after), key=lambda case: case.id)
        cursor = left[limit - 1].id if len(left) > limit else None
        return page_answer([case.to_json() for case in left[:limit]], cursor)

    @router.get(
        "/{name}/export",
        summary="A version as a file",
        responses=streams(MIME, "JSON lines, or the YAML of pydantic-evals.") | may_answer("DATASET_NOT_FOUND"),
    )
    async def export(
        name: str, caller: Caller, version: Version = None, format: Annotated[Format, Query()] = "jsonl"
    ) -> Response:
        dataset = await _existing(server, caller, name, version)
        found = await server.evals.datasets.cases(caller.tenant, dataset)
        if format == "jsonl":
            data, mime = to_lines(found), MIME
        else:
            size = sum(len(str(case.input)) for case in found) * 20
            data, mime = await off_loop(size, lambda: formats.write_yaml(dataset.name, found)), _YAML
        file = f"{dataset.name}-{dataset.version}.{format}"
        headers = content_headers(file, f"{dataset.digest}-{format}")
        return Response(data, 200, headers, mime)


def _add_sampling(router: APIRouter, server: ServerContext) -> None:
    @router.post(
        "/{name}/sample",
        response_model=eval_shapes.SampleShape,
        summary="A sample: the same seed and the same cases give the same one",
        openapi_extra=takes(SampleDataset),
        responses=may_answer("DATASET_NOT_FOUND", "DATASET_INVALID", "RUN_NOT_FOUND", "RUN_NOT_ENDED", "STORAGE_FULL"),
    )
    async def take(name: str, request: Request, caller: Caller) -> Response:
        """With `by`, each value of the field has its share of the sample, to within one case."""
        body, _ = await read_model(request, SampleDataset)
        if body.run_ids is not None:
            redact = LogRedaction(_kinds(None)).clean
            collected = await server.evals.collection.of_runs(caller.tenant, body.run_ids, redact)
            if isinstance(collected, Failure):
                raise HttpProblem(collected)
            cases: list[Case] = collected
        else:
            dataset = await _existing(server, caller, name, body.version)
            cases = await server.evals.datasets.cases(caller.tenant, dataset)
        taken = sample(cases, body.size, body.seed, body.by)
        saved = None
        if body.save_as is not None:
            asked = body.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"run_ids"})
            made = await server.evals.datasets.create(
                caller.tenant, caller.actor, body.save_as, taken.cases, source="sampled", query=asked | {"of": name}
            )
            saved = _made(made).to_json()
        return json_answer(
            {
                "of": taken.of,
                "size": len(taken.cases),
                "seed": body.seed,
                "by": body.by,
                "strata": [{"value": it.value, "of": it.of, "taken": it.taken} for it in taken.strata],
                "cases": [case.to_json() for case in taken.cases],
                "dataset": saved,
            }
        )


async def _imported(
    server: ServerContext,
    caller: Principal,
    name: str,
    cases: list[Case] | Failure,
    body: CreateDataset | None = None,
) -> DatasetVersion:
    if isinstance(cases, Failure):
        raise HttpProblem(cases)
    kinds = _kinds(body.redact) if body is not None and body.redact is not None else []
    if kinds:
        redact = LogRedaction(kinds).clean
        again = cases_of([redact(case.to_json()) for case in cases])
        if isinstance(again, Failure):
            raise HttpProblem(again)
        cases = again
    return _made(
        await server.evals.datasets.create(
            caller.tenant,
            caller.actor,
            name,
            cases,
            source="imported",
            description=None if body is None else body.description,
            redacted=kinds,
        )
    )


async def _existing(server: ServerContext, caller: Principal, name: str, version: int | None) -> DatasetVersion:
    return _made(await server.evals.datasets.find(caller.tenant, name, version))


def _made(found: DatasetVersion | Failure) -> DatasetVersion:
    if isinstance(found, Failure):
        raise HttpProblem(found)
    return found


def _checked(name: str) -> str:
    if re.fullmatch(NAME, name) is None:
        raise HttpProblem(Failure("DATASET_INVALID", "The name has letters, digits and `_ . -`, at most 100 of them."))
    return name


def _kinds(wanted: list[str] | None) -> list[str]:
    known = sorted(PERSONAL)
    unknown = sorted(set(wanted or ()) - set(known))
    if unknown:
        raise HttpProblem(Failure("DATASET_INVALID", f"`redact` may have: {', '.join(known)}."))
    return known if wanted is None else sorted(set(wanted))


def _query(body: CollectRuns) -> CollectQuery:
    def at(moment: AwareDatetime | None, otherwise: int) -> int:
        return otherwise if moment is None else round(moment.timestamp() * 1000)

    def within(score: WantedScore | None) -> ScoreRange | None:
        return None if score is None else ScoreRange(score.name, score.at_least, score.at_most)

    return CollectQuery(
        agent=body.agent,
        status=body.status,
        labels=body.labels,
        created_from=at(body.created_from, 0),
        created_until=at(body.created_until, 2**62),
        score=within(body.score),
        feedback=within(body.feedback),
        expected=body.expected,
        limit=body.limit,
    )
