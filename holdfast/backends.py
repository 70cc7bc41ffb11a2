"""For a backend of your own: a class with `run(ctx)`, and its `BackendKind` as an entry point of
`holdfast.backends`."""

from app.backends.contract import (
    AgentAnswer,
    Backend,
    BackendKind,
    CallOptions,
    CallRequest,
    CallResult,
    Context,
    ExtraTool,
    ModelAnswer,
    Output,
    RequestView,
    Result,
    Resume,
    Skill,
    StepFailed,
    ToolSpecView,
)
from app.core.artifact import ArtifactRef, NewArtifact

__all__ = [
    "AgentAnswer",
    "ArtifactRef",
    "Backend",
    "BackendKind",
    "CallOptions",
    "CallRequest",
    "CallResult",
    "Context",
    "ExtraTool",
    "ModelAnswer",
    "NewArtifact",
    "Output",
    "RequestView",
    "Result",
    "Resume",
    "Skill",
    "StepFailed",
    "ToolSpecView",
]
