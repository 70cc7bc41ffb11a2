"""A program that one talks to in lines: its stdin and stdout carry messages, its stderr is its own log.

Bounds what it may say: a line over the limit ends the dialogue, of stderr only the end is kept. Leaves to
others: what lines mean. The program is trusted (named by an operator, no sandbox), its output is not.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from app.core.errors import HoldfastError
from app.outside.process import ProcessError

MAX_LINE: Final = 16 * 1024 * 1024  # bytes
_TAIL: Final = 8 * 1024  # bytes of stderr; enough for a traceback
_PIECE: Final = 64 * 1024
_COURTESY: Final = 2.0  # seconds to end by itself once its input has ended
_TERM: Final = 1.0  # seconds more after SIGTERM
_REAP: Final = 2.0  # after SIGKILL only a stuck kernel takes longer


class LineTooLong(HoldfastError):
    """The program wrote more without ending the line than anybody agreed to keep."""


class Dialogue:
    def __init__(self, process: asyncio.subprocess.Process, max_line: int) -> None:
        self._process, self._max_line = process, max_line
        self._tail = bytearray()
        self.broken_off = False
        """By the program: it ended what it says, or said too much."""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str], *, max_line: int = MAX_LINE) -> Self:
        """With exactly this environment. Whoever starts it has to `end` it."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=dict(env),
                start_new_session=True,
                limit=_PIECE,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as error:
            raise ProcessError("PROCESS_FAILED", f"{Path(argv[0]).name} could not be started") from error
        return cls(process, max_line)

    @property
    def status(self) -> int | None:
        """Its exit status once it has ended; -n when a signal n ended it."""
        return self._process.returncode

    @property
    def log(self) -> str:
        """The end of what it wrote to stderr. It may contain whatever the program was given."""
        return self._tail.decode(errors="replace")

    async def send(self, line: bytes) -> None:
        """Raises ConnectionError when the program no longer reads."""
        stream = self._process.stdin
        assert stream is not None
        if stream.is_closing():  # uvloop's closed pipe would raise RuntimeError
            raise ConnectionResetError("the program no longer reads")
        stream.write(line + b"\n")
        await stream.drain()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        stream = self._process.stdout
        assert stream is not None
        kept = bytearray()
        while piece := await stream.read(_PIECE):
            *ended, rest = piece.split(b"\n")
            for end in ended:
                self._keep(kept, end)
                yield bytes(kept)
                kept.clear()
            self._keep(kept, rest)
        self.broken_off = True

    def _keep(self, kept: bytearray, more: bytes) -> None:
        if len(kept) + len(more) > self._max_line:
            self.broken_off = True
            raise LineTooLong("OUTSIDE_TOO_LARGE", f"a program wrote a line of more than {self._max_line} bytes")
        kept += more

    async def _listen(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while piece := await stream.read(_PIECE):
            self._tail += piece
            del self._tail[:-_TAIL]

    async def end(self, courtesy: float = _COURTESY) -> None:
        """Leaves neither the program nor a child of its process group behind. `courtesy` is the time, in
        seconds, that it has to end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        # Whoever is blocked on a full pipe cannot read that its input has ended.
        drain = asyncio.create_task(self._drain())
        try:
            for patience, then in ((courtesy, signal.SIGTERM), (_TERM, signal.SIGKILL), (_REAP, None)):
                exited = asyncio.create_task(self._process.wait())
                done, _ = await asyncio.wait({exited}, timeout=patience)
                exited.cancel()
                if done or then is None:
                    break
                self._signal(then)
        finally:
            self._signal(signal.SIGKILL)  # children that outlived it
            # Its last words are often why it ended; somebody who kept the pipe open must not keep us.
            await asyncio.wait({drain, self._listening}, timeout=_TERM)
            for task in (drain, self._listening):
                task.cancel()
            transport = getattr(self._process, "_transport", None)  # nothing public closes the pipes
            if transport is not None:
                transport.close()

    async def _drain(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        # Its reader has been asked to stop but may not have stopped yet; then there is nothing to drain.
        with contextlib.suppress(RuntimeError):
            while await stream.read(_PIECE):
                pass

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
