"""The commands that reach a run: taken up with its model calls, and taken up the same when it is entered again.

Which commands count from where on is recorded, by the place in the backend: a key that it passes, else the content of
the model call, else how many calls were made. Leaves to the executor: the cancel and what comes too late.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from app.core.decisions import Deny
from app.core.json import JsonObject
from app.events.catalog.builders import BuiltStepCompleted
from app.policy.contract import Point
from app.policy.points import prompt_input, prompt_subject
from app.runtime.run.memo import StoredPayload
from app.runtime.run.model_calls import ModelCalls
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import RunLog
from app.runtime.run.unused import NOTHING_UNUSED, Unused, content_hash
from app.views.history import steered

_TAKEN_UP: Final = frozenset({"steer", "switch_model_plan", "set_limits", "set_parameters"})
"""Commands that take effect with a model call."""

Obey = Callable[[str, Mapping[str, Any]], None]
GuardMessage = Callable[[Any, str], Awaitable[Any]]
"""A message as the run's guardrails leave it, by the id of its command."""


class RunCommands:
    def __init__(self, log: RunLog, hooks: RunHooks, obey: Obey, guarded: GuardMessage) -> None:
        self._log, self._hooks, self._obey, self._guarded = log, hooks, obey, guarded
        self._recorded = NOTHING_UNUSED
        self._seen: set[str] = set()
        if log.memo.steps:
            steps = [step for step in log.memo.steps.values() if step["step"] == "commands"]
            self._recorded = Unused((_place(step["key"]), step) for step in steps)
            self._seen = {command["commandId"] for step in steps for command in step["result"]}
        self._keys = set(log.memo.steps)
        self.taken_up_at = -1
        """How many model calls there were when commands were last taken up."""
        self.said: list[JsonObject] = []
        """What was said to the run and not handed out yet."""

    def messages(self) -> list[JsonObject]:
        """Hands out what was said to the run."""
        messages, self.said = self.said, []
        return messages

    async def at_number(self, models: ModelCalls) -> None:
        """Once for each number of model calls."""
        if self.taken_up_at != models.number:
            self.taken_up_at = models.number
            if self._recorded or self._log.memo.commands or self._log.control.commands:
                # While recorded answers are left, what came later is for the calls after them.
                await self._take_up(str(models.number), fresh=not models.has_recorded)

    async def at_key(self, key: str) -> None:
        await self._take_up(f"key-{content_hash(key)[:32]}", fresh=True)

    async def recorded_with(self, messages: Sequence[JsonObject]) -> None:
        """What took effect with the call of these messages when it was made."""
        if self._recorded:
            await self._take_up(_content(messages), fresh=False)

    async def fresh_with(self, messages: Sequence[JsonObject]) -> None:
        """Before a call of these messages that was not made yet."""
        if self._log.memo.commands or self._log.control.commands:
            await self._take_up(_content(messages), fresh=True)

    async def _take_up(self, place: str, *, fresh: bool) -> None:
        recorded = self._recorded.take(place) if self._recorded else None
        if recorded is not None:
            commands: list[StoredPayload] = recorded["result"]
        elif not fresh:
            return
        else:
            commands = [await self._submitted(command) for command in self._new()]
            if not commands:
                return
            await self._log.record(BuiltStepCompleted(step="commands", key=self._unused_key(place), result=commands))
        self._log.control.taken |= {command["commandId"] for command in commands}
        self.said += steered(commands)
        for command in commands:
            self._obey(command["command"], command["arguments"])

    def _unused_key(self, place: str) -> str:
        key, number = f"commands:{place}", 1
        while key in self._keys:
            number += 1
            key = f"commands:{place}#{number}"
        self._keys.add(key)
        return key

    async def _submitted(self, command: StoredPayload) -> StoredPayload:
        """A message sent to a running run passes the same hooks and guardrails as its input."""
        said = next((name for name in ("hint", "message") if name in command["arguments"]), None)
        if command["command"] != "steer" or said is None:
            return command
        fired = await self._hooks.fire(
            Point.USER_PROMPT_SUBMIT, prompt_subject(command["arguments"][said]), command["commandId"]
        )
        if isinstance(fired.decision, Deny):
            return command | {"arguments": {"denied": fired.decision.reason}}
        text = await self._guarded(prompt_input(fired.subject), command["commandId"])
        return command | {"arguments": {said: text}}

    def _new(self) -> list[StoredPayload]:
        memo, control = self._log.memo, self._log.control
        # Commands are for the root run; those that came since it was entered are not a subagent's to take up.
        since = control.commands if self._log.is_root else []
        fresh: dict[str, StoredPayload] = {}
        for command in memo.commands + since:
            name = command["commandId"]
            if name not in self._seen and name not in control.taken and command["command"] in _TAKEN_UP:
                fresh[name] = command
        self._seen |= set(fresh)
        control.commands = [command for command in control.commands if command["commandId"] not in fresh]
        return list(fresh.values())


def _place(key: str) -> str:
    return key.removeprefix("commands:").partition("#")[0]


def _content(messages: Sequence[JsonObject]) -> str:
    return f"call-{content_hash(list(messages))[:32]}"
