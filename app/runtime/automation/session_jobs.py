"""Jobs that work for a session: a suggested next request, a summary, an instruction to an agent about what was said.

Each is a run on the queue, in the line of its project, of which one runs at a time, and on a thread of the system's own
for its project and agent, so that nothing of it enters the session's conversation. Leaves to `job_reports`: what the
session gets to see of it.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, Final

from app.backends.conversation import SUMMARY_REQUEST
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.events.catalog.thread import ThreadRolledBack
from app.runtime.automation.instruction import Instruction
from app.runtime.intake.ports import RunClient
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import JobRequest, Submission, Taken
from app.runtime.workspaces import CurrentWorkspace
from app.views.controls import PROJECT, controls_of, project_of, session_limits
from app.views.ports import JobFilter, Reader
from app.views.run import Run
from app.views.thread import Thread

SUGGEST: Final = "suggest_request"
INSTRUCT: Final = "agent_instruction"
COMPACT: Final = "compact_context"
PAYLOAD: Final = "sessionJob"
"""The key of the run's metadata that has the job's payload."""
INTENT_ACTIONS: Final = "intentActions"
"""The key of a payload that has the actions that the agent's answer may ask for."""
WORKERS: Final = "sys_worker_"
ATTEMPTS: Final = 2
SUGGEST_SECONDS: Final = 60.0
INSTRUCT_SECONDS: Final = 180.0
MAX_ACTIVE: Final = 100
"""Of one project."""
_CONTEXT: Final = 8000
"""Characters of the conversation's end that a suggestion is made from."""
_SHOWN: Final = 200
MAX_COMPACTED: Final = 200_000
"""Characters of the conversation that are summed up; of a longer one its end, and what was said before is left out."""
_READ_ONLY: Final = {"networkAccess": "restricted", "filesystemSandbox": "read-only"}
"""What a suggestion or a summary may reach, whatever its session may: it is about what was said and does nothing."""


def new_request_key() -> str:
    return f"req_{new_id('step').removeprefix('step_')}"


def owner_of(thread: Thread) -> str:
    """Whose jobs they are: the session's project, or the session alone."""
    return project_of(thread.metadata) or f"session:{thread.id}"


def payload_of(run: Run) -> dict[str, Any]:
    """Of a job of ours; empty for one of a client's that only has the key."""
    found = run.metadata.get(PAYLOAD)
    return found if isinstance(found, dict) and run.thread_id.startswith(WORKERS) else {}


