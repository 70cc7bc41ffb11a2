"""What every document shares: the envelope, frozen models in camelCase, and the small types of fields.

Unknown fields are mistakes. A document's references are checked later, against the whole workspace.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.workspace.secrets import ENV_NAME_PATTERN, SECRET_PATTERN

API_VERSION: Final = "holdfast/v1"

Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="A name that is defined in this workspace.")
]
# Models see tool names, and the strictest provider takes only these characters.
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]
KindName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
Secret = Annotated[str, Field(pattern=SECRET_PATTERN, description="`${env:NAME}`; the Runtime must list the name.")]
EnvText = Annotated[str, Field(description="Text that may contain `${env:NAME}`.")]
EnvName = Annotated[str, Field(pattern=f"^{ENV_NAME_PATTERN}$")]
Text = Annotated[str, Field(min_length=1)]
Cel = Annotated[str, Field(min_length=1, max_length=2000, description="A CEL expression that returns a bool.")]
Entry = Annotated[str, Field(min_length=1, description="module:function")]
JsonMap: TypeAlias = Mapping[str, Any]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1, le=2**40)]
Money = Annotated[float, Field(ge=0)]

HookPoint = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "SkillStart",
    "Stop",
    "PreCompact",
    "WorkflowStart",
    "PhaseAdvance",
    "WorkflowComplete",
]


class Spec(BaseModel):
    model_config = ConfigDict(
        defer_build=True,  # built when first used, for a quicker start
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
    )


class Metadata(Spec):
    name: Name
    description: str | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)


class ToolMetadata(Spec):
    name: ToolName
    description: str | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)


class Document(Spec):
    api_version: Literal["holdfast/v1"]
    metadata: Metadata


class Limits(Spec):
    """Budgets of a run; what is not set is not limited."""

    tokens: Count | None = None
    cost_usd: Money | None = None
    model_calls: Count | None = None
    tool_calls: Count | None = None
    wall_seconds: Seconds | None = None


class Reasoning(Spec):
    effort: Literal["none", "low", "medium", "high"] | None = None
    budget_tokens: Count | None = None


class Parameters(Spec):
    """The behaviour knobs of a completion."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Count | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
