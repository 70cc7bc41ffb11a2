"""Errors, as each family of clients reads them."""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.protocols.http.shapes.base import Shape


class Where(Shape):
    path: str
    message: str


class Wrong(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="allow", defer_build=True)

    code: str = Field(description="stable; every code has its entry in docs/errors.md")
    message: str
    remedy: str
    issues: list[Where] | None = None


class ProblemShape(Shape):
    """Every answer of 400 and above."""

    error: Wrong


class OpenAiWrong(BaseModel):
    model_config = ConfigDict(defer_build=True)

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAiProblem(Shape):
    """What OpenAI's clients read."""

    error: OpenAiWrong


class LangGraphProblem(BaseModel):
    """Every answer of 400 and above to a LangGraph client."""

    detail: str
    code: str
