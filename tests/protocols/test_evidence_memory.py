"""A pack of a long thread takes no more memory than one of a short thread, to make and to verify."""

import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest

from app.core import json
from app.events.catalog import adapter
from app.events.catalog.request import RequestQueued
from app.events.envelope import GENESIS, Event, seal
from app.protocols.dialects.evidence_check import Verified, verify_pack
from app.protocols.dialects.evidence_pack import EvidencePack
from app.views.ports import Reader
from app.views.thread import Thread
from tests.views.story import START_MS, THREAD


class LongThread:
    """Makes its events when they are read, page by page in order."""

    def __init__(self, length: int) -> None:
        self._length, self._last = length, GENESIS

    async def events(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Event]:
        return [self._event(seq) for seq in range(after + 1, min(after + limit, self._length) + 1)]

    def _event(self, seq: int) -> Event:
        payload: Any = RequestQueued(input="count", agent="echo")
        if seq > 1:
            said = adapter.Signal(adapter="echo", phase=adapter.OUTPUT_DELTA, message_id="m", part=0, text=f"w{seq} ")
            payload = adapter.AdapterEvent(event=said)
        data, at, id = json.canonical(payload.to_json()), START_MS + seq, f"evt_{seq}"
        previous = self._last
        self._last = seal(previous, id, "default", THREAD, "run_1", seq, seq, payload.type, "system", at, data, None)
        return Event(
            id, "default", THREAD, "run_1", seq, seq, payload.type, "system", at, data, None, previous, self._last
        )


async def peak(length: int, file: Path) -> int:
    async def no_files(_digest: str) -> None:
        return None

    thread = Thread(THREAD)
    thread.last_seq = length
    tracemalloc.start()
    try:
        with file.open("wb") as sink:
            async for piece in EvidencePack(
                cast(Reader, LongThread(length)), "default", thread, None, no_files
            ).pieces():
                sink.write(piece)
        found = verify_pack(file)
        _, highest = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(found, Verified) and found.events == length
    return highest


@pytest.mark.requirement("LC-6")
async def test_the_memory_of_a_pack_does_not_grow_with_its_events(tmp_path: Path) -> None:
    short, long = await peak(2_000, tmp_path / "short.zip"), await peak(8_000, tmp_path / "long.zip")
    assert long < short + 1_000_000
