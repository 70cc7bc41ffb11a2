"""What an agent's answer asks for, carried out before its job ends: each intent once, within the job's own scope.

An extension queues the job and says that it expects intents. Leaves to `actions`: what each of them does and whether it
may. Leaves to the executor: when an answer is there, and the job's last event.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonError
from app.core.value import mutable
from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog import Payload, request
from app.events.catalog.job import JobProgress
from app.events.envelope import Event
from app.events.recorder import Recorder, Scope
from app.extensions.actions import ActionResult, ActionScope, ExtensionActions, action_digest, intent_scope
from app.models.router import error_value
from app.runtime.automation.instruction import INTENTS
from app.runtime.automation.session_jobs import INSTRUCT, INTENT_ACTIONS, PAYLOAD, WORKERS
from app.runtime.job_events import job_progress
from app.runtime.run.run_log import expect
from app.views.ports import Reader
from app.views.run import Run

MAX_INTENTS: Final = 32
MAX_ANSWER_BYTES: Final = 64 * 1024
MAX_VALUES: Final = 5000
"""Of the whole answer."""
_FENCED: Final = re.compile(r"```[a-zA-Z]*\s*\n(.*?)```", re.DOTALL)
_FAILED: Final = frozenset({"failed", "invalid", "forbidden"})
_PAGE: Final = 1000
_EVER: Final = 2**62


@mutable(slots=True)
class _Recorded:
    """What the log says that was asked for and done already."""

    answer: str | None = None
    """The first one counts: whoever goes on after a crash, or in another attempt, finishes what was begun."""
    begun: bool = False
    statuses: dict[int, str] = field(default_factory=dict)


class ActionIntents:
    def __init__(self, recorder: Recorder, reader: Reader, actions: ExtensionActions) -> None:
        self._recorder, self._reader, self._actions = recorder, reader, actions

    async def carry_out(self, run: Run, scope: Scope, ending: list[Payload]) -> list[Payload]:
        """How the run ends once its intents are carried out; of every other run, as it was about to end."""
        if run.job is None or run.job["type"] != INSTRUCT or not run.thread_id.startswith(WORKERS):
            return ending
        if ending[-1].type == request.RequestCancelled.type:
            return ending
        queued = await self._queued(run, scope.tenant)
        # As it was queued: to a job that waits, any client of the tenant may add metadata of its own.
        job = (queued.payload.get("metadata") or {}).get(PAYLOAD) or {}
        if job.get("expectResponse") != INTENTS:
            return ending
        recorded, ended = await self._recorded(run, scope.tenant), ending[-1].to_json()
        if recorded.answer is None:
            if ending[-1].type != request.RequestCompleted.type:
                return ending
            recorded.answer = _text(ended.get("output"))
        elif ending[-1].type != request.RequestCompleted.type or _text(ended.get("output")) != recorded.answer:
            ended = {"output": recorded.answer}
            ending = [*ending[:-1], request.RequestCompleted(output=recorded.answer)]
        intents = intents_of(recorded.answer)
        failure = intents if isinstance(intents, Failure) else None
        if not isinstance(intents, Failure):
            place = intent_scope(
                f"{queued.actor.removeprefix('extension:')}:{run.id}",
                scope.tenant,
                run.job["sourceSessionId"],
                job.get("turnId") or None,
                frozenset(job.get(INTENT_ACTIONS) or ()),
            )
            failure = await self._all(run, scope, place, intents, recorded)
        if failure is None:
            return ending
        failed = request.RequestFailed(
            error=error_value(failure), output=ended.get("output"), message_id=ended.get("messageId")
        )
        return [*ending[:-1], failed]

    async def _all(
        self, run: Run, scope: Scope, place: ActionScope, intents: list[Any], recorded: _Recorded
    ) -> Failure | None:
        """Every one, also after one that failed. What was done but not yet recorded is asked for by the same key."""
        if not recorded.begun:
            said = {"stage": "assistant_output", "status": "complete", "text": recorded.answer}
            expect(await self._recorder.record(scope, job_progress(run, said)))
        failed: list[str] = []
        for index, intent in enumerate(intents):
            name, why = _name(intent), ""
            if index not in recorded.statuses:
                result = await self._one(run, place, intents, index, recorded.statuses)
                recorded.statuses[index], why = result.status, f" ({(result.details or {}).get('code')})"
                step = {"stage": "action_intent", "index": index, "actionType": name, "status": result.status}
                expect(await self._recorder.record(scope, job_progress(run, step)))
            if (status := recorded.statuses[index]) in _FAILED:
                failed.append(f"{index} {name}: {status}{why}")
        return Failure("ACTION_INTENT_FAILED", "; ".join(failed)) if failed else None

    async def _one(
        self, run: Run, place: ActionScope, intents: list[Any], index: int, statuses: Mapping[int, str]
    ) -> ActionResult:
        intent = intents[index]
        if not isinstance(intent, dict):
            return ActionResult("invalid", {"code": "invalid_intent"})
        key = intent.get("idempotencyKey")
        for before, other in enumerate(intents[:index]):
            if isinstance(key, str) and isinstance(other, dict) and other.get("idempotencyKey") == key:
                if action_digest(other) == action_digest(intent):
                    return ActionResult(statuses[before], {"code": "same_as_before"})
                return ActionResult("conflict", {"code": "idempotency_conflict"})
        return await self._actions.intend(place, intent, f"{run.id}:{index}")

    async def _queued(self, run: Run, tenant: str) -> Event:
        [queued] = await self._reader.run_events(tenant, run.id, run.first_seq - 1, 1)
        return await with_blobs(queued, stored_blobs(self._reader, tenant, run.thread_id))

    async def _recorded(self, run: Run, tenant: str) -> _Recorded:
        found, after = _Recorded(), run.first_seq - 1
        load = stored_blobs(self._reader, tenant, run.thread_id)
        while True:
            page = await self._reader.events_of(tenant, run.thread_id, (JobProgress.type,), after, _EVER, _PAGE)
            for event in page:
                if event.run_id != run.id:
                    continue
                progress = event.payload["progress"]
                if progress["stage"] == "assistant_output" and found.answer is None:
                    found.answer, found.begun = (await with_blobs(event, load)).payload["progress"]["text"], True
                elif progress["stage"] == "action_intent":
                    found.statuses[progress["index"]] = progress["status"]
            if len(page) < _PAGE:
                return found
            after = page[-1].seq


def intents_of(answer: str) -> list[Any] | Failure:
    """Of an answer that is JSON, has it in a fence, or has it between its first and its last brace."""
    if len(answer.encode(errors="replace")) > MAX_ANSWER_BYTES:
        return _not_intents(f"it has more than {MAX_ANSWER_BYTES} bytes")
    why = "it is not JSON"
    for text in _candidates(answer):
        try:
            value = json.loads_strict(text.encode(errors="replace"), max_values=MAX_VALUES)
        except JsonError as error:
            why = error.failure.message
            continue
        if not isinstance(value, dict) or value.get("kind") != INTENTS:
            why = f'it is not an object with "kind": "{INTENTS}"'
            continue
        intents = value.get("intents")
        if isinstance(intents, list) and 1 <= len(intents) <= MAX_INTENTS:
            return intents
        return _not_intents(f"it needs a list `intents` with 1 to {MAX_INTENTS} members")
    return _not_intents(why)


def _candidates(answer: str) -> Iterator[str]:
    yield answer
    for fenced in _FENCED.finditer(answer):
        yield fenced.group(1)
    yield answer[answer.find("{") : answer.rfind("}") + 1]


def _not_intents(why: str) -> Failure:
    return Failure("ACTION_INTENTS_INVALID", f"The agent's answer asks for no actions: {why}.")


def _name(intent: Any) -> str:
    return str(intent.get("actionType"))[:100] if isinstance(intent, dict) else ""


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.canonical(output).decode()
