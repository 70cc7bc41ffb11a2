"""MCP messages over a program's stdin and stdout, in place of the library's own transport.

That one keeps whatever a server writes until a line ends, and passes its stderr on. Here a message is bounded,
and the end of stderr goes to our log, without secrets, when the server ends. Leaves to `mcp_sessions`: sessions.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import structlog

from app.outside.dialogue import Dialogue, LineTooLong
from app.outside.message_meter import MAX_MESSAGE_BYTES, fits
from app.tools.rendering import SecretRedaction

log = structlog.get_logger("holdfast.mcp")


@asynccontextmanager
async def stdio_transport(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    too_large: Callable[[], None],
    secrets: SecretRedaction,
) -> AsyncIterator[Any]:
    """The two streams that the library's client wants. `too_large` is called before the connection closes."""
    import anyio
    from mcp.client.stdio import get_default_environment
    from mcp.shared.message import SessionMessage

    overlong = False

    def note() -> None:
        nonlocal overlong
        overlong = True
        too_large()

    talk = await Dialogue.start(argv, get_default_environment() | dict(env), max_line=MAX_MESSAGE_BYTES)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = {asyncio.create_task(_receive(talk, incoming, note)), asyncio.create_task(_send(talk, outgoing, incoming))}
    connected = False
    try:
        yield read, write
        connected = True
    finally:
        ended_by_us = connected and not talk.broken_off
        for stream in (read, write, incoming, outgoing):
            stream.close()
        for task in tasks:
            task.cancel()
        await asyncio.shield(_end(talk, tasks, overlong))
        tell = log.debug if ended_by_us else log.warning
        tell("an MCP server ended", server=name, status=talk.status, said=secrets.text(talk.log).strip())


async def _end(talk: Dialogue, tasks: set["asyncio.Task[None]"], overlong: bool) -> None:
    await asyncio.wait(tasks)
    await (talk.end(courtesy=0.0) if overlong else talk.end())


async def _receive(talk: Dialogue, incoming: Any, too_large: Callable[[], None]) -> None:
    import anyio

    try:
        async with aclosing(talk.lines()) as lines:
            async for line in lines:
                if not fits(line):
                    talk.broken_off = True
                    too_large()
                    return
                await incoming.send(_message(line))
    except LineTooLong:
        too_large()
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # the session is gone
    finally:
        # The session takes the end of its stream for the end of the connection.
        incoming.close()


async def _send(talk: Dialogue, outgoing: Any, incoming: Any) -> None:
    import anyio

    try:
        async for message in outgoing:
            await talk.send(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
    except (ConnectionError, anyio.ClosedResourceError):
        incoming.close()


def _message(line: bytes) -> Any:
    """The message, or what is wrong with it, which the session reports and survives."""
    import mcp_types
    from mcp.shared.message import SessionMessage

    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
