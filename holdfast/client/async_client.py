"""The client for asyncio: a connection pool, retries, and streams that go on where they were cut.

The blocking client, `sync_client`, is generated from this file, so that nothing is mended in one of them only. Leaves
to others: what is sent and when it is repeated (`request`), reading a stream (`stream`), the routes (`async_routes`).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
import orjson

from holdfast.client import async_routes as routes
from holdfast.client import types
from holdfast.client.errors import ConnectionLost, RunNotCompleted, error_of
from holdfast.client.request import BUSY, Prepared, path_of, pause_before, prepare
from holdfast.client.stream import PATIENCE_SECONDS, EventLines, stops, text_of

_SILENCE_SECONDS: Final = 40.0
"""The server sends a comment every 15 seconds: a stream that is silent for longer than this is dead."""
_PIECE: Final = 1 << 20


class AsyncConnection:
    """Sends requests, and sends them again where that can do no harm."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def json(self, method: str, path: str, **given: Any) -> Any:
        return orjson.loads(await self.content(method, path, **given))

    async def nothing(self, method: str, path: str, **given: Any) -> None:
        await self.content(method, path, **given)

    async def content(self, method: str, path: str, **given: Any) -> bytes:
        request = prepare(method, path, **given)
        attempt = 1
        while True:
            answer = await self._attempt(request)
            if isinstance(answer, httpx2.Response):
                if answer.status_code < 300:
                    return answer.content
                pause = pause_before(attempt, answer.status_code, answer.headers.get("retry-after"))
            else:
                pause = pause_before(attempt, None, None)
            if pause is None or not request.repeatable:
                if isinstance(answer, httpx2.Response):
                    raise error_of(answer.status_code, answer.content)
                raise ConnectionLost(f"{method} {path}: {type(answer).__name__} {answer}") from answer
            attempt += 1
            await asyncio.sleep(pause)

    async def _attempt(self, request: Prepared) -> httpx2.Response | httpx2.TransportError:
        try:
            return await self._http.request(
                request.method,
                request.path,
                params=dict(request.query),
                content=request.content,
                headers=dict(request.headers),
            )
        except httpx2.TransportError as error:
            return error

    async def events(self, path: str, after: int) -> AsyncGenerator[types.Event]:
        """Those after `after`, until the server says that nothing follows."""
        lines = EventLines(after)
        tried_since, attempt = time.monotonic(), 0
        while True:
            before, lost = lines.after, None
            try:
                async for event in self._connected(path, lines):
                    yield event
            except httpx2.TransportError as error:
                lost = error
            if lines.ended:
                return
            if lines.after > before:
                tried_since, attempt = time.monotonic(), 0
            elif time.monotonic() - tried_since > PATIENCE_SECONDS:
                raise ConnectionLost(f"{path}: the stream was cut, and no attempt to resume it succeeded") from lost
            attempt = min(attempt + 1, 3)
            await asyncio.sleep(pause_before(attempt, None, None) or 0)

    async def _connected(self, path: str, lines: EventLines) -> AsyncGenerator[types.Event]:
        lines.connect_again()
        headers = {"accept": "text/event-stream", "last-event-id": str(lines.after)}
        timeout = httpx2.Timeout(_SILENCE_SECONDS)
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.status_code in BUSY:
                return
            if answer.status_code >= 300:
                raise error_of(answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                if (event := lines.feed(line)) is not None:
                    yield event


class AsyncRuns(routes.AsyncRunsRoutes):
    """Runs, and ways to stay with one."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self._connection = connection

    def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[types.Event]:
        """The run's events, stored ones first, then new ones, to its end. `after` is the last `seq` you have."""
        return self._connection.events(path_of("/api/runs/{run_id}/stream", run_id=run_id), after)

    async def follow_text(self, run_id: str) -> AsyncIterator[str]:
        """The answer, piece by piece as it is written. If a model call is repeated, so are its pieces: what counts in
        the end is `output`."""
        async for event in self.follow(run_id):
            if text := text_of(event, run_id):
                yield text

    async def wait(self, run_id: str) -> types.Run:
        """The run when it has ended, or waits for an answer."""
        after = 0
        while True:
            async with contextlib.aclosing(self.follow(run_id, after=after)) as events:
                async for event in events:
                    after = event["seq"]
                    if stops(event, run_id):
                        break
            run = await self.get(run_id)
            if run["status"] not in {"queued", "running"}:
                return run

    async def output(self, run_id: str) -> Any:
        """What a completed run answered. Raises `RunNotCompleted` for any other."""
        run = await self.wait(run_id)
        if run["status"] != "completed":
            raise RunNotCompleted(run)
        return run["output"]


class AsyncThreads(routes.AsyncThreadsRoutes):
    """Threads, and their events as they happen."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self._connection = connection

    def follow(self, thread_id: str, *, after: int = 0) -> AsyncGenerator[types.Event]:
        """The thread's events, stored ones first, then new ones, without end."""
        return self._connection.events(path_of("/api/threads/{thread_id}/stream", thread_id=thread_id), after)


class AsyncInterrupts(routes.AsyncInterruptsRoutes):
    """What waits for an answer, and the usual answers."""

    async def approve(self, interrupt_id: str, **details: Any) -> types.Interrupt:
        return await self.answer(interrupt_id, {"decision": "approve", **details})

    async def deny(self, interrupt_id: str, **details: Any) -> types.Interrupt:
        return await self.answer(interrupt_id, {"decision": "deny", **details})

    async def reply(self, interrupt_id: str, answers: Any) -> types.Interrupt:
        """To questions, in the shape that they ask for."""
        return await self.answer(interrupt_id, {"answers": answers})


class AsyncFiles(routes.AsyncFilesRoutes):
    """Files for messages."""

    async def upload_path(self, path: str | Path) -> types.File:
        """Sends it in pieces: the whole is never in memory."""
        return await self.upload(_pieces(Path(path)), name=Path(path).name)


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


class AsyncClient(routes.AsyncResources):
    """Everything that the server offers, by resource. Close it, or use it in an `async with`.

    `http` replaces the connection pool, for a proxy or certificates of your own; it then needs a `base_url`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8700",
        *,
        key: str | None = None,
        timeout: float = 30.0,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self.http = http or httpx2.AsyncClient(base_url=url, timeout=timeout)
        if key is not None:
            self.http.headers["authorization"] = f"Bearer {key}"
        connection = AsyncConnection(self.http)
        super().__init__(connection)
        self.runs, self.threads = AsyncRuns(connection), AsyncThreads(connection)
        self.interrupts, self.files = AsyncInterrupts(connection), AsyncFiles(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.http.aclose()
