"""The responses API with the `openai` package, unmodified, against the real server."""

import random
from typing import Any

import httpx2
import openai
import pytest

from app.core import json
from tests.openai.test_chat import WEATHER, Weather

TOOL: Any = {"type": "function", **WEATHER["function"], "strict": False}


async def frames(api: httpx2.AsyncClient, response_id: str, after: int | None = None) -> list[dict[str, Any]]:
    params = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
    answer = await api.get(f"/v1/responses/{response_id}", params=params)
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


@pytest.mark.requirement("PX-5", "SH-22")
async def test_a_response_can_be_made_and_read_again(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="helper", input="hi there", metadata={"team": "red"})
    assert (made.status, made.output_text, made.metadata) == ("completed", "You said: hi there", {"team": "red"})
    assert made.usage is not None
    assert made.usage.total_tokens == 18
    read = await client.responses.retrieve(made.id)
    assert read.model_dump() == made.model_dump()


@pytest.mark.requirement("PX-5", "CARD-3")
async def test_the_strict_stream_helper_accepts_every_event(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="helper", input="what time is it") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [item.type for item in final.output] == ["message", "message"]
    assert final.output_text == "Looking at the clock.It is late."


@pytest.mark.requirement("PX-5")
async def test_client_side_tools_are_function_calls(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="helper", input="the weather, please", tools=[TOOL]) as stream:
        async for _ in stream:
            pass
        first = await stream.get_final_response()
    calls = [item for item in first.output if item.type == "function_call"]
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Oslo", "Rome"]
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"{n} degrees"}
        for n, call in enumerate(calls)
    ]
    async with client.responses.stream(
        model="helper", input=outputs, previous_response_id=first.id, tools=[TOOL]
    ) as stream:
        async for _ in stream:
            pass
        second = await stream.get_final_response()
    assert second.output_text == "The tool said: 1 degrees"
    assert second.id == first.id.removesuffix("_0") + "_1"
    assert [item.to_dict()["id"] for item in (await client.responses.retrieve(first.id)).output] == [
        item.to_dict()["id"] for item in first.output
    ]


async def test_previous_response_id_continues_its_thread(client: openai.AsyncOpenAI, api: httpx2.AsyncClient) -> None:
    first = await client.responses.create(model="helper", input="one")
    second = await client.responses.create(model="helper", input="two", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.conversation == first.conversation
    third = await client.responses.create(model="helper", input="three", conversation=second.conversation.id)  # type: ignore[union-attr]
    assert third.conversation == first.conversation
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="helper", input="x", previous_response_id="resp_nothing_0")


async def test_structured_output_is_parsed(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.parse(model="helper", input="tell me as json", text_format=Weather)
    assert made.output_parsed == Weather(city="Oslo", degrees=3)


async def test_an_answer_that_was_cut_off_and_begun_anew_is_whole(client: openai.AsyncOpenAI) -> None:
    """The script cuts off once; whichever test meets it first, both items or one, the text is the whole one."""
    made = await client.responses.create(model="helper", input="cut off")
    assert made.output_text == "The whole answer."


async def test_a_truncated_answer_is_incomplete(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="helper", input="too long")
    assert (made.status, made.incomplete_details and made.incomplete_details.reason) == (
        "incomplete", "max_output_tokens",
    )  # fmt: skip


async def test_a_failed_run_is_a_failed_response(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="helper", input="fail please")
    assert made.status == "failed"
    assert made.error is not None
    assert str(made.error.code) == "provider_error"


async def test_a_background_response_is_followed_and_cancelled(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="helper", input="endlessly please", background=True)
    assert made.status in ("queued", "in_progress")
    await client.responses.cancel(made.id)
    events = [event async for event in await client.responses.retrieve(made.id, stream=True)]
    assert events[-1].type == "response.incomplete"
    assert (await client.responses.retrieve(made.id)).status == "cancelled"
    assert (await client.responses.cancel(made.id)).status == "cancelled"


@pytest.mark.requirement("PX-5", "G2")
async def test_a_stream_can_be_resumed_after_every_number(client: openai.AsyncOpenAI, api: httpx2.AsyncClient) -> None:
    made = await client.responses.create(model="helper", input="what time is it")
    every = await frames(api, made.id)
    for after in range(-1, len(every)):
        assert await frames(api, made.id, after) == every[after + 1 :]
    resumed = [event async for event in await client.responses.retrieve(made.id, stream=True, starting_after=3)]
    assert [event.sequence_number for event in resumed] == list(range(4, len(every)))


@pytest.mark.requirement("PX-5", "G2")
async def test_a_live_stream_that_is_cut_at_random_loses_and_repeats_nothing(api: httpx2.AsyncClient) -> None:
    body = {"model": "helper", "input": "slowly please", "background": True}
    response_id = (await api.post("/v1/responses", json=body)).json()["id"]
    cuts = random.Random(7)  # a fixed course
    got: list[dict[str, Any]] = []
    while not got or got[-1]["type"] != "response.completed":
        left = cuts.randint(1, 3)
        params = {"stream": "true", "starting_after": str(got[-1]["sequence_number"] if got else -1)}
        async with api.stream("GET", f"/v1/responses/{response_id}", params=params) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    got.append(json.loads(line.removeprefix("data: ")))
                    left -= 1
                if left == 0:
                    break
    assert got == await frames(api, response_id)


@pytest.mark.parametrize("response_id", ["resp_run_none_0", "nonsense", "resp_x_99", "chatcmpl-1"])
async def test_an_unknown_response_is_not_found(api: httpx2.AsyncClient, response_id: str) -> None:
    for answer in (
        await api.get(f"/v1/responses/{response_id}"),
        await api.get(f"/v1/responses/{response_id}", params={"stream": "true"}),
        await api.post(f"/v1/responses/{response_id}/cancel"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "response_not_found")


async def test_a_segment_that_does_not_exist_is_not_found(client: openai.AsyncOpenAI) -> None:
    made = await client.responses.create(model="helper", input="hi")
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id.removesuffix("_0") + "_1")
