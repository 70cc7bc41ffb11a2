"""Parts of files, blobs and artifacts over HTTP, on both databases."""

import hashlib
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from app.core.settings import Settings
from app.events.catalog.artifact import ArtifactCreated
from app.events.recorder import Scope
from app.store import files
from app.store.engine import Row
from tests.server import in_process

CONTENT = hashlib.shake_256(b"content").digest(2_500_000)  # three chunks of the store
TEXT = "0123456789" * 5_000


async def _file(client: httpx2.AsyncClient) -> tuple[str, bytes]:
    made = await client.post("/api/files", params={"name": "a.bin"}, content=CONTENT)
    return f"/api/files/{made.json()['id']}/content", CONTENT


async def _blob(client: httpx2.AsyncClient) -> tuple[str, bytes]:
    run = (await client.post("/api/runs?wait=30", json={"agent": "echo", "input": TEXT})).json()
    return f"/api/threads/{run['threadId']}/blobs/{run['input']['$blob']['sha256']}", TEXT.encode()


@pytest.mark.requirement("SH-22")
@pytest.mark.parametrize("store", [_file, _blob])
async def test_a_part_is_served_and_a_wrong_one_refused(
    client: httpx2.AsyncClient, store: Callable[[httpx2.AsyncClient], Awaitable[tuple[str, bytes]]]
) -> None:
    path, content = await store(client)
    size = len(content)
    whole = await client.get(path)
    etag = whole.headers["etag"]
    assert (whole.status_code, whole.headers["accept-ranges"], whole.content == content) == (200, "bytes", True)
    for text, start, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        (f"bytes={size - 5}-", size - 5, size),
        ("bytes=-7", size - 7, size),
        (f"bytes=10-{size * 2}", 10, size),
        ("bytes=1048570-1048580", 1048570, 1048581),
        (f"bytes=3-{size - 3}", 3, size - 2),
    ):
        if start >= size:
            continue
        part = await client.get(path, headers={"range": text})
        assert (part.status_code, part.content == content[start:end]) == (206, True), text
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert part.headers["content-length"] == str(end - start)
        assert part.headers["etag"] == etag
        assert part.headers["content-security-policy"] == "sandbox"
    beyond = await client.get(path, headers={"range": f"bytes={size}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    assert beyond.json()["error"]["code"] == "RANGE_NOT_SATISFIABLE"
    for ignored in ("bytes=0-1,3-4", "lines=0-1", "bytes=5-1", "nonsense"):
        assert (await client.get(path, headers={"range": ignored})).status_code == 200
    same = await client.get(path, headers={"range": "bytes=0-3", "if-range": etag})
    assert (same.status_code, same.content) == (206, content[:4])
    for other in ('"other"', f"W/{etag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert (await client.get(path, headers={"range": "bytes=0-3", "if-range": other})).status_code == 200
    head = await client.head(path, headers={"range": "bytes=0-3"})
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(size), b"")
    assert head.headers["accept-ranges"] == "bytes"
    assert (await client.get(path, headers={"if-none-match": etag})).status_code == 304


async def test_a_part_of_an_artifact_has_its_type_and_name(settings: Settings) -> None:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, verify=False) as client:
        path, content = await _blob(client)
        thread, sha256 = path.split("/")[3], path.rpartition("/")[2]
        made = ArtifactCreated(artifact={"id": "art_r", "name": "a.txt", "mime": "text/plain", "sha256": sha256})
        await server.holdfast.store.recorder.record(Scope("default", thread), made)
        part = await client.get("/api/artifacts/art_r/content", headers={"range": "bytes=1-3"})
        assert (part.status_code, part.content, part.headers["content-type"]) == (206, content[1:4], "text/plain")
        assert "a.txt" in part.headers["content-disposition"]
        assert (await client.head("/api/artifacts/art_r/content")).headers["content-length"] == str(len(content))
        empty = (await client.post("/api/files", params={"name": "empty"}, content=b"")).json()["id"]
        whole = await client.get(f"/api/files/{empty}/content")
        assert (whole.status_code, whole.content) == (200, b"")
        assert (await client.get(f"/api/files/{empty}/content", headers={"range": "bytes=0-"})).status_code == 416


async def test_only_the_chunks_of_the_range_are_read(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = files.FileStore._read_chunk

    async def watched(self: files.FileStore, tenant: str, file_id: str, number: int) -> list[Row]:
        read.append(number)
        return await real(self, tenant, file_id, number)

    monkeypatch.setattr(files.FileStore, "_read_chunk", watched)
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, verify=False) as client:
        path, content = await _file(client)
        start = files.CHUNK_BYTES + 10
        part = await client.get(path, headers={"range": f"bytes={start}-{start + 9}"})
        assert (part.content, read) == (content[start : start + 10], [1])
        await client.head(path)
        assert read == [1]
