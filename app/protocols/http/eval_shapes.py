"""What the routes for gates, datasets and evaluations answer, as the OpenAPI document shows it."""

from typing import Any, Literal

from pydantic import Field

from app.protocols.http.shapes import Page, Shape


class FeedbackShape(Shape):
    run_id: str
    score: float
    label: str | None
    comment: str | None
    by: str
    seq: int
    at: str


class FeedbackPage(Page[FeedbackShape]):
    pass


class VerdictShape(Shape):
    run_id: str
    gate: str
    mode: Literal["shadow", "blocking"]
    score: float | None = Field(description="null: it could not be judged, and has not passed")
    min_score: float
    passed: bool
    error: str | None
    reason: str | None
    seq: int
    at: str


class GateReport(Shape):
    pass_rate: float | None = Field(description="null: the agent has no gate of this mode")
    results: list[VerdictShape]


class GateRateShape(Shape):
    agent: str | None
    gate: str
    mode: Literal["shadow", "blocking"]
    evaluated: int
    passed: int
    errors: int = Field(description="verdicts without a score; they count as not passed")
    pass_rate: float
    mean_score: float | None
    first_at: str
    last_at: str


class GateRatePage(Page[GateRateShape]):
    pass


class DatasetShape(Shape):
    name: str
    version: int
    digest: str = Field(description="SHA-256 of the cases as JSON lines")
    cases: int
    source: Literal["collected", "imported", "sampled"]
    description: str | None
    query: dict[str, Any] | None
    redacted: list[str]
    created_at: str
    created_by: str


class DatasetPage(Page[DatasetShape]):
    pass


class CaseShape(Shape):
    id: str
    input: Any
    expected: Any = None
    output: Any = None
    metadata: dict[str, Any] | None = None
    source: dict[str, Any] | None = Field(None, description="`{runId, threadId, seq, digest}`")


class CasePage(Page[CaseShape]):
    pass


class StratumShape(Shape):
    value: Any
    of: int
    taken: int


class SampleShape(Shape):
    of: int = Field(description="how many cases there were")
    size: int
    seed: int
    by: str | None
    strata: list[StratumShape]
    cases: list[CaseShape]
    dataset: DatasetShape | None = Field(description="the new version, with `saveAs`")


class EvaluationProgress(Shape):
    done: int
    total: int
    cached: int


class EvaluationShape(Shape):
    id: str
    status: Literal["running", "completed", "cancelled"]
    dataset: str
    version: int
    agent: str
    model_plan: str | None
    workspace_digest: str
    thresholds: dict[str, float]
    baseline: str | None
    started_at: str
    started_by: str
    finished_at: str | None
    passed: bool | None
    scores: dict[str, Any] | None
    progress: EvaluationProgress | None = Field(description="null: another server works on it")


class EvaluationPage(Page[EvaluationShape]):
    pass


class EvaluationReport(Shape):
    id: str
    dataset: str
    version: int
    dataset_digest: str | None
    agent: str
    model_plan: str | None
    workspace_digest: str
    thresholds: dict[str, float]
    baseline: str | None
    started_at: str
    finished_at: str
    cancelled: bool
    passed: bool
    scores: dict[str, Any]
    totals: dict[str, Any]
    cases: list[dict[str, Any]]
