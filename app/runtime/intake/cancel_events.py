"""What is recorded when runs are cancelled: the command, their open questions, their subagents, their end."""

from app.core.ids import new_id
from app.events.catalog import execution, request
from app.events.catalog.interrupt import InterruptExpired
from app.events.recorder import PayloadEntry, Scope
from app.runtime.job_events import job_ended
from app.runtime.ports import OpenChildren
from app.views.ports import Reader
from app.views.run import Run
from app.views.thread import Thread


def cancel_command(*, rollback: bool = False) -> execution.CommandInjected:
    arguments = {"rollback": True} if rollback else {}
    return execution.CommandInjected(command="cancel", command_id=new_id("step"), arguments=arguments)


class CancelEvents:
    def __init__(self, reader: Reader, children: OpenChildren) -> None:
        self._reader, self._children = reader, children

    async def left_open(self, tenant: str, run: Run) -> list[PayloadEntry]:
        """The ends of a run's open questions and of its subagents, which go into the commit that ends the run."""
        asked = [PayloadEntry(InterruptExpired(interrupt_id=asked), run_id=run.id) for asked in run.waiting_on]
        if run.started_at is None:
            return asked
        children = await self._children.open_children(tenant, run.thread_id, run.id)
        ended = request.RequestCancelled(reason="its parent ended")
        return [*asked, *(PayloadEntry(ended, run_id=child) for child in children)]

    async def of_active_runs(self, scope: Scope, *, rollback: bool) -> tuple[list[PayloadEntry], list[str], list[str]]:
        """The events that end the thread's active runs; which of those runs nobody works on, and which somebody."""
        found = await self._reader.thread(scope.tenant, scope.thread_id)
        ending: list[PayloadEntry] = []
        unclaimed: list[str] = []
        claimed: list[str] = []
        for run_id in found.active if isinstance(found, Thread) else ():
            run = await self._reader.run(scope.tenant, run_id)
            if run is None or run.terminal:
                continue
            if run.cancel_requested_at is None or rollback:
                ending.append(PayloadEntry(cancel_command(rollback=rollback), run_id=run_id))
            if run.status == "running":
                claimed.append(run_id)
            else:
                unclaimed.append(run_id)
                ended = request.RequestCancelled(reason="another run took its place", by=scope.actor)
                ends = [*job_ended(run, ended), ended]
                ending += await self.left_open(scope.tenant, run)
                ending += [PayloadEntry(end, run_id=run_id) for end in ends]
        return ending, unclaimed, claimed
