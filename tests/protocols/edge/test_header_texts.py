"""Ids and types that somebody chose, in the headers of answers: any text is carried, none breaks the answer."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from app.events.catalog.artifact import ArtifactCreated
from app.events.recorder import Scope
from app.protocols.http.answers import header_text
from tests.protocols.auth.auth_server import open_auth_server

THREADS = ["плановая-ветка", "日本語 thread", "café", "50% done", "plain.thread-1"]


@pytest.mark.parametrize("text", [*THREADS, "a\r\nb: c", " ", "\x7f"])
def test_a_header_text_is_visible_ascii_and_can_be_read_back(text: str) -> None:
    made = header_text(text)
    assert all("!" <= character <= "~" for character in made)
    assert unquote(made) == text


@pytest.mark.parametrize("stream", [True, False])
async def test_a_thread_may_have_any_letters_on_chat_and_responses(tmp_path: Path, stream: bool) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client = server.client()
        for thread in THREADS:
            assert (await client.post("/api/threads", json={"id": thread})).status_code == 201
            common = {"model": "echo", "stream": stream, "metadata": {"thread_id": thread}}
            chat = common | {"messages": [{"role": "user", "content": "hi"}]}
            for path, body in (("/v1/chat/completions", chat), ("/v1/responses", common | {"input": "hi"})):
                answer = await client.post(path, json=body)
                assert answer.status_code == 200, (thread, path, answer.text)
                assert unquote(answer.headers["x-holdfast-thread-id"]) == thread


async def test_a_thread_may_have_any_letters_on_a_stream_of_events(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client = server.client()
        for thread in THREADS:
            body = {"agent": "echo", "input": "hi", "threadId": thread, "createThread": True}
            answer = await client.post("/api/runs?stream=sse", json=body)
            assert answer.status_code == 200
            assert unquote(answer.headers["x-thread-id"]) == thread


@pytest.mark.parametrize("mime", ["тип/данных", "text/plain\r\nx-evil: 1", "no type"])
async def test_an_artifact_s_type_cannot_break_its_headers(tmp_path: Path, mime: str) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client = server.client()
        run = (await client.post("/api/runs?wait=10", json={"agent": "echo", "input": "x" * 20_000})).json()
        sha256 = run["input"]["$blob"]["sha256"]
        made = ArtifactCreated(artifact={"id": "art_1", "name": "отчёт.txt", "mime": mime, "sha256": sha256})
        await server.holdfast.store.recorder.record(Scope("default", run["threadId"]), made)
        answer = await client.get("/api/artifacts/art_1/content")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
        assert "x-evil" not in answer.headers
