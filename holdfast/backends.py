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
    ModelAnswer,
    Output,
    Result,
    Resume,
    Skill,
    StepFailed,
)

__all__ = [
    "AgentAnswer",
    "Backend",
    "BackendKind",
    "CallOptions",
    "CallRequest",
    "CallResult",
    "Context",
    "ModelAnswer",
    "Output",
    "Result",
    "Resume",
    "Skill",
    "StepFailed",
]
