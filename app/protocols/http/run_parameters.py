"""The behaviour of a run's model calls, as a request sets it: sampling, reasoning, and the tool to call.

Checks values only. Leaves to the runtime: what the agent allows; to the models room: what a provider knows.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.models.completion import Effort

MAX_STOPS = 4
Stop: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000)]


class _Knobs(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, defer_build=True, strict=True)


class RunParameters(_Knobs):
    """In place of the agent's own; what is left out stays as the agent has it."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: int | None = Field(None, ge=1, le=2**31 - 1, description="of one answer; never more than the agent's")
    stop: list[Stop] | None = Field(None, max_length=MAX_STOPS, description="texts that end an answer")
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    effort: Effort | None = Field(None, description="how much the model reasons")
    parallel_tools: bool | None = Field(None, description="false: the model calls one tool at a time")

    def given(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)


class NamedTool(_Knobs):
    name: str = Field(min_length=1, max_length=200)


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
