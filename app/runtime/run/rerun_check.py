"""What a strict rerun must meet: its first prompt and its tool calls. Anything else ends it before it acts.

A call is found by its content, and it must not begin before the calls that had ended when it was recorded; those that
ran in parallel may come in any order. Looked at when an intent is about to be recorded. Leaves to `reruns`: what was
recorded the first time.
"""

from collections.abc import Mapping
from typing import Any

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.events.catalog import Payload
from app.events.catalog.adapter import TOOL_START, AdapterEvent
from app.events.catalog.model import ModelRequested
from app.events.catalog.tool import ToolInvoked
from app.runtime.run.memo import Memo
from app.views.replay_token import call_hash


class RerunCheck:
    def __init__(self, replay: Mapping[str, Any], memo: Memo) -> None:
        self._prompts = frozenset(replay.get("prompts") or [replay.get("prompt")])
        self._calls: list[str] = replay["calls"]
        self._after: list[int] = replay.get("after") or list(range(len(self._calls)))
        self._unmet = list(range(len(self._calls)))
        self._prompt_met = bool(memo.answers)
        for intent in memo.intents.values():
            self._meet(call_hash(intent["tool"], intent["arguments"]))
        for start in memo.starts.values():
            self._meet(call_hash(start["toolId"], start.get("args")))

    def check(self, payload: Payload) -> None:
        if payload.type == ModelRequested.type and not self._prompt_met:
            self._prompt_met = True
            if payload.to_json()["requestHash"] not in self._prompts:
                raise _mismatch("The assembled prompt")
        if isinstance(payload, ToolInvoked) and payload.attempt == 1:
            self._begin(payload.tool, payload.arguments)
        if isinstance(payload, AdapterEvent) and payload.event.phase == TOOL_START:
            signal = payload.to_json()["event"]
            if signal.get("attempt", 1) == 1:
                self._begin(signal["toolId"], signal.get("args"))

    def _begin(self, tool: str, arguments: Any) -> None:
        number = len(self._calls) - len(self._unmet) + 1
        first = self._unmet[0] if self._unmet else 0
        met = self._meet(call_hash(tool, arguments))
        if met is None or self._after[met] > first:
            raise _mismatch(f"Tool call {number} ({tool})")

    def _meet(self, hashed: str) -> int | None:
        found = next((place for place in self._unmet if self._calls[place] == hashed), None)
        if found is not None:
            self._unmet.remove(found)
        return found


def _mismatch(what: str) -> StepFailed:
    return StepFailed(Failure("REPLAY_MISMATCH", f"{what} differs from the recorded one."))
