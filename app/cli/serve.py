"""`holdfast serve`: start the server, say where it listens, stop cleanly on SIGTERM and Ctrl-C."""

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import structlog
import typer
import uvicorn

from app.core.logs import configure_logs
from app.core.settings import Settings
from app.policy.redaction import CurrentRedaction
from app.protocols.context import Server
from app.protocols.edge.connection import RequestConnection
from app.protocols.server import create_edge
from app.protocols.stream.connection import StreamConnection
from app.runtime.ledger import Ledger
from app.wiring import Holdfast, open_holdfast

_GRACE_SECONDS = 5
"""How long requests that are still open may take after the runs have stopped."""


log = structlog.get_logger("holdfast.serve")


class Web(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, when_listening: Callable[[int], None]) -> None:
        super().__init__(config)
        self._when_listening = when_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._when_listening(self.servers[0].sockets[0].getsockname()[1])

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours: the framework would raise them again at the end and turn a clean stop into an error."""
        yield


async def serve(settings: Settings) -> None:
    redaction = CurrentRedaction()
    configure_logs(settings.log_level, redaction.text)
    async with open_holdfast(settings, redaction=redaction) as holdfast:
        _spare_the_collector()
        await _serve_http(settings, holdfast)


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[str]:
    """A whole server in this process for the length of a block, on a free port; gives its address.

    For commands that find none: everything they do is then done as by any other server, and stored.
    """
    redaction = CurrentRedaction()
    configure_logs("error", redaction.text)
    settings = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    async with open_holdfast(settings, redaction=redaction) as holdfast:
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        web = build_web(settings, holdfast, listening.set_result)
        serving = asyncio.create_task(web.serve())
        try:
            url = f"http://{settings.host}:{await listening}"
            if not settings.is_postgres:
                holdfast.store.folder.announce(url)
            yield url
        finally:
            await _stop(holdfast, web, serving)


def _spare_the_collector() -> None:
    """What is loaded by now stays. Requests leave few cycles behind, so looking for them at every 700th allocation
    would cost a tenth of a busy server's time; looking too seldom would make each look a pause that streams notice."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def build_web(settings: Settings, holdfast: Holdfast, when_listening: Callable[[int], None]) -> Web:
    """The web server, not yet started; tells its port when it listens."""
    store = holdfast.store
    server = Server(
        service=holdfast.service,
        commands=holdfast.commands,
        reruns=holdfast.reruns,
        threads=holdfast.threads,
        interrupts=holdfast.interrupts,
        reader=store.reader,
        hub=store.hub,
        metrics=holdfast.metrics,
        workspace=holdfast.workspace,
        kits=holdfast.kits,
        files=holdfast.files,
        max_upload_bytes=settings.max_upload_bytes,
        backends=holdfast.backends,
        ping=store.health.ready,
        draining=lambda: holdfast.executor.draining,
        sandbox=holdfast.sandbox.as_json,
        access=holdfast.access,
        keys=holdfast.keys,
        ledger=Ledger(store.recorder),
        settings=settings,
        clock=holdfast.clock,
        on_disconnect=settings.on_disconnect,
    )
    config = uvicorn.Config(
        create_edge(server), host=settings.host, port=settings.port, loop="none", http=RequestConnection,
        ws=StreamConnection, ws_per_message_deflate=False, ws_max_size=1024 * 1024, lifespan="off",
        access_log=False, log_config=None, timeout_graceful_shutdown=_GRACE_SECONDS, server_header=False,
        proxy_headers=False,  # a peer's address decides whether its word counts: nobody else's word may change it
    )  # fmt: skip
    return Web(config, when_listening)


async def _serve_http(settings: Settings, holdfast: Holdfast) -> None:
    web = build_web(settings, holdfast, lambda port: _announce(port, settings, holdfast))
    stopping = asyncio.Event()
    hurry = asyncio.Event()

    def stop() -> None:
        """The second signal gives the runs back at once; the third leaves open requests where they are."""
        web.force_exit = hurry.is_set()
        (hurry if stopping.is_set() else stopping).set()

    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop)
    serving = asyncio.create_task(web.serve())
    await asyncio.wait({serving, asyncio.create_task(stopping.wait())}, return_when=asyncio.FIRST_COMPLETED)
    await _stop(holdfast, web, serving, hurry)


async def _stop(
    holdfast: Holdfast, web: Web, serving: "asyncio.Task[None]", hurry: asyncio.Event | None = None
) -> None:
    """First no new work, then the streams, then the sockets: nobody is cut off before the log is still."""
    seconds = holdfast.drain_seconds()
    log.info("server.draining", running=holdfast.executor.running, seconds=seconds)
    await holdfast.executor.drain(seconds, hurry)
    holdfast.store.hub.close_all()
    web.should_exit = True
    await serving


def _announce(port: int, settings: Settings, holdfast: Holdfast) -> None:
    url = f"http://{settings.host}:{port}"
    if not settings.is_postgres:
        holdfast.store.folder.announce(url)
    typer.echo(f"listening on {url}")
    for what, told in _where_to_look(url, settings, holdfast):
        typer.echo(f"  {what:<10} {told}")


def _where_to_look(url: str, settings: Settings, holdfast: Holdfast) -> Iterator[tuple[str, str]]:
    agents = holdfast.workspace.current.agents
    yield "workspace", f"{settings.workspace} ({len(agents)} agents: {', '.join(sorted(agents))})"
    yield "database", "Postgres" if settings.is_postgres else str(settings.sqlite_path)
    yield "look", f"{url}/docs (every call), {url}/readyz, {url}/metrics"
    if settings.auth_modes:
        yield from _first_key(url, settings, holdfast)
        return
    name = holdfast.workspace.current.default_agent or min(agents, default=None)
    if name is None:
        return
    yield "try", f'curl -s \'{url}/api/runs?wait=10\' -d \'{{"agent": "{name}", "input": "hello"}}\''
    where = "in another terminal, in this folder"
    if "publish" in agents[name].tools:
        yield "", f'holdfast run {name} "publish it"   ({where}: asks for an approval)'
    else:
        yield "", f'holdfast run {name} "hello"   ({where})'
    yield "", f'an OpenAI client with base_url {url}/v1 and the model "{name}"'


def _first_key(url: str, settings: Settings, holdfast: Holdfast) -> Iterator[tuple[str, str]]:
    """How to get a key. The token is shown while there is no admin key; it makes one, once."""
    bootstrap = holdfast.access.bootstrap
    if bootstrap is None or bootstrap.token is None:
        yield "keys", f"{settings.admin_key_file or 'holdfast keys create NAME --role ROLE'}"
        return
    command = "holdfast keys create NAME --role admin"
    yield "first key", "there is no admin key yet; in another terminal:"
    if not settings.is_postgres:
        yield "", f"{command}   (in this folder), or from anywhere:"
    yield "", f"HOLDFAST_URL={url} HOLDFAST_API_KEY={bootstrap.token} {command}"
