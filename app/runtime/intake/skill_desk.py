"""Skill candidates of a tenant: found in its runs, recorded once, accepted by a person.

Accepting records the decision and hands out the file; whoever accepts writes it into the workspace. Leaves to the
memory room: what a candidate is.
"""

from collections.abc import Callable
from typing import Any, Final

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog.memory import MEMORY_THREAD
from app.events.catalog.skill import SkillCandidateCreated
from app.events.catalog.tool import ToolResulted
from app.memory.record_log import RecordLog
from app.memory.skill_candidates import CompletedRun, SkillCandidate, collapsed, skill_candidates, skill_file
from app.policy.points import text_of
from app.views.ports import Reader, RunFilter, RunPlace

MAX_RUNS: Final = 500
"""Of the newest completed runs that are looked at."""
_PAGE: Final = 100
_LATEST: Final = 2**62


class SkillDesk:
    def __init__(self, reader: Reader, records: RecordLog) -> None:
        self._reader, self._log = reader, records

    async def candidates(self, tenant: str) -> list[SkillCandidate]:
        return skill_candidates(await self._runs(tenant))

    async def shown(self, who: Principal) -> list[dict[str, Any]]:
        known = await self._recorded(who.tenant)
        return [candidate_json(one, known.get(one.id, "proposed")) for one in await self.candidates(who.tenant)]

    async def show(self, who: Principal, candidate_id: str) -> dict[str, Any] | Failure:
        found = await self._find(who.tenant, candidate_id)
        if isinstance(found, Failure):
            return found
        known = await self._recorded(who.tenant)
        return {**candidate_json(found, known.get(found.id, "proposed")), "content": skill_file(found)}

    async def accept(self, who: Principal, candidate_id: str) -> dict[str, Any] | Failure:
        found = await self._find(who.tenant, candidate_id)
        if isinstance(found, Failure):
            return found
        if (await self._recorded(who.tenant)).get(found.id) != "accepted":
            await self._log.append(who.tenant, [_created(found, "accepted")], actor=who.actor)
        return {**candidate_json(found, "accepted"), "content": skill_file(found)}

    async def record_new(self, tenant: str, stop: Callable[[], bool] = lambda: False) -> int:
        """Records candidates that were not seen before; how many."""
        if stop():
            return 0
        found = await self.candidates(tenant)
        known = await self._recorded(tenant) if found else {}
        fresh = [one for one in found if one.id not in known]
        if fresh:
            await self._log.append(tenant, [_created(one, "proposed") for one in fresh])
        return len(fresh)

    async def _find(self, tenant: str, candidate_id: str) -> SkillCandidate | Failure:
        for one in await self.candidates(tenant):
            if one.id == candidate_id:
                return one
        return Failure("SKILL_CANDIDATE_NOT_FOUND", "There is no such skill candidate.")

    async def _recorded(self, tenant: str) -> dict[str, str]:
        """Each candidate that was recorded, with its newest status."""
        statuses: dict[str, str] = {}
        after = 0
        types = [SkillCandidateCreated.type]
        while page := await self._reader.events_of(tenant, MEMORY_THREAD, types, after, _LATEST, _PAGE):
            statuses |= {event.payload["candidateId"]: event.payload["status"] for event in page}
            after = page[-1].seq
        return statuses

    async def _runs(self, tenant: str) -> list[CompletedRun]:
        found: list[CompletedRun] = []
        place: RunPlace | None = None
        looked = 0
        while looked < MAX_RUNS:
            page, place = await self._reader.list_runs(tenant, RunFilter(status="completed"), place, _PAGE)
            for run in page:
                looked += 1
                if run.agent is None:
                    continue
                events = await self._reader.events_of(
                    tenant, run.thread_id, [ToolResulted.type], run.first_seq - 1, run.last_seq, _PAGE
                )
                own = [event.payload for event in events if event.run_id == run.id]
                tools = collapsed(payload["tool"] for payload in own if payload["ok"])
                found.append(CompletedRun(run.id, run.agent, text_of(run.input), tools))
            if place is None:
                break
        return found


def candidate_json(candidate: SkillCandidate, status: str) -> dict[str, Any]:
    return {
        "id": candidate.id,
        "name": candidate.name,
        "agent": candidate.agent,
        "status": status,
        "confidence": candidate.confidence,
        "evidenceCount": len(candidate.runs),
        "triggers": list(candidate.triggers),
        "tools": list(candidate.tools),
        "runs": list(candidate.runs),
        "proposedPath": candidate.path,
    }


def _created(candidate: SkillCandidate, status: str) -> SkillCandidateCreated:
    return SkillCandidateCreated(
        candidate_id=candidate.id,
        name=candidate.name,
        confidence=candidate.confidence,
        evidence_count=len(candidate.runs),
        status=status,
        proposed_path=candidate.path,
    )
