"""How much a caller may ask for: requests per second, requests at once, bytes and seconds of a body.

Each bound has a fixed memory. Leaves to others: what a refusal looks like (the gate).
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from starlette.types import Message, Receive

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.recent import RecentDict
from app.protocols.http.errors import LANGGRAPH_PATHS, HttpProblem
from app.protocols.wire.connection import HttpConnection

MIB: Final = 1024 * 1024
MAX_BODY_BYTES: Final = 1 * MIB
MAX_PARTS_BYTES: Final = 32 * MIB
MAX_UPLOAD_BYTES: Final = 256 * MIB
MAX_HEADER_BYTES: Final = 16 * 1024
MAX_HELD_BYTES: Final = 256 * MIB
"""Of bodies over 1 MiB, all requests together: reading one takes a few times its size, and memory is everybody's."""
MAX_DIGITS: Final = 15
"""Of a body's announced length: whoever announces more sends no number that anybody could accept."""
BODY_SECONDS: Final = 10.0
"""For a whole body; of an upload, for each piece."""
BURST_SECONDS: Final = 2.0
"""How many seconds' worth of requests may come at once after a rest."""
MAX_BUCKETS: Final = 10_000
PORTIONS: Final = 50
"""Messages to other servers per second about a caller that uses all it may."""

_PARTS: Final = (
    "/api/runs",
    "/api/threads/",
    "/v1/",
    "/mcp",
    "/agui/",
    "/a2a/",
    *LANGGRAPH_PATHS,
)
"""Where messages with files in them, or whole conversations, may be sent. Some routes have lower limits."""
_SESSIONS: Final = "/api/sessions/"
_SESSION_PARTS: Final = ("/messages", "/steer", "/transcript/upsert")
"""The operations of a session that take messages; what the others take is short."""
_UPLOADS: Final = ("/api/files",)


def body_limit(path: str, uploads: int = MAX_UPLOAD_BYTES) -> int:
    if path.startswith(_UPLOADS):
        return uploads
    takes_parts = path.startswith(_PARTS) or (path.startswith(_SESSIONS) and path.endswith(_SESSION_PARTS))
    return MAX_PARTS_BYTES if takes_parts else MAX_BODY_BYTES


def headers_too_large() -> Failure:
    return Failure("HEADERS_TOO_LARGE", f"The address and the headers are larger than {MAX_HEADER_BYTES} bytes.")


class Rates:
    """A bucket of requests per caller that fills at a steady rate. The least recently used one is forgotten."""

    def __init__(self, per_second: int, clock: Clock) -> None:
        self._rate = float(per_second)
        self._room = per_second * BURST_SECONDS
        self._clock = clock
        self._buckets = RecentDict[tuple[str, str], tuple[float, float]](MAX_BUCKETS)
        self.on_use: Callable[[tuple[str, str], int], None] | None = None
        """Where other servers share the limits: called with what a caller used here, in portions worth a message."""
        self._unsaid = RecentDict[tuple[str, str], int](MAX_BUCKETS)
        self._portion = max(1, per_second // PORTIONS)

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, who: tuple[str, str]) -> int:
        """0 if the request may be made, else the seconds after which the next one may."""
        if not self._rate:
            return 0
        now = self._clock.monotonic()
        left, at = self._buckets.get(who, (self._room, now))
        left = min(self._room, left + (now - at) * self._rate)
        if left < 1:
            return math.ceil((1 - left) / self._rate)
        self._buckets.put(who, (left - 1, now))
        if self.on_use is not None:
            used = self._unsaid.get(who, 0) + 1
            if used >= self._portion:
                self._unsaid.pop(who, None)
                self.on_use(who, used)
            else:
                self._unsaid.put(who, used)
        return 0

    def used_elsewhere(self, who: tuple[str, str], count: int) -> None:
        """Another server let this number of the caller's requests through."""
        now = self._clock.monotonic()
        left, at = self._buckets.get(who, (self._room, now))
        left = min(self._room, left + (now - at) * self._rate)
        self._buckets.put(who, (max(left - count, -self._room), now))


class InFlight:
    """Requests being served: all, and of each tenant that has any."""

    def __init__(self, most: int, most_per_tenant: int) -> None:
        self._most, self._most_per_tenant = most, most_per_tenant
        self._of_tenant: dict[str, int] = {}
        self.total = 0

    def refusal(self, tenant: str) -> Failure | None:
        if self.total >= self._most:
            return Failure("OVERLOADED", "The server serves as many requests as it can.", retryable=True)
        if self._of_tenant.get(tenant, 0) >= self._most_per_tenant:
            return Failure("TENANT_BUSY", "Too many requests of this tenant are being served.", retryable=True)
        return None

    def enter(self, tenant: str) -> None:
        self.total += 1
        self._of_tenant[tenant] = self._of_tenant.get(tenant, 0) + 1

    def leave(self, tenant: str) -> None:
        self.total -= 1
        left = self._of_tenant[tenant] - 1
        if left:
            self._of_tenant[tenant] = left
        else:
            del self._of_tenant[tenant]


class HeldBytes:
    """How much of large bodies is in memory, over all requests."""

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self.total = 0

    def take(self, size: int) -> bool:
        if self.total + size > self._most:
            return False
        self.total += size
        return True

    def give_back(self, size: int) -> None:
        self.total -= size


class BoundedBody:
    """Stands before `receive`. What goes over a bound is raised to the reader and kept in `failure`, because a
    framework between them may turn what it catches into something else."""

    def __init__(
        self,
        receive: Receive,
        path: str,
        uploads: int = MAX_UPLOAD_BYTES,
        connection: HttpConnection | None = None,
        held: HeldBytes | None = None,
    ) -> None:
        self._receive, self._connection = receive, connection
        self._held, self._taken = held, 0
        self._limit = body_limit(path, uploads)
        self._each_piece = path.startswith(_UPLOADS)
        self._deadline: float | None = None
        self._size = 0
        self._complete = False
        self.failure: Failure | None = None

    def announced(self, length: bytes | None) -> Failure | None:
        """If the sender said how much comes, too much is refused before any of it is read."""
        if length is None or (length.isdigit() and len(length) <= MAX_DIGITS and int(length) <= self._limit):
            return None
        return self._too_large()

    async def __call__(self) -> Message:
        if self._complete:
            return await self._receive()  # only a disconnect can follow, and that may take as long as it likes
        if self._connection is not None and self._connection.has_body_part:
            message = await self._receive()  # no waiting: most bodies come with their head
        else:
            message = await self._in_time()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > self._limit:
                self.failure = self._too_large()
                raise HttpProblem(self.failure)
            if self._size > MAX_BODY_BYTES and not self._each_piece:
                self._hold()
            self._complete = not message.get("more_body", False)
        return message

    def _hold(self) -> None:
        if self._held is None:
            return
        if not self._held.take(self._size - self._taken):
            message = "The server holds as many large bodies as it can."
            self.failure = Failure("OVERLOADED", message, retryable=True)
            raise HttpProblem(self.failure)
        self._taken = self._size

    def release(self) -> None:
        """The request has ended, and with it its body."""
        if self._held is not None and self._taken:
            self._held.give_back(self._taken)
            self._taken = 0

    async def _in_time(self) -> Message:
        if self._deadline is None or self._each_piece:
            self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            self.failure = Failure("BODY_TIMEOUT", f"The body did not arrive within {BODY_SECONDS:.0f} s.")
            raise HttpProblem(self.failure) from None

    def _too_large(self) -> Failure:
        return Failure("BODY_TOO_LARGE", f"The body is larger than {self._limit} bytes.")
