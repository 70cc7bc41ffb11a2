"""The file: what a client uploaded, by id. Outside the log; a run that uses one takes a copy into its thread."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from app.core.clock import iso
from app.core.value import value


@value(frozen=True, slots=True)
class StoredFile:
    id: str
    name: str
    mime: str
    size: int
    sha256: str
    created_by: str
    created_at: int
    deleted_at: int | None = None


@value(frozen=True, slots=True)
class NewFile:
    name: str
    mime: str
    created_by: str


class Files(Protocol):
    """Every call names the tenant: a file of another tenant is not there."""

    async def put(self, tenant: str, new: NewFile, content: AsyncIterator[bytes]) -> StoredFile:
        """Stores the content as it comes; what breaks off leaves no file."""
        ...

    async def get(self, tenant: str, file_id: str) -> StoredFile | None:
        """Also one that was deleted and is not purged yet."""
        ...

    def read(self, tenant: str, file_id: str) -> AsyncIterator[bytes]:
        """The content, piece by piece."""
        ...

    def read_range(self, tenant: str, file_id: str, start: int, end: int) -> AsyncIterator[bytes]:
        """The content from a position until before another, piece by piece; nothing else of it is read."""
        ...

    async def files(self, tenant: str, after: str, limit: int) -> list[StoredFile]:
        """By id, without deleted ones."""
        ...

    async def delete(self, tenant: str, file_id: str) -> None: ...


def file_json(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "name": file.name,
        "mime": file.mime,
        "size": file.size,
        "sha256": file.sha256,
        "createdBy": file.created_by,
        "createdAt": iso(file.created_at),
    }
