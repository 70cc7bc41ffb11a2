"""A disk without room: writes are refused by name, reads go on, and room is all it takes to go on."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.ports import StorageFull
from app.wiring.store import open_store
from tests.faults.audit import SeenEvent, audit
from tests.faults.client import ends
from tests.faults.conftest import Count
from tests.faults.load import Producer
from tests.faults.processes import serving

DISK = "6m"
BALLAST = 1024 * 1024
ENDS_WITHIN = 20.0
"""Seconds: a lease (15) and 5 more."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB with a ballast file on it that can be thrown off."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    assert mounted.returncode == 0, f"this machine does not let root mount a tmpfs: {mounted.stderr}"
    try:
        (disk / "ballast").write_bytes(b"\0" * BALLAST)
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.requirement("G16", "G1")
async def test_a_full_disk_refuses_writes_serves_reads_and_recovers_when_there_is_room(
    small_disk: Path, count: Count
) -> None:
    acknowledged: list[SeenEvent] = []
    async with open_store(Settings(data_dir=small_disk / "data")) as store:
        producer = Producer(store.recorder, lambda event: acknowledged.append(SeenEvent.of(event)))
        with pytest.raises(StorageFull):
            await producer.produce()
        with pytest.raises(StorageFull):  # and it stays so: a second attempt neither hangs nor slips through
            await producer.produce()
        last = acknowledged[-1]
        assert [e.id for e in await store.reader.events(DEFAULT_TENANT, last.thread_id, last.seq - 1, 1)] == [last.id]
        (await audit(store, acknowledged)).assert_sound()

        (small_disk / "ballast").unlink()

        before = len(acknowledged)
        await producer.produce(runs=3)
        assert len(acknowledged) > before
        count(await audit(store, acknowledged))
    async with open_store(Settings(data_dir=small_disk / "data")) as store:
        (await audit(store, acknowledged)).assert_sound()


@pytest.mark.requirement("G16")
async def test_a_server_on_a_full_disk_answers_503_and_goes_on_without_a_restart(small_disk: Path) -> None:
    async with serving(Settings(data_dir=small_disk / "data")) as (_, url):
        async with httpx2.AsyncClient(base_url=url, timeout=20) as http:
            answer = await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "before"})
            assert (answer.status_code, answer.json()["status"]) == (200, "completed")
            first, accepted = answer.json()["id"], []
            _fill(small_disk)
            for number in range(1000):  # what the database's files had allocated is used up first
                answer = await http.post("/api/runs", json={"agent": "echo", "input": f"{number} {'y' * 5000}"})
                if answer.status_code != 202:
                    break
                accepted.append(answer.json()["threadId"])
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STORAGE_FULL")
            assert "retry-after" in answer.headers
            assert (await http.get(f"/api/runs/{first}")).status_code == 200
            assert (await http.get(f"/api/runs/{first}/events")).json()["items"]

            (small_disk / "ballast").unlink()

            answer = await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "there is room again"})
            assert (answer.status_code, answer.json()["status"]) == (200, "completed")
            async with asyncio.timeout(ENDS_WITHIN):
                await ends(url, accepted)


def _fill(disk: Path) -> None:
    """Leave no free space except the ballast."""
    room = os.statvfs(disk)
    (disk / "filling").write_bytes(b"\0" * room.f_bavail * room.f_frsize)
    assert os.statvfs(disk).f_bavail == 0
