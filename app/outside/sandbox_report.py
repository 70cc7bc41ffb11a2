"""What the sandbox of this machine is made of: looked up once after the start, for the log, `/readyz` and `doctor`.

Leaves to `process`: the sandbox itself, and refusing to run a program without a part of it that is required.
"""

import asyncio
from typing import Final

import structlog

from app.core.errors import HoldfastError
from app.core.json import JsonObject
from app.outside.process import MISSING, SandboxStatus, probe

log = structlog.get_logger("holdfast.sandbox")


_LOOKS: Final = 3
_LOOK_SECONDS: Final = 10.0
"""For each look, whatever becomes of it, so that readiness always says something."""

_known: SandboxStatus | None = None


async def sandbox_status() -> SandboxStatus:
    """Takes about as long as a program takes to start, once for each process."""
    global _known
    if _known is None:
        try:
            _known = await probe()
        except (HoldfastError, OSError) as error:
            # Nothing can be started in it, or not in time; the next one who asks tries again.
            log.warning("sandbox.broken", error=str(error))
            return SandboxStatus(missing=tuple(MISSING))
    return _known


class SandboxReport:
    def __init__(self) -> None:
        self.status: SandboxStatus | None = None
        """None until it is known."""
        self._looks: set[asyncio.Task[SandboxStatus]] = set()

    async def look(self) -> None:
        status = self.status = await self._tried()
        if status.missing:
            meaning = [MISSING[name] for name in status.missing]
            log.warning("sandbox.incomplete", missing=list(status.missing), uses=list(status.uses), meaning=meaning)
        else:
            log.info("sandbox.complete", uses=list(status.uses))

    async def _tried(self) -> SandboxStatus:
        for _ in range(_LOOKS):
            look = asyncio.create_task(sandbox_status())
            self._looks.add(look)  # one that hangs is left alone: waiting for its end would be hanging too
            if (await asyncio.wait({look}, timeout=_LOOK_SECONDS))[0]:
                return look.result()
        log.warning("sandbox.broken", error=f"no program could be tried in it within {_LOOK_SECONDS:g} s")
        return SandboxStatus(missing=tuple(MISSING))

    def as_json(self) -> JsonObject | None:
        """For whoever asks without credentials: how much there is and what is not, not what it is made of."""
        if self.status is None:
            return None
        return {"level": self.status.level, "missing": list(self.status.missing)}
