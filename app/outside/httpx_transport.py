"""httpx2 over our own client, for libraries that bring httpx2 along (the MCP client).

So that their requests go to checked and pinned addresses too. Redirects are refused, never followed.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx2

from app.outside.addresses import PUBLIC_ONLY, AddressPolicy
from app.outside.http import Deadlines, HttpClient, OutgoingRequest, OutsideError, Reply
from app.outside.message_meter import MessageMeter

# Written by the client below, or no longer true of a body that it has unpacked.
_NOT_SENT: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_NOT_RETURNED: Final = frozenset({"content-length", "content-encoding", "transfer-encoding", "connection"})
_MAX_BYTES: Final = 64 * 1024 * 1024  # of one answer; an event stream that reaches it is opened anew


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Does not own the client: closing the transport leaves it open for others. `too_large` is called before an answer
    is cut off because a JSON message in it is larger than anybody should parse."""

    def __init__(
        self, client: HttpClient, policy: AddressPolicy = PUBLIC_ONLY, *, too_large: Callable[[], None] = lambda: None
    ) -> None:
        self._client, self._policy, self._too_large = client, policy, too_large

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        timeout = request.extensions.get("timeout") or {}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_SENT}
        sent = await request.aread()
        outgoing = OutgoingRequest(
            request.method,
            str(request.url),
            headers,
            sent or None,
            self._policy,
            Deadlines(timeout.get("connect"), timeout.get("read"), None),
            _MAX_BYTES,
        )
        try:
            reply = await self._client.send(outgoing)
        except OutsideError as error:
            raise _translated(error, request) from error
        kept = [(name, value) for name, value in reply.headers.items() if name.lower() not in _NOT_RETURNED]
        meter = MessageMeter(events=reply.content_type == "text/event-stream")
        body = _Body(reply, request, meter, self._too_large)
        return httpx2.Response(reply.status, headers=kept, stream=body, request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(
        self, reply: Reply, request: httpx2.Request, meter: MessageMeter, too_large: Callable[[], None]
    ) -> None:
        self._reply, self._request, self._meter, self._too_large = reply, request, meter, too_large

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._reply.chunks():
                if not self._meter.feed(piece):
                    self._too_large()
                    raise httpx2.RemoteProtocolError("a message in the answer is too large", request=self._request)
                yield piece
        except OutsideError as error:
            raise _translated(error, self._request) from error

    async def aclose(self) -> None:
        self._reply.close()


def _translated(error: OutsideError, request: httpx2.Request) -> httpx2.RequestError:
    kinds: dict[str, type[httpx2.RequestError]] = {
        "OUTSIDE_TIMEOUT": httpx2.ReadTimeout,
        "OUTSIDE_CUT_OFF": httpx2.RemoteProtocolError,
    }
    return kinds.get(error.code, httpx2.ConnectError)(str(error), request=request)
