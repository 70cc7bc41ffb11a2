"""Artifacts of one run: content stored under a name, in one commit with the event that reports it.

An artifact that the log has with the same name and content is not stored again when the run is entered again. The
artifacts of a thread that have one name are versions of it. Leaves to the store: the content.
"""

import asyncio
import hashlib
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from app.backends.contract import StepFailed
from app.core.artifact import MAX_ARTIFACT_BYTES, MAX_ARTIFACT_NAME, ArtifactRef, FormerContent
from app.core.errors import Failure, HoldfastError
from app.core.ids import new_id
from app.events.catalog.artifact import ArtifactCreated
from app.events.catalog.interrupt import InterruptResolved
from app.events.catalog.values import ArtifactValue
from app.events.ports import BlobDraft, InterruptOpen, Refused, StoreError
from app.events.recorder import PayloadEntry
from app.outside.files import Rooted, tenant_folder
from app.runtime.run.run_log import CutOff, RunLog, Superseded, expect
from app.runtime.run.unused import Unused, content_hash
from app.views.interrupt import Interrupt
from app.views.ports import Reader
from app.views.text_diff import FILE, MAX_COMPARED_BYTES, diff_names, unified_diff

_MAX_MIME: Final = 200
_RACES: Final = 5
"""How often a question may be answered by somebody else while its artifact is about to be stored."""


class RunArtifacts:
    def __init__(self, log: RunLog, reader: Reader, files: Path | None) -> None:
        self._log, self._reader, self._files = log, reader, files

    @cached_property
    def _recorded(self) -> Unused:
        made = self._log.memo.artifacts
        return Unused((content_hash(one["name"], one.get("mime"), one.get("sha256")), one) for one in made)

    async def create(
        self,
        name: str,
        mime: str,
        data: bytes | None = None,
        path: str | None = None,
        former: FormerContent | None = None,
    ) -> ArtifactRef:
        _check_names(name, mime)
        content = await self._content(data, path)
        digest = hashlib.sha256(content).hexdigest()
        found = self._recorded.take(content_hash(name, mime, digest))
        if found is not None:
            return ArtifactRef(found["id"], name, mime, len(content), digest, found.get("version", 1))
        self._log.stop_if_cancelled()
        changed = {} if former is None else await asyncio.to_thread(_changed, name, former, content)
        # One after the other: the branches and subagents of a run may make versions of one name at once.
        async with self._log.control.artifacts:
            version, previous = await self._next_version(name)
            ref = ArtifactRef(new_id("artifact"), name, mime, len(content), digest, version)
            value = ArtifactValue(
                id=ref.id,
                name=name,
                mime=mime,
                size=ref.size,
                sha256=digest,
                version=version,
                previous=previous,
                **changed,
            )
            created = PayloadEntry(ArtifactCreated(artifact=value), blobs=(BlobDraft(digest, content, mime),))
            await self._record(created, name)
            self._log.control.versions[name] = version, ref.id
        return ref

    async def _record(self, created: PayloadEntry, name: str) -> None:
        """With the answers to the questions of the thread that this artifact was the last to be missing for."""
        log, scope = self._log, self._log.scope
        for _ in range(_RACES):
            found = await self._answered_by(name)
            if not found:
                break
            await log.opened()
            await log.settle()
            by = f"artifact:{name}"
            answers = [
                PayloadEntry(InterruptResolved(interrupt_id=one.id, answer={"answers": {}}, answered_by=by), one.run_id)
                for one in found
            ]
            met = [InterruptOpen(one.id) for one in found]
            answer = await log.recorder.record(scope, created, *answers, conditions=met)
            if isinstance(answer, Refused) and answer.failure.code == "INTERRUPT_NOT_OPEN":
                continue  # somebody answered it meanwhile
            expect(answer)
            for run_id in {one.run_id for one in found if one.run_id is not None}:
                log.control.awaken(run_id)
            return
        await log.record(created)

    async def _answered_by(self, name: str) -> list[Interrupt]:
        scope = self._log.scope
        wanted = await self._reader.wanted_artifacts(scope.tenant, scope.thread_id)
        wanted = [one for one in wanted if name in (one.artifacts or ())]
        if not wanted:
            return []
        made = await self._reader.artifacts(scope.tenant, scope.thread_id)
        known = {name, *(str(one.value["name"]) for one in made)}
        return [one for one in wanted if known.issuperset(one.artifacts or ())]

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

    async def of_a_tool(
        self,
        name: str,
        mime: str,
        data: bytes | None = None,
        path: str | None = None,
        former: FormerContent | None = None,
    ) -> ArtifactRef:
        """The same within a tool call: what is wrong is the call's failure; a lost lease or a broken store is not."""
        try:
            return await self.create(name, mime, data, path, former)
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


def _changed(name: str, former: FormerContent, content: bytes) -> dict[str, Any]:
    """Of a file that was changed: what it held before, and a diff where both are texts that can be compared."""
    before = former.data or b""
    fields = {"kind": FILE, "former": "" if former.data is None else hashlib.sha256(before).hexdigest()}
    if max(len(before), len(content)) > MAX_COMPARED_BYTES or b"\x00" in before + content:
        return fields
    try:
        texts = before.decode(), content.decode()
    except UnicodeDecodeError:
        return fields
    return {**fields, "diff": unified_diff(*texts, *diff_names(name, former.data is not None))}


def _read(files: Path, tenant: str, path: str) -> bytes | Failure:
    return Rooted(tenant_folder(files, tenant)).read(path, MAX_ARTIFACT_BYTES)


def _check_names(name: str, mime: str) -> None:
    if not name or len(name) > MAX_ARTIFACT_NAME or not name.isprintable():
        message = f"The name of an artifact has 1 to {MAX_ARTIFACT_NAME} printable characters."
        raise StepFailed(Failure("ARTIFACT_INVALID", message))
    if not mime or len(mime) > _MAX_MIME or "/" not in mime or not mime.isascii() or not mime.isprintable():
        raise StepFailed(Failure("ARTIFACT_INVALID", "The media type of an artifact has the form type/subtype."))
