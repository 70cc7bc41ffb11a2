"""Chat completions with the `openai` package, unmodified, against the real server."""

import asyncio
import base64
from typing import Any

import httpx2
import openai
import pydantic
import pytest

from app.core import json

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
    },
}
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\x00" * 20_000).decode()


async def first_event(api: httpx2.AsyncClient, run_id: str, name: str) -> Any:
    """The first event of that type of a run, as soon as it is there."""
    async with asyncio.timeout(30), api.stream("GET", f"/api/runs/{run_id}/stream") as events:
        async for line in events.aiter_lines():
            if line.startswith("data: ") and f'"{name}"' in line:
                return json.loads(line.removeprefix("data: "))
    raise AssertionError(f"the run ended without {name}")


def user(text: str) -> Any:
    return {"role": "user", "content": text}


@pytest.mark.requirement("PX-5", "SH-22", "CARD-4")
async def test_agents_are_the_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [
        "helper",
        "closed",
        "assistant",
        "chief",
        "echo",
        "model:small",
    ]
    assert (await client.models.retrieve("helper")).owned_by == "holdfast"
    with pytest.raises(openai.NotFoundError) as caught:
        await client.models.retrieve("nobody")
    assert caught.value.code == "model_not_found"


@pytest.mark.requirement("PX-5", "CARD-4")
async def test_a_completion_is_the_run_s_answer(client: openai.AsyncOpenAI, api: httpx2.AsyncClient) -> None:
    raw = await client.chat.completions.with_raw_response.create(model="helper", messages=[user("hi there")])
    answer = raw.parse()
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("You said: hi there", "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (11, 7, 18)
    run = (await api.get(f"/api/runs/{raw.headers['x-holdfast-run-id']}")).json()
    assert (run["status"], run["output"], run["input"]) == ("completed", "You said: hi there", "hi there")
    assert answer.id == f"chatcmpl-{run['id']}-0"


@pytest.mark.requirement("PX-5", "CARD-3")
async def test_the_stream_helper_accepts_every_chunk(client: openai.AsyncOpenAI) -> None:
    asked = client.chat.completions.stream(
        model="helper", messages=[user("tell me")], stream_options={"include_usage": True}
    )
    async with asked as stream:
        events = [event async for event in stream]
        final = await stream.get_final_completion()
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert "".join(deltas) == final.choices[0].message.content == "You said: tell me"
    assert len(deltas) > 1
    assert final.choices[0].finish_reason == "stop"
    assert final.usage is not None
    assert final.usage.total_tokens == 18


async def test_without_a_thread_the_messages_are_the_new_thread_s_history(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    messages: Any = [
        {"role": "system", "content": "Speak like a pirate."}, user("one"), {"role": "assistant", "content": "1"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_foreign", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "call_foreign", "content": "said"}, user("two"),
    ]  # fmt: skip
    raw = await client.chat.completions.with_raw_response.create(model="helper", messages=messages)
    assert raw.parse().choices[0].message.content == "Arr: two"
    events = (await api.get(f"/api/threads/{raw.headers['x-holdfast-thread-id']}/events")).json()["items"]
    history = events[0]["payload"]["history"]
    assert [message["role"] for message in history] == ["user", "assistant", "assistant", "tool"]
    assert history[2]["tool_calls"] == [{"id": "call_foreign", "name": "f", "args": {"a": 1}}]
    assert events[1]["payload"]["input"] == "two"
    assert events[1]["payload"]["instructions"] == "Speak like a pirate."


async def test_a_thread_is_continued_with_what_came_after_the_last_answer(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    first = await client.chat.completions.with_raw_response.create(model="helper", messages=[user("one")])
    thread = first.headers["x-holdfast-thread-id"]
    messages: Any = [user("one"), {"role": "assistant", "content": "You said: one"}, user("two")]
    second = await client.chat.completions.with_raw_response.create(
        model="helper", messages=messages, metadata={"thread_id": thread}
    )
    assert second.headers["x-holdfast-thread-id"] == thread
    run = (await api.get(f"/api/runs/{second.headers['x-holdfast-run-id']}")).json()
    assert run["input"] == "two"
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(model="helper", messages=messages, metadata={"thread_id": "thr_none"})
    assert caught.value.code == "thread_not_found"


@pytest.mark.requirement("PX-5")
async def test_client_side_tools_pause_the_run_and_their_outputs_go_on(client: openai.AsyncOpenAI) -> None:
    messages: Any = [user("what is the weather?")]
    async with client.chat.completions.stream(model="helper", messages=messages, tools=[WEATHER]) as stream:
        async for _ in stream:
            pass
        first = await stream.get_final_completion()
    message = first.choices[0].message
    assert (first.choices[0].finish_reason, message.content) == ("tool_calls", "Let me look.")
    calls = message.tool_calls or []
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Oslo", "Rome"]
    messages += [message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})]
    outputs: Any = [
        {"role": "tool", "tool_call_id": call.id, "content": f"{n} degrees"} for n, call in enumerate(calls)
    ]
    with pytest.raises(openai.BadRequestError) as missing:
        await client.chat.completions.create(model="helper", messages=messages + outputs[:1], tools=[WEATHER])
    assert missing.value.code == "tool_outputs_missing"
    assert calls[1].id in missing.value.message
    second = await client.chat.completions.create(model="helper", messages=messages + outputs, tools=[WEATHER])
    assert second.choices[0].message.content == "The tool said: 1 degrees"
    assert second.id == first.id.removesuffix("-0") + "-1"
    # The same outputs again are a retry, others come too late.
    again = await client.chat.completions.create(model="helper", messages=messages + outputs, tools=[WEATHER])
    assert (again.id, again.choices[0].message.content) == (second.id, second.choices[0].message.content)
    outputs[0]["content"] = "something else"
    with pytest.raises(openai.ConflictError):
        await client.chat.completions.create(model="helper", messages=messages + outputs, tools=[WEATHER])


async def test_an_agent_that_takes_no_client_tools_says_so(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="closed", messages=[user("x")], tools=[WEATHER])
    assert caught.value.code == "client_tools_refused"


async def test_a_person_s_turn_is_a_conflict_that_is_not_retried(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    with pytest.raises(openai.ConflictError) as caught:
        await client.chat.completions.create(model="helper", messages=[user("publish it")])
    assert caught.value.code == "run_waiting"
    assert caught.value.response.headers["x-should-retry"] == "false"
    body: Any = caught.value.body
    run = (await api.get(f"/api/runs/{body['runId']}")).json()
    await api.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": "approve"})


async def test_a_stream_waits_for_the_person_and_goes_on(client: openai.AsyncOpenAI, api: httpx2.AsyncClient) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="helper", messages=[user("publish this too")], stream=True
    )
    run_id = raw.headers["x-holdfast-run-id"]
    raised = await first_event(api, run_id, "runtime.interrupt.raised")
    await api.post(f"/api/interrupts/{raised['payload']['interruptId']}/answer", json={"decision": "approve"})
    text = [chunk.choices[0].delta.content or "" async for chunk in raw.parse()]
    assert "".join(text) == "Published."


async def test_a_failed_run_is_reported_once_and_a_retry_meets_the_same_run(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        await client.chat.completions.create(model="helper", messages=[user("fail please")])
    assert (caught.value.status_code, caught.value.code) == (502, "provider_error")
    assert caught.value.response.headers["x-should-retry"] == "false"
    stream = await client.chat.completions.create(model="helper", messages=[user("fail please")], stream=True)
    with pytest.raises(openai.APIError, match="No model answered"):
        async for _ in stream:
            pass


async def test_a_retried_request_attaches_to_the_run_of_its_first_try(api: httpx2.AsyncClient) -> None:
    body = {"model": "helper", "messages": [user("only once, please")]}
    first = await api.post("/v1/chat/completions", json=body)
    again = await api.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "1"})
    anew = await api.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "0"})
    assert first.json()["id"] == again.json()["id"] != anew.json()["id"]
    assert first.json()["choices"] == again.json()["choices"]


