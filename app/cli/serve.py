"""`holdfast serve`: starts the server, prints its URL, and stops it on SIGTERM and Ctrl-C."""

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import structlog
import typer

from app.core.settings import Settings
from app.wiring.runtime import Holdfast
from app.wiring.web import START_PATIENCE_SECONDS, Web, build_web, open_logged, server_context, stop_serving

log = structlog.get_logger("holdfast.serve")


async def serve(settings: Settings) -> None:
    async with open_logged(settings, settings.log_level, patience=START_PATIENCE_SECONDS) as holdfast:
        configure_interpreter()
        stopping = Stopping()
        stopping.on_signals()
        await serve_http(settings, holdfast, stopping, lambda port: _announce(port, settings, holdfast))


class Stopping:
    """Whether to stop, and how fast. The second request releases all runs at once; the third abandons open requests."""

    def __init__(self) -> None:
        self.begun, self.hurry, self.abandon = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.replaced = False
        """Another process accepts connections on the same socket."""

    def stop(self) -> None:
        next((event for event in (self.begun, self.hurry) if not event.is_set()), self.abandon).set()

    def on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.stop)


def configure_interpreter() -> None:
    """Let neither the garbage collector nor the threads of the store delay streams."""
    # The objects of the start are permanent. They are not collected first: that takes a tenth of a second and frees
    # next to nothing. A run that ends leaves no cycle behind, so the threshold is above what a hundred runs allocate
    # while they are under way; much higher, and a collection would be a pause.
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)
    # A thread that writes gives the interpreter away with each statement. By Python's default it gets it back from a
    # busy loop only after 5 ms, and every commit would take several times that.
    sys.setswitchinterval(0.001)


async def serve_http(
    settings: Settings,
    holdfast: Holdfast,
    stopping: Stopping,
    when_listening: Callable[[int], None],
    listener: socket.socket | None = None,
) -> None:
    """Until `stopping` is set. Listens on the settings' address, or on the socket of a supervisor."""
    web = build_web(settings, server_context(settings, holdfast), when_listening)
    serving = asyncio.create_task(web.serve(None if listener is None else [listener]))
    abandoning = asyncio.create_task(_force_exit(web, stopping))
    await asyncio.wait({serving, asyncio.create_task(stopping.begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
    if stopping.replaced:
        web.stop_accepting()
    await stop_serving(holdfast, web, serving, stopping.hurry)
    abandoning.cancel()


async def _force_exit(web: Web, stopping: Stopping) -> None:
    await stopping.abandon.wait()
    web.force_exit = True


def _announce(port: int, settings: Settings, holdfast: Holdfast) -> None:
    url = f"http://{settings.host}:{port}"
    if not settings.is_postgres:
        holdfast.store.folder.announce(url)
    typer.echo(f"listening on {url}")
    for label, text in banner(url, settings, holdfast):
        typer.echo(f"  {label:<10} {text}")


def banner(url: str, settings: Settings, holdfast: Holdfast) -> Iterator[tuple[str, str]]:
    agents = holdfast.workspace.current.agents
    yield "workspace", f"{settings.workspace} ({len(agents)} agents: {', '.join(sorted(agents))})"
    yield "database", "Postgres" if settings.is_postgres else str(settings.sqlite_path)
    yield "console", f"{url}/ (in a browser)"
    yield "see", f"{url}/docs (HTTP API), {url}/readyz, {url}/metrics"
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
    yield "", f'an OpenAI client with base_url {url}/v1 and model "{name}"'


def _first_key(url: str, settings: Settings, holdfast: Holdfast) -> Iterator[tuple[str, str]]:
    """How to get a key. While there is no admin key, the one-time token that creates it is shown."""
    bootstrap = holdfast.access.bootstrap
    if bootstrap is None or bootstrap.token is None:
        yield "keys", f"{settings.admin_key_file or 'holdfast keys create NAME --role ROLE'}"
        return
    command = "holdfast keys create NAME --role admin"
    yield "first key", "There is no admin key yet. In another terminal, run:"
    if not settings.is_postgres:
        yield "", f"{command}   (in this folder), or from anywhere:"
    yield "", f"HOLDFAST_URL={url} HOLDFAST_API_KEY={bootstrap.token} {command}"
