"""Runs pure cases in worker processes, ends those that take too long, and makes a failing case smaller."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from tests.faults.cost.case import BYTES, SECONDS, Verdict
from tests.server import ROOT, clean_environment

_TICK: Final = 0.2
_START_SECONDS: Final = 60.0
_WALL_SECONDS: Final = 60.0
"""A worker that neither works nor ends is stuck."""
_SMALLEST: Final = 1 / 64
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What a process has used so far, in all its threads."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


class Watch:
    """A worker for as long as the block lasts; one that dies is replaced."""

    def __init__(self) -> None:
        self._worker: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def run(self, name: str, seed: int, scale: float = 1.0) -> Verdict:
        if self._worker is None:
            self._start()
        worker = self._worker
        assert worker is not None and worker.stdin is not None
        worker.stdin.write(f"{name} {seed} {scale}\n".encode())
        worker.stdin.flush()
        made = self._line(lambda waited: waited > _START_SECONDS)
        assert made is not None, f"the case {name} {seed} could not be made"
        before = processor_seconds(worker.pid)
        done = self._line(
            lambda waited: waited > _WALL_SECONDS or processor_seconds(worker.pid) - before > 1.5 * SECONDS
        )
        if done is None:
            seconds = max(0.0, processor_seconds(worker.pid) - before)
            code = worker.poll()
            self._end()
            problem = f"took more than {SECONDS:g} s" if code is None else f"the process died of {-code}"
            return Verdict(name, seed, made["attack"], seconds, 0, "", problem, scale)
        problem = done["problem"]
        if not problem and done["seconds"] > SECONDS:
            problem = f"took more than {SECONDS:g} s"
        if not problem and done["peak"] > BYTES:
            problem = f"took more than {BYTES >> 20} MB"
        if problem:
            self._end()  # whatever it left behind must not count against the next case
        return Verdict(name, seed, made["attack"], done["seconds"], done["peak"], done["end"], problem, scale)

    def smallest(self, failed: Verdict) -> Verdict:
        """The same case with half of everything, as often as it still fails."""
        while failed.scale > _SMALLEST:
            smaller = self.run(failed.name, failed.seed, failed.scale / 2)
            if not smaller.problem:
                break
            failed = smaller
        return failed

    def _start(self) -> None:
        self._rest = b""
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.cost.worker"], cwd=ROOT, env=clean_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self, is_over: Callable[[float], bool]) -> dict[str, Any] | None:
        """The worker's next line, None when it died or its time is over."""
        assert self._worker is not None and self._worker.stdout is not None
        pipe, started = self._worker.stdout.fileno(), time.monotonic()
        while b"\n" not in self._rest:
            if select.select([pipe], [], [], _TICK)[0]:
                data = os.read(pipe, 65_536)
                if not data:
                    self._worker.wait()
                    return None
                self._rest += data
            elif is_over(time.monotonic() - started):
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        made: dict[str, Any] = json.loads(line)
        return made


def run_all(cases: Iterable[tuple[str, int]], *, at_most: int = 20) -> list[Verdict]:
    """The verdict of every case; failed ones are made smaller. Stops after some failures: each costs seconds."""
    verdicts: list[Verdict] = []
    failed = 0
    with Watch() as watch:
        for name, seed in cases:
            verdict = watch.run(name, seed)
            if verdict.problem:
                failed += 1
                verdict = watch.smallest(verdict)
            verdicts.append(verdict)
            if failed == at_most:
                break
    return verdicts