async def test_an_answer_cut_off_ends_the_stream_with_an_error_but_not_the_run(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model="helper", messages=[user("cut off")], stream=True)
    with pytest.raises(openai.APIError, match="cut off"):
        async for _ in stream:
            pass


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


async def test_a_response_format_is_kept_by_the_agent(client: openai.AsyncOpenAI) -> None:
    asked = [user("tell me as json")]
    answer = await client.chat.completions.parse(model="helper", messages=asked, response_format=Weather)
    assert answer.choices[0].message.parsed == Weather(city="Oslo", degrees=3)
    async with client.chat.completions.stream(model="helper", messages=asked, response_format=Weather) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    assert final.choices[0].message.parsed == Weather(city="Oslo", degrees=3)
    with pytest.raises(openai.APIError, match=r"breaks the requested schema|not JSON"):
        await client.chat.completions.create(
            model="helper", messages=[user("plain words")], response_format={"type": "json_object"}
        )


async def test_images_and_files_are_stored_parts_of_the_input(
    client: openai.AsyncOpenAI, api: httpx2.AsyncClient
) -> None:
    parts: Any = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"}},
    ]
    raw = await client.chat.completions.with_raw_response.create(
        model="helper", messages=[{"role": "user", "content": parts}]
    )
    assert raw.parse().choices[0].message.content == "You said: what is this?"
    run = (await api.get(f"/api/runs/{raw.headers['x-holdfast-run-id']}")).json()
    assert [(part["type"], part.get("mime")) for part in run["input"]] == [
        ("text", None), ("image", "image/png"), ("file", "application/pdf"),
    ]  # fmt: skip
    blob = await api.get(f"/api/threads/{run['threadId']}/blobs/{run['input'][1]['blob']['sha256']}")
    assert blob.content == base64.b64decode(PIXEL)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"api_base": "http://10.0.0.1"}, "api_base"),
        ({"base_url": "http://10.0.0.1"}, "base_url"),
        ({"tools": [{"type": "mcp", "server_url": "http://10.0.0.1"}]}, "tools.0.type"),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "http://10.0.0.1/a.png"}}]}]},
            "messages.0.content.0",
        ),
    ],
)  # fmt: skip
async def test_a_client_names_no_address(api: httpx2.AsyncClient, change: dict[str, Any], param: str) -> None:
    answer = await api.post("/v1/chat/completions", json={"model": "helper", "messages": [user("x")], **change})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert "10.0.0.1" not in answer.text


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "json_invalid"),
        (b"[]", 400, "invalid_request"),
        (b'{"model": "helper", "model": "x", "messages": []}', 400, "json_duplicate_key"),
        (b'{"model": "helper", "messages": []}', 400, "invalid_request"),
        (b'{"model": "helper", "messages": [{"role": "chief"}]}', 400, "invalid_request"),
        (b'{"model": "helper", "messages": [{"role": "user", "content": "x"}], "n": 2}', 400, "invalid_request"),
        (b'{"model": "nobody", "messages": [{"role": "user", "content": "x"}]}', 404, "model_not_found"),
        (b'{"messages": [{"role": "user", "content": "x"}]}', 400, "invalid_request"),
    ],
)
async def test_mistakes_have_the_shape_that_clients_know(
    api: httpx2.AsyncClient, body: bytes, status: int, code: str
) -> None:
    answer = await api.post("/v1/chat/completions", content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error.keys() == {"message", "type", "param", "code"}
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.requirement("SH-15")
@pytest.mark.parametrize("how", ["option", "header"])
async def test_a_client_that_asks_also_gets_the_progress_of_tools(api: httpx2.AsyncClient, how: str) -> None:
    body: dict[str, Any] = {"model": "helper", "messages": [user("what time is it")], "stream": True}
    headers = {"x-holdfast-events": "true"} if how == "header" else {}
    if how == "option":
        body["stream_options"] = {"include_events": True}
    answer = await api.post("/v1/chat/completions", json=body, headers=headers)
    blocks = [block.split("\n") for block in answer.text.split("\n\n") if block.startswith("event: ")]
    frames = [json.loads(lines[1].removeprefix("data: ")) for lines in blocks]
    tools = [t for t in frames if t["type"] == "stable_harness.tool.progress"]
    assert [(t["toolId"], t["status"]) for t in tools] == [("clock", "started"), ("clock", "completed")]
    plain = await api.post("/v1/chat/completions", json={**body, "stream_options": None})
    assert "stable_harness" not in plain.text


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("detach", "completed")])
@pytest.mark.parametrize("by", ["header", "metadata"])
async def test_a_client_that_leaves_cancels_its_run_only_if_it_said_so(
    api: httpx2.AsyncClient, policy: str, status: str, by: str
) -> None:
    text = "endlessly please" if policy == "cancel" else "slowly please"
    body: dict[str, Any] = {"model": "helper", "messages": [user(text)], "stream": True}
    headers = {"x-holdfast-on-disconnect": policy} if by == "header" else {}
    if by == "metadata":
        body["metadata"] = {"on_disconnect": policy}
    async with api.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        run_id = answer.headers["x-holdfast-run-id"]
        async for _ in answer.aiter_lines():
            break
    await first_event(api, run_id, f"runtime.request.{status}")
