"""Files in A2A messages, with its own SDK: bytes in, addresses of this server out, and nothing is fetched."""

import base64
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import ContentTypeNotSupportedError

from app.core.settings import Settings
from tests.server import in_process

pytestmark = pytest.mark.requirement("PX-3", "PX-5")
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
MADE = b"\x89PNG\r\n\x1a\nmade"
WORKSPACE = f"""\
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: files}}
spec: {{defaultAgent: painter}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{streaming: true, tools: true, input: [text, image, file], output: [text, image]}}
  script:
    rules:
      - match: {{contains: paint}}
        reply: {{text: Here it is., media: [{{mime: image/png, data: {base64.b64encode(MADE).decode()}}}]}}
      - match: {{contains: ask me}}
        reply:
          toolCalls: [{{name: ask_user, args: {{title: Colour, questions: [{{id: colour, question: Which?}}]}}}}]
    default: {{text: "Seen."}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: ask_user, description: Asks.}}
spec: {{kind: builtin, effect: readonly}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: painter}}
spec: {{model: script, tools: [ask_user]}}
"""


@asynccontextmanager
async def painting(settings: Settings, tmp_path: Path) -> AsyncIterator[str]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "all.yaml").write_text(WORKSPACE)
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path / "data", "a2a_v03": True})
    settings.data_dir.mkdir()
    async with in_process(settings) as server:
        yield server.url


def _message(*parts: Any, **ids: str) -> Any:
    said = pb.Message(message_id=uuid.uuid4().hex, role=pb.ROLE_USER, parts=parts, **ids)
    return pb.SendMessageRequest(message=said)


async def test_files_come_in_as_bytes_and_go_out_as_addresses(settings: Settings, tmp_path: Path) -> None:
    async with painting(settings, tmp_path) as url, httpx.AsyncClient(timeout=60, verify=False) as http:
        card = await A2ACardResolver(http, f"{url}/a2a/painter").get_agent_card()
        assert list(card.default_input_modes) == ["text/plain", "application/json", "image/*", "application/*"]
        assert list(card.default_output_modes) == ["text/plain", "application/json", "image/*"]
        for binding in ("JSONRPC", "HTTP+JSON"):
            config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding])
            client = ClientFactory(config).create(card)
            file = pb.Part(raw=PICTURE, media_type="image/png", filename="seen.png")
            sent = _message(pb.Part(text="what is this"), file, pb.Part(raw=b"plain"))
            (done,) = [one async for one in client.send_message(sent)]
            assert done.task.artifacts[0].parts[0].text == "Seen."
            first, picture, plain = done.task.history[0].parts
            assert (first.text, picture.filename, picture.media_type) == ("what is this", "seen.png", "image/png")
            assert (await http.get(picture.url)).content == PICTURE and (await http.get(plain.url)).content == b"plain"
            (again,) = [one async for one in client.send_message(sent)]
            assert again.task.id == done.task.id, "the same message is the same task"
            named = _message(pb.Part(text="look"), pb.Part(url="http://169.254.169.254/x.png"))
            with pytest.raises(ContentTypeNotSupportedError):
                _ = [one async for one in client.send_message(named)]
            (asks,) = [one async for one in client.send_message(_message(pb.Part(text="ask me")))]
            with pytest.raises(ContentTypeNotSupportedError):
                _ = [one async for one in client.send_message(_message(file, task_id=asks.task.id))]
            (made,) = [one async for one in client.send_message(_message(pb.Part(text="paint")))]
            said, painted = made.task.artifacts[0].parts
            assert said.text == "Here it is." and painted.media_type == "image/png"
            assert (await http.get(painted.url)).content == MADE
        streaming = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        events = [one async for one in streaming.send_message(_message(pb.Part(text="paint")))]
        last = [one.artifact_update for one in events if one.HasField("artifact_update")][-1]
        assert [one.WhichOneof("content") for one in last.artifact.parts] == ["text", "url"] and not last.append


async def test_wrong_files_and_files_of_0_3(settings: Settings, tmp_path: Path) -> None:
    async with painting(settings, tmp_path) as url, httpx2.AsyncClient(base_url=f"{url}/a2a", timeout=60) as http:
        for part, reason in (
            ({"raw": "not base64!"}, "INVALID_PARAMS"),
            ({"raw": "eA==", "mediaType": "no type"}, "INVALID_PARAMS"),
            ({"raw": "eA==", "mediaType": 7}, "INVALID_PARAMS"),
            ({"raw": "eA==", "filename": "x" * 300}, "INVALID_PARAMS"),
            ({"raw": 7}, "CONTENT_TYPE_NOT_SUPPORTED"),
            ({"url": "https://example.com/x.png"}, "CONTENT_TYPE_NOT_SUPPORTED"),
            ({"fileId": "file_x", "type": "image"}, "CONTENT_TYPE_NOT_SUPPORTED"),
        ):
            said = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": "x"}, part]}
            answer = await http.post("/painter/message:send", json={"message": said})
            assert answer.json()["error"]["details"][0]["reason"] == reason, (part, answer.text)
        encoded = base64.urlsafe_b64encode(PICTURE).decode().rstrip("=")
        file = {"kind": "file", "file": {"bytes": encoded, "mimeType": "image/png; x=1", "name": "old.png"}}
        old: dict[str, Any] = {"kind": "message", "messageId": uuid.uuid4().hex, "role": "user", "parts": [file]}
        called = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": old}}
        shown = (await http.post("/painter", json=called)).json()["result"]["history"][0]["parts"][0]
        assert shown["kind"] == "file" and (shown["file"]["name"], shown["file"]["mimeType"]) == (
            "old.png",
            "image/png",
        )
        assert (await http.get(shown["file"]["uri"])).content == PICTURE
        named = {"kind": "file", "file": {"uri": "https://example.com/x.png"}}
        called["params"] = {"message": {**old, "messageId": uuid.uuid4().hex, "parts": [named]}}
        assert (await http.post("/painter", json=called)).json()["error"]["code"] == -32005
