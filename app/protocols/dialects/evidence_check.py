"""Verifies an evidence pack with nothing but its file, and names the first thing that does not match.

Every member must have the hash that the manifest says; the events must form a chain; and what was made from them
(records, page, manifest) is made again and compared byte by byte. Memory does not grow with the number of events.
"""

import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.value import value
from app.events.blobs import MAX_RESTORED_BYTES
from app.events.chain import Broken, ChainCheck, Head
from app.events.envelope import Event
from app.protocols.dialects.evidence_pack import COMPACTIONS, EVENTS, MANIFEST, manifest, pack_id
from app.protocols.dialects.native import read_event
from app.views.evidence import EvidenceFold, summary_page
from app.workspace.files import WorkspaceFiles

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of an event's line; the server stores none that is nearly so long."""
MAX_SMALL: Final = 256 * 1024 * 1024
"""Bytes of a member that is compared as a whole."""
_PART: Final = 1024 * 1024


@value(frozen=True, slots=True)
class Verified:
    pack_id: str
    scope: dict[str, Any]
    head: Head
    events: int
    complete: bool


@value(frozen=True, slots=True)
class Mismatch:
    """The first thing that does not match."""

    member: str
    reason: str


class _Wrong(Exception):
    def __init__(self, member: str, reason: str) -> None:
        super().__init__(reason)
        self.found = Mismatch(member, reason)


