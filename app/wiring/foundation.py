"""What everything else in a server stands on: the store, who may use it, and the workspace."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Protocol, TypeVar

from app.backends.contract import Backend
from app.bus.replicas import Replicas
from app.core.clock import Clock, CorrectedClock
from app.core.settings import Settings
from app.core.signing import Signer, open_signer
from app.core.value import value
from app.outside.http import HttpClient
from app.policy.redaction import CurrentRedaction
from app.protocols.auth.access import Access
from app.protocols.auth.setup import open_access
from app.protocols.telemetry.sinks import Sinks
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import Ledger
from app.runtime.narration_queue import NarrationQueue
from app.runtime.schedule.effective_settings import EffectiveSettings
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory
from app.store.keys import StoredKeys
from app.store.workspaces import WorkspaceTable
from app.wiring.kinds import (
    http_client,
    sinks,
)
from app.wiring.replicas import make_replicas
from app.wiring.store import Store, open_keys, open_store
from app.wiring.workspace import load_workspace
from app.workspace.catalog import KindCatalog


class Closable(Protocol):
    async def close(self) -> None: ...


ClosableT = TypeVar("ClosableT", bound=Closable)


@value(frozen=True, slots=True)
class Foundation:
    settings: Settings
    clock: Clock
    redaction: CurrentRedaction
    store: Store
    replicas: Replicas | None
    signer: Signer
    keys: Keys
    ledger: Ledger
    access: Access
    client: HttpClient
    narration: NarrationQueue
    sinks: Sinks
    workspace: CurrentWorkspace
    history: WorkspaceHistory
    effective: EffectiveSettings


@contextlib.asynccontextmanager
async def open_foundation(
    settings: Settings,
    clock: CorrectedClock,
    redaction: CurrentRedaction,
    backends: Mapping[str, Backend],
    catalog: KindCatalog,
    bootstrap_token: str | None,
) -> AsyncIterator[Foundation]:
    async with contextlib.AsyncExitStack() as parts:
        store = await parts.enter_async_context(open_store(settings, clock=clock, redactor=redaction))
        parts.callback(store.hub.close_all)
        replicas = make_replicas(store, clock)
        if replicas is not None:
            await replicas.set_clock()
        signer = open_signer(settings)
        keys, ledger = open_keys(store, clock), Ledger(store.recorder)
        find_key = StoredKeys(store.database).find
        access = await parts.enter_async_context(
            open_access(settings, keys, find_key, ledger, clock, signer, bootstrap_token)
        )
        client = await parts.enter_async_context(closing(http_client(settings)))
        narration = await parts.enter_async_context(closing(NarrationQueue(store.recorder)))
        sent = await parts.enter_async_context(closing(Sinks(sinks())))
        workspace = await load_workspace(
            settings, store, catalog, backends, clock, redaction, ledger, replicas, narration, sent
        )
        history = WorkspaceHistory(workspace, catalog, WorkspaceTable(store.database))
        yield Foundation(
            settings=settings,
            clock=clock,
            redaction=redaction,
            store=store,
            replicas=replicas,
            signer=signer,
            keys=keys,
            ledger=ledger,
            access=access,
            client=client,
            narration=narration,
            sinks=sent,
            workspace=workspace,
            history=history,
            effective=EffectiveSettings(settings, workspace),
        )


@contextlib.asynccontextmanager
async def closing(part: ClosableT) -> AsyncIterator[ClosableT]:
    try:
        yield part
    finally:
        await part.close()
