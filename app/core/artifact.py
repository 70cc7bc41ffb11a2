"""An artifact as code deals with it: stored content by reference, and content that is to be stored. Values only."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A stored artifact: an immutable named output, by reference."""

    id: str
    name: str
    mime: str
    size: int
    sha256: str
    version: int = 1
    """How many artifacts of the thread have this name, this one included."""


@dataclass(frozen=True, slots=True)
class NewArtifact:
    """Content that is stored as an artifact when the run completes."""

    name: str
    mime: str
    data: bytes


class MakeArtifact(Protocol):
    """Stores content under a name. `path` is a file beneath the folder of the file tools."""

    def __call__(
        self, name: str, mime: str, data: bytes | None = None, path: str | None = None
    ) -> Awaitable[ArtifactRef]: ...
