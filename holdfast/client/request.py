"""One request as both clients make it: its path, its body, whether it may be repeated, and when.

Pure: nothing here sends anything. Leaves to others: connections (`sync_client`, `async_client`).
"""

import secrets
from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

import orjson

Content = bytes | Iterable[bytes]
"""A body that is not JSON; a file opened for reading in binary is one."""
AsyncContent = bytes | AsyncIterable[bytes]

ATTEMPTS: Final = 4
"""Of a request that may be repeated."""
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
BUSY: Final = frozenset({429, 502, 503, 504})


class Sender(Protocol):
    """What the generated routes need of the blocking client."""

    def json(self, method: str, path: str, **given: Any) -> Any: ...

    def content(self, method: str, path: str, **given: Any) -> bytes: ...

    def nothing(self, method: str, path: str, **given: Any) -> None: ...


class AsyncSender(Protocol):
    """What the generated routes need of the client for asyncio."""

    async def json(self, method: str, path: str, **given: Any) -> Any: ...

    async def content(self, method: str, path: str, **given: Any) -> bytes: ...

    async def nothing(self, method: str, path: str, **given: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    method: str
    path: str
    query: Mapping[str, str | list[str]]
    headers: Mapping[str, str]
    content: Any
    repeatable: bool
    """A repetition cannot do anything twice: it reads, or it has a key."""


def prepare(
    method: str,
    path: str,
    query: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | None = None,
    content: Any = None,
    content_type: str | None = None,
    key: str | None = None,
) -> Prepared:
    headers: dict[str, str] = {}
    if body is not None:
        content, content_type = orjson.dumps(body), "application/json"
    if content_type is not None:
        headers["content-type"] = content_type
    if key is not None:
        headers["idempotency-key"] = key
    given = {name: _spelled(value) for name, value in (query or {}).items() if value is not None}
    repeatable = method in {"GET", "DELETE", "PUT"} or key is not None
    return Prepared(method, path, given, headers, content, repeatable and not _is_used_up(content))


def _is_used_up(content: Any) -> bool:
    """Whether one sending consumes it."""
    return content is not None and not isinstance(content, bytes)


def _spelled(value: Any) -> str | list[str]:
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return "true" if value is True else "false" if value is False else str(value)


def path_of(template: str, **names: str) -> str:
    """The path with its ids, each of which may contain any character."""
    return template.format(**{name: quote(value, safe="") for name, value in names.items()})


def new_key() -> str:
    return secrets.token_hex(16)


def pause_before(attempt: int, status: int | None, retry_after: str | None) -> float | None:
    """Seconds before the next attempt after this one (1, 2, ...) failed; None if there is none.

    `status` is None where there was no answer at all.
    """
    if attempt >= ATTEMPTS or (status is not None and status not in BUSY):
        return None
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE_SECONDS)
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), LONGEST_PAUSE_SECONDS)
