"""Artifacts of one run: content stored under a name, in one commit with the event that reports it.

An artifact that the log has with the same name and content is not stored again when the run is entered again. The
artifacts of a thread that have one name are versions of it. Leaves to the store: the content.
"""

import asyncio
import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Final

from app.backends.contract import StepFailed
from app.core.artifact import ArtifactRef
from app.core.errors import Failure, HoldfastError
from app.core.ids import new_id
from app.events.catalog.artifact import ArtifactCreated
from app.events.catalog.values import ArtifactValue
from app.events.ports import BlobDraft, StoreError
from app.events.recorder import PayloadEntry
from app.outside.files import Rooted, tenant_folder
from app.runtime.run.run_log import CutOff, RunLog, Superseded
from app.runtime.run.unused import Unused, content_hash
from app.views.ports import Reader

MAX_ARTIFACT_BYTES: Final = 16 * 1024 * 1024
_MAX_NAME: Final = 200
_MAX_MIME: Final = 200


class RunArtifacts:
    def __init__(self, log: RunLog, reader: Reader, files: Path | None) -> None:
        self._log, self._reader, self._files = log, reader, files
        self._recorded = Unused(
            (content_hash(made["name"], made.get("mime"), made.get("sha256")), made) for made in log.memo.artifacts
        )

    async def create(self, name: str, mime: str, data: bytes | None = None, path: str | None = None) -> ArtifactRef:
        _check_names(name, mime)
        content = await self._content(data, path)
        digest = hashlib.sha256(content).hexdigest()
        found = self._recorded.take(content_hash(name, mime, digest))
        if found is not None:
            return ArtifactRef(found["id"], name, mime, len(content), digest, found.get("version", 1))
        self._log.stop_if_cancelled()
        # One after the other: the branches and subagents of a run may make versions of one name at once.
        async with self._log.control.artifacts:
            version, previous = await self._next_version(name)
            ref = ArtifactRef(new_id("artifact"), name, mime, len(content), digest, version)
            value = ArtifactValue(
                id=ref.id, name=name, mime=mime, size=ref.size, sha256=digest, version=version, previous=previous
            )
            created = PayloadEntry(ArtifactCreated(artifact=value), blobs=(BlobDraft(digest, content, mime),))
            await self._log.record(created)
            self._log.control.versions[name] = version, ref.id
        return ref

    async def delivered(self, names: Collection[str]) -> dict[str, bytes]:
        """The newest content of the thread under each of these names, as far as there is one."""
        scope, found = self._log.scope, dict[str, bytes]()
        for made in await self._reader.artifacts(scope.tenant, scope.thread_id):
            name, digest = str(made.value["name"]), made.value.get("sha256")
            if name in names and isinstance(digest, str):
                blob = await self._reader.blob(scope.tenant, scope.thread_id, digest)
                if blob is not None:
                    found[name] = blob[1]
        return found

    async def of_a_tool(self, name: str, mime: str, data: bytes | None = None, path: str | None = None) -> ArtifactRef:
        """The same within a tool call: what is wrong is the call's failure; a lost lease or a broken store is not."""
        try:
            return await self.create(name, mime, data, path)
        except StepFailed as failed:
            raise HoldfastError(failed.failure.code, failed.failure.message) from failed
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error

    async def _content(self, data: bytes | None, path: str | None) -> bytes:
        if (data is None) == (path is None):
            raise StepFailed(Failure("ARTIFACT_INVALID", "An artifact needs either data or a path."))
        if data is None and path is not None:
            if self._files is None:
                raise StepFailed(Failure("ARTIFACT_INVALID", "This server has no folder for files."))
            read = await asyncio.to_thread(_read, self._files, self._log.scope.tenant, path)
            if isinstance(read, Failure):
                raise StepFailed(read)
            data = read
        assert data is not None
        if len(data) > MAX_ARTIFACT_BYTES:
            message = f"The artifact of {len(data)} bytes exceeds {MAX_ARTIFACT_BYTES} bytes."
            raise StepFailed(Failure("ARTIFACT_TOO_LARGE", message))
        return bytes(data)

    async def _next_version(self, name: str) -> tuple[int, str | None]:
        versions, scope = self._log.control.versions, self._log.scope
        if name not in versions:
            for made in await self._reader.artifacts(scope.tenant, scope.thread_id):
                known = str(made.value["name"])
                number = versions[known][0] if known in versions else 0
                versions[known] = max(number + 1, made.value.get("version") or 1), made.id
        version, previous = versions.get(name, (0, None))
        return version + 1, previous


def _read(files: Path, tenant: str, path: str) -> bytes | Failure:
    return Rooted(tenant_folder(files, tenant)).read(path, MAX_ARTIFACT_BYTES)


def _check_names(name: str, mime: str) -> None:
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        message = f"The name of an artifact has 1 to {_MAX_NAME} printable characters."
        raise StepFailed(Failure("ARTIFACT_INVALID", message))
    if not mime or len(mime) > _MAX_MIME or "/" not in mime or not mime.isascii() or not mime.isprintable():
        raise StepFailed(Failure("ARTIFACT_INVALID", "The media type of an artifact has the form type/subtype."))
