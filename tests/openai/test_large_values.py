"""Values over 16 KiB leave an event's payload; clients of both dialects get them whole, at any depth."""

import base64
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from app.protocols.dialects.evidence_check import Verified, verify_pack
from tests.openai.conftest import MODEL, write_workspace
from tests.openai.test_chat import user
from tests.server import in_process

ARGUMENTS = {"cities": ["n" * 20_000, *(f"city {number} " + "c" * 90 for number in range(200))]}
"""The first text leaves the list for a blob, and the rest of the list is still so large that it becomes one too."""

FUNCTION = {"name": "weather", "parameters": {"type": "object"}}


def _workspace(folder: Path) -> Path:
    write_workspace(folder)
    call = json.dumps([{"name": "weather", "args": ARGUMENTS}]).decode()
    rule = f"      - match: {{contains: many cities, turn: 1}}\n        reply: {{toolCalls: {call}}}\n"
    (folder / "models/script.yaml").write_text(MODEL.replace("    rules:\n", "    rules:\n" + rule))
    return folder


def _frames(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@pytest.mark.requirement("PX-5")
async def test_large_values_within_large_values_reach_openai_clients_whole(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", workspace=_workspace(tmp_path / "workspace"))
    chat = {"model": "helper", "messages": [user("many cities")], "tools": [{"type": "function", "function": FUNCTION}]}
    responses = {"model": "helper", "input": "many cities", "tools": [{"type": "function", **FUNCTION}]}
    async with (
        in_process(settings) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as api,
    ):
        plain = (await api.post("/v1/chat/completions", json=chat)).json()
        (call,) = plain["choices"][0]["message"]["tool_calls"]
        streamed = _frames((await api.post("/v1/chat/completions", json=chat | {"stream": True})).text)
        (delta,) = [chunk["choices"][0]["delta"] for chunk in streamed if "tool_calls" in chunk["choices"][0]["delta"]]
        made = (await api.post("/v1/responses", json=responses)).json()
        shown = (await api.get(f"/v1/responses/{made['id']}")).json()
        last = _frames((await api.post("/v1/responses", json=responses | {"stream": True})).text)[-1]
        packed = (await api.get(f"/api/threads/{plain['metadata']['thread_id']}/evidence")).content
        exported = (await api.get(f"/api/threads/{plain['metadata']['thread_id']}/export")).text.splitlines()
    given = [call["function"]["arguments"], delta["tool_calls"][0]["function"]["arguments"]]
    for response in (made, shown, last["response"]):
        given += [item["arguments"] for item in response["output"] if item["type"] == "function_call"]
    assert [json.loads(arguments) for arguments in given] == [ARGUMENTS] * 5
    kept = [json.loads(line)["blob"] for line in exported if line.startswith('{"blob"')]
    texts = [base64.b64decode(blob["data"]) for blob in kept if blob["mime"].startswith("text/")]
    assert ARGUMENTS["cities"][0].encode() in texts, "a blob within a blob is part of an export"
    (tmp_path / "pack.zip").write_bytes(packed)
    found = verify_pack(tmp_path / "pack.zip")
    assert isinstance(found, Verified) and found.complete
    inner = sha256(ARGUMENTS["cities"][0].encode()).hexdigest()
    assert f"blobs/{inner}" in zipfile.ZipFile(tmp_path / "pack.zip").namelist(), "and part of its evidence"
