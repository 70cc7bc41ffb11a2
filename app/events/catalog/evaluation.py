"""Datasets and evaluations over them: facts of a tenant, on a system-owned thread of their own."""

from typing import Any, Literal

from app.events.catalog.base import EventModel, event


@event("runtime.dataset.created", of_thread=True)
class DatasetCreated(EventModel):
    """A version of a dataset. Its cases are in a blob and never change; `digest` is the SHA-256 of that blob."""

    name: str
    version: int
    digest: str
    cases: int
    content: dict[str, Any]
    """A reference to the cases, one JSON document per line."""
    description: str | None = None
    source: Literal["collected", "imported", "sampled"]
    query: dict[str, Any] | None = None
    """What was asked for: the filter of a collection, or the seed, size and strata of a sample."""
    redacted: list[str] | None = None
    """The kinds of personal data that were replaced in the cases."""


@event("runtime.evaluation.started", of_thread=True)
class EvaluationStarted(EventModel):
    """An agent is run on the cases of a dataset. Its runs have the label `holdfast.eval` with this id."""

    evaluation_id: str
    dataset: str
    version: int
    agent: str
    workspace_digest: str
    model_plan: str | None = None
    thresholds: dict[str, float]
    """By evaluator: the mean score that is enough."""
    baseline: str | None = None
    """Another evaluation to compare with."""
    parallel: int
    use_cache: bool


@event("runtime.evaluation.completed", of_thread=True)
class EvaluationCompleted(EventModel):
    evaluation_id: str
    passed: bool
    cancelled: bool | None = None
    """Whether somebody ended it before all cases were run; then it has not passed."""
    cases: int
    cached: int
    """Cases whose run of an earlier evaluation was used again, because nothing about them had changed."""
    scores: dict[str, Any]
    """By evaluator: mean, pass rate, errors, threshold."""
    report: dict[str, Any]
    """A reference to the results of every case."""
