"""Connections to one MCP server: started when needed, each for one tenant, replaced when they break.

A session lives in a task of its own, since the client must be left by the task that entered it. Calls of a tenant share
its least busy one, unless the server's document says that it is `shared`; one that broke, or did not answer in time, is
ended, its process with it, and the next call starts another. All are bounded in number, and idle ones are closed. A
server that cannot be reached is left alone for a while, so that a dead one costs a call nothing. Nothing here retries:
whether a call may be repeated is not for a connection to say.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from app.core.clock import Clock, SystemClock
from app.core.errors import Failure
from app.core.json import MAX_VALUES
from app.core.principal import DEFAULT_TENANT
from app.outside.http import HttpClient
from app.outside.message_meter import MAX_MESSAGE_BYTES
from app.tools.complaints import error_text
from app.tools.grants import GrantVault
from app.tools.kinds.mcp_connect import connect
from app.tools.kinds.mcp_endpoint import McpEndpoint
from app.tools.kinds.mcp_faults import ConnectionNotes, connect_fault
from app.tools.rendering import Rendering, RenderingError, Secret, SecretRedaction

_CLOSE_SECONDS: Final = 6.0  # a process has 2 s to end by itself and 1 s after SIGTERM
IDLE_SECONDS: Final = 600.0
"""How long a session without calls stays open."""
MAX_SESSIONS: Final = 64
"""Of one server, over all tenants: each may be a process."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds for which a server that could not be reached is left alone; doubled each time."""

_log = logging.getLogger(__name__)


class SessionLost(Exception):
    """The connection is gone. `during_call` says that the server may have begun to act."""

    def __init__(self, failure: Failure, *, during_call: bool = False) -> None:
        super().__init__(failure.message)
        self.failure, self.during_call = failure, during_call


Connect: TypeAlias = Callable[[AsyncExitStack, ConnectionNotes], Awaitable[Any]]
"""Enters a client into the stack, and notes what it notices."""


