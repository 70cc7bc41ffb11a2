"""An evidence pack: everything that the log says about a run or a thread, as one archive that anybody can verify.

Written while it is read, so that its size does not matter, and without a time of its own, so that two packs of the same
run are the same bytes. Members are stored as they are, without compression. `evidence_check` is the inverse.
"""

import platform
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from app import __version__
from app.core import json
from app.core.value import mutable
from app.events.blobs import MAX_RESTORED_BYTES
from app.events.chain import Broken, ChainCheck, Head
from app.events.envelope import Event, iso_at
from app.views.dropped import compactions
from app.views.evidence import EvidenceFold, summary_page
from app.views.ports import Reader
from app.views.run import Run
from app.views.thread import Thread

FORMAT: Final = "holdfast-evidence/v1"
EVENTS: Final = "events.jsonl"
COMPACTIONS: Final = "compactions.jsonl"
MANIFEST: Final = "manifest.json"
_PAGE: Final = 1000
_BLOB_PART: Final = 1024 * 1024
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that the format knows: a pack has none of its own."""

Files = Callable[[str], Awaitable[Mapping[str, bytes] | None]]
"""The files of a workspace by its digest."""


class _Sink:
    """What the archive writes, until it is sent."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes, /) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


@mutable(slots=True)
class _Member:
    size: int
    sha256: str


class EvidencePack:
    def __init__(self, reader: Reader, tenant: str, thread: Thread, run: Run | None, files: Files) -> None:
        self._reader, self._tenant, self._thread, self._run, self._files = reader, tenant, thread, run, files
        self._sink = _Sink()
        self._archive = zipfile.ZipFile(self._sink, "w", zipfile.ZIP_STORED)
        self._members: dict[str, _Member] = {}
        self._fold = EvidenceFold()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The archive as it is made."""
        later = [] if self._run is None else await compactions(self._reader, self._tenant, self._run)
        check: ChainCheck | None = None
        with _Writing(self, EVENTS) as member:
            async for page in self._pages():
                if check is None:
                    check = ChainCheck(start=Head(page[0].seq - 1, page[0].prev_hash))
                check.feed(page)
                for event in page:
                    self._fold.apply(event)
                    member.write(event.export_line() + b"\n")
                yield self._sink.take()
        if later:
            self._put(COMPACTIONS, b"".join(event.export_line() + b"\n" for event in later))
            if check is not None:
                check.explain(later)
        missing: list[str] = []
        for digest in self._fold.blobs():
            async for piece in self._blob(digest, missing):
                yield piece
        await self._workspaces()
        self._put("environment.json", json.pretty(environment()))
        verification = self._verification(check, missing)
        self._put("verification.json", json.pretty(verification))
        for name, data in self._fold.records().items():
            self._put(name, data)
        self._put("summary.html", summary_page(self._fold, verification))
        self._put(MANIFEST, json.pretty(manifest(self._fold, verification, self._listing())))
        self._archive.close()
        yield self._sink.take()

    async def _pages(self) -> AsyncIterator[list[Event]]:
        """A thread up to its end as it was when the pack was asked for; of a run what lies between its ends."""
        run = self._run
        after, end = (0, self._thread.last_seq) if run is None else (run.first_seq - 1, run.last_seq)
        while after < end and (page := await self._reader.events(self._tenant, self._thread.id, after, _PAGE)):
            after = page[-1].seq
            yield [event for event in page if event.seq <= end]

    async def _blob(self, digest: str, missing: list[str]) -> AsyncIterator[bytes]:
        found = await self._reader.blob_size(self._tenant, self._thread.id, digest)
        if found is None:
            missing.append(digest)
            return
        size, content = found[1], bytearray()
        with _Writing(self, f"blobs/{digest}") as member:
            for start in range(0, size, _BLOB_PART):
                end = min(size, start + _BLOB_PART)
                part = await self._reader.blob_part(self._tenant, self._thread.id, digest, start, end)
                member.write(part)
                if size <= MAX_RESTORED_BYTES:
                    content += part
                yield self._sink.take()
        self._fold.look_inside(content)
        yield self._sink.take()

    async def _workspaces(self) -> None:
        for digest in self._fold.workspaces:
            for path, data in sorted((await self._files(digest) or {}).items()):
                self._put(f"workspace/{digest}/{path}", data)

    def _verification(self, check: ChainCheck | None, missing: list[str]) -> dict[str, Any]:
        found = Broken(1, "there are no events") if check is None else check.finish()
        last = self._fold.last
        head = {"seq": 0 if last is None else last.seq, "hash": "" if last is None else last.hash}
        said: dict[str, Any] = {
            "scope": f"run {self._run.id}" if self._run is not None else f"thread {self._thread.id}",
            "threadId": self._thread.id,
            "runId": None if self._run is None else self._run.id,
            "head": head,
            "dropped": 0 if isinstance(found, Broken) else found.dropped,
            "missingBlobs": missing,
        }
        if isinstance(found, Broken):
            return said | {"chain": "broken", "brokenAt": {"seq": found.seq, "reason": found.reason}}
        return said | {"chain": "intact"}

    def _listing(self) -> list[dict[str, Any]]:
        return [
            {"path": name, "role": role_of(name), "size": member.size, "sha256": member.sha256}
            for name, member in self._members.items()
        ]

    def _put(self, name: str, data: bytes) -> None:
        with _Writing(self, name) as member:
            member.write(data)


class _Writing:
    """One member of the archive, written piece by piece."""

    def __init__(self, pack: EvidencePack, name: str) -> None:
        self._pack, self._name = pack, name
        self._hash, self._size = sha256(), 0
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr = 0o644 << 16
        info.create_system = 3  # whatever machine writes it
        self._file = pack._archive.open(info, "w", force_zip64=True)

    def __enter__(self) -> "_Writing":
        return self

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    def __exit__(self, *_error: object) -> None:
        self._file.close()
        self._pack._members[self._name] = _Member(self._size, self._hash.hexdigest())


def role_of(name: str) -> str:
    return name.partition("/")[0].partition(".")[0]


def environment() -> dict[str, str]:
    """What wrote the pack."""
    return {"holdfast": __version__, "python": platform.python_version(), "format": FORMAT}


def pack_id(listing: list[dict[str, Any]]) -> str:
    return "evp_" + sha256(json.canonical(listing)).hexdigest()


def manifest(fold: EvidenceFold, verification: Mapping[str, Any], listing: list[dict[str, Any]]) -> dict[str, Any]:
    first, last = fold.first, fold.last
    created = "" if first is None else iso_at(first.at)
    unfinished = any(run["status"] == "unfinished" for run in fold.runs.values())
    whole = verification["chain"] == "intact" and not verification["missingBlobs"]
    id = pack_id(listing)
    return {
        "evidence_pack_id": id,
        "export_id": id,
        "schema_version": FORMAT,
        "scope": {"threadId": verification["threadId"], "runId": verification["runId"]},
        "status": "open" if unfinished else "closed",
        "created_at": created,
        "updated_at": "" if last is None else iso_at(last.at),
        "producer": "holdfast",
        "completeness": "complete" if whole else "incomplete",
        "start": {"seq": 0 if first is None else first.seq - 1, "hash": "" if first is None else first.prev_hash},
        "head": verification["head"],
        "files": listing,
    }
