"""Files in and out over HTTP: raw and as a form, never held in memory, used as parts of a message."""

import base64
import hashlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from app.core.settings import Settings
from tests.server import in_process

MIB = 1024 * 1024


async def _upload(client: httpx2.AsyncClient, content: bytes, mime: str = "text/plain", name: str = "a.txt") -> str:
    answer = await client.post("/api/files", params={"name": name}, content=content, headers={"content-type": mime})
    assert answer.status_code == 201, answer.text
    file_id: str = answer.json()["id"]
    return file_id


@pytest.mark.requirement("SH-22", "S9")
async def test_a_raw_upload_comes_back_as_it_was(client: httpx2.AsyncClient) -> None:
    content = bytes(range(256)) * 10_000  # more than two chunks of the store
    answer = await client.post(
        "/api/files", params={"name": "../x/wéird name.bin"}, content=content, headers={"content-type": "image/png"}
    )
    file = answer.json()
    assert (answer.status_code, file["name"], file["mime"]) == (201, "wéird name.bin", "image/png")
    assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert (await client.get(f"/api/files/{file['id']}")).json() == file
    back = await client.get(f"/api/files/{file['id']}/content")
    assert back.content == content
    assert back.headers["content-type"] == "image/png"
    assert back.headers["x-content-type-options"] == "nosniff"
    assert back.headers["content-disposition"] == "attachment; filename*=UTF-8''w%C3%A9ird%20name.bin"
    assert back.headers["content-length"] == str(len(content))


@pytest.mark.requirement("S9")
async def test_a_form_with_one_file_is_read_as_it_comes(client: httpx2.AsyncClient) -> None:
    content = b"line\r\n--not-the-boundary\r\n" * 100_000
    answer = await client.post(
        "/api/files",
        data={"purpose": "ignored"},
        files={"file": ("notes.md", content, "text/markdown")},
    )
    file = answer.json()
    assert (answer.status_code, file["name"], file["mime"], file["size"]) == (
        201,
        "notes.md",
        "text/markdown",
        len(content),
    )
    assert (await client.get(f"/api/files/{file['id']}/content")).content == content


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({"content-type": "multipart/form-data"}, b"x"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"nonsense"),
        ({"content-type": "multipart/form-data; boundary=b"}, b"--b\r\n\r\nno file\r\n--b--\r\n"),
        (
            {"content-type": "multipart/form-data; boundary=b"},
            b'--b\r\ncontent-disposition: form-data; name="f"; filename="a"\r\n\r\ncut',
        ),
        (
            {"content-type": "multipart/form-data; boundary=b"},
            b'--b\r\ncontent-disposition: form-data; name="f"; filename="a"\r\n\r\n1\r\n'
            b'--b\r\ncontent-disposition: form-data; name="g"; filename="b"\r\n\r\n2\r\n--b--\r\n',
        ),
        (
            {"content-type": "multipart/form-data; boundary=b"},
            b"--b\r\nx: " + b"y" * 10_000 + b"\r\n\r\n1\r\n--b--\r\n",
        ),
    ],
    ids=["no boundary", "no form", "no file", "cut off", "two files", "long header"],
)
async def test_a_form_that_cannot_be_read_is_refused_and_leaves_nothing(
    client: httpx2.AsyncClient, headers: dict[str, str], content: bytes
) -> None:
    before = (await client.get("/api/files?limit=1000")).json()["items"]
    answer = await client.post("/api/files", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "UPLOAD_INVALID")
    assert (await client.get("/api/files?limit=1000")).json()["items"] == before


@pytest.mark.parametrize("mime", ["text/html\r\nx: y", "TEXT/HTML", "no type", "a/b/c", ""])
async def test_a_type_never_breaks_out_of_its_header(client: httpx2.AsyncClient, mime: str) -> None:
    form = (
        b'--b\r\ncontent-disposition: form-data; name="f"; filename="a"\r\ncontent-type: '
        + mime.encode()
        + b"\r\n\r\n1\r\n--b--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=b"}
    file = (await client.post("/api/files", content=form, headers=headers)).json()
    back = await client.get(f"/api/files/{file['id']}/content")
    assert back.headers["content-type"] in ("text/html", "application/octet-stream", "text/plain")
    assert "x" not in back.headers
    assert back.headers["content-security-policy"] == "sandbox"


