"""A server process that is kept running as systemd or Kubernetes would, with its own way to the database and the bus.

A process that a fault ended is started again at once. One that ends by itself is started again after a second if it
said that the database was away and a fault had taken it away; so often in a minute at most. Anything else is written
down, and fails the test. Leaves to others: what befalls it (`fleet`).
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.processes import Child, started
from tests.faults.replicas.proxy import FaultyProxy

START_SECONDS: Final = 90.0
"""Three at once, cold, on a busy machine."""
LIFE_SECONDS: Final = 36_000.0
STOP_SECONDS: Final = 30.0
"""After SIGTERM; then it is killed, as whoever stops services does. Requests may take ten seconds after the drain."""
AGAIN_SECONDS: Final = 1.0
"""`RestartSec` of `deploy/systemd/holdfast.service`."""
MAX_STARTS: Final = 10
"""In a minute, of a server that gives up by itself: a server that never comes up is not kept running for ever."""
AFTERMATH_SECONDS: Final = 10.0
"""How long after a fault of the database a server may have seen nothing but it: a restart is over by then."""


@dataclass(slots=True)
class Kept:
    """What it took to keep the servers running."""

    restarts: int = 0
    """Of servers that gave up because the database was away."""
    killed: int = 0
    """Servers that did not stop in time when they were asked to."""
    ending: dict[str, list[float]] = field(default_factory=lambda: {"kill": [], "drain": []})
    """Seconds that servers took to end when they were told to."""
    starting: list[float] = field(default_factory=list)
    """Seconds from a start until the server listened."""
    wrong: list[str] = field(default_factory=list)
    """Servers that ended by themselves for any other reason."""

    def assert_sound(self) -> None:
        assert not self.wrong, "\n".join(self.wrong)


class Replica:
    def __init__(
        self,
        data: Path,
        variables: Mapping[str, str],
        kept: Kept,
        to_database: FaultyProxy,
        to_bus: FaultyProxy | None = None,
        on_up: Callable[[str], None] = lambda url: None,
    ) -> None:
        """`on_up` is called with the address of each process that listens."""
        self._data, self._variables, self._kept, self._on_up = data, variables, kept, on_up
        self.to_database, self.to_bus = to_database, to_bus
        self.up = asyncio.Event()
        """It listens."""
        self.child: Child | None = None
        self._ended_by: signal.Signals | None = None
        self._ended_at = 0.0
        self._disturbed_at = float("-inf")
        self._gave_up = deque[float](maxlen=MAX_STARTS)
        self._keeping: asyncio.Task[None] | None = None
        self._time = asyncio.get_running_loop().time

    def start(self) -> None:
        self._keeping = asyncio.create_task(self._keep_running())

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping

    async def is_up(self) -> None:
        """Returns when it listens. Fails at once if nobody starts it any more."""
        assert self._keeping is not None
        waiting = asyncio.create_task(self.up.wait())
        try:
            async with asyncio.timeout(START_SECONDS + STOP_SECONDS):
                await asyncio.wait([waiting, self._keeping], return_when=asyncio.FIRST_COMPLETED)
            if self._keeping.done():
                self._keeping.result()
                self._kept.assert_sound()
        finally:
            waiting.cancel()

    def disturb(self) -> None:
        """Its database was out of reach, or is from now on."""
        self._disturbed_at = self._time()

    def end(self, number: signal.Signals) -> None:
        """Another process of it is on its way when this returns."""
        assert self.child is not None and self.up.is_set()
        self._ended_by, self._ended_at = number, self._time()
        self.up.clear()
        self.child.signal(number)
        if number != signal.SIGKILL:
            asyncio.get_running_loop().call_later(STOP_SECONDS, self._lose_patience, self.child)

    def _lose_patience(self, child: Child) -> None:
        if child is self.child and self._ended_by is not None:
            self._kept.killed += 1
            child.signal(signal.SIGKILL)

    # -- keeping it running ----------------------------------------------------------------------------

    async def _keep_running(self) -> None:
        while await self._live():
            pass

    async def _live(self) -> bool:
        """One process from its start to its end. Whether another one is to follow."""
        began = self._time()
        self._nobody_ended_it()
        arguments = ("serve", "--port", "0", "--data-dir", str(self._data))
        async with started("app.main", *arguments, variables=self._variables) as child:
            self.child = child
            try:
                self._on_up(await child.line("listening on ", START_SECONDS))
            except AssertionError:  # it gave up
                code = await child.end()
                return await self._is_excused(code, child.said, began)
            except TimeoutError:
                stacks = await asyncio.to_thread(_stacks, child.pid)
                words = f"{_last_words(child.said)}\n{stacks}"
                self._kept.wrong.append(f"not listening after {START_SECONDS:.0f} s:\n{words}")
                return False
            self._kept.starting.append(self._time() - began)
            self.up.set()
            code = await child.end(LIFE_SECONDS)
            self.up.clear()
            self.child = None
        if self._ended_by is None:
            self._kept.wrong.append(f"ended by itself with {code}:\n{_last_words(child.said)}")
            return False
        kind = "kill" if self._ended_by == signal.SIGKILL else "drain"
        self._kept.ending[kind].append(self._time() - self._ended_at)
        if kind == "drain" and code not in (0, -signal.SIGKILL):
            self._kept.wrong.append(f"stopped with {code}:\n{_last_words(child.said)}")
        return not self._kept.wrong

    def _nobody_ended_it(self) -> None:
        self._ended_by = None

    async def _is_excused(self, code: int, said: str, began: float) -> bool:
        now = self._time()
        away = self._disturbed_at > began - AFTERMATH_SECONDS
        often = len(self._gave_up) == MAX_STARTS and now - self._gave_up[0] < 60
        if code != 1 or "STORAGE_DOWN: " not in said or not away or often:
            why = " too often" if often else ""
            self._kept.wrong.append(f"gave up{why} with {code} after {now - began:.1f} s:\n{_last_words(said)}")
            return False
        self._kept.restarts += 1
        self._gave_up.append(now)
        await asyncio.sleep(AGAIN_SECONDS)  # as the service's unit says
        return True


def _stacks(pid: int) -> str:
    """Where the process stands, where the program that shows it is installed."""
    program = Path(sys.executable).with_name("py-spy")
    if not program.exists():
        return ""
    command = [str(program), "dump", "--pid", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout


def _last_words(said: str) -> str:
    return "\n".join(said.splitlines()[-15:])
