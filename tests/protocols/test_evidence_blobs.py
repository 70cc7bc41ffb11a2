"""A pack holds every blob that its events need, also those inside other blobs, and no other."""

import io
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest

from app.core import json
from app.events.catalog.request import RequestQueued
from app.events.envelope import GENESIS, Event, seal
from app.protocols.dialects.evidence_check import Mismatch, Verified, verify_pack
from app.protocols.dialects.evidence_pack import EvidencePack
from app.views.evidence import EvidenceFold
from app.views.ports import Reader
from app.views.thread import Thread
from tests.events.test_blobs import Blobs
from tests.scenarios.test_evidence import written
from tests.views.story import START_MS, THREAD

pytestmark = pytest.mark.requirement("LC-6")


class OneEvent:
    """A thread with one event, and the blobs that were stored for it."""

    def __init__(self, input: Any, stored: dict[str, bytes]) -> None:
        data, self._stored = json.canonical(RequestQueued(input=input, agent="echo").to_json()), stored
        head = ("default", THREAD, "run_1", 1, 1, RequestQueued.type, "system", START_MS, data, None)
        self._event = Event("evt_1", *head, GENESIS, seal(GENESIS, "evt_1", *head))

    async def events(self, _tenant: str, _thread_id: str, after: int, _limit: int) -> list[Event]:
        return [] if after else [self._event]

    async def blob_size(self, _tenant: str, _thread_id: str, digest: str) -> tuple[str, int] | None:
        data = self._stored.get(digest)
        return None if data is None else ("application/octet-stream", len(data))

    async def blob_part(self, _tenant: str, _thread_id: str, digest: str, start: int, end: int) -> bytes:
        return self._stored[digest][start:end]


async def packed(file: Path, input: Any, stored: dict[str, bytes]) -> Path:
    async def no_files(_digest: str) -> None:
        return None

    thread = Thread(THREAD)
    thread.last_seq = 1
    pack = EvidencePack(cast(Reader, OneEvent(input, stored)), "default", thread, None, no_files)
    return written(file, b"".join([piece async for piece in pack.pieces()]))


def nested() -> tuple[dict[str, Any], Blobs, str]:
    """A reference to a blob within a blob within a blob, and the hash of the innermost."""
    stored = Blobs()
    deep = stored.put("deep")
    return stored.put({"more": [stored.put({"text": deep, "quoted": '{"$blob":{}}'})]}), stored, deep["$blob"]["sha256"]


def blobs_of(file: Path) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        return {name.removeprefix("blobs/") for name in archive.namelist() if name.startswith("blobs/")}


async def test_blobs_inside_other_blobs_are_in_the_pack(tmp_path: Path) -> None:
    outer, stored, _ = nested()
    file = await packed(tmp_path / "pack.zip", outer, stored.stored)
    assert blobs_of(file) == set(stored.stored)
    found = verify_pack(file)
    assert isinstance(found, Verified) and found.complete


async def test_a_pack_without_an_inner_blob_says_so(tmp_path: Path) -> None:
    outer, stored, deep = nested()
    left = {digest: data for digest, data in stored.stored.items() if digest != deep}
    file = await packed(tmp_path / "pack.zip", outer, left)
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("verification.json"))["missingBlobs"] == [deep]
    found = verify_pack(file)
    assert isinstance(found, Verified) and not found.complete


async def test_a_pack_that_hides_a_missing_inner_blob_does_not_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, stored, _ = nested()
    with monkeypatch.context() as patch:
        patch.setattr(EvidenceFold, "look_inside", lambda _fold, _content: None)
        file = await packed(tmp_path / "pack.zip", outer, stored.stored)
    assert verify_pack(file) == Mismatch("verification.json", "it does not say which blobs are missing")


async def test_a_blob_that_nothing_refers_to_does_not_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Blobs()
    stray = stored.put("stray")["$blob"]["sha256"]
    with monkeypatch.context() as patch:
        patch.setattr(EvidenceFold, "blobs", lambda _fold: iter([stray]))
        file = await packed(tmp_path / "pack.zip", "plain", stored.stored)
    assert verify_pack(file) == Mismatch(f"blobs/{stray}", "no event refers to it")


async def test_a_name_that_is_no_hash_is_no_reference(tmp_path: Path) -> None:
    sent = {"a": {"$blob": {"sha256": "../../etc/passwd"}}, "b": {"$blob": {"sha256": None}}, "c": {"$blob": []}}
    file = await packed(tmp_path / "pack.zip", json.dumps(sent).decode(), {})
    found = verify_pack(file)
    assert isinstance(found, Verified) and found.complete and not blobs_of(file)
