"""What servers say to each other, as bytes: short, and read strictly, because a bus may have other users.

A message says only where to look. Anything that is not one of these is counted and dropped.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias, TypeVar

import orjson

from app.bus.contract import MAX_MESSAGE_BYTES
from app.core.value import value

ANNOUNCES: Final = 1
"""Among the events is one that every listener of the tenant is offered."""
ENDS: Final = 2
"""Among the events is the end of a run: the next one of the thread may start."""

Row = TypeVar("Row")

_MAX_ID: Final = 200
_MAX_SEQ: Final = 2**53
_MAX_NEWS: Final = 1000


class ThreadNews(NamedTuple):
    """A thread has new events, from one `seq` to another. Every server makes one for most runs of the others."""

    thread_id: str
    first: int
    last: int
    flags: int = 0


@value(frozen=True, slots=True)
class News:
    """On the subject of a tenant."""

    sender: str
    threads: tuple[ThreadNews, ...]


@value(frozen=True, slots=True)
class Hello:
    """Sent regularly by every server. Heard by its sender, it proves that the bus works."""

    sender: str
    waiting: int = 0
    """Runs that wait for a worker there."""
    answer: bool = False
    """Whoever hears it says hello as well: the sender has just come."""


@value(frozen=True, slots=True)
class NewsWish:
    """Whether somebody at the sender waits for news of threads that others work on. Versions that do not know this
    message never say that nobody does."""

    sender: str
    waits: bool


@value(frozen=True, slots=True)
class WorkOffer:
    """There are runs that any server may take."""

    sender: str


@value(frozen=True, slots=True)
class RunCommand:
    """To a run's owner: a cancel or another command is stored that the run has not seen."""

    sender: str
    tenant: str
    run_id: str


@value(frozen=True, slots=True)
class KeyRevocation:
    sender: str
    key_id: str


@value(frozen=True, slots=True)
class WorkspaceChange:
    """Another workspace is in force."""

    sender: str


@value(frozen=True, slots=True)
class ExtensionsChange:
    """The sender was asked to load its extensions again, and did: each server loads its own."""

    sender: str


@value(frozen=True, slots=True)
class RateUse:
    """Requests that callers made at the sender since it last said so."""

    sender: str
    used: tuple[tuple[str, str, int], ...] = field(default=())
    """Tenant, caller and number."""


Message: TypeAlias = (
    News | Hello | NewsWish | WorkOffer | RunCommand | KeyRevocation | WorkspaceChange | ExtensionsChange | RateUse
)


def encode(message: Message) -> bytes:
    match message:
        case News(sender, threads):
            rows = [[one.thread_id, one.first, one.last, one.flags] for one in threads]
            return orjson.dumps(["news", sender, rows])
        case Hello(sender, waiting, answer):
            return orjson.dumps(["hello", sender, waiting, answer])
        case NewsWish(sender, waits):
            return orjson.dumps(["wish", sender, waits])
        case WorkOffer(sender):
            return orjson.dumps(["work", sender])
        case RunCommand(sender, tenant, run_id):
            return orjson.dumps(["command", sender, tenant, run_id])
        case KeyRevocation(sender, key_id):
            return orjson.dumps(["revoked", sender, key_id])
        case WorkspaceChange(sender):
            return orjson.dumps(["workspace", sender])
        case ExtensionsChange(sender):
            return orjson.dumps(["extensions", sender])
        case RateUse(sender, used):
            return orjson.dumps(["rates", sender, used])


def beginning_of_news(sender: str) -> bytes:
    """Of every message with news of this sender: who hears its own need not read it."""
    return encode(News(sender, ())).removesuffix(b"[]]")


def portions(sender: str, threads: Iterable[ThreadNews]) -> Iterator[bytes]:
    """The news in as many messages as the largest one allows."""
    return _in_portions(threads, lambda one: len(one.thread_id) + 50, lambda rows: News(sender, rows))


def use_portions(sender: str, used: Iterable[tuple[str, str, int]]) -> Iterator[bytes]:
    """What callers used, in as many messages as the largest one allows."""
    # An id may be written with escapes, six bytes for a character.
    return _in_portions(used, lambda one: 6 * (len(one[0]) + len(one[1])) + 30, lambda rows: RateUse(sender, rows))


def _in_portions(
    rows: Iterable[Row], size_of: Callable[[Row], int], message: Callable[[tuple[Row, ...]], Message]
) -> Iterator[bytes]:
    portion: list[Row] = []
    size = 0
    for row in rows:
        length = size_of(row)
        if portion and size + length > MAX_MESSAGE_BYTES - 200:
            yield encode(message(tuple(portion)))
            portion, size = [], 0
        portion.append(row)
        size += length
    if portion:
        yield encode(message(tuple(portion)))


def decode(data: bytes) -> Message | None:
    """None for anything that is not a message of ours."""
    try:
        value = orjson.loads(data) if len(data) <= MAX_MESSAGE_BYTES else None
        return None if not isinstance(value, list) or len(value) < 2 else _read(value)
    except (orjson.JSONDecodeError, ValueError, TypeError):
        return None


def _read(value: Sequence[object]) -> Message | None:
    sender = _text(value[1])
    match value[0], list(value[2:]):
        case "news", [list() as rows] if len(rows) <= _MAX_NEWS:
            return News(sender, tuple([_thread_news(row) for row in rows]))
        case "hello", [int() as waiting, bool() as answer]:
            return Hello(sender, waiting, answer)
        case "wish", [bool() as waits]:
            return NewsWish(sender, waits)
        case "work", []:
            return WorkOffer(sender)
        case "command", [tenant, run_id]:
            return RunCommand(sender, _text(tenant), _text(run_id))
        case "revoked", [key_id]:
            return KeyRevocation(sender, _text(key_id))
        case "workspace", []:
            return WorkspaceChange(sender)
        case "extensions", []:
            return ExtensionsChange(sender)
        case "rates", [list() as rows] if len(rows) <= _MAX_NEWS:
            return RateUse(sender, tuple(_use(row) for row in rows))
    return None


def _thread_news(row: object) -> ThreadNews:
    """All tests in one place: this is read for most runs of every other server."""
    if type(row) is not list or len(row) != 4:
        raise ValueError
    thread_id, first, last, flags = row
    if (
        type(thread_id) is not str
        or not 0 < len(thread_id) <= _MAX_ID
        or not type(first) is type(last) is type(flags) is int
        or not 1 <= first <= last <= _MAX_SEQ
        or not 0 <= flags <= _MAX_SEQ
    ):
        raise ValueError
    return ThreadNews(thread_id, first, last, flags)


def _use(row: object) -> tuple[str, str, int]:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError
    return _text(row[0]), _text(row[1]), _number(row[2])


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID:
        raise ValueError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_SEQ:
        raise ValueError
    return value
