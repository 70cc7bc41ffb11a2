"""More than a plain answer: text sent with tool outputs, uploaded files, subagents, slow approvals."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from app.core import json
from app.core.settings import Settings
from tests.openai.conftest import write_workspace
from tests.openai.test_chat import WEATHER, first_event, user
from tests.openai.test_responses import TOOL, frames
from tests.server import in_process


async def _events(api: httpx2.AsyncClient, run_id: str, kind: str) -> list[dict[str, Any]]:
    answer = await api.get(f"/api/runs/{run_id}/events", params={"limit": 1000, "type": kind})
    return [event["payload"] for event in answer.json()["items"]]


async def _asked_for_weather(client: openai.AsyncOpenAI) -> tuple[str, list[Any]]:
    """The run, and the conversation so far with the outputs of its calls."""
    asked = await client.chat.completions.with_raw_response.create(
        model="helper", messages=[user("the weather, please")], tools=[WEATHER]
    )
    message = asked.parse().choices[0].message
    outputs = [{"role": "tool", "tool_call_id": call.id, "content": "fine"} for call in message.tool_calls or []]
    asking = message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
    return asked.headers["x-holdfast-run-id"], [user("the weather, please"), asking, *outputs]


@pytest.mark.requirement("PX-5")
async def test_what_the_user_says_with_tool_outputs_follows_them(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    run_id, messages = await _asked_for_weather(client)
    said = [*messages, user("And in Bergen?"), user("Quickly.")]
    answer = await client.chat.completions.create(model="helper", messages=said, tools=[WEATHER])
    assert answer.choices[0].message.content == "You said: And in Bergen?\n\nQuickly."
    asked = (await _events(api, run_id, "runtime.model.requested"))[-1]["messages"]
    assert [message["role"] for message in asked[-4:]] == ["assistant", "tool", "tool", "user"]
    # A retry says nothing twice; other words come too late, and are not lost in silence.
    again = await client.chat.completions.create(model="helper", messages=said, tools=[WEATHER])
    assert again.choices == answer.choices
    assert len(await _events(api, run_id, "runtime.command.injected")) == 1
    with pytest.raises(openai.ConflictError):
        await client.chat.completions.create(model="helper", messages=[*messages, user("Else?")], tools=[WEATHER])


async def test_text_with_the_outputs_of_a_response_follows_them(client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="helper", input="the weather, please", tools=[TOOL])
    items: Any = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "fine"}
        for item in first.output
        if item.type == "function_call"
    ]
    items += [{"role": "user", "content": [{"type": "input_text", "text": "And in Bergen?"}]}]
    second = await client.responses.create(model="helper", input=items, previous_response_id=first.id, tools=[TOOL])
    assert second.output_text == "You said: And in Bergen?"


@pytest.mark.requirement("HK-13", "HK-2")
async def test_a_picture_with_tool_outputs_follows_them_once(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    _, messages = await _asked_for_weather(client)
    content: Any = [
        {"type": "text", "text": "And this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    said: Any = {"role": "user", "content": content}
    for _ in range(2):  # the second is a retry
        answer = await client.chat.completions.with_raw_response.create(
            model="helper", messages=[*messages, said], tools=[WEATHER]
        )
        assert answer.parse().choices[0].message.content == "You said: And this?"
    run = (await api.get(f"/api/runs/{answer.headers['x-holdfast-run-id']}")).json()
    stored = (await api.get(f"/api/threads/{run['threadId']}/messages")).json()["items"]
    (heard,) = [message for message in stored if message["content"] == "And this?"]
    assert [part["type"] for part in heard["parts"]] == ["text", "image"]
    blob = await api.get(f"/api/threads/{run['threadId']}/blobs/{heard['parts'][1]['blob']['sha256']}")
    assert blob.content == bytes(3)
    wrong: Any = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}]}
    _, messages = await _asked_for_weather(client)
    with pytest.raises(openai.BadRequestError):
        await client.chat.completions.create(model="helper", messages=[*messages, wrong], tools=[WEATHER])
    answered = await client.chat.completions.create(model="helper", messages=messages, tools=[WEATHER])
    assert answered.choices[0].message.content == "The tool said: fine"


@pytest.mark.requirement("SH-22")
async def test_an_uploaded_file_is_a_part_by_its_id(client: openai.AsyncOpenAI, api: httpx2.AsyncClient) -> None:
    content = b"%PDF" + bytes(range(256)) * 100
    headers = {"content-type": "application/pdf"}
    uploaded = (await api.post("/api/files", params={"name": "a.pdf"}, content=content, headers=headers)).json()["id"]
    image = (await api.post("/api/files", content=b"\x89PNG", headers={"content-type": "image/png"})).json()["id"]
    chat: Any = [{"type": "text", "text": "read it"}, {"type": "file", "file": {"file_id": uploaded}}]
    items: Any = [{"role": "user", "content": [
        {"type": "input_text", "text": "look"}, {"type": "input_file", "file_id": uploaded},
        {"type": "input_image", "file_id": image, "detail": "auto"}]}]  # fmt: skip
    by_chat = await client.chat.completions.with_raw_response.create(
        model="helper", messages=[{"role": "user", "content": chat}]
    )
    by_responses = await client.responses.with_raw_response.create(model="helper", input=items)
    for answer, kinds in ((by_chat, ["text", "file"]), (by_responses, ["text", "file", "image"])):
        run = (await api.get(f"/api/runs/{answer.headers['x-holdfast-run-id']}")).json()
        assert [part["type"] for part in run["input"]] == kinds
        assert (run["input"][1]["name"], run["input"][1]["mime"]) == ("a.pdf", "application/pdf")
        blob = await api.get(f"/api/threads/{run['threadId']}/blobs/{run['input'][1]['blob']['sha256']}")
        assert blob.content == content


@pytest.mark.parametrize(("file_id", "status"), [("file_none", 404), (5, 400), ("", 400)])
async def test_a_file_that_is_not_there_is_named(api: httpx2.AsyncClient, file_id: Any, status: int) -> None:
    messages = [{"role": "user", "content": [{"type": "file", "file": {"file_id": file_id}}]}]
    answer = await api.post("/v1/chat/completions", json={"model": "helper", "messages": messages})
    assert answer.status_code == status
    assert answer.json()["error"]["param"].endswith("file_id")


@pytest.mark.requirement("PX-5")
async def test_usage_counts_the_subagents_too(client: openai.AsyncOpenAI, api: httpx2.AsyncClient) -> None:
    asked = [user("delegate this")]
    plain = await client.chat.completions.create(model="chief", messages=asked)
    assert plain.choices[0].message.content == "They say: You said: count this"
    assert plain.usage is not None
    assert (plain.usage.prompt_tokens, plain.usage.completion_tokens) == (100 + 11 + 200, 20 + 7 + 30)
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(
            model="chief", messages=asked, stream=True, stream_options={"include_usage": True}
        )
    ]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == plain.usage.total_tokens
    made = await client.responses.create(model="chief", input="delegate this")
    streamed = (await frames(api, made.id))[-1]["response"]["usage"]
    assert streamed == (await client.responses.retrieve(made.id)).to_dict()["usage"]
    assert streamed["total_tokens"] == plain.usage.total_tokens


async def test_a_person_whom_a_subagent_awaits_is_awaited_by_the_run(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    with pytest.raises(openai.ConflictError) as caught:
        await client.chat.completions.create(model="chief", messages=[user("have it printed")])
    assert caught.value.code == "run_waiting"
    body: Any = caught.value.body
    thread_id = (await api.get(f"/api/runs/{body['runId']}")).json()["threadId"]
    waiting = (await api.get("/api/interrupts", params={"threadId": thread_id, "status": "open"})).json()["items"]
    await api.post(f"/api/interrupts/{waiting[0]['id']}/answer", json={"decision": "approve"})
    ended = await first_event(api, body["runId"], "runtime.request.completed")
    assert ended["payload"]["output"] == "Printed."


@pytest.mark.requirement("PX-5")
async def test_a_stream_gives_up_on_a_slow_person_and_the_run_does_not(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path / "data", workspace=write_workspace(tmp_path / "workspace"), person_wait_seconds=0.2
    )
    async with (
        in_process(settings) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as api,
        asyncio.timeout(30),
    ):
        body = {"model": "helper", "messages": [user("publish it")], "stream": True}
        chat = await api.post("/v1/chat/completions", json=body)
        *_, error, done = chat.text.strip().split("\n\n")
        assert done == "data: [DONE]"
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == "run_waiting"
        assert chat.headers["x-holdfast-run-id"] in error

        asked = await api.post("/v1/responses", json={"model": "helper", "input": "publish it", "stream": True})
        cut = [json.loads(line.removeprefix("data: ")) for line in asked.text.splitlines() if line.startswith("data")]
        assert (cut[-1]["type"], cut[-1]["code"]) == ("error", "run_waiting")
        run_id = asked.headers["x-holdfast-run-id"]
        run = (await api.get(f"/api/runs/{run_id}")).json()
        assert run["status"] == "waiting"
        await api.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": "approve"})
        # The error repeated the last number, so whoever comes back with it misses nothing.
        rest = await frames(api, f"resp_{run_id}_0", cut[-1]["sequence_number"])
        assert [*cut[:-1], *rest] == await frames(api, f"resp_{run_id}_0")
        assert rest[-1]["response"]["output"][-1]["content"][0]["text"] == "Published."
