"""Connections to one MCP server: started when needed, shared, replaced when they break.

A session lives in a task of its own, since the client must be left by the task that entered it. Calls share
the least busy one; one that broke, or did not answer in time, is ended, its process with it, and the next
call starts another. Nothing here retries: whether a call may be repeated is not for a connection to say.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from app.core.errors import Failure
from app.outside.addresses import AddressPolicy
from app.outside.dialogue import MAX_LINE
from app.outside.http import HttpClient
from app.outside.httpx_transport import PinnedTransport
from app.tools.kinds.mcp_stdio import stdio_transport
from app.tools.rendering import Redaction, Rendering, RenderingError, Secret, Text

_CLOSE_SECONDS: Final = 6.0  # a process has 2 s to end by itself and 1 s after SIGTERM
_SSE_IDLE: Final = 300.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is: a command (stdio) or a URL (streamable HTTP). From workspace files only (S12)."""

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    private: frozenset[str] = frozenset()
    """Hosts that may be private addresses."""
    connect_seconds: float = 10.0
    call_seconds: float = 60.0
    sessions: int = 4
    max_message_bytes: int = MAX_LINE
    """Of one message over stdio; a server that sends more is ended."""


class SessionLost(Exception):
    """The connection is gone. `during_call` says that the server may have begun to act."""

    def __init__(self, failure: Failure, *, during_call: bool = False) -> None:
        super().__init__(failure.message)
        self.failure, self.during_call = failure, during_call


Connect: TypeAlias = Callable[[AsyncExitStack, Callable[[], None]], Awaitable[Any]]
"""Enters a client into the stack; the second argument is called when the server sends too much at once."""


class Sessions:
    def __init__(self, server: Server, client: HttpClient, secret: Secret = lambda _: None) -> None:
        self.server = server
        self.secrets = Redaction()
        """Those that the server was given."""
        self._client, self._secret = client, secret
        self._open: list[Session] = []
        self._starting = asyncio.Lock()
        self._closed = False

    @asynccontextmanager
    async def session(self) -> AsyncIterator["Session"]:
        session = await self._least_busy()
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if session.broken:
                await self._discard(session)

    async def close(self) -> None:
        self._closed = True
        sessions, self._open = self._open, []
        await asyncio.gather(*(session.close() for session in sessions))

    async def _least_busy(self) -> "Session":
        async with self._starting:
            if self._closed:
                raise SessionLost(self._unavailable("is closed"))
            for session in [s for s in self._open if s.broken]:
                await self._discard(session)
            idle = min(self._open, key=lambda s: s.users, default=None)
            if idle is not None and (idle.users == 0 or len(self._open) >= self.server.sessions):
                return idle
            session = Session(self.server, self._connect, self.secrets)
            await session.start()
            self._open.append(session)
            return session

    async def _connect(self, stack: AsyncExitStack, too_large: Callable[[], None]) -> Any:
        rendering = Rendering({}, self._secret, self.secrets)
        return await _connect(stack, self.server, self._client, rendering, too_large)

    async def _discard(self, session: "Session") -> None:
        if session in self._open:
            self._open.remove(session)
            await asyncio.shield(session.close())

    def _unavailable(self, what: str) -> Failure:
        return Failure("TOOL_UNAVAILABLE", f"the MCP server {self.server.name} {what}", retryable=True)


