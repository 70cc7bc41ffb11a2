"""The line between the supervisor and one of its workers: JSON messages, one per line, over a socket that both inherit.

When one side ends, however it ends, the other one sees the end of the line.
"""

import asyncio
import socket
from typing import Any, Final

from app.core import json

_MAX_MESSAGE: Final = 16 * 1024 * 1024
"""A snapshot of the metrics has some 50 KiB; one of a large workspace has more."""


class WorkerChannel:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, end: socket.socket) -> "WorkerChannel":
        return cls(*await asyncio.open_connection(sock=end, limit=_MAX_MESSAGE))

    def send(self, kind: str, **more: Any) -> None:
        """Without waiting: a message to a side that has ended is lost, and reading says that it ended."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"kind": kind, **more}) + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message, or None at the end of the line."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):  # reset, or a line that is too long
            return None
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        self._writer.close()
