"""What a strict rerun must meet: its first prompt and its tool calls, in order. Anything else ends it before it acts.

Looked at when an intent is about to be recorded. Leaves to `rerun`: what was recorded the first time.
"""

from collections.abc import Mapping
from typing import Any

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.events.catalog import Payload
from app.events.catalog.model import ModelRequested
from app.events.catalog.tool import ToolInvoked
from app.runtime.run.memo import Memo
from app.views.replay_token import call_hash


class RerunCheck:
    def __init__(self, replay: Mapping[str, Any], memo: Memo) -> None:
        self._prompt, self._calls = replay.get("prompt"), list(replay["calls"])
        self._met = len(memo.intents)
        self._prompt_met = bool(memo.answers)

    def check(self, payload: Payload) -> None:
        if payload.type == ModelRequested.type and not self._prompt_met:
            self._prompt_met = True
            if payload.to_json()["requestHash"] != self._prompt:
                raise _mismatch("the assembled prompt")
        if isinstance(payload, ToolInvoked) and payload.attempt == 1:
            number, self._met = self._met, self._met + 1
            same = number < len(self._calls) and call_hash(payload.tool, payload.arguments) == self._calls[number]
            if not same:
                raise _mismatch(f"tool call {number + 1}")


def _mismatch(what: str) -> StepFailed:
    return StepFailed(Failure("REPLAY_MISMATCH", f"{what} differs from the recorded one."))