class Sessions:
    def __init__(
        self,
        server: McpEndpoint,
        client: HttpClient,
        secret: Secret = lambda _: None,
        grants: GrantVault | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.server = server
        self._grants, self._clock = grants, clock or SystemClock()
        self.secrets = SecretRedaction()
        """Those that the server was given."""
        self._client, self._secret = client, secret
        self._open: dict[str, list[McpSession]] = {}
        self._starting: dict[str, asyncio.Lock] = {}
        self.first_seen: dict[str, str] = {}
        """The hash of each tool that an agent has by naming the server, when it was first offered."""
        self._closed = False
        self._down: SessionLost | None = None
        self._pause, self._retry_at = 0.0, 0.0
        self._sweep: asyncio.TimerHandle | None = None
        self._sweeping: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    @asynccontextmanager
    async def session(self, tenant: str = DEFAULT_TENANT) -> AsyncIterator["McpSession"]:
        key = "" if self.server.shared else tenant
        session = await self._least_busy(key)
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            session.used_at = asyncio.get_running_loop().time()
            if session.broken:
                await self._discard(key, session)
            else:
                self._sweep_later()

    async def close(self) -> None:
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        sessions = [session for found in self._open.values() for session in found]
        self._open = {}
        await asyncio.gather(*(session.close() for session in sessions), *self._sweeping)

    async def _least_busy(self, key: str) -> "McpSession":
        lock = self._starting.setdefault(key, asyncio.Lock())
        async with lock:
            if self._closed:
                raise SessionLost(self._unavailable("is closed"))
            for session in [s for s in self._open.get(key, ()) if s.broken]:
                await self._discard(key, session)
            found = self._open.get(key, ())
            idle = min(found, key=lambda s: s.users, default=None)
            if idle is not None and (idle.users == 0 or len(found) >= self.server.sessions):
                return idle
            try:
                return await self._started(key)
            finally:
                if key not in self._open:
                    self._starting.pop(key, None)

    async def _started(self, key: str) -> "McpSession":
        loop = asyncio.get_running_loop()
        if self._down is not None and loop.time() < self._retry_at:
            raise SessionLost(self._down.failure)
        await self._make_room()
        session = McpSession(self.server, partial(self._connect, key), self.secrets)
        try:
            await session.start()
        except SessionLost as lost:
            if lost.failure.code == "MCP_LOGIN_REQUIRED":
                raise  # of this tenant; the server itself is well
            self._pause = min(LONGEST_PAUSE, self._pause * 2 or FIRST_PAUSE)
            self._down, self._retry_at = lost, loop.time() + self._pause
            _log.warning(
                "an MCP server cannot be used", extra={"server": self.server.name, "cause": lost.failure.message}
            )
            raise
        self._down, self._pause, session.used_at = None, 0.0, loop.time()
        self._open.setdefault(key, []).append(session)
        return session

    async def _make_room(self) -> None:
        """The session that was idle longest goes, whoever's it is."""
        if len(self) < MAX_SESSIONS:
            return
        idle = [(s.used_at, key, s) for key, found in self._open.items() for s in found if s.users == 0]
        if not idle:
            raise SessionLost(self._unavailable(f"has {MAX_SESSIONS} busy sessions already"))
        _, key, session = min(idle, key=lambda it: it[0])
        await self._discard(key, session)

    def _sweep_later(self) -> None:
        if self._sweep is None and not self._closed:
            self._sweep = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep = None
        longest = asyncio.get_running_loop().time() - IDLE_SECONDS
        for key, found in list(self._open.items()):
            for session in [s for s in found if s.users == 0 and s.used_at <= longest]:
                task = asyncio.ensure_future(self._discard(key, session))
                self._sweeping.add(task)
                task.add_done_callback(self._sweeping.discard)
        if len(self):
            self._sweep_later()

    async def listing_tenant(self) -> str:
        """Whose session lists what the server offers: the default tenant's, or another's that is logged in."""
        if self.server.oauth is None or self._grants is None or self.server.oauth.grant == "clientCredentials":
            return DEFAULT_TENANT
        found = await self._grants.table.tenants_of(self.server.name)
        return DEFAULT_TENANT if DEFAULT_TENANT in found or not found else found[0]

    async def _connect(self, tenant: str, stack: AsyncExitStack, notes: ConnectionNotes) -> Any:
        rendering, auth = Rendering({}, self._secret, self.secrets), None
        if self.server.oauth is not None and self._grants is not None:
            from app.tools.kinds.mcp_oauth import McpOAuthFlow
            from app.tools.kinds.mcp_tokens import TenantTokens, TokenAuth

            flow = McpOAuthFlow(self.server, self._client, self._secret, self._clock.now_ms)
            owner = tenant or DEFAULT_TENANT  # of a shared session
            tokens = TenantTokens(self.server.name, owner, flow, self._grants, self._clock, self.secrets)
            # Asked before the client is made, so that a missing login is not taken for a server that is away.
            if isinstance(token := await tokens.token(), Failure):
                raise SessionLost(token)
            auth = TokenAuth(tokens, notes.note_refusal)
        return await connect(stack, self.server, self._client, rendering, notes, auth)

    async def _discard(self, key: str, session: "McpSession") -> None:
        found = self._open.get(key, [])
        if session in found:
            found.remove(session)
            if not found:
                self._open.pop(key, None)
                if (lock := self._starting.get(key)) is not None and not lock.locked():
                    self._starting.pop(key)
            await asyncio.shield(session.close())

    def _unavailable(self, what: str) -> Failure:
        return Failure("TOOL_UNAVAILABLE", f"The MCP server {self.server.name} {what}", retryable=True)


class McpSession:
    """One connected client, kept by its own task."""

    def __init__(self, server: McpEndpoint, connect: Connect, secrets: SecretRedaction) -> None:
        self.users = 0
        self.used_at = 0.0
        self.broken = False
        self._server, self._connect, self._secrets = server, connect, secrets
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._client: Any = None
        self._notes = ConnectionNotes(self._end_if_begun)

    async def start(self) -> None:
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready), name=f"mcp-{self._server.name}")
        try:
            client = await asyncio.wait_for(asyncio.shield(ready), self._server.connect_seconds)
        except RenderingError as error:
            raise SessionLost(error.failure) from error
        except SessionLost:
            raise
        except Exception as error:
            self.broken = True
            await self.close()
            if ready.done() and not ready.cancelled():
                ready.exception()
            if self._notes.too_large or self._notes.refusal is not None:
                raise SessionLost(self._lost()) from error
            program = self._server.command[0] if self._server.command else None
            what = connect_fault(error, self._notes, self._server.connect_seconds, program=program)
            raise SessionLost(self._failure(what)) from error
        wanted = self._server.protocol
        if wanted is not None and (agreed := str(client.protocol_version)) != wanted:
            self.broken = True
            await self.close()
            raise SessionLost(self._speaks_another(wanted, agreed))
        self._client = client

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
            said = error_text(self._secrets.text(error.message))
            return Failure("TOOL_FAILED", f"The MCP server {self._server.name} answered: {said}")
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
                client = await self._until_ended(self._connect(stack, self._notes))
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

    def _end_if_begun(self) -> None:
        """Connecting fails by itself."""
        if self._client is not None:
            self._end.set()

    def _lost(self) -> Failure:
        if self._notes.refusal is not None:
            return self._notes.refusal
        if not self._notes.too_large:
            return self._failure("broke off")
        limits = f"{MAX_MESSAGE_BYTES:,} bytes or {MAX_VALUES:,} values"
        message = f"The MCP server {self._server.name} sent a message of more than {limits} and was ended."
        return Failure("OUTPUT_TOO_LARGE", message)

    def _failure(self, what: str) -> Failure:
        return Failure("TOOL_UNAVAILABLE", f"The MCP server {self._server.name} {what}", retryable=True)

    def _speaks_another(self, wanted: str, agreed: str) -> Failure:
        name = self._server.name
        message = f"The MCP server {name} speaks version {agreed[:40]} of the protocol, and {wanted} is required."
        required = f"mcpProtocolVersion={wanted}"
        lacking = {"mcpServer": name, "has": [f"mcpProtocolVersion={agreed[:40]}"], "lacks": [required]}
        return Failure("MCP_PROTOCOL_MISMATCH", message, detail={"required": [required], "candidates": [lacking]})

    def _timeout(self) -> Failure:
        return Failure("TOOL_TIMEOUT", f"The MCP server {self._server.name} did not answer in time.")
