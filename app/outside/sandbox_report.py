"""What the sandbox of this machine is made of: looked up once after the start, for the log, `/readyz` and `doctor`.

Leaves to `process`: the sandbox itself, and refusing to run a program without a part of it that is required.
"""

import structlog

from app.core.json import JsonObject
from app.outside.process import MISSING, SandboxStatus, probe

log = structlog.get_logger("holdfast.sandbox")


_known: SandboxStatus | None = None


async def sandbox_status() -> SandboxStatus:
    """Takes about as long as a program takes to start, once for each process."""
    global _known
    if _known is None:
        try:
            _known = await probe()
        except Exception as error:
            # Whatever it was, readiness has to say something; the next one who asks tries again.
            log.warning("sandbox.broken", error=f"{type(error).__name__}: {error}")
            return SandboxStatus(missing=tuple(MISSING))
    return _known


class SandboxReport:
    def __init__(self) -> None:
        self.status: SandboxStatus | None = None
        """None until it is known."""

    async def look(self) -> None:
        status = self.status = await sandbox_status()
        if status.missing:
            meaning = [MISSING[name] for name in status.missing]
            log.warning("sandbox.incomplete", missing=list(status.missing), uses=list(status.uses), meaning=meaning)
        else:
            log.info("sandbox.complete", uses=list(status.uses))

    def as_json(self) -> JsonObject | None:
        """For whoever asks without credentials: how much there is and what is not, not what it is made of."""
        if self.status is None:
            return None
        return {"level": self.status.level, "missing": list(self.status.missing)}
