"""The workspace that a server runs: loaded, recorded in the ledger, followed by everything that depends on it."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Final

import structlog

from app.backends.contract import Backend
from app.bus.replicas import Replicas
from app.core.clock import Clock
from app.core.errors import HoldfastError
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.ports import Appended, StorageFull
from app.policy.personal_data import without_personal_data
from app.policy.redaction import CurrentRedaction, secret_values
from app.protocols.telemetry.sinks import Sinks
from app.runtime.intake.ledger import Ledger
from app.runtime.narration_queue import NarrationQueue
from app.runtime.workspaces import CurrentWorkspace, WorkspaceStatus
from app.store.workspaces import WorkspaceTable
from app.wiring.kinds import (
    Backends,
    narrator,
    package_narrator,
)
from app.wiring.store import Store
from app.workspace.catalog import KindCatalog

KEPT_AT_LOAD_BYTES: Final = 4 * 1024 * 1024
"""A larger workspace is kept when the first run uses it: storing it would delay the start."""

log = structlog.get_logger("holdfast.wiring")


async def load_workspace(
    settings: Settings,
    store: Store,
    catalog: KindCatalog,
    backends: Mapping[str, Backend],
    clock: Clock,
    redaction: CurrentRedaction,
    ledger: Ledger,
    replicas: Replicas | None,
    narration: NarrationQueue,
    sent: Sinks,
) -> CurrentWorkspace:
    """The workspace, recorded in the ledger and followed by the redaction; without a valid one nothing starts."""

    async def follow() -> None:
        runtime = workspace.current.runtime
        if isinstance(backends, Backends):
            new = backends.not_made(agent.spec.backend for agent in workspace.current.agents.values())
            if new:
                await asyncio.to_thread(backends.prepare, new)
        redaction.follow(runtime.redaction.kinds, secret_values(os.environ, runtime.env))
        chosen = runtime.progress.narration
        store.recorder.narrator = narrator(chosen)
        narration.follow(package_narrator(chosen), chosen.provider, chosen.style)
        hide = without_personal_data if runtime.redaction.in_traces else None
        await sent.follow(runtime.telemetry.sinks, runtime.redaction.trace_fields, hide)

    async def loaded(status: WorkspaceStatus) -> None:
        await follow()
        current = workspace.current
        with _unless_full("workspace.loaded"):
            # Before the others hear of it: they load it from there. A small one is kept on SQLite too, to be compared.
            if settings.is_postgres or current.files.size <= KEPT_AT_LOAD_BYTES:
                await WorkspaceTable(store.database).put(current.digest, current.files.contents())
            answer = await ledger.record(DEFAULT_TENANT, status.loaded_event(len(current.agents)))
            if isinstance(answer, Appended):
                workspace.recorded_seq = answer.events[-1].seq
        if replicas is not None:
            replicas.say_workspace()

    async def rejected(status: WorkspaceStatus) -> None:
        with _unless_full("workspace.rejected"):
            await ledger.record(DEFAULT_TENANT, status.rejected_event())

    workspace = CurrentWorkspace(
        settings.workspace, catalog, clock, profile=settings.profile, on_loaded=loaded, on_rejected=rejected
    )
    workspace.on_adopted = follow
    if (await workspace.reload()).digest is None:
        assert workspace.status.rejected is not None
        mistakes = workspace.status.rejected.as_text(colour=False)
        raise HoldfastError("WORKSPACE_INVALID", f"the workspace cannot be loaded:\n{mistakes}")
    return workspace


@contextlib.contextmanager
def _unless_full(event: str) -> Iterator[None]:
    """A server on a full disk starts and serves reads; what it would have recorded is in its log at least."""
    try:
        yield
    except StorageFull as full:
        log.warning("storage.event_lost", event_type=event, code=full.code)
