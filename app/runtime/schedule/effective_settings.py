"""The limits that count now: the loaded workspace's values below the ceilings of the server's settings.

Of a setting and a workspace's value the smaller counts; where only one is given, that one does. Each value is read when
it is needed, so a reloaded workspace takes effect at once. Leaves to others: applying the limits.
"""

from typing import Final, TypeVar

from app.core.settings import Settings
from app.runtime.schedule.queue import QueueLimits
from app.runtime.workspaces import CurrentWorkspace
from app.workspace.compiled import CompiledWorkspace

N = TypeVar("N", int, float)

DAY_MS: Final = 86_400_000


class EffectiveSettings:
    def __init__(self, settings: Settings, workspace: CurrentWorkspace) -> None:
        self._settings, self._workspace = settings, workspace
        # What is asked for at each run is worked out once for a workspace.
        self._seen: CompiledWorkspace | None = None
        self._queue = QueueLimits()
        self._of_agent: dict[str, int | None] = {}
        self._per_minute: int | None = None

    def queue_limits(self) -> QueueLimits:
        current = self._workspace.current
        if current is not self._seen:
            self._look_at(current)
        return self._queue

    def runs_of_agent(self, name: str) -> int | None:
        """How many runs of the agent may work at once; None for as many as there are places."""
        current = self._workspace.current
        if current is not self._seen:
            self._look_at(current)
        if name in self._of_agent:
            return self._of_agent[name]
        agent, per_agent = current.acting(name), current.runtime.concurrency.per_agent
        if agent is None:
            return per_agent
        limit = self._of_agent[name] = _least(agent.spec.concurrency, per_agent)
        return limit

    def _look_at(self, current: CompiledWorkspace) -> None:
        given, ceilings = current.runtime.concurrency, self._settings
        self._queue = QueueLimits(
            running=_at_most(given.runs, ceilings.max_concurrent_runs),
            waiting=ceilings.max_queued_runs,
            waiting_per_tenant=ceilings.max_queued_runs_per_tenant,
            running_per_tenant=_least(given.per_tenant, ceilings.max_concurrent_runs_per_tenant),
        )
        of_tenant = current.runtime.budgets.tenant.runs_per_minute
        self._per_minute = _least(of_tenant, ceilings.max_runs_per_minute_per_tenant)
        self._seen, self._of_agent = current, {}

    @property
    def queue_per_thread(self) -> int:
        """Active and waiting runs of one thread."""
        return _at_most(
            self._workspace.current.runtime.concurrency.queue_per_thread, self._settings.max_queued_runs_per_thread
        )

    @property
    def runs_per_minute(self) -> int | None:
        """New runs of one tenant."""
        current = self._workspace.current
        if current is not self._seen:
            self._look_at(current)
        return self._per_minute

    @property
    def deleted_days(self) -> int:
        """Days until something deleted is purged."""
        return _at_most(self._workspace.current.runtime.retention.deleted_days, self._settings.retention_deleted_days)

    @property
    def threads_days(self) -> int | None:
        """Days without an event until a thread is deleted; None for never."""
        return _least(self._workspace.current.runtime.retention.threads_days, self._settings.retention_threads_days)

    @property
    def delta_days(self) -> int | None:
        """Days after a run's end until the deltas of its messages are dropped; None for never."""
        return _least(self._workspace.current.runtime.retention.delta_days, self._settings.retention_delta_days)

    @property
    def drain_seconds(self) -> float:
        """What running runs have to end when the server stops."""
        return _at_most(self._workspace.current.runtime.drain_seconds, self._settings.drain_seconds)


def _at_most(given: N | None, ceiling: N) -> N:
    return ceiling if given is None else min(given, ceiling)


def _least(given: int | None, ceiling: int | None) -> int | None:
    if given is None or ceiling is None:
        return ceiling if given is None else given
    return min(given, ceiling)
