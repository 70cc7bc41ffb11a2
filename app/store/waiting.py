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
class WaitingCommand:
    command: Command
    answer: "asyncio.Future[Answer]"
    delta: tuple[object, ...] | None = None
    """What another delta must equal to be merged into this one; None for anything else, and until one comes."""
    size: int = 0
    pieces: list[str] | None = None
    """The texts of those that were merged, the command's own first; None until another delta comes."""
    followers: "list[asyncio.Future[Answer]]" = field(default_factory=list)


def merge(last: WaitingCommand, command: Command, answer: "asyncio.Future[Answer]") -> bool:
    """Only into the thread's last waiting command, so that nothing is reordered."""
    text, delta = _delta_of(command)
    if delta is None:
        return False
    if last.pieces is None:
        first, last.delta = _delta_of(last.command)
        last.pieces, last.size = [first], len(first)
    if last.delta != delta or last.size + len(text) > MAX_MERGED_BYTES:
        return False
    last.pieces.append(text)
    last.followers.append(answer)
    last.size += len(text)
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
