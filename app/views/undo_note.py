"""What a model learns of an undo in the conversation that it is sent.

Leaves to `history`: where in the conversation it is.
"""

from collections import Counter
from dataclasses import field
from typing import Any

from app.core.value import mutable
from app.events.catalog import artifact
from app.events.envelope import Event


@mutable(slots=True)
class UndoNote:
    """What a model learns of an undo: else it would go on as if what it did were still so."""

    undone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def apply(self, event: Event) -> None:
        payload = event.payload
        if event.type == artifact.UndoPlanned.type:
            self.left += [one["tool"] for one in (*payload["actions"], *payload["skipped"])]
        elif event.type == artifact.UndoActionCompleted.type and payload["ok"]:
            self.left.remove(payload["tool"])
            self.undone.append(payload["tool"])

    def messages(self) -> list[dict[str, Any]]:
        if not self.undone:
            return []
        text = f"Effects of an earlier answer were undone since. Calls that were undone: {_counted(self.undone)}."
        text += f" Not undone: {_counted(self.left)}." if self.left else ""
        return [{"role": "system", "content": text}]


def _counted(names: list[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in Counter(names).items())
