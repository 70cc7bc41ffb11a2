"""The web server over a runtime: built, served for a while, stopped in order."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

import structlog
import uvicorn
from starlette.routing import BaseRoute

from app.core.logs import configure_logs
from app.core.settings import Settings
from app.policy.redaction import CurrentRedaction
from app.protocols.context import ServerContext
from app.protocols.edge.request_head import RequestProtocol
from app.protocols.http.deferred_route import build_routes
from app.protocols.server import create_app, create_edge
from app.protocols.wire.uvicorn_connection import TESTED, WebSocketProtocol, is_tested
from app.runtime.intake.ledger import Ledger
from app.store.workspaces import WorkspaceTable
from app.wiring.replicas import share_rates
from app.wiring.runtime import Holdfast, open_holdfast

_GRACE_SECONDS = 5
"""How long requests that are still open may take after the runs have stopped."""

log = structlog.get_logger("holdfast.serve")


class Web(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, when_listening: Callable[[int], None], routes: Sequence[BaseRoute]
    ) -> None:
        super().__init__(config)
        self._when_listening, self._routes = when_listening, routes

    async def build_routes(self) -> None:
        """What the first requests would wait for otherwise."""
        await asyncio.to_thread(build_routes, self._routes)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._when_listening(self.servers[0].sockets[0].getsockname()[1])

    def stop_accepting(self) -> None:
        """Leaves new connections to the others that listen on the same socket; open ones are served on."""
        for server in self.servers:
            server.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: the framework would raise them again at the end and turn a clean stop into an error."""
        yield


def server_context(settings: Settings, holdfast: Holdfast) -> ServerContext:
    """What the protocols are given of the runtime."""
    store = holdfast.store
    return ServerContext(
        service=holdfast.service,
        lifecycle=holdfast.lifecycle,
        commands=holdfast.commands,
        reruns=holdfast.reruns,
        threads=holdfast.threads,
        interrupts=holdfast.interrupts,
        memory=holdfast.memory_desk,
        skills=holdfast.skills,
        reader=store.reader,
        hub=store.hub,
        metrics=holdfast.metrics,
        workspace=holdfast.workspace,
        workspace_files=WorkspaceTable(store.database).get,
        toolsets=holdfast.toolsets,
        files=holdfast.files,
        evals=holdfast.evals,
        max_upload_bytes=settings.max_upload_bytes,
        workspace_of=holdfast.history.of,
        adapters=holdfast.adapters,
        backends=holdfast.backends,
        ping=store.health.ready,
        sandbox=holdfast.sandbox.as_json,
        access=holdfast.access,
        keys=holdfast.keys,
        ledger=Ledger(store.recorder),
        settings=settings,
        clock=holdfast.clock,
        bus=lambda: None if holdfast.replicas is None else holdfast.replicas.as_json(),
        share_rates=partial(share_rates, holdfast.replicas),
        standby=store.standby,
        on_disconnect=settings.on_disconnect,
    )


def build_web(
    settings: Settings, server: ServerContext, when_listening: Callable[[int], None], *, direct: bool | None = None
) -> Web:
    """The web server, not yet started; calls back with its port when it listens.

    `direct` says whether streams write to uvicorn's transports; without it, where the installed versions allow that.
    """
    if direct is None and not (direct := is_tested()):
        log.warning("server.untested", tested=TESTED, effect="streams are slower; headers have uvicorn's own limits")
    app = create_app(server)
    config = uvicorn.Config(
        create_edge(server, app),
        host=settings.host,
        port=settings.port,
        loop="none",
        http=RequestProtocol if direct else "httptools",
        ws=WebSocketProtocol if direct else "websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=1024 * 1024,
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
        proxy_headers=False,  # only the server decides, by a peer's address, whose identity headers count
    )
    return Web(config, when_listening, app.routes)


@contextlib.asynccontextmanager
async def open_logged(
    settings: Settings, log_level: str, bootstrap_token: str | None = None
) -> AsyncIterator[Holdfast]:
    """The runtime in a process of its own: the process's log is cleaned by the same redaction as the events."""
    redaction = CurrentRedaction()
    configure_logs(log_level, redaction.text)
    async with open_holdfast(settings, redaction=redaction, bootstrap_token=bootstrap_token) as holdfast:
        yield holdfast


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[str]:
    """A whole server in this process for the length of a block, on a free port; gives its address.

    For commands that find none: everything they do is then done as by any other server, and stored.
    """
    settings = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    async with open_logged(settings, "error") as holdfast:
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        web = build_web(settings, server_context(settings, holdfast), listening.set_result)
        serving = asyncio.create_task(web.serve())
        try:
            url = f"http://{settings.host}:{await listening}"
            if not settings.is_postgres:
                holdfast.store.folder.announce(url)
            yield url
        finally:
            await stop_serving(holdfast, web, serving)


async def stop_serving(
    holdfast: Holdfast, web: Web, serving: "asyncio.Task[None]", hurry: asyncio.Event | None = None
) -> None:
    """First no new work, then the streams, then the sockets: nobody is cut off before the log is still."""
    seconds = holdfast.effective.drain_seconds
    log.info("server.draining", running=holdfast.executor.running, seconds=seconds)
    await holdfast.lifecycle.drain(seconds, hurry)
    holdfast.store.hub.close_all()
    web.should_exit = True
    await serving
