"""Submits the runs of schedules, once for each due time on any number of servers, and what clients ask of schedules.

Every server looks at every schedule; that a due time fires once is a condition of the append that stores its run. Where
a schedule stands is stored after its run, so a crash in between fires nothing twice. Leaves to `due_times`: when.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

import structlog

from app.core import json
from app.core.clock import Clock, iso
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.value import value
from app.events.catalog.ledger import ScheduleChanged
from app.events.catalog.thread import ThreadUpdated
from app.events.ports import KeyUnused, ScheduleStored, StoreError
from app.runtime.automation.due_times import due_after, due_between, next_due
from app.runtime.intake.ledger import Ledger
from app.runtime.intake.ports import RunClient, RunLifecycle
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import SCHEDULED, JobRequest, Submission, Taken
from app.views.ports import JobFilter, Reader
from app.views.run import Run
from app.views.schedule import ScheduledWith, Schedules, ScheduleState
from app.workspace.compiled import CompiledWorkspace
from app.workspace.specs.others import ScheduleSpec

GRACE_MS: Final = 60_000
"""A due time that is older was missed."""
MAX_SLEEP_SECONDS: Final = 2.0
"""How soon a schedule is noticed that another server or a new workspace brought."""
KEY_LIFETIME_MS: Final = 400 * 24 * 3600 * 1000
MAX_SCHEDULES: Final = 1000
"""Of all tenants that clients made."""
_ACTIVE_LOOKED: Final = 20
_TRY_AGAIN: Final = frozenset({"SERVER_BUSY", "TENANT_BUSY", "RATE_LIMITED", "TENANT_RATE_LIMITED", "QUEUE_FULL"})

log = structlog.get_logger("holdfast.schedules")


@value(frozen=True, slots=True)
class Schedule:
    tenant: str
    name: str
    spec: ScheduleSpec
    declared: bool
    state: ScheduleState | None
    attached: ScheduledWith | None = None

    @property
    def active(self) -> bool:
        return self.spec.enabled and not (self.state is not None and self.state.paused)


class ScheduleDesk:
    def __init__(
        self,
        table: Schedules,
        client: RunClient,
        lifecycle: RunLifecycle,
        reader: Reader,
        ledger: Ledger,
        clock: Clock,
        workspace: Callable[[], CompiledWorkspace | None],
    ) -> None:
        self._table, self._client, self._lifecycle = table, client, lifecycle
        self._reader, self._ledger, self._clock, self._workspace = reader, ledger, clock, workspace
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._fire_forever(), name="holdfast-schedules")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # -- firing ----------------------------------------------------------------------------------------

    async def _fire_forever(self) -> None:
        while True:
            self._news.clear()
            try:
                seconds = await self.tick()
            except StoreError as error:
                log.warning("schedules.store_failed", code=error.code)
                seconds = MAX_SLEEP_SECONDS
            except Exception:
                log.exception("schedules.failed")
                seconds = MAX_SLEEP_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(seconds, MAX_SLEEP_SECONDS)):
                    await self._news.wait()

    async def tick(self) -> float:
        """Fires whatever is due; seconds until the next due time."""
        now, soonest = self._clock.now_ms(), float("inf")
        for schedule in await self._all():
            try:
                await self._look_at(schedule, now)
                following = next(due_after(schedule.spec, now), None)
            except StoreError:
                raise
            except Exception:  # one that cannot be fired does not keep the others from it
                log.exception("schedule.failed", schedule=schedule.name)
                continue
            if following is not None:
                soonest = min(soonest, (following - now) / 1000)
        return soonest

    async def _look_at(self, schedule: Schedule, now: int) -> None:
        if schedule.state is None:
            # From now on: what was due before anybody knew the schedule was not missed.
            await self._table.add(ScheduleState(schedule.tenant, schedule.name, now))
        else:
            await self._fire_due(schedule, schedule.state, now)

    async def _fire_due(self, schedule: Schedule, state: ScheduleState, now: int) -> None:
        due = due_between(schedule.spec, state.cursor, round(min(now, _until(schedule))))
        if not due:
            return
        for one in _wanted(schedule, due, now) if schedule.active else ():
            fired = await self._fire(schedule, one)
            if isinstance(fired, Rejected) and fired.failure.code in _TRY_AGAIN:
                return  # its time is not dealt with: the next look tries again
            if isinstance(fired, Rejected):
                log.warning("schedule.not_fired", schedule=schedule.name, code=fired.failure.code)
            await self._table.advance(*_place(schedule), one, one, fired.id if isinstance(fired, Run) else None)
        await self._table.advance(*_place(schedule), due[-1], None, None)

    async def _fire(self, schedule: Schedule, due: int) -> Run | Rejected | None:
        """The run of a due time, now or earlier; None if an earlier run stands in its way."""
        if schedule.spec.overlap != "queue" and schedule.attached is None:
            running = [run for run in await self._running(schedule) if run.metadata.get("dueAt") != iso(due)]
            if running and schedule.spec.overlap == "skip":
                log.info("schedule.skipped", schedule=schedule.name, run=running[0].id)
                return None
            for run in running:
                await self._lifecycle.cancel(_principal(schedule), run.id, "its schedule was due again")
        taken = await self._submit(schedule, due)
        return taken.run if isinstance(taken, Taken) else taken

    async def _running(self, schedule: Schedule) -> list[Run]:
        wanted = JobFilter(type=_job_type(schedule.name))
        found, _ = await self._reader.list_jobs(schedule.tenant, wanted, None, _ACTIVE_LOOKED)
        return [run for run in found if not run.terminal]

    async def _submit(
        self, schedule: Schedule, due: int | None, more: Mapping[str, str] | None = None
    ) -> Taken | Rejected:
        spec, target, now = schedule.spec, schedule.spec.run, self._clock.now_ms()
        key = f"{schedule.name}\n{due}"

        def once(run_id: str) -> KeyUnused:
            return KeyUnused("schedules", key, "", run_id, now + KEY_LIFETIME_MS)

        # One after the other is what a thread does; otherwise each firing has a thread of its own.
        thread = f"schedule-{schedule.name}" if spec.overlap == "queue" else None
        its = schedule.attached or ScheduledWith(thread)
        labelled = ThreadUpdated(labels=dict(its.thread_labels)) if its.thread_labels else None
        wanted = Submission(
            agent=target.agent,
            workflow=target.workflow,
            tool=target.tool,
            input=target.input,
            thread_id=its.thread,
            create_thread=thread is not None,
            busy=its.busy,
            webhook=its.webhook,
            thread_change=labelled,
            metadata={
                **its.metadata,
                "schedule": schedule.name,
                **({} if due is None else {"dueAt": iso(due)}),
                **(more or {}),
            },
            labels={**its.labels, "schedule": schedule.name},
            job=JobRequest(
                type=_job_type(schedule.name),
                priority=target.priority,
                attempts=target.attempts,
                timeout_seconds=target.timeout_seconds,
            ),
            conditions=() if due is None else (once,),
        )
        return await self._client.enqueue(_principal(schedule), wanted)

    # -- what clients ask for ----------------------------------------------------------------------------

    async def of_tenant(self, tenant: str) -> list[Schedule]:
        return [one for one in await self._all() if one.tenant == tenant]

    async def find(self, tenant: str, name: str) -> Schedule | None:
        return next((one for one in await self._all() if (one.tenant, one.name) == (tenant, name)), None)

    async def create(
        self, who: Principal, name: str, document: Mapping[str, Any], attached: ScheduledWith | None = None
    ) -> Failure | None:
        """`document` is a valid spec; one that could never run anything is refused."""
        refused = await self._refusal(document)
        if refused is not None:
            return refused
        existing = await self._all()
        if any((one.tenant, one.name) == (who.tenant, name) for one in existing):
            return Failure("SCHEDULE_EXISTS", "There is a schedule with this name already.")
        if sum(not one.declared for one in existing) >= MAX_SCHEDULES:
            return Failure("SCHEDULE_LIMIT", f"There are {MAX_SCHEDULES} schedules already.")
        spec = json.dumps(dict(document))
        await self._changed(who, name, "created", spec, attached)
        made = await self.find(who.tenant, name)
        if made is not None and made.state is not None and made.state.spec != json.loads(spec):
            return Failure("SCHEDULE_EXISTS", "Somebody else created a schedule with this name a moment earlier.")
        return None

    async def change(
        self, who: Principal, name: str, document: Mapping[str, Any], attached: ScheduledWith | None
    ) -> Failure | None:
        """Another spec, a valid one; what was due before is dealt with."""
        found = await self.find(who.tenant, name)
        if found is None:
            return _unknown()
        if found.declared:
            return _declared()
        refused = await self._refusal(document)
        if refused is not None:
            return refused
        await self._changed(who, name, "changed", json.dumps({**document, "tenant": who.tenant}), attached)
        return None

    async def delete(self, who: Principal, name: str) -> Failure | None:
        found = await self.find(who.tenant, name)
        if found is None:
            return _unknown()
        if found.declared:
            return _declared()
        await self._changed(who, name, "deleted")
        return None

    async def pause(self, who: Principal, name: str, paused: bool) -> Schedule | Failure:
        """What becomes due while it is paused is not made up for."""
        found = await self.find(who.tenant, name)
        if found is None:
            return _unknown()
        await self._changed(who, name, "paused" if paused else "resumed")
        return await self.find(who.tenant, name) or _unknown()

    async def run_now(self, who: Principal, name: str) -> Run | Rejected:
        """A run besides the due times, whatever else is running."""
        found = await self.find(who.tenant, name)
        if found is None:
            return Rejected(_unknown())
        taken = await self._submit(found, None, {"requestedBy": who.actor})
        await self._ledger.record(who.tenant, ScheduleChanged(schedule=name, change="run"), actor=who.actor)
        return taken.run if isinstance(taken, Taken) else taken

    def next_times(self, schedule: Schedule, count: int) -> list[int]:
        found = next_due(schedule.spec, self._clock.now_ms(), count) if schedule.active else []
        return [due for due in found if due <= _until(schedule)]

    # -- within ------------------------------------------------------------------------------------------

    async def _refusal(self, document: Mapping[str, Any]) -> Failure | None:
        """Why a schedule of this spec would never run anything. What the workspace declares is checked with it."""
        spec = ScheduleSpec.model_validate_json(json.dumps(dict(document)))
        if spec.at is not None and next(due_after(spec, self._clock.now_ms()), None) is None:
            return Failure("INVALID_REQUEST", "spec.at: the time has passed, so the schedule would never be due")
        target = spec.run
        wanted = Submission(agent=target.agent, workflow=target.workflow, tool=target.tool, input=target.input)
        return await self._client.refusal(wanted)

    async def _all(self) -> list[Schedule]:
        """Those of the workspace, and those that clients made."""
        workspace = self._workspace()
        declared = workspace.schedules if workspace is not None else {}
        states = {(one.tenant, one.name): one for one in await self._table.all()}
        return list(self._joined(declared, states))

    def _joined(
        self, declared: Mapping[str, Any], states: Mapping[tuple[str, str], ScheduleState]
    ) -> Iterator[Schedule]:
        for name, named in declared.items():
            yield Schedule(named.spec.tenant, name, named.spec, True, states.get((named.spec.tenant, name)))
        for (tenant, name), state in states.items():
            if state.spec is not None and not (name in declared and declared[name].spec.tenant == tenant):
                spec = ScheduleSpec.model_validate_json(json.dumps(state.spec))
                attached = None if state.attached is None else ScheduledWith(**state.attached)
                yield Schedule(tenant, name, spec, False, state, attached)

    async def _changed(
        self,
        who: Principal,
        name: str,
        change: Any,
        spec: bytes | None = None,
        attached: ScheduledWith | None = None,
    ) -> None:
        """The change and the entry in the ledger are one commit."""
        extra = None if attached is None else json.dumps(asdict(attached))
        stored = ScheduleStored(name, change, self._clock.now_ms(), spec, extra)
        entry = ScheduleChanged(schedule=name, change=change)
        await self._ledger.record(who.tenant, entry, actor=who.actor, conditions=[stored])
        self._news.set()


def _wanted(schedule: Schedule, due: list[int], now: int) -> list[int]:
    """Which of the due times fire, by what the schedule says about missed ones."""
    if schedule.spec.missed == "all":
        return due
    if schedule.spec.missed == "once":
        return due[-1:]
    return [one for one in due[-1:] if one > now - GRACE_MS]


def _principal(schedule: Schedule) -> Principal:
    return Principal(f"schedule:{schedule.name}", schedule.tenant)


def _place(schedule: Schedule) -> tuple[str, str]:
    return schedule.tenant, schedule.name


def _job_type(name: str) -> str:
    return f"{SCHEDULED}{name}"


def _until(schedule: Schedule) -> float:
    until = None if schedule.attached is None else schedule.attached.until
    return float("inf") if until is None else until


def _declared() -> Failure:
    return Failure("SCHEDULE_DECLARED", "The schedule is declared by the workspace and is changed there.")


def _unknown() -> Failure:
    return Failure("SCHEDULE_NOT_FOUND", "There is no such schedule.")
