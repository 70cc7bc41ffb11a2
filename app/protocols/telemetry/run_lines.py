"""The server's log about runs: one line when a run is first claimed, one when it waits for somebody, one at its end.

Lines are made of committed events only, hold ids, names and numbers and never what was said, and are written a moment
after the commit that they report, so that no commit waits for a log. Leaves to others: redaction and the form of a
line (`core.logs`), counting (`meters`).
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

import structlog

from app.core.json import present
from app.events.envelope import Event
from app.protocols.telemetry.open_runs import OpenRun

MAX_WAITING: Final = 10_000
"""Lines that wait to be written; what is above is counted and said in one line."""
_BATCH: Final = 20

log = structlog.get_logger("holdfast.runs")


class RunLines:
    def __init__(self) -> None:
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._lost = 0
        self._scheduled = False
        self._log = log.bind()  # once, as the process has configured it, instead of for each line
        self.wanted: Final[bool] = self._log.is_enabled_for(logging.INFO)
        """Whether lines of this level are written at all; if not, none need be made."""

    def started(self, event: Event, run: OpenRun) -> None:
        self._add("run.started", _ids(event, run))

    def waits(self, event: Event, run: OpenRun | None, kind: str, interrupt_id: str) -> None:
        self._add("run.waiting", _ids(event, run) | {"interrupt": interrupt_id, "kind": kind})

    def ended(self, event: Event, run: OpenRun | None, status: str, code: str | None) -> None:
        payload: dict[str, Any] = _ids(event, run) | {"status": status, "code": code}
        if run is not None:
            worked = run.worked_ms(event.at)
            payload |= {"input_tokens": run.input_tokens, "output_tokens": run.output_tokens}
            if run.started_at is not None:
                payload["seconds"] = max(0, event.at - run.started_at) / 1000
            if worked is not None:
                payload["worked_seconds"] = worked / 1000
        self._add("run.ended", payload)

    def flush(self) -> None:
        """Write what waits; for the end of the process."""
        while self._waiting:
            self._write()

    def _add(self, name: str, payload: dict[str, Any]) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._lost += 1
            return
        self._waiting.append((name, payload))
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._some)

    def _some(self) -> None:
        """A few at a time: a burst of runs must not hold up the loop with their lines."""
        self._scheduled = False
        self._write()
        if self._waiting:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._some)

    def _write(self) -> None:
        for _ in range(min(_BATCH, len(self._waiting))):
            name, payload = self._waiting.popleft()
            self._log.info(name, **present(payload))
        if self._lost and not self._waiting:
            self._log.warning("run.lines_lost", lines=self._lost)
            self._lost = 0


def _ids(event: Event, run: OpenRun | None) -> dict[str, Any]:
    return {
        "run": event.run_id,
        "thread": event.thread_id,
        "tenant": event.tenant,
        "agent": None if run is None else run.agent,
        "parent": None if run is None else run.parent,
    }
