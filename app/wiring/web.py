"""The web server over a runtime: built, served for a while, stopped in order."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import structlog
import uvicorn

from app.core.clock import Clock
from app.core.json import JsonObject
from app.core.logs import configure_logs
from app.core.settings import Settings
from app.events.ports import StorageDown, StorageUnreachable
from app.models.plans import ModelPlans
from app.policy.redaction import CurrentRedaction
from app.protocols.context import ServerContext
from app.protocols.edge.request_head import RequestProtocol
from app.protocols.server import create_app, create_edge
from app.protocols.wire.uvicorn_connection import TESTED, WebSocketProtocol, is_tested
from app.runtime.automation.session_jobs import SessionJobs
from app.runtime.intake.ledger import Ledger
from app.runtime.intake.projects import Projects
from app.runtime.intake.todo_list import TodoList
from app.store.workspaces import WorkspaceTable
from app.wiring.kinds import installed_backends
from app.wiring.replicas import share_rates
from app.wiring.runtime import Holdfast, open_holdfast
from app.workspace.compiled import CompiledAgent

_GRACE_SECONDS = 5
"""How long requests that are still open may take after the runs have stopped."""

START_PATIENCE_SECONDS = 30.0
"""How long a server that starts waits for a database that does not answer, as in a fail-over."""
_AGAIN_SECONDS = 0.5

log = structlog.get_logger("holdfast.serve")


class Web(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, when_listening: Callable[[int], None]) -> None:
        super().__init__(config)
        self._when_listening = when_listening

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


def _media_of(holdfast: Holdfast, agent: CompiledAgent) -> frozenset[str]:
    if agent.model_plan is None:
        return frozenset()
    return holdfast.router.media_of(ModelPlans(holdfast.workspace.current.models).plan(agent.model_plan))


async def _nodes_of(holdfast: Holdfast, agent: CompiledAgent) -> frozenset[str] | None:
    kind = installed_backends().usable(agent.spec.backend)
    if kind is None or kind.nodes_of is None:
        return None
    # In a thread: it may import the backend's framework and the workspace's code.
    return await asyncio.to_thread(kind.nodes_of, agent, holdfast.workspace.current)


def server_context(settings: Settings, holdfast: Holdfast) -> ServerContext:
    """What the protocols are given of the runtime."""
    store = holdfast.store
    return ServerContext(
        service=holdfast.service,
        lifecycle=holdfast.lifecycle,
        commands=holdfast.commands,
        reruns=holdfast.reruns,
        undo=holdfast.undo,
        projects=Projects(holdfast.store.recorder, holdfast.store.reader),
        session_jobs=SessionJobs(holdfast.service, holdfast.store.reader, holdfast.workspace),
        recorder=holdfast.store.recorder,
        extensions=holdfast.extensions,
        todos=TodoList(holdfast.store.recorder, holdfast.store.reader, holdfast.workspace),
        threads=holdfast.threads,
        amendments=holdfast.amendments,
        interrupts=holdfast.interrupts,
        memory=holdfast.memory_desk,
        embeddings=holdfast.embedding_desk,
        skills=holdfast.skills,
        reader=store.reader,
        hub=store.hub,
        metrics=holdfast.metrics,
        workspace=holdfast.workspace,
        workspace_files=WorkspaceTable(store.database).get,
        toolsets=holdfast.toolsets,
        files=holdfast.files,
        evals=holdfast.evals,
        webhooks=holdfast.automation.webhooks,
        pushes=holdfast.automation.pushes,
        schedules=holdfast.automation.schedules,
        mcp_logins=holdfast.mcp_logins,
        max_upload_bytes=settings.max_upload_bytes,
        workspace_of=holdfast.history.of,
        adapters=holdfast.adapters,
        backends=holdfast.backends,
        nodes_of=partial(_nodes_of, holdfast),
        media_of=partial(_media_of, holdfast),
        ping=store.health.ready,
        sandbox=holdfast.sandbox.as_json,
        doctor=_doctor(settings, holdfast.clock),
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


def _doctor(settings: Settings, clock: Clock) -> Callable[[], Awaitable[JsonObject]]:
    """Nothing of it is imported before somebody asks."""
    made: list[Callable[[], Awaitable[JsonObject]]] = []

    async def report() -> JsonObject:
        if not made:
            from app.wiring.server_checkup import ServerCheckup

            made.append(ServerCheckup(settings, os.environ, clock).report)
        return await made[0]()

    return report


def build_web(
    settings: Settings, server: ServerContext, when_listening: Callable[[int], None], *, direct: bool | None = None
) -> Web:
    """The web server, not yet started; calls back with its port when it listens.

    `direct` says whether streams write to uvicorn's transports; without it, where the installed versions allow that.
    """
    if direct is None and not (direct := is_tested()):
        log.warning("server.untested", tested=TESTED, effect="streams are slower; headers have uvicorn's own limits")
    config = uvicorn.Config(
        create_edge(server, create_app(server)),
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
    return Web(config, when_listening)


@contextlib.asynccontextmanager
async def open_logged(
    settings: Settings, log_level: str, bootstrap_token: str | None = None, *, patience: float = 0.0
) -> AsyncIterator[Holdfast]:
    """The runtime in a process of its own: the process's log is cleaned by the same redaction as the events.

    A database that does not answer is asked again for as many seconds as `patience` says.
    """
    redaction = CurrentRedaction()
    configure_logs(log_level, redaction.text)
    async with contextlib.AsyncExitStack() as parts:
        opening = partial(open_holdfast, settings, redaction=redaction, bootstrap_token=bootstrap_token)
        yield await _opened(opening, parts, patience)


async def _opened(
    opening: Callable[[], contextlib.AbstractAsyncContextManager[Holdfast]],
    parts: contextlib.AsyncExitStack,
    patience: float,
) -> Holdfast:
    """Whoever restarts a server waits ever longer in between; a database that fails over is back in seconds."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + patience
    while True:
        try:
            return await parts.enter_async_context(opening())
        except StorageUnreachable:
            raise
        except StorageDown as error:
            if loop.time() >= give_up_at:
                raise
            log.warning("start.waits", code=error.code, message=error.failure.message)
            await asyncio.sleep(_AGAIN_SECONDS)


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