def verify_pack(path: Path, expected: Head | None = None) -> Verified | Mismatch:
    """`expected` is a head that was noted elsewhere: only it can tell a pack that was made anew as a whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _Check(archive, expected).run()
    except _Wrong as wrong:
        return wrong.found
    except json.JsonError as error:
        return Mismatch(MANIFEST, f"it cannot be read: {error}")
    except (zipfile.BadZipFile, OSError, NotImplementedError, EOFError, ValueError, KeyError, TypeError) as error:
        return Mismatch("archive", f"it cannot be read: {error}")


class _Check:
    def __init__(self, archive: zipfile.ZipFile, expected: Head | None) -> None:
        self._archive, self._expected = archive, expected
        names = [info.filename for info in archive.infolist()]
        if len(set(names)) != len(names):
            raise _Wrong("archive", "a member occurs twice")
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise _Wrong(info.filename, "it is compressed, which no pack of ours is")
        if MANIFEST not in names:
            raise _Wrong(MANIFEST, "it is missing")
        self._names = names

    def run(self) -> Verified:
        said = json.loads(self._small(MANIFEST))
        listing: list[dict[str, Any]] = said["files"]
        listed = [entry["path"] for entry in listing]
        if [*listed, MANIFEST] != self._names:
            raise _Wrong(MANIFEST, "it does not list the members that are there")
        for entry in listing:
            size, digest = self._measure(entry["path"])
            if (size, digest) != (entry["size"], entry["sha256"]):
                raise _Wrong(entry["path"], "its content is not what the manifest lists")
            if entry["path"].startswith("blobs/") and entry["path"] != f"blobs/{digest}":
                raise _Wrong(entry["path"], "its content does not have the hash that it is named after")
        if said["evidence_pack_id"] != pack_id(listing):
            raise _Wrong(MANIFEST, "its id does not follow from what it lists")
        self._workspaces()
        fold, found = self._events(Head(said["start"]["seq"], said["start"]["hash"]))
        verification = self._verification(fold, found, said)
        for name, data in fold.records().items():
            self._same(name, data)
        self._same("verification.json", json.pretty(verification))
        self._same("summary.html", summary_page(fold, verification))
        self._same(MANIFEST, json.pretty(manifest(fold, verification, listing)))
        if isinstance(found, Broken):
            raise _Wrong(EVENTS, f"the chain is broken at seq {found.seq}: {found.reason}")
        complete = said["completeness"] == "complete"
        return Verified(said["evidence_pack_id"], said["scope"], found, sum(fold.counts.values()), complete)

    def _events(self, start: Head) -> tuple[EvidenceFold, Head | Broken]:
        fold, check = EvidenceFold(), ChainCheck(self._expected, start)
        for event in self._lines(EVENTS):
            check.feed((event,))
            fold.apply(event)
        if COMPACTIONS in self._names:
            check.explain(self._lines(COMPACTIONS))
        return fold, check.finish()

    def _verification(self, fold: EvidenceFold, found: Head | Broken, said: dict[str, Any]) -> dict[str, Any]:
        """What must stand in `verification.json`; which blobs were missing is taken from it and compared with the
        members."""
        stated = json.loads(self._small("verification.json"))
        if self._missing_blobs(fold) != stated["missingBlobs"]:
            raise _Wrong("verification.json", "it does not say which blobs are missing")
        thread, run = said["scope"]["threadId"], said["scope"]["runId"]
        last = fold.last
        if last is not None and last.thread_id != thread:
            raise _Wrong(MANIFEST, "the events are of another thread")
        if run is not None and run not in fold.runs:
            raise _Wrong(MANIFEST, "the events are of another run")
        made = {
            "scope": f"thread {thread}" if run is None else f"run {run}",
            "threadId": thread,
            "runId": run,
            "head": {"seq": 0 if last is None else last.seq, "hash": "" if last is None else last.hash},
            "dropped": 0 if isinstance(found, Broken) else found.dropped,
            "missingBlobs": stated["missingBlobs"],
        }
        if isinstance(found, Broken) and self._expected is None:
            return made | {"chain": "broken", "brokenAt": {"seq": found.seq, "reason": found.reason}}
        if isinstance(found, Broken):
            raise _Wrong(EVENTS, f"the chain is broken at seq {found.seq}: {found.reason}")
        return made | {"chain": "intact"}

    def _missing_blobs(self, fold: EvidenceFold) -> list[str]:
        there = {name.removeprefix("blobs/") for name in self._names if name.startswith("blobs/")}
        missing = []
        for digest in fold.blobs():
            if digest not in there:
                missing.append(digest)
            elif self._archive.getinfo(f"blobs/{digest}").file_size <= MAX_RESTORED_BYTES:
                fold.look_inside(self._small(f"blobs/{digest}"))
        if unknown := sorted(there.difference(fold.blobs())):
            raise _Wrong(f"blobs/{unknown[0]}", "no event refers to it")
        return missing

    def _workspaces(self) -> None:
        """A workspace's digest is over its files, so that none can be changed, added or left out."""
        found: dict[str, dict[str, bytes]] = {}
        for name in self._names:
            if name.startswith("workspace/"):
                _, digest, path = name.split("/", 2)
                found.setdefault(digest, {})[path] = self._small(name)
        for digest, files in found.items():
            if WorkspaceFiles.from_contents(files).digest != digest:
                raise _Wrong(f"workspace/{digest}", "its files do not give its digest")

    # -- members -------------------------------------------------------------------------------------

    def _measure(self, name: str) -> tuple[int, str]:
        digest, size = sha256(), 0
        with self._open(name) as member:
            while part := self._read(name, member, _PART):
                digest.update(part)
                size += len(part)
        return size, digest.hexdigest()

    def _lines(self, name: str) -> Iterator[Event]:
        with self._open(name) as member:
            number = 0
            while line := member.readline(MAX_LINE):
                number += 1
                try:
                    event = read_event(json.loads(line))
                    fits = event.export_line() + b"\n" == line
                except (json.JsonError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
                    fits = False
                if not fits:
                    raise _Wrong(name, f"line {number} is not an event as the server writes it")
                yield event

    def _small(self, name: str) -> bytes:
        if self._archive.getinfo(name).file_size > MAX_SMALL:
            raise _Wrong(name, f"it is larger than {MAX_SMALL} bytes")
        with self._open(name) as member:
            return self._read(name, member, MAX_SMALL + 1)

    def _same(self, name: str, data: bytes) -> None:
        if self._small(name) != data:
            raise _Wrong(name, "it does not follow from the events")

    def _open(self, name: str) -> zipfile.ZipExtFile:
        try:
            member = self._archive.open(name)
        except (zipfile.BadZipFile, KeyError) as error:
            raise _Wrong(name, f"it cannot be read: {error}") from error
        assert isinstance(member, zipfile.ZipExtFile)
        return member

    def _read(self, name: str, member: zipfile.ZipExtFile, count: int) -> bytes:
        try:
            return member.read(count)
        except zipfile.BadZipFile as error:
            raise _Wrong(name, f"it cannot be read: {error}") from error
