"""What the shapes of answers have in common: closed objects and pages of them."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

T = TypeVar("T")


class Shape(BaseModel):
    """Closed: a field that is not documented is a mistake of ours."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", defer_build=True)


class Page(Shape, Generic[T]):
    items: list[T]
    next_cursor: str | None = Field(description="send it back as `after`; null: there is no more")
