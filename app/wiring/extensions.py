"""Puts the extensions together: where they are, whom they may ask, and the set that is in use."""

from typing import Protocol

from app.core.clock import Clock
from app.core.settings import Settings
from app.extensions.actions import ExtensionActions
from app.extensions.loader import ExtensionLoader, TrustPolicy, installed_folders
from app.extensions.registry import ExtensionRegistry
from app.runtime.automation.follower import LogFollower
from app.runtime.automation.session_jobs import SessionJobs
from app.runtime.intake.commands import Commands
from app.runtime.intake.interrupts import InterruptAnswers
from app.runtime.intake.ledger import Ledger
from app.runtime.intake.ports import RunClient
from app.runtime.intake.threads import Threads
from app.runtime.workspaces import CurrentWorkspace
from app.wiring.kinds import installed_points
from app.wiring.store import Store


class ActionDesks(Protocol):
    """What of the intake an extension's actions go through."""

    @property
    def service(self) -> RunClient: ...

    @property
    def threads(self) -> Threads: ...

    @property
    def interrupts(self) -> InterruptAnswers: ...

    @property
    def commands(self) -> Commands: ...


def make_actions(store: Store, intake: ActionDesks, workspace: CurrentWorkspace, clock: Clock) -> ExtensionActions:
    jobs = SessionJobs(intake.service, store.reader, workspace)
    return ExtensionActions(store.reader, intake.threads, intake.interrupts, intake.commands, jobs, clock)


async def open_extensions(
    settings: Settings,
    store: Store,
    actions: ExtensionActions,
    workspace: CurrentWorkspace,
    follower: LogFollower,
    ledger: Ledger,
    clock: Clock,
) -> ExtensionRegistry:
    def trust() -> TrustPolicy:
        declared = workspace.current.runtime.trust
        return TrustPolicy(declared.extensions, frozenset(declared.digests))

    loader = ExtensionLoader(
        settings.workspace, settings.data_dir, trust, lambda: installed_folders(installed_points())
    )
    registry = ExtensionRegistry(loader, follower, store.recorder, store.reader, actions, ledger, clock)
    await registry.start()
    return registry