class SessionJobs:
    def __init__(self, service: RunClient, reader: Reader, workspace: CurrentWorkspace) -> None:
        self._service, self._reader, self._workspace = service, reader, workspace

    async def suggest(
        self, who: Principal, thread: Thread, *, model: str | None, effort: str | None, draft: str | None
    ) -> Taken | Rejected:
        """One at a time of a session: a second request is answered with the first."""
        said = await self._conversation(who.tenant, thread.id, 50)
        if not said and not draft:
            return Rejected(
                Failure("SESSION_HAS_NO_CONTEXT", "Nothing was said in the session yet: send a message first.")
            )
        text = "Write the next request that the user of this conversation would send. Answer with its text alone."
        text += f"\n\nThe user began to write:\n{draft}" if draft else ""
        text += f"\n\nThe conversation so far:\n{said[-_CONTEXT:]}" if said else ""
        payload = {"sessionId": thread.id, "requestKey": new_request_key()}
        payload |= {name: value for name, value in (("model", model), ("effort", effort), ("draft", draft)) if value}
        last = said.rsplit("user: ", 1)[-1].split("\n", 1)[0][:_SHOWN]
        payload["fallback"] = draft or f"Please continue: {last}"
        return await self._ask(who, thread, SUGGEST, SUGGEST_SECONDS, text, payload, model=model, effort=effort)

    async def compact(self, who: Principal, thread: Thread) -> Taken | Rejected:
        """Has the conversation summed up: later turns are sent the summary in place of what was said so far."""
        if thread.active:
            return Rejected(Failure("THREAD_BUSY", "A turn of the session is active."))
        said = await self._conversation(who.tenant, thread.id, None)
        if not said:
            return Rejected(
                Failure("SESSION_HAS_NO_CONTEXT", "Nothing was said in the session yet: send a message first.")
            )
        text = f"{SUMMARY_REQUEST}\n\n{said[-MAX_COMPACTED:]}"
        payload = {"sessionId": thread.id, "throughSeq": thread.last_seq}
        return await self._ask(who, thread, COMPACT, INSTRUCT_SECONDS, text, payload)

    async def _ask(
        self,
        who: Principal,
        thread: Thread,
        kind: str,
        seconds: float,
        text: str,
        payload: Mapping[str, Any],
        *,
        model: str | None = None,
        effort: str | None = None,
    ) -> Taken | Rejected:
        """About the session's conversation: by its own model or agent, without changing anything, one at a time."""
        job = JobRequest(
            type=kind,
            attempts=ATTEMPTS,
            timeout_seconds=seconds,
            dedupe_key=thread.id,
            project_id=owner_of(thread),
            source_session_id=thread.id,
            serial=True,
        )
        wanted = model or controls_of(thread.metadata).get("model")
        is_agent = wanted in self._workspace.current.agents
        return await self._enqueue(
            who,
            wanted if is_agent else None,
            text,
            job,
            payload,
            model=None if is_agent else wanted,
            parameters={"effort": effort} if effort else None,
            limits=(session_limits(thread.metadata) or {}) | _READ_ONLY,
        )

    async def instruct(
        self,
        who: Principal,
        session_id: str,
        wanted: Instruction,
        once: str | None = None,
        acts: Collection[str] | None = None,
    ) -> Taken | Rejected:
        """With the key `once` a repeated instruction is answered with its job, also when that has ended.

        `acts` names the actions that the agent's answer may ask for, if it is to ask for any.
        """
        thread = await self._reader.thread(who.tenant, session_id)
        if not isinstance(thread, Thread) or thread.deleted_at is not None:
            return Rejected(Failure("THREAD_NOT_FOUND", "There is no such session."))
        if wanted.agent not in self._workspace.current.agents:
            return Rejected(Failure("AGENT_NOT_FOUND", "The workspace has no such agent."))
        key = wanted.dedupe_key or f"{session_id}:{wanted.turn_id}:{wanted.job_kind}"
        job = JobRequest(
            type=INSTRUCT,
            attempts=ATTEMPTS,
            timeout_seconds=INSTRUCT_SECONDS,
            dedupe_key=sha256(key.encode()).hexdigest() if len(key) > _SHOWN else key,
            project_id=owner_of(thread),
            source_session_id=thread.id,
            serial=True,
        )
        # It works for the session, so it may reach no more than the session's own turns.
        limits = session_limits(thread.metadata)
        payload = wanted.payload() | ({} if once is None else {"actionKey": once})
        payload |= {} if acts is None else {INTENT_ACTIONS: sorted(acts)}
        return await self._enqueue(who, wanted.agent, wanted.instruction_text, job, payload, limits=limits, once=once)

    async def _enqueue(
        self,
        who: Principal,
        agent: str | None,
        text: str,
        job: JobRequest,
        payload: Mapping[str, Any],
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        once: str | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Taken | Rejected:
        for status in ("queued", "running"):
            wanted = JobFilter(status, None, None, job.project_id, None)
            active, _ = await self._reader.list_jobs(who.tenant, wanted, None, MAX_ACTIVE)
            if len(active) >= MAX_ACTIVE:
                return Rejected(Failure("QUEUE_FULL", f"The project has {MAX_ACTIVE} jobs already."))
        name = agent or self._workspace.current.default_agent or ""
        worker = sha256(f"{who.tenant}\n{job.project_id}\n{name}".encode()).hexdigest()[:32]
        return await self._service.enqueue(
            who,
            Submission(
                agent=agent,
                input=text,
                thread_id=WORKERS + worker,
                create_thread=True,
                system={"agent": name, PROJECT: job.project_id},
                model_plan=model,
                parameters=parameters,
                metadata={PAYLOAD: dict(payload)},
                busy="enqueue",
                approval_policy="never",
                session_limits=limits,
                job=job,
                idempotency_key=once,
            ),
        )

    async def _conversation(self, tenant: str, thread_id: str, newest: int | None) -> str:
        """What is still part of it, of so many rows: not what was rolled back, and not what clients added."""
        gone: set[str] = set()
        found = await self._reader.events_of(tenant, thread_id, (ThreadRolledBack.type,), 0, 2**62, 1000)
        for event in found:
            gone.update(event.payload["turns"])
        entries = [
            entry
            for entry in await self._reader.transcript(tenant, thread_id)
            if isinstance(entry.content, str) and entry.content and entry.turn_id not in gone and not entry.supplemental
        ]
        return "\n".join(f"{entry.role}: {entry.content}" for entry in entries[-newest if newest else 0 :])
