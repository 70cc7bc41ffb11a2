"""`holdfast mcp`: lists the MCP servers of the workspace, logs in to remote ones and out.

The browser is sent back to a loopback port of this machine, where the command waits. Leaves to the server: everything
that holds a token.
"""

import asyncio
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlsplit

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="MCP servers: list, login, logout.")

Server = Annotated[str, typer.Argument(metavar="SERVER", help="The name of the McpServer document.")]
_PATH: Final = "/callback"
_MAX_HEAD: Final = 32 * 1024
_PAGE: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n"
    b"You can close this page and go back to the terminal.\n"
)
_NOT_HERE: Final = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@app.command("list")
@server_command
async def list_servers(session: CommandSession) -> None:
    """List the MCP servers of the workspace, and how the tenant is authorised there."""
    found = [one async for one in _servers(session)]
    session.table(
        found,
        {"server": lambda one: one["name"], "login": lambda one: _LOGINS.get(one["authStatus"], one["authStatus"])},
    )


_LOGINS: Final = {"unsupported": "none", "notLoggedIn": "needed", "oAuth": "logged in", "bearerToken": "by header"}


async def _servers(session: CommandSession) -> Any:
    cursor = ""
    while True:
        page = await session.client.get("/api/mcp/servers", cursor=cursor, limit=100)
        for one in page["data"]:
            yield one
        if not (cursor := page.get("nextCursor") or ""):
            return


@app.command("login")
@server_command
async def login(
    session: CommandSession,
    server: Server,
    browser: Annotated[bool, typer.Option(help="Open the address in a browser.")] = True,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port to wait at. Default: a free one.")] = 0,
    wait: Annotated[float, typer.Option(min=1, max=600, help="Seconds to wait for the person.")] = 300,
) -> None:
    """Log the tenant in to a remote MCP server that declares `oauth`."""
    from app.cli.client import path_of

    address = f"{path_of('mcp-servers', server)}/login"
    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    listener = await asyncio.start_server(_Callback(answered), "127.0.0.1", port, limit=_MAX_HEAD)
    async with listener:
        redirect = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}{_PATH}"
        begun = await session.client.post(address, {"redirectUri": redirect})
        session.notes.print(f"Open this address to log in:\n{begun['authorizationUrl']}")
        if browser:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, begun["authorizationUrl"])
        try:
            given = await asyncio.wait_for(answered, wait)
        except TimeoutError:
            raise typer.BadParameter(f"nobody logged in within {wait:g} s", param_hint="--wait") from None
    if "code" not in given:
        session.notes.print(f"The login was refused: {given.get('error', 'no code was sent')[:100]}.")
        raise typer.Exit(1)
    wanted = {name: given[name] for name in ("code", "state", "iss") if name in given}
    made = await session.client.post(f"{address}/complete", {"ticket": begun["ticket"], **wanted})
    until = f", until {made['expiresAt']}" if made["expiresAt"] and not made["renewable"] else ""
    session.result(made, server if session.quiet else f"Logged in to {server} at {made['issuer']}{until}.")


@app.command("logout")
@server_command
async def logout(session: CommandSession, server: Server) -> None:
    """Forget the tenant's login to a remote MCP server."""
    from app.cli.client import path_of

    await session.client.call("DELETE", f"{path_of('mcp-servers', server)}/login")
    session.result({"server": server}, server if session.quiet else f"Logged out of {server}.")


class _Callback:
    """Takes the first request to the callback's path; answers anything else with 404."""

    def __init__(self, answered: "asyncio.Future[dict[str, str]]") -> None:
        self._answered = answered

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 10)
            parts = urlsplit(head.decode("latin-1").split(" ")[1])
            ours = parts.path == _PATH
            writer.write(_PAGE if ours else _NOT_HERE)
            await writer.drain()
            if ours and not self._answered.done():
                self._answered.set_result({name: found[0] for name, found in parse_qs(parts.query).items()})
        except (TimeoutError, OSError, IndexError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()