class Session:
    """One connected client, kept by its own task."""

    def __init__(self, server: Server, connect: Connect, secrets: Redaction) -> None:
        self.users = 0
        self.broken = False
        self._server, self._connect, self._secrets = server, connect, secrets
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: Any = None
        self._too_large = False

    async def start(self) -> None:
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name=f"mcp-{self._server.name}")
        try:
            self._client = await asyncio.wait_for(asyncio.shield(ready), self._server.connect_seconds)
        except RenderingError as error:
            raise SessionLost(error.failure) from error
        except Exception as error:
            self.broken = True
            await self.close()
            if ready.done() and not ready.cancelled():
                ready.exception()
            what = "did not answer in time" if isinstance(error, TimeoutError) else "cannot be reached"
            raise SessionLost(self._failure(what)) from error

    async def call(self, ask: Callable[[Any], Awaitable[Any]], *, during_call: bool = False) -> Any:
        """The answer, or a Failure that the server itself gave; a broken connection is raised."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        work = asyncio.ensure_future(ask(self._client))
        assert self._task is not None
        try:
            await asyncio.wait(
                {work, self._task}, timeout=self._server.call_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not work.done():
                self.broken = True
                if not self._task.done():
                    return self._timeout()
                raise SessionLost(self._lost(), during_call=during_call)
            return work.result()
        except asyncio.CancelledError:
            self.broken = True  # what it still may send belongs to a call that nobody waits for
            raise
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                self.broken = True
                if error.code == REQUEST_TIMEOUT:
                    return self._timeout()
                raise SessionLost(self._lost(), during_call=during_call) from error
            said = self._secrets.text(error.message)[:500]
            return Failure("TOOL_FAILED", f"the MCP server {self._server.name} answered: {said}")
        except SessionLost:
            raise
        except Exception as error:
            self.broken = True
            _log.warning("an MCP session failed", extra={"server": self._server.name}, exc_info=error)
            raise SessionLost(self._lost(), during_call=during_call) from error
        finally:
            if not work.done():
                work.cancel()
                with contextlib.suppress(BaseException):
                    await asyncio.wait({work}, timeout=1.0)

    async def close(self) -> None:
        self._end.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_CLOSE_SECONDS)

    async def _live(self, ready: "asyncio.Future[Any]") -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await self._until_ended(self._connect(stack, self._note_too_large))
                if client is None:
                    return
                if not ready.done():
                    ready.set_result(client)
                await self._end.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
            elif not self._end.is_set():
                _log.warning("an MCP session ended", extra={"server": self._server.name}, exc_info=error)
        finally:
            self.broken = True

    async def _until_ended(self, connecting: Awaitable[Any]) -> Any:
        """Connecting must happen in this task, and must end when nobody waits for it any more."""
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.ensure_future(self._end.wait())
        watch.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
        try:
            return await connecting
        finally:
            watch.cancel()

    def _note_too_large(self) -> None:
        self._too_large = True

    def _lost(self) -> Failure:
        if not self._too_large:
            return self._failure("broke off")
        most = self._server.max_message_bytes
        message = f"the MCP server {self._server.name} sent a message of more than {most} bytes and was ended"
        return Failure("OUTPUT_TOO_LARGE", message)

    def _failure(self, what: str) -> Failure:
        return Failure("TOOL_UNAVAILABLE", f"the MCP server {self._server.name} {what}", retryable=True)

    def _timeout(self) -> Failure:
        return Failure("TOOL_TIMEOUT", f"the MCP server {self._server.name} did not answer in time")


async def _connect(
    stack: AsyncExitStack, server: Server, http: HttpClient, rendering: Rendering, too_large: Callable[[], None]
) -> Any:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    transport: Any
    if server.url is None:
        env = {name: rendering.text(Text.of(value)) for name, value in server.env.items()}
        transport = stdio_transport(
            server.name, server.command, env,
            max_message=server.max_message_bytes, too_large=too_large, secrets=rendering.secrets,
        )  # fmt: skip
    else:
        headers = {name: rendering.text(Text.of(value)) for name, value in server.headers.items()}
        url = rendering.text(Text.of(server.url))
        client = httpx2.AsyncClient(
            transport=PinnedTransport(http, AddressPolicy(private=server.private, proxied=True)),
            headers=headers,
            timeout=httpx2.Timeout(server.connect_seconds, read=_SSE_IDLE),
            trust_env=False,
        )
        await stack.enter_async_context(client)
        transport = streamable_http_client(url, http_client=client)
    return await stack.enter_async_context(Client(transport, read_timeout_seconds=server.call_seconds, cache=None))
