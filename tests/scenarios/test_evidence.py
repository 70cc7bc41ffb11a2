"""Evidence packs over HTTP: complete, the same bytes each time, and verified with nothing but the file."""

import io
import random
import zipfile
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core import json
from app.events.chain import Head
from app.protocols.dialects.evidence_check import Mismatch, Verified, verify_pack
from tests.clients import reached, submit

pytestmark = pytest.mark.requirement("LC-6")


async def packed(client: httpx2.AsyncClient, path: str, to: Path) -> Path:
    answer = await client.get(f"{path}/evidence")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/zip"
    return written(to, answer.content)


async def approved_run(client: httpx2.AsyncClient) -> dict[str, Any]:
    run = await submit(client, "assistant", "publish it now", wait=20)
    answer = {"decision": "approve", "reason": "looks <b>right</b>"}
    await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json=answer)
    return await reached(client, run["id"])


async def test_a_pack_of_a_run_has_everything_and_verifies(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run = await approved_run(client)
    file = await packed(client, f"/api/runs/{run['id']}", tmp_path / "pack.zip")
    found = verify_pack(file)
    assert isinstance(found, Verified) and found.complete
    assert found.scope == {"threadId": run["threadId"], "runId": run["id"]}
    last = (await client.get(f"/api/threads/{run['threadId']}/events?after={run['lastSeq'] - 1}")).json()["items"][0]
    assert found.head == Head(last["seq"], last["hash"])
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        (asked,) = json.loads(archive.read("approvals.json"))
        calls = [json.loads(line) for line in archive.read("calls.jsonl").splitlines()]
        page = archive.read("summary.html").decode()
        (made,) = json.loads(archive.read("runs.json"))
    assert (asked["decision"], asked["answeredBy"], asked["tool"]) == ("approve", "user:local", "publish")
    assert {call["kind"] for call in calls} == {"model", "tool"}
    assert [call["approvalId"] for call in calls if call.get("tool") == "publish"] == [asked["id"]]
    assert f"workspace/{made['workspaceDigest']}/runtime.yaml" in names
    assert "user:local" in page and "<script" not in page and "src=" not in page and "http" not in page


async def test_packs_of_the_same_run_are_the_same_bytes(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run = await approved_run(client)
    for path in (f"/api/runs/{run['id']}", f"/api/threads/{run['threadId']}"):
        first = await packed(client, path, tmp_path / "first.zip")
        second = await packed(client, path, tmp_path / "second.zip")
        assert first.read_bytes() == second.read_bytes()
        assert isinstance(verify_pack(first), Verified)


async def test_runs_that_share_a_thread_each_have_their_part_of_the_chain(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    first = await submit(client, "echo", "one two", wait=20)
    large = await submit(client, "assistant", "please calculate " + "x" * 20_000, threadId=first["threadId"])
    second = await reached(client, large["id"])
    for run in (first, second):
        found = verify_pack(await packed(client, f"/api/runs/{run['id']}", tmp_path / f"{run['id']}.zip"))
        assert isinstance(found, Verified) and found.head.seq == run["lastSeq"]
    with zipfile.ZipFile(tmp_path / f"{second['id']}.zip") as archive:
        assert any(name.startswith("blobs/") for name in archive.namelist())


async def test_any_flipped_byte_of_any_member_is_found(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    run = await approved_run(client)
    file = await packed(client, f"/api/runs/{run['id']}", tmp_path / "pack.zip")
    members = read(file)
    chance = random.Random(7)
    for name, data in members.items():
        for place in {0, len(data) // 2, len(data) - 1, *(chance.randrange(len(data)) for _ in range(8))}:
            flipped = data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
            # Written anew, so that the archive's own checksums fit: only the content gives it away.
            found = verify_pack(write(tmp_path / "flipped.zip", members | {name: flipped}))
            assert isinstance(found, Mismatch), f"{name} at {place}"
    raw = bytearray(file.read_bytes())
    raw[raw.index(b'"type":"runtime.request.queued"') + 3] ^= 1
    (tmp_path / "raw.zip").write_bytes(raw)
    torn = verify_pack(tmp_path / "raw.zip")
    assert isinstance(torn, Mismatch) and torn.member == "events.jsonl"


async def test_members_that_are_missing_added_doubled_or_compressed_are_found(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    run = await approved_run(client)
    members = read(await packed(client, f"/api/runs/{run['id']}", tmp_path / "pack.zip"))
    for name in members:
        left = {key: data for key, data in members.items() if key != name}
        assert isinstance(verify_pack(write(tmp_path / "less.zip", left)), Mismatch), name
    more = verify_pack(write(tmp_path / "more.zip", members | {"zzz.txt": b"x"}))
    assert isinstance(more, Mismatch) and more.member == "manifest.json"
    with zipfile.ZipFile(tmp_path / "small.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert isinstance(verify_pack(tmp_path / "small.zip"), Mismatch)
    doubled = write(tmp_path / "double.zip", members)
    with zipfile.ZipFile(doubled, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("events.jsonl", members["events.jsonl"])
    assert verify_pack(tmp_path / "double.zip") == Mismatch("archive", "a member occurs twice")
    (tmp_path / "none.zip").write_bytes(b"no archive")
    assert verify_pack(tmp_path / "none.zip") == Mismatch("archive", "it cannot be read: File is not a zip file")


async def test_a_head_that_was_noted_elsewhere_tells_a_log_that_was_made_anew(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    run = await approved_run(client)
    file = await packed(client, f"/api/runs/{run['id']}", tmp_path / "pack.zip")
    assert isinstance(verify_pack(file, Head(run["lastSeq"], "0" * 64)), Mismatch)


async def test_what_is_not_there_answers_so(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/api/runs/run_nowhere/evidence")).status_code == 404
    assert (await client.get("/api/threads/thr_nowhere/evidence")).status_code == 404


def written(file: Path, data: bytes) -> Path:
    file.write_bytes(data)
    return file


def read(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(file: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file
