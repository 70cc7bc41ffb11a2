"""Pictures, sounds and files that messages refer to, read from the thread's blobs when a model is to see them.

Each is read once a run. Leaves to the edge: how a client hands content in.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.core.json import JsonObject

Load = Callable[[Mapping[str, Any]], Awaitable[bytes | None]]


class RunMedia:
    def __init__(self, load: Load) -> None:
        self._load = load
        self._loaded: dict[str, bytes] = {}

    async def load(self, parts: Iterable[JsonObject]) -> None:
        """Reads what these parts of a message refer to."""
        for part in parts:
            reference = part.get("blob")
            if reference is not None and reference["sha256"] not in self._loaded:
                data = await self._load(reference)
                if data is None:
                    raise StepFailed(Failure("BLOB_NOT_FOUND", "A message refers to content that no longer exists."))
                self._loaded[reference["sha256"]] = data

    def get(self, reference: Any) -> bytes:
        """What was loaded."""
        return self._loaded[reference["sha256"]]
