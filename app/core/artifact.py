"""An artifact as code deals with it: stored content by reference, and content that is to be stored. Values only."""

import mimetypes
from collections.abc import Awaitable
from typing import Final, Protocol

from app.core.value import contract_value

MAX_ARTIFACT_NAME: Final = 200
MAX_ARTIFACT_BYTES: Final = 16 * 1024 * 1024


@contract_value(frozen=True, slots=True)
class ArtifactRef:
    """A stored artifact: an immutable named output, by reference."""

    id: str
    name: str
    mime: str
    size: int
    sha256: str
    version: int = 1
    """How many artifacts of the thread have this name, this one included."""


@contract_value(frozen=True, slots=True)
class NewArtifact:
    """Content that is stored as an artifact when the run completes."""

    name: str
    mime: str
    data: bytes


@contract_value(frozen=True, slots=True)
class FormerContent:
    """What a file held before it was written; None for a file that was not there."""

    data: bytes | None


class MakeArtifact(Protocol):
    """Stores content under a name. `path` is a file beneath the folder of the file tools. With `former` the artifact
    is a file that was changed, and has a diff."""

    def __call__(
        self,
        name: str,
        mime: str,
        data: bytes | None = None,
        path: str | None = None,
        former: FormerContent | None = None,
    ) -> Awaitable[ArtifactRef]: ...


def media_type(name: str, data: bytes) -> str:
    """By the file's name, else by whether the content is a text."""
    known, encoding = mimetypes.guess_type(name, strict=False)
    if known is not None and encoding is None:
        return known
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain" if b"\x00" not in data else "application/octet-stream"
