"""Commands to a run that has not ended: each is an event first, and takes effect at the run's next step.

Leaves to others: cancelling (the service), taking a command up (the run's context).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.schemas import Validator
from app.events import ports
from app.events.catalog import Payload, execution
from app.events.catalog.interrupt import InterruptResolved
from app.events.ports import Condition, Refused
from app.events.recorder import PayloadEntry, Recorder, Scope
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission_checks import check_limits
from app.runtime.scheduler import Scheduler
from app.runtime.workspaces import WorkspaceHistory
from app.views.ports import Reader
from app.views.run import Run

Name = Literal["steer", "pause", "resume", "switch_model_plan", "set_limits", "checkpoint"]

_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 100_000}
_PARTS: Final = {
    "type": "array",
    "minItems": 1,
    "maxItems": 100,
    "items": {"type": "object", "required": ["type"]},
}


def _shape(required: list[str], **properties: Any) -> Validator:
    return Validator({"type": "object", "required": required, "properties": properties, "additionalProperties": False})


_SHAPES: Final[Mapping[str, Validator]] = {
    "steer": Validator(
        {
            "type": "object",
            "oneOf": [{"required": ["message"]}, {"required": ["hint"]}],
            "properties": {"message": {"oneOf": [_TEXT, _PARTS]}, "hint": _TEXT},
            "additionalProperties": False,
        }
    ),
    "pause": _shape([]),
    "resume": _shape([]),
    "switch_model_plan": _shape(["model"], model={"type": "string"}),
    "set_limits": Validator({"type": "object", "minProperties": 1}),
    "checkpoint": _shape(["label"], label={"type": "string", "minLength": 1, "maxLength": 200}, data={}),
}


def steering(message: str | Sequence[Any], command_id: str) -> execution.CommandInjected | Failure:
    """What a user says to a run on its way, as text or parts. Commands of the same id count once."""
    arguments = {"message": message if isinstance(message, str) else list(message)}
    if not _SHAPES["steer"].accepts(arguments):
        return Failure("COMMAND_INVALID", "A message to a running run has 1 to 100,000 characters.")
    return execution.CommandInjected(command="steer", command_id=command_id, arguments=arguments)


class Commands:
    def __init__(self, recorder: Recorder, reader: Reader, workspaces: WorkspaceHistory, scheduler: Scheduler) -> None:
        self._recorder, self._reader, self._workspaces = recorder, reader, workspaces
        self._scheduler = scheduler

    async def inject(
        self,
        who: Principal,
        run_id: str,
        command: str,
        arguments: dict[str, Any],
        blobs: Sequence[ports.BlobDraft] = (),
        also: Sequence[Condition] = (),
    ) -> Run | Rejected:
        """`blobs` is the content that parts of a message refer to, stored in the same commit; `also` must hold too."""
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "There is no such run."))
        if run.parent_run_id is not None:
            return Rejected(Failure("RUN_IS_A_SUBAGENT", "Commands go to the root run."), run.parent_run_id)
        refused = await self._check(run, command, arguments)
        if refused is not None:
            return Rejected(refused)
        event = execution.CommandInjected.model_validate(
            {"command": command, "commandId": new_id("step"), "arguments": arguments}
        )
        more, conditions = await self._effects(who, run, event)
        scope = Scope(who.tenant, run.thread_id, run_id, actor=who.actor)
        answer = await self._recorder.record(
            scope,
            PayloadEntry(event, blobs=tuple(blobs)) if blobs else event,
            *more,
            conditions=[ports.RunNotTerminal(run_id), *conditions, *also],
        )
        if isinstance(answer, Refused):
            return Rejected(answer.failure, answer.winner)
        self._scheduler.deliver(who.tenant, run_id, answer.events[0].payload)
        if more:
            self._scheduler.wake(who.tenant, run.thread_id, run_id)
        return await self._reader.run(who.tenant, run_id) or Rejected(Failure("RUN_NOT_FOUND", "There is no such run."))

    async def _check(self, run: Run, command: str, arguments: dict[str, Any]) -> Failure | None:
        if command not in get_args(Name) or not _SHAPES[command].accepts(arguments):
            return Failure("COMMAND_INVALID", "There is no such command, or its arguments are invalid.")
        if command == "set_limits":
            return check_limits(arguments)
        if command == "switch_model_plan":
            workspace = await self._workspaces.of(run.workspace_digest)
            if workspace is None or arguments["model"] not in workspace.models:
                return Failure("MODEL_NOT_FOUND", "The run's workspace has no such model.")
        return None

    async def _effects(
        self, who: Principal, run: Run, event: execution.CommandInjected
    ) -> tuple[list[Payload], list[Condition]]:
        """What is true at once: a checkpoint names this point, and a resume answers the pause that is open."""
        if event.command == "checkpoint":
            return [execution.CheckpointCreated(label=event.arguments["label"], data=event.arguments.get("data"))], []
        if event.command != "resume":
            return [], []
        for asked in await self._reader.interrupts(who.tenant, thread_id=run.thread_id, status="open"):
            if asked.run_id == run.id and asked.kind == "paused":
                answer = InterruptResolved(interrupt_id=asked.id, answer={"decision": "resume"}, answered_by=who.actor)
                return [answer], [ports.InterruptOpen(asked.id)]
        return [], []