@pytest.mark.requirement("SH-22")
async def test_a_deleted_file_is_410_an_unknown_one_404_and_the_rest_is_listed(client: httpx2.AsyncClient) -> None:
    kept, gone = await _upload(client, b"kept"), await _upload(client, b"gone")
    assert (await client.delete(f"/api/files/{gone}")).status_code == 204
    for path in (f"/api/files/{gone}", f"/api/files/{gone}/content"):
        assert (await client.get(path)).json()["error"]["code"] == "UPLOAD_DELETED"
    assert (await client.delete(f"/api/files/{gone}")).status_code == 410
    assert (await client.get("/api/files/file_nowhere")).json()["error"]["code"] == "UPLOAD_NOT_FOUND"
    listed: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await client.get("/api/files", params={"after": after, "limit": 2})).json()
        listed += [file["id"] for file in page["items"]]
        after = page["nextCursor"]
    assert kept in listed and gone not in listed and listed == sorted(listed)


@pytest.mark.requirement("HK-2", "HK-10")
async def test_files_and_inline_content_become_parts_that_outlive_the_file(client: httpx2.AsyncClient) -> None:
    file_id = await _upload(client, b"the content", name="paper.txt")
    inline = base64.b64encode(b"picture").decode()
    parts = [
        {"type": "text", "text": "look"},
        {"type": "file", "fileId": file_id},
        {"type": "image", "mime": "image/png", "data": inline},
    ]
    run = (await client.post("/api/runs?wait=20", json={"agent": "echo", "input": parts})).json()
    await client.delete(f"/api/files/{file_id}")
    text, file, image = run["input"]
    assert text == parts[0]
    assert (file["type"], file["name"], file["mime"]) == ("file", "paper.txt", "text/plain")
    for part, content in ((file, b"the content"), (image, b"picture")):
        assert "data" not in part and part["blob"]["sha256"] == hashlib.sha256(content).hexdigest()
        stored = await client.get(f"/api/threads/{run['threadId']}/blobs/{part['blob']['sha256']}")
        assert stored.content == content
    again = await client.post("/api/runs", json={"agent": "echo", "input": parts})
    assert (again.status_code, again.json()["error"]["code"]) == (410, "UPLOAD_DELETED")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text"},
        {"type": "picture", "url": "http://example.org"},
        {"type": "image", "url": "http://example.org/x.png"},
        {"type": "image", "mime": "image/png", "data": "no base64!"},
        {"type": "file", "fileId": 5},
        {"type": "file", "blob": {"sha256": "0" * 64, "size": 1, "mime": "text/plain"}},
    ],
    ids=lambda part: str(part)[:40],
)
async def test_a_part_that_makes_no_sense_is_refused_by_its_place(
    client: httpx2.AsyncClient, part: dict[str, object]
) -> None:
    body = {"agent": "echo", "input": [{"type": "text", "text": "x"}, part]}
    answer = await client.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["error"]["issues"][0]["path"].startswith("/input/1")


@pytest.mark.requirement("S9", "G13")
async def test_an_upload_over_the_limit_is_refused_as_soon_as_that_is_known(settings: Settings) -> None:
    async def of_unknown_length() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    async with in_process(settings.model_copy(update={"max_upload_bytes": 2 * MIB})) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
            refused = await client.post("/api/files", content=b"x" * (2 * MIB + 1))
            assert (refused.status_code, refused.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
            found_out = await client.post("/api/files", content=of_unknown_length())
            assert (found_out.status_code, found_out.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
            assert (await client.get("/api/files")).json()["items"] == []
            fits = await client.post("/api/files", content=b"x" * (2 * MIB))
            assert fits.status_code == 201
