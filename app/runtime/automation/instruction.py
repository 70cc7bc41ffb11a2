"""An instruction to an agent about a session: its text, and the rows of the transcript that it is to fill.

Checked before it is queued, so that whatever the job's payload has can be written as rows when the job ends. Leaves to
`session_jobs`: queueing it; to `job_reports`: the rows.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

INTENTS: Final = "action_intents"
"""What is expected of an agent whose answer says what is to be done: see `app.extensions.intents`."""
MAX_TARGETS: Final = 8
MAX_PLACEHOLDERS: Final = 12
Name = Annotated[str, Field(min_length=1, max_length=200)]
RowText = Annotated[str, Field(max_length=4000)]


class _InstructionPart(BaseModel):
    """Unknown fields are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, strict=True)


class SupplementalTarget(_InstructionPart):
    """A row of the transcript that ends with the job, by its fallbacks if need be."""

    message_id: Name
    type: Name
    placeholder_texts: Annotated[list[RowText], Field(max_length=MAX_PLACEHOLDERS)] | None = None
    complete_fallback: RowText | None = None
    error_fallback: RowText | None = None
    canceled_fallback: RowText | None = None


class Instruction(_InstructionPart):
    agent: Name
    job_kind: Name
    instruction_text: str = Field(min_length=1, max_length=100_000)
    turn_id: Annotated[str, Field(max_length=200)] = ""
    item_id: Name | None = None
    approval_id: Name | None = None
    anchor_item_id: Name | None = None
    dedupe_key: Name | None = None
    expect_response: Literal["none", "assistant_text", "action_intents"] | None = None
    supplemental_targets: Annotated[list[SupplementalTarget], Field(max_length=MAX_TARGETS)] | None = None

    def payload(self) -> dict[str, Any]:
        """As the job keeps it."""
        return self.model_dump(by_alias=True, exclude_none=True)
