"""Parameters that many addresses share: cursors, limits, filters. Each is checked before anything is looked up."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal, TypeVar

from fastapi import Header, Query

from app.core.errors import Failure
from app.events.envelope import Event
from app.protocols.http.body import MAX_SEQ, Cursor
from app.protocols.http.errors import HttpProblem
from app.views.ports import RunPlace

Limit = Annotated[int, Query(ge=1, le=1000, description="how many items at most; a page may hold fewer")]
After = Annotated[str, Query(max_length=300, description="the `nextCursor` of the page before")]
EventType = Annotated[
    str | None,
    Query(alias="type", max_length=200, pattern=r"^[A-Za-z0-9_.]+\*?$", description="a type, or `runtime.tool.*`"),
]
LastEventId = Annotated[
    str | None, Header(max_length=20, description="the last `id` of an interrupted stream; wins over `after`")
]
Name = Annotated[str, Query(max_length=200)]
RunStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
Until = Annotated[int | None, Query(ge=0, le=MAX_SEQ, description="a `seq`: as it stood after that event")]

T = TypeVar("T")

_NUMBER: Final = "0123456789"


def resume_after(after: Cursor, last_event_id: str | None) -> int:
    """A client that connects again by itself repeats its address, so what it saw last counts more."""
    if last_event_id is None or last_event_id == "":
        return after
    if last_event_id.strip(_NUMBER) or int(last_event_id) > MAX_SEQ:
        raise HttpProblem(Failure("CURSOR_INVALID", "Last-Event-ID is no `seq`"))
    return int(last_event_id)


def named_page(found: Mapping[str, T], after: str, limit: int) -> tuple[list[T], str | None]:
    """A page of what has names, in their order, and the cursor of the next."""
    names = sorted(name for name in found if name > after)
    return [found[name] for name in names[:limit]], names[limit - 1] if len(names) > limit else None


def of_type(wanted: str | None) -> Callable[[Event], bool] | None:
    if wanted is None:
        return None
    if wanted.endswith("*"):
        return lambda event: event.type.startswith(wanted[:-1])
    return lambda event: event.type == wanted


def up_to(events: list[Event], until: int | None) -> list[Event]:
    return events if until is None else [event for event in events if event.seq <= until]


def read_place(after: str) -> RunPlace | None:
    if not after:
        return None
    at, separator, run_id = after.partition(".")
    if not separator or not at or at.strip(_NUMBER) or len(at) > 18:
        raise HttpProblem(Failure("CURSOR_INVALID", "`after` is none of this list's cursors"))
    return RunPlace(int(at), run_id)


def write_place(place: RunPlace | None) -> str | None:
    return None if place is None else f"{place.created_at}.{place.id}"


def read_labels(labels: list[str]) -> dict[str, str]:
    return dict(label.split(":", 1) for label in labels)
