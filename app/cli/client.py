"""The HTTP client of the command line: calls, paged lists, and the event stream of a thread.

`connection` chooses the server, `screen` shows events to a person.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx2

from app.core import json
from app.core.error_codes import CODES
from app.core.errors import HoldfastError

TIMEOUT_SECONDS: Final = 30.0
PAGE: Final = 500
SYSTEM_PREFIX: Final = "sys_"
_TRY_AGAIN_LATER: Final = 1013
"""Close code for a client that fell behind; it reconnects with its cursor."""
_SESSION_ERRORS: Final = ("error", "forbidden")


class Client:
    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    @property
    def url(self) -> str:
        return str(self.http.base_url).rstrip("/")

    async def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """The response as JSON; None if it is empty. An error response is raised with its code."""
        given = {name: value for name, value in params.items() if value is not None}
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"content-type": "application/json"}
        answer = await self.http.request(method, path, params=given, content=content, headers=headers)
        expect_success(answer.status_code, answer.content)
        return json.loads(answer.content) if answer.content else None

    async def text(self, path: str, **params: Any) -> str:
        """The response as it is, such as a picture."""
        answer = await self.http.request("GET", path, params=params)
        expect_success(answer.status_code, answer.content)
        return str(answer.text)

    async def get(self, path: str, **params: Any) -> Any:
        return await self.call("GET", path, **params)

    async def post(self, path: str, body: Any = None, **params: Any) -> Any:
        return await self.call("POST", path, {} if body is None else body, **params)

    async def pages(self, path: str, limit: int | None = None, **params: Any) -> AsyncIterator[dict[str, Any]]:
        """The items of a paged list, at most `limit`."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            page = await self.get(path, after=cursor, limit=PAGE if left is None else min(left, PAGE), **params)
            for item in page["items"][:left]:
                yield item
            if left is not None:
                left -= len(page["items"])
            cursor = page["nextCursor"]
            if cursor is None:
                return

    async def events(self, thread_id: str, after: int) -> AsyncGenerator[dict[str, Any]]:
        """The events after `after`, stored ones first, then new ones, without end."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake

        base = self.url.replace("http", "ws", 1)
        # Only the key: the other headers belong to ordinary requests.
        headers = {name: value for name, value in self.http.headers.items() if name == "authorization"}
        # Frames of a ledger have no thread id; subscribers of other threads also receive and ignore them.
        names = (thread_id, None) if thread_id.startswith(SYSTEM_PREFIX) else (thread_id,)
        while True:
            query = urlencode({"threadId": thread_id, "afterSeq": after})
            try:
                async with connect(f"{base}/api/stream?{query}", additional_headers=headers) as socket:
                    while True:
                        frame = json.loads(await socket.recv())
                        # The first frame of an event is the event itself; its other frames have the same seq.
                        if frame.get("seq", 0) > after and frame["threadId"] in names:
                            after = frame["seq"]
                            yield frame
            except (InvalidHandshake, OSError) as refused:
                raise HoldfastError("NOT_READY", f"The server at {self.url} rejected the event stream.") from refused
            except ConnectionClosed as closed:
                if closed.rcvd is None or closed.rcvd.code != _TRY_AGAIN_LATER:
                    raise HoldfastError("NOT_READY", "The server closed the stream.") from None


def open_client(url: str, key: str | None) -> httpx2.AsyncClient:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    # Reading the machine's certificates takes 60 ms. An address without TLS needs none; with none, TLS would fail.
    certificates = True if url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS, verify=certificates)


def path_of(kind: str, name: str) -> str:
    """The path of one resource; ids may contain any character but a slash, so they are quoted."""
    return f"/api/{kind}/{quote(name, safe='')}"


def expect_success(status: int, body: bytes) -> None:
    if status < 300:
        return
    try:
        answer: Mapping[str, Any] = json.loads(body)
        # The sessions API has its errors at the top, and those of extensions one by one.
        error: Mapping[str, Any] = answer if answer.get("status") in _SESSION_ERRORS else answer["error"]
        code, message = error["code"].upper(), error["message"]
    except (json.JsonError, KeyError, TypeError, AttributeError):
        raise HoldfastError(
            "INTERNAL", f"The response ({status}) is not from a Holdfast server. Check the URL."
        ) from None
    for issue in error.get("issues") or ():
        message += f"; {issue['path']}: {issue['message']}"
    if needs := error.get("needs"):
        message += f"; it needs the scope {needs}"
    for wrong in error.get("errors") or ():
        message += f"; {wrong['extension']}: {wrong['message']} ({wrong['code']})"
    # A newer server may have codes that this version does not know, and the sessions API has some of its own.
    unknown = (
        "INTERNAL" if error is not answer or status >= 500 else "FORBIDDEN" if status == 403 else "INVALID_REQUEST"
    )
    raise HoldfastError(code if code in CODES else unknown, message)
