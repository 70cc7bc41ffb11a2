"""What all event payloads share: the model base, the registry and the JSON Schema they give.

A payload never repeats what the envelope or the run already says (run, thread, agent): the dialects put that back.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

EVENTS: Final[dict[str, "type[EventModel]"]] = {}


class Value(BaseModel):
    """A frozen record inside a payload; JSON in camelCase, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        # Built when first used: a process needs few of the many types, and its start is quicker for it.
        defer_build=True,
    )


class Open(Value):
    """A record whose owner is outside (an upstream runtime): fields beyond the known ones are kept."""

    model_config = ConfigDict(extra="allow")


class Payload:
    """What is recorded as one event. The catalog's models are payloads, and so are the builders of frequent ones."""

    __slots__ = ()
    type: ClassVar[str]
    of_thread: ClassVar[bool] = False
    """Belongs to the thread as a whole, never to one of its runs."""
    prevalidated: ClassVar[bool] = True
    """Valid by how it was built, so that its JSON is not checked by its schema again."""
    screened: ClassVar[bool] = False
    """Looked through for secrets already, so that the recorder need not do it again."""

    def to_json(self) -> dict[str, Any]:
        """Fields that are None are left out: absent and null mean the same in our events."""
        raise NotImplementedError


class BuiltPayload(Payload):
    """A payload that is JSON from the start, for a tenth of a model's price. A subclass names the fields."""

    __slots__ = ("document",)
    document: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.document


class UncheckedPayload(BuiltPayload):
    """JSON from elsewhere, which is checked by its schema when it is recorded."""

    __slots__ = ()
    prevalidated: ClassVar[bool] = False

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document


class EventModel(Value, Payload):
    """An event type of the catalog: its fields, checked when it is built."""

    draft: ClassVar[bool]
    """True until production code emits the type; a draft's schema may still change."""
    everywhere: ClassVar[bool]
    """Goes out with `threadId: null` to every socket of its tenant."""
    announced: ClassVar[bool]
    """Concerns every listener of its tenant, although it belongs to one thread."""
    unchecked: ClassVar[type[UncheckedPayload]]
    """Makes a payload of this type from JSON."""

    def to_json(self) -> dict[str, Any]:
        # What `model_dump` does, without its options: every append comes through here.
        made: dict[str, Any] = self.__pydantic_serializer__.to_python(self, by_alias=True, exclude_none=True)
        return made


P = TypeVar("P", bound=EventModel)


def event(
    name: str, *, draft: bool = False, of_thread: bool = False, everywhere: bool = False, announced: bool = False
) -> Callable[[type[P]], type[P]]:
    def register(cls: type[P]) -> type[P]:
        assert name not in EVENTS, f"{name} is registered twice"
        cls.type, cls.draft, cls.of_thread = name, draft, of_thread
        cls.everywhere, cls.announced = everywhere, announced
        slots = {"__slots__": (), "type": name, "of_thread": of_thread}
        cls.unchecked = type(f"Unchecked{cls.__name__}", (UncheckedPayload,), slots)
        EVENTS[name] = cls
        return cls

    return register


def schema_id(name: str) -> str:
    return f"{name}_v1"


class _AbsentNotNull(GenerateJsonSchema):
    """`X | None` means "may be absent" in our payloads, so the schema offers X alone. No derived titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        made = super().default_schema(schema)
        if made.get("default", ...) is None:
            del made["default"]
        return made


def schema_of(cls: type[EventModel]) -> dict[str, Any]:
    document = cls.model_json_schema(by_alias=True, schema_generator=_AbsentNotNull)
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["$id"] = schema_id(cls.type)
    if cls.draft:
        document["x-draft"] = True
    return document
