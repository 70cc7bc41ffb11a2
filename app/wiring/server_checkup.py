"""The checks of `holdfast doctor` for a running server, which answers them at `/api/doctor`.

They compile the workspace and wait for other machines, so they are done in a thread of their own, by one caller at a
time, and the result is kept for a while. Leaves to others: the checks (`checkup`).
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from app.core.clock import Clock, iso
from app.core.json import JsonObject
from app.core.settings import Settings
from app.wiring.checkup import CheckResult, examine

KEPT_MS: Final = 10_000
"""Whoever asks sooner gets the same answer: asking often costs nothing."""
MAX_SECONDS: Final = 30.0


class ServerCheckup:
    def __init__(self, settings: Settings, environ: Mapping[str, str], clock: Clock) -> None:
        self._settings, self._environ, self._clock = settings, environ, clock
        self._lock = asyncio.Lock()
        self._known: tuple[int, JsonObject] | None = None

    async def report(self) -> JsonObject:
        async with self._lock:
            if self._known is None or self._clock.now_ms() - self._known[0] >= KEPT_MS:
                found = await asyncio.to_thread(asyncio.run, self._examine())
                now = self._clock.now_ms()
                bad = any(one.level == "wrong" for one in found)
                answer: JsonObject = {"ok": not bad, "checkedAt": iso(now), "findings": [it.as_json() for it in found]}
                self._known = (now, answer)
            return self._known[1]

    async def _examine(self) -> list[CheckResult]:
        try:
            async with asyncio.timeout(MAX_SECONDS):
                return await examine(self._settings, self._environ)
        except TimeoutError:
            message = f"the checks took longer than {MAX_SECONDS:.0f} s"
            return [CheckResult("doctor", "wrong", message, "Run `holdfast doctor` on the server's machine.")]
