"""The blocking twin of the module for asyncio.

Generated from it by `make generate`.
"""

import contextlib
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
import orjson

from holdfast.client import sync_routes as routes
from holdfast.client import types
from holdfast.client.errors import ConnectionLost, RunNotCompleted, error_of
from holdfast.client.request import BUSY, Prepared, path_of, pause_before, prepare
from holdfast.client.stream import PATIENCE_SECONDS, EventLines, stops, text_of

_SILENCE_SECONDS: Final = 40.0
"""The server sends a comment every 15 seconds: a stream that is silent for longer than this is dead."""
_PIECE: Final = 1 << 20


class Connection:
    """Sends requests, and sends them again where that can do no harm."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    def json(self, method: str, path: str, **given: Any) -> Any:
        return orjson.loads(self.content(method, path, **given))

    def nothing(self, method: str, path: str, **given: Any) -> None:
        self.content(method, path, **given)

    def content(self, method: str, path: str, **given: Any) -> bytes:
        request = prepare(method, path, **given)
        attempt = 1
        while True:
            answer = self._attempt(request)
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
            time.sleep(pause)

    def _attempt(self, request: Prepared) -> httpx2.Response | httpx2.TransportError:
        try:
            return self._http.request(
                request.method,
                request.path,
                params=dict(request.query),
                content=request.content,
                headers=dict(request.headers),
            )
        except httpx2.TransportError as error:
            return error

    def events(self, path: str, after: int) -> Generator[types.Event]:
        """Those after `after`, until the server says that nothing follows."""
        lines = EventLines(after)
        tried_since, attempt = time.monotonic(), 0
        while True:
            before, lost = lines.after, None
            try:
                yield from self._connected(path, lines)
            except httpx2.TransportError as error:
                lost = error
            if lines.ended:
                return
            if lines.after > before:
                tried_since, attempt = time.monotonic(), 0
            elif time.monotonic() - tried_since > PATIENCE_SECONDS:
                raise ConnectionLost(f"{path}: the stream was cut, and no attempt to resume it succeeded") from lost
            attempt = min(attempt + 1, 3)
            time.sleep(pause_before(attempt, None, None) or 0)

    def _connected(self, path: str, lines: EventLines) -> Generator[types.Event]:
        lines.connect_again()
        headers = {"accept": "text/event-stream", "last-event-id": str(lines.after)}
        timeout = httpx2.Timeout(_SILENCE_SECONDS)
        with self._http.stream("GET", path, headers=headers, timeout=timeout) as answer:
            if answer.status_code in BUSY:
                return
            if answer.status_code >= 300:
                raise error_of(answer.status_code, answer.read())
            for line in answer.iter_lines():
                if (event := lines.feed(line)) is not None:
                    yield event


class Runs(routes.RunsRoutes):
    """Runs, and ways to stay with one."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._connection = connection

    def follow(self, run_id: str, *, after: int = 0) -> Generator[types.Event]:
        """The run's events, stored ones first, then new ones, to its end. `after` is the last `seq` you have."""
        return self._connection.events(path_of("/api/runs/{run_id}/stream", run_id=run_id), after)

    def follow_text(self, run_id: str) -> Iterator[str]:
        """The answer, piece by piece as it is written. If a model call is repeated, so are its pieces: what counts in
        the end is `output`."""
        for event in self.follow(run_id):
            if text := text_of(event, run_id):
                yield text

    def wait(self, run_id: str) -> types.Run:
        """The run when it has ended, or waits for an answer."""
        after = 0
        while True:
            with contextlib.closing(self.follow(run_id, after=after)) as events:
                for event in events:
                    after = event["seq"]
                    if stops(event, run_id):
                        break
            run = self.get(run_id)
            if run["status"] not in {"queued", "running"}:
                return run

    def output(self, run_id: str) -> Any:
        """What a completed run answered. Raises `RunNotCompleted` for any other."""
        run = self.wait(run_id)
        if run["status"] != "completed":
            raise RunNotCompleted(run)
        return run["output"]


class Threads(routes.ThreadsRoutes):
    """Threads, and their events as they happen."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._connection = connection

    def follow(self, thread_id: str, *, after: int = 0) -> Generator[types.Event]:
        """The thread's events, stored ones first, then new ones, without end."""
        return self._connection.events(path_of("/api/threads/{thread_id}/stream", thread_id=thread_id), after)


class Interrupts(routes.InterruptsRoutes):
    """What waits for an answer, and the usual answers."""

    def approve(self, interrupt_id: str, **details: Any) -> types.Interrupt:
        return self.answer(interrupt_id, {"decision": "approve", **details})

    def deny(self, interrupt_id: str, **details: Any) -> types.Interrupt:
        return self.answer(interrupt_id, {"decision": "deny", **details})

    def reply(self, interrupt_id: str, answers: Any) -> types.Interrupt:
        """To questions, in the shape that they ask for."""
        return self.answer(interrupt_id, {"answers": answers})


class Files(routes.FilesRoutes):
    """Files for messages."""

    def upload_path(self, path: str | Path) -> types.File:
        """Sends it in pieces: the whole is never in memory."""
        return self.upload(_pieces(Path(path)), name=Path(path).name)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


class Client(routes.Resources):
    """Everything that the server offers, by resource. Close it, or use it in an `with`.

    `http` replaces the connection pool, for a proxy or certificates of your own; it then needs a `base_url`.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8700",
        *,
        key: str | None = None,
        timeout: float = 30.0,
        http: httpx2.Client | None = None,
    ) -> None:
        self.http = http or httpx2.Client(base_url=url, timeout=timeout)
        if key is not None:
            self.http.headers["authorization"] = f"Bearer {key}"
        connection = Connection(self.http)
        super().__init__(connection)
        self.runs, self.threads = Runs(connection), Threads(connection)
        self.interrupts, self.files = Interrupts(connection), Files(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.http.close()
