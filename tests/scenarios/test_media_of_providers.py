"""Media to and from every provider that speaks HTTP, through the real server, with a restart before the next call."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from tests.models.fakes.anthropic import AnthropicSpeaker
from tests.models.fakes.gemini import GeminiSpeaker
from tests.models.fakes.ollama import OllamaSpeaker
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Answer, Speaker, running
from tests.server import in_process

pytestmark = pytest.mark.requirement("HK-2", "HK-10", "HK-30")

CONTENT: Final = {
    "image": ("image/png", b"\x89PNG a picture"),
    "audio": ("audio/wav", b"RIFF a sound"),
    "video": ("video/mp4", b"\x00\x00\x00\x18ftyp a film"),
    "file": ("application/pdf", b"%PDF-1.7 a report"),
}
MADE: Final = {kind: (mime, data + b" of a model") for kind, (mime, data) in CONTENT.items()}
WITHOUT_KEY: Final = ("content-type", "application/json")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class _OpenAi(OpenAiSpeaker):
    key_header = WITHOUT_KEY

    def whole(self, answer: Answer) -> Any:
        made = super().whole(answer)
        mime, picture = MADE["image"]
        url = f"data:{mime};base64,{b64(picture)}"
        made["choices"][0]["message"]["images"] = [{"type": "image_url", "image_url": {"url": url}}]
        made["choices"][0]["message"]["audio"] = {
            "id": "a",
            "data": b64(MADE["audio"][1]),
            "transcript": "",
            "expires_at": 1,
        }
        return made


class _Gemini(GeminiSpeaker):
    key_header = WITHOUT_KEY

    def whole(self, answer: Answer) -> Any:
        made = super().whole(answer)
        parts = [{"inlineData": {"mimeType": mime, "data": b64(data)}} for mime, data in MADE.values()]
        made["candidates"][0]["content"]["parts"] += parts
        return made


class _Anthropic(AnthropicSpeaker):
    key_header = WITHOUT_KEY


class _Ollama(OllamaSpeaker):
    key_header = WITHOUT_KEY


@dataclass(frozen=True)
class Case:
    speaker: type[Speaker]
    path: str
    takes: tuple[str, ...]
    makes: tuple[str, ...] = ()


CASES: Final = {
    "openai": Case(_OpenAi, "/v1", ("image", "audio", "file"), ("image", "audio")),
    "gemini": Case(_Gemini, "", ("image", "audio", "video", "file"), ("image", "audio", "video", "file")),
    "anthropic": Case(_Anthropic, "", ("image", "file")),
    "ollama": Case(_Ollama, "", ("image",)),
}
WORKSPACE: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: studio}}
spec: {{defaultAgent: artist}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: main}}
spec:
  provider: {provider}
  model: test-model
  baseUrl: {url}
  capabilities: {{streaming: false, input: [text, {takes}], output: [text{makes}]}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: artist}}
spec: {{model: main, instructions: Look.}}
"""


@asynccontextmanager
async def _serving(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


@pytest.mark.parametrize("provider", list(CASES))
async def test_each_kind_goes_to_a_provider_and_comes_back_and_is_sent_again_after_a_restart(
    settings: Settings, tmp_path: Path, provider: str
) -> None:
    case = CASES[provider]
    async with running(case.speaker()) as upstream:
        made = "".join(f", {kind}" for kind in case.makes)
        text = WORKSPACE.format(
            provider=provider, url=upstream.url + case.path, takes=", ".join(case.takes), makes=made
        )
        (tmp_path / "workspace.yaml").write_text(text)
        settings = settings.model_copy(update={"workspace": tmp_path})
        given: list[Any] = [{"type": "text", "text": "look"}]
        given += [{"type": kind, "mime": CONTENT[kind][0], "data": b64(CONTENT[kind][1])} for kind in case.takes]
        async with _serving(settings) as client:
            run = (await client.post("/api/runs", params={"wait": 20}, json={"input": given})).json()
            assert run["status"] == "completed", run
            sent = json.dumps(upstream.seen[-1].body).decode()
            assert all(b64(CONTENT[kind][1]) in sent for kind in case.takes)
            parts = [part for part in run["outputParts"] or () if part["type"] != "text"]
            assert sorted(part["type"] for part in parts) == sorted(case.makes)
            for part in parts:
                stored = await client.get(f"/api/threads/{run['threadId']}/blobs/{part['blob']['sha256']}")
                assert stored.content == MADE[part["type"]][1]
            others = [kind for kind in CONTENT if kind not in case.takes]
            for kind in others:
                body = {"input": [{"type": kind, "mime": CONTENT[kind][0], "data": b64(CONTENT[kind][1])}]}
                refused = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
                assert (refused["status"], refused["error"]["code"]) == ("failed", "NEGOTIATION_FAILED"), kind
        async with _serving(settings) as client:
            more = {"input": "and now?", "threadId": run["threadId"]}
            again = (await client.post("/api/runs", params={"wait": 20}, json=more)).json()
            assert again["status"] == "completed", again
            sent = json.dumps(upstream.seen[-1].body).decode()
            assert all(b64(CONTENT[kind][1]) in sent for kind in case.takes)
            assert all(b64(MADE[kind][1]) in sent for kind in case.makes)


@pytest.mark.parametrize(
    ("part", "status"),
    [
        ({"type": "image", "mime": "image/png\r\nx: y", "data": "AAAA"}, 400),
        ({"type": "image", "mime": "", "data": "AAAA"}, 400),
        ({"type": "image", "mime": "image/" + "x" * 5000, "data": "AAAA"}, 400),
        ({"type": "image", "mime": "image/png", "data": "AAAA", "name": "n" * 5000}, 400),
        ({"type": "image", "mime": "image/png", "data": "not base64"}, 400),
        ({"type": "image", "mime": "image/png", "blob": {"sha256": "0" * 64, "size": 1, "mime": "image/png"}}, 400),
        ({"type": "image", "fileId": "file_none"}, 404),
    ],
    ids=["a line break", "no type", "a long type", "a long name", "no base64", "a blob of others", "no file"],
)
async def test_hostile_media_are_refused_with_a_clear_error(
    client: httpx2.AsyncClient, part: dict[str, Any], status: int
) -> None:
    answer = await client.post("/api/runs", json={"agent": "echo", "input": [{"type": "text", "text": "x"}, part]})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] in ("INVALID_REQUEST", "UPLOAD_NOT_FOUND") and error["message"]
