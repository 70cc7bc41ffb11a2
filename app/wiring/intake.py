"""What clients ask for, over one scheduler."""

from collections.abc import Container

from app.core.clock import Clock
from app.core.signing import Signer
from app.core.value import value
from app.runtime.intake.amendments import AmendmentDesk
from app.runtime.intake.cancel_events import CancelEvents
from app.runtime.intake.commands import Commands
from app.runtime.intake.interrupts import InterruptAnswers
from app.runtime.intake.lifecycle import Lifecycle
from app.runtime.intake.ports import Drainable
from app.runtime.intake.reruns import Reruns
from app.runtime.intake.run_rates import RunRates
from app.runtime.intake.service import Service
from app.runtime.intake.threads import Threads
from app.runtime.schedule.effective_settings import EffectiveSettings
from app.runtime.scheduler import Scheduler
from app.runtime.workspaces import WorkspaceHistory
from app.store.shared_limits import RunBuckets
from app.wiring.store import Store


@value(frozen=True, slots=True)
class Intake:
    service: Service
    lifecycle: Lifecycle
    commands: Commands
    reruns: Reruns
    threads: Threads
    amendments: AmendmentDesk
    interrupts: InterruptAnswers


def build_intake(
    store: Store,
    clock: Clock,
    history: WorkspaceHistory,
    backends: Container[str],
    effective: EffectiveSettings,
    signer: Signer,
    scheduler: Scheduler,
    workers: Drainable,
) -> Intake:
    recorder, reader = store.recorder, store.reader
    shared = RunBuckets(store.database) if store.settings.is_postgres else None
    rates = RunRates(lambda: effective.runs_per_minute, clock, shared)
    cancel_events = CancelEvents(reader, reader)
    service = Service(
        recorder,
        reader,
        clock,
        history,
        backends,
        scheduler,
        cancel_events,
        rates,
        lambda: effective.queue_per_thread,
    )
    threads = Threads(recorder, reader, scheduler)
    return Intake(
        service=service,
        lifecycle=Lifecycle(recorder, reader, cancel_events, scheduler, workers),
        commands=Commands(recorder, reader, history, scheduler),
        reruns=Reruns(service, threads, reader, history, signer, clock),
        threads=threads,
        amendments=AmendmentDesk(recorder, reader),
        interrupts=InterruptAnswers(recorder, reader, scheduler),
    )
