"""What a model makes is stored with its answer, comes back to every client, and goes into the next model call."""

import base64
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from app.core import json
from app.core.settings import Settings
from app.protocols.dialects.evidence_check import Verified, verify_pack
from tests.clients import reached, submit
from tests.server import in_process

pytestmark = pytest.mark.requirement("HK-2", "HK-13")

PICTURE, SOUND, FILE = b"\x89PNG a picture", b"RIFF a sound", b"%PDF-1.7 a report"
DIGEST = sha256(PICTURE).hexdigest()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


MODEL = f"""\
apiVersion: holdfast/v1
kind: Model
metadata: {{name: painter}}
spec:
  provider: scripted
  model: script
  capabilities: {{streaming: true, tools: true, input: [text, image, audio, file], output: [text, image, audio, file]}}
  script:
    rules:
      - match: {{contains: draw}}
        reply: {{text: Here it is., chunkSize: 4, media: [{{mime: image/png, data: {b64(PICTURE)}}}]}}
      - match: {{contains: everything}}
        reply:
          media:
            - {{mime: image/png, data: {b64(PICTURE)}}}
            - {{mime: audio/wav, data: {b64(SOUND)}}}
            - {{mime: application/pdf, data: {b64(FILE)}}}
    default: {{text: "Seen."}}
"""
AGENT = """\
apiVersion: holdfast/v1
kind: Agent
metadata: {name: artist}
spec: {backend: native, model: painter, instructions: Draw.}
"""
RUNTIME = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: studio}
spec: {defaultAgent: artist}
"""
PARTS = [
    {"type": "text", "text": "Here it is."},
    {"type": "image", "mime": "image/png", "blob": {"sha256": DIGEST, "size": len(PICTURE), "mime": "image/png"}},
]


@pytest.fixture
def studio(settings: Settings, tmp_path: Path) -> Settings:
    workspace = tmp_path / "workspace"
    for name, text in (("models/painter", MODEL), ("agents/artist", AGENT), ("runtime", RUNTIME)):
        file = workspace / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return settings.model_copy(update={"workspace": workspace})


@asynccontextmanager
async def serving(studio: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        in_process(studio) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client,
    ):
        yield client


async def requested_parts(client: httpx2.AsyncClient, run: dict[str, Any]) -> list[Any]:
    """The media in the messages of the run's model call."""
    events = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
    (asked,) = [event["payload"] for event in events if event["type"] == "runtime.model.requested"]
    return [part for message in asked["messages"] for part in message.get("parts", ()) if part["type"] != "text"]


async def test_a_picture_comes_back_and_is_seen_by_the_next_run_after_a_restart(
    studio: Settings, tmp_path: Path
) -> None:
    async with serving(studio) as client:
        run = await submit(client, "artist", "draw a cat", wait=20)
        assert (run["status"], run["output"], run["outputParts"]) == ("completed", "Here it is.", PARTS)
        thread = f"/api/threads/{run['threadId']}"
        content = await client.get(f"{thread}/blobs/{DIGEST}")
        assert (content.content, content.headers["content-type"]) == (PICTURE, "image/png")
        exported = (await client.get(f"{thread}/export")).text
        pack = (await client.get(f"{thread}/evidence")).content
    assert b64(PICTURE) in exported
    file = tmp_path / "pack.zip"
    file.write_bytes(pack)
    found = verify_pack(file)
    assert isinstance(found, Verified) and found.complete
    assert f"blobs/{DIGEST}" in zipfile.ZipFile(file).namelist()
    async with serving(studio) as client:
        later = await submit(client, "artist", "and now?", wait=20, threadId=run["threadId"])
        assert (later["status"], later["output"], later["outputParts"]) == ("completed", "Seen.", None)
        assert await requested_parts(client, later) == PARTS[1:]
        forked = (await client.post(f"{thread}/fork", json={})).json()
        again = await submit(client, "artist", "and here?", threadId=forked["id"])
        assert (await reached(client, again["id"]))["status"] == "completed"
        assert await requested_parts(client, again) == PARTS[1:]


async def test_openai_clients_get_pictures_sounds_and_files(studio: Settings) -> None:
    question: Any = [{"role": "user", "content": "everything"}]
    picture = {"url": f"data:image/png;base64,{b64(PICTURE)}"}
    async with serving(studio) as client:
        api = openai.AsyncOpenAI(base_url=f"{client.base_url}/v1".replace("//v1", "/v1"), api_key="none", max_retries=0)
        async with api:
            whole = await api.chat.completions.create(model="artist", messages=question)
            chunks = await api.chat.completions.create(model="artist", messages=question, stream=True)
            deltas = [chunk.choices[0].delta.model_dump(warnings=False) async for chunk in chunks]
            made = await api.responses.create(model="artist", input="everything")
            stored = await api.responses.retrieve(made.id)
            events = [it async for it in await api.responses.create(model="artist", input="everything", stream=True)]
    message = whole.choices[0].message.model_dump(warnings=False)
    (delta,) = [delta for delta in deltas if "images" in delta]
    for given in (message, delta):
        assert [image["image_url"] for image in given["images"]] == [picture]
        assert given["audio"]["data"] == b64(SOUND)
        assert given["files"][0]["file"]["file_data"] == f"data:application/pdf;base64,{b64(FILE)}"
    last = events[-1]
    assert last.type == "response.completed"
    for response in (made, stored, last.response):
        items = [item.model_dump(warnings=False) for item in response.output]
        assert items[0]["type"] == "image_generation_call" and items[0]["result"] == b64(PICTURE)
        assert items[1]["content"][0]["data"] == b64(SOUND)
        assert items[2]["content"][0]["file_data"] == f"data:application/pdf;base64,{b64(FILE)}"
    assert [event.sequence_number for event in events] == list(range(len(events)))


async def test_media_that_a_client_sends_are_part_of_the_thread_s_export(studio: Settings) -> None:
    given = [{"type": "text", "text": "look"}, {"type": "image", "mime": "image/png", "data": b64(PICTURE)}]
    async with serving(studio) as client:
        run = (await client.post("/api/runs?wait=20", json={"agent": "artist", "input": given})).json()
        exported = (await client.get(f"/api/threads/{run['threadId']}/export")).text.splitlines()
    blobs = [json.loads(line)["blob"] for line in exported if line.startswith('{"blob"')]
    assert [blob["sha256"] for blob in blobs] == [DIGEST]
