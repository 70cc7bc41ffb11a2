"""A command that waits for its commit, and the deltas that were merged into it meanwhile.

Leaves to the log: when it is written, and who is answered.
"""

import asyncio
from dataclasses import field
from typing import Final

from app.core.value import mutable
from app.events.catalog import adapter
from app.events.ports import Answer, Command, Draft

MAX_MERGED_BYTES: Final = 8 * 1024


@mutable(slots=True)
class MergedDeltas:
    """What was merged into a command, its own delta first."""

    common: tuple[object, ...] | None
    """What another delta must equal to be merged; None for a command that is no delta."""
    pieces: list[str]
    """The texts."""
    size: int
    followers: "list[asyncio.Future[Answer]]" = field(default_factory=list)
    """Those who wait for the others."""


@mutable(slots=True)
class WaitingCommand:
    command: Command
    answer: "asyncio.Future[Answer]"
    merged: MergedDeltas | None = None
    """None until another delta comes."""

    def futures(self) -> "tuple[asyncio.Future[Answer], ...]":
        return (self.answer,) if self.merged is None else (self.answer, *self.merged.followers)


def merge(last: WaitingCommand, command: Command, answer: "asyncio.Future[Answer]") -> bool:
    """Only into the thread's last waiting command, so that nothing is reordered."""
    text, common = _delta_of(command)
    if common is None:
        return False
    merged = last.merged
    if merged is None:
        first, own = _delta_of(last.command)
        merged = last.merged = MergedDeltas(own, [first], len(first))
    if merged.common != common or merged.size + len(text) > MAX_MERGED_BYTES:
        return False
    merged.pieces.append(text)
    merged.followers.append(answer)
    merged.size += len(text)
    return True


def _delta_of(command: Command) -> tuple[str, tuple[object, ...] | None]:
    """The text of a command that is one delta, and what else there is to it; None for anything else."""
    if len(command.drafts) != 1 or command.conditions:
        return "", None
    draft: Draft = command.drafts[0]
    if draft.type != adapter.AdapterEvent.type:
        return "", None
    signal = draft.payload["event"]
    if signal["phase"] not in adapter.DELTAS or "text" not in signal:
        return "", None
    rest = dict(signal)
    text = rest.pop("text")
    return text, (draft.run_id, draft.actor, draft.parent_id, command.fence, rest)
