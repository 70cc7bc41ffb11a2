"""Tasks of A2A: sending messages, reading, listing and cancelling, over the runs that everybody else sees.

Leaves to others: spelling (`dialects.a2a`), streams and bindings (`routes`).
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.value import value
from app.protocols.a2a.messages import AgentMessage
from app.protocols.a2a.shown_task import open_questions, shown_task
from app.protocols.context import ServerContext
from app.protocols.dialects import a2a
from app.protocols.dialects.a2a_errors import (
    CONTENT_TYPE,
    NOT_CANCELABLE,
    PARAMS,
    TASK_NOT_FOUND,
    UNSUPPORTED,
    A2aError,
)
from app.protocols.http.errors import HttpProblem
from app.protocols.http.parameters import read_place, write_place
from app.protocols.http.parts import with_content
from app.protocols.http.submission import accepted
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.views.interrupt import Interrupt
from app.views.ports import RunFilter
from app.views.run import Run

WAIT_SECONDS: Final = 300.0
"""How long an answer is awaited; then the task is answered as it stands."""
MAX_PAGE: Final = 100
_PAGE: Final = 50
WORKFLOW: Final = "workflow:"
_BY_STATE: Final = {state: status for status, state in a2a.STATES.items()}


@value(frozen=True, slots=True)
class AgentDesk:
    """One agent, for one caller."""

    server: ServerContext
    caller: Principal
    agent: str
    base_url: str

    def require(self, scope: str) -> None:
        if not self.caller.may(scope):
            raise HttpProblem(Failure("FORBIDDEN", "The caller may not do this."), None, needs=scope)

    @property
    def _workflow(self) -> str | None:
        return self.agent.removeprefix(WORKFLOW) if self.agent.startswith(WORKFLOW) else None

    async def send(self, message: AgentMessage, trace: Mapping[str, str] | None) -> Run:
        """The run that the message starts or answers."""
        self.require("runs:write")
        if message.task_id is not None:
            return await self._answer(message, await self.run(message.task_id))
        given, blobs = await with_content(self.server.files, self.caller.tenant, message.input)
        key = sha256(json.canonical([self.agent, message.context_id, message.message_id])).hexdigest()
        wanted = Submission(
            agent=None if self._workflow is not None else self.agent,
            workflow=self._workflow,
            input=given,
            blobs=blobs,
            thread_id=message.context_id,
            create_thread=message.context_id is not None,
            idempotency_key=f"a2a:{key}",
            body_hash=sha256(json.canonical([message.texts, message.data, *message.parts])).hexdigest(),
            trace_context=trace,
        )
        return accepted(await self.server.service.submit(self.caller, wanted))

    async def _answer(self, message: AgentMessage, run: Run) -> Run:
        if run.terminal:
            raise A2aError(UNSUPPORTED, "The task has ended; send a message with its contextId and no taskId.")
        if message.context_id not in (None, run.thread_id):
            raise A2aError(PARAMS, "The task belongs to another context.")
        asked = await self.questions(run)
        if not asked:
            raise A2aError(UNSUPPORTED, "The task is working and waits for no message.")
        if message.parts:
            raise A2aError(CONTENT_TYPE, "An answer has text or data, and no files.")
        self.require("interrupts:answer")
        for one in asked:
            answer = a2a.answer_of(one, message.texts, message.data)
            if answer is None:
                raise A2aError(PARAMS, "The message is no answer to what the task asks; see the data of its status.")
            given = await self.server.interrupts.answer(self.caller, one.id, answer)
            if isinstance(given, NotAnswered):
                raise HttpProblem(given.failure, given.issues)
            break  # one message answers one question; the next one is asked again
        return await self.run(run.id)

    async def run(self, task_id: Any) -> Run:
        self.require("runs:read")
        found = None
        if isinstance(task_id, str) and 0 < len(task_id) <= 200:
            found = await self.server.reader.run(self.caller.tenant, task_id)
        if found is None or (found.workflow != self._workflow if self._workflow else found.agent != self.agent):
            raise A2aError(TASK_NOT_FOUND, "There is no such task.")
        return found

    async def questions(self, run: Run) -> list[Interrupt]:
        return await open_questions(self.server.reader, self.caller.tenant, run)

    async def shown(self, run: Run) -> JsonObject:
        asked = await self.questions(run) if run.status == "waiting" else []
        return await shown_task(self.server.reader, self.caller.tenant, run, asked, self.base_url)

    async def list_tasks(self, params: JsonObject) -> JsonObject:
        self.require("runs:read")
        size, token = params.get("pageSize") or _PAGE, params.get("pageToken") or ""
        context, state = params.get("contextId") or None, params.get("status") or None
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MAX_PAGE:
            raise A2aError(PARAMS, f"pageSize must be a number from 1 to {MAX_PAGE}.")
        if not isinstance(token, str) or (context is not None and not isinstance(context, str)):
            raise A2aError(PARAMS, "pageToken and contextId must be texts.")
        if state is not None and (not isinstance(state, str) or state not in _BY_STATE):
            raise A2aError(PARAMS, "status must be one of the states that tasks have here.")
        if params.get("statusTimestampAfter"):
            raise A2aError(UNSUPPORTED, "Tasks are not listed by when they changed (statusTimestampAfter).")
        wanted = RunFilter(
            thread_id=context,
            status=_BY_STATE[state] if state is not None else None,
            agent=None if self._workflow is not None else self.agent,
        )
        found, place = await self.server.reader.list_runs(self.caller.tenant, wanted, read_place(token), size)
        mine = [run for run in found if run.parent_run_id is None and run.workflow == self._workflow]
        tasks = [await self.shown(run) for run in mine]
        if not params.get("includeArtifacts"):
            tasks = [{name: value for name, value in one.items() if name != "artifacts"} for one in tasks]
        following = write_place(place) or ""
        return {"tasks": tasks, "nextPageToken": following, "pageSize": size, "totalSize": len(tasks)}

    async def cancel(self, task_id: Any) -> Run:
        self.require("runs:write")
        run = await self.run(task_id)
        if run.terminal:
            raise A2aError(NOT_CANCELABLE, "The task has ended.")
        answer = await self.server.lifecycle.cancel(self.caller, run.id, "cancelled by an A2A client")
        if isinstance(answer, Rejected):
            raise A2aError(NOT_CANCELABLE, answer.failure.message)
        return answer
