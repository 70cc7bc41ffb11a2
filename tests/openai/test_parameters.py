"""What OpenAI clients say of sampling and of the tool to call, followed to the provider: the `openai` package on one
side of the real server, a recording provider on the other.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletion

from app.core.settings import Settings
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Answer, Call, Fake, running
from tests.openai.test_chat import WEATHER, user
from tests.openai.test_responses import TOOL, frames
from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess, in_process

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLOCK: Any = {"type": "function", "function": {"name": "hour", "parameters": {"type": "object"}}}
WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: parameters}
spec: {defaultAgent: free}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec:
  provider: openai
  model: gpt-test
  baseUrl: URL/v1
  capabilities: {tools: true, parallelTools: true, reasoning: true}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: small}
spec:
  provider: openai
  model: gpt-small
  baseUrl: URL/v1
  parameters: {maxTokens: 50, temperature: 0.3}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: local}
spec: {provider: ollama, model: llama, baseUrl: URL, capabilities: {tools: true}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: free}
spec: {model: main, clientTools: true}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: bounded}
spec:
  model: main
  clientTools: true
  parallelTools: false
  parameters: {temperature: 0.1, maxTokens: 100, stop: [END], seed: 1}
  reasoning: {effort: low}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: frugal}
spec: {model: small}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: pinned}
spec: {model: main, clientTools: true, clientParameters: false, parameters: {temperature: 0.1}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: chief}
spec: {model: main, subagents: [free]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: at_home}
spec: {model: local, clientTools: true}
"""


class Speaker(OpenAiSpeaker):
    key_header = ("content-type", "application/json")  # these models have no key


@dataclass(frozen=True)
class World:
    client: openai.AsyncOpenAI
    api: httpx2.AsyncClient
    upstream: Fake

    @property
    def sent(self) -> Any:
        """The newest request that reached the provider."""
        return self.upstream.seen[-1].body

    def calls(self, name: str = "weather") -> None:
        """The next answer is a call of the client's function, the one after it words."""
        calling = Answer(chunks=(), calls=(Call(name, '{"city":"Oslo"}', "call_1"),), finish="tool_use")
        self.upstream.plays(calling, Answer())

    async def events(self, run_id: str, kind: str) -> list[Any]:
        answer = await self.api.get(f"/api/runs/{run_id}/events", params={"limit": 1000, "type": kind})
        return [event["payload"] for event in answer.json()["items"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    folder: Path = tmp_path_factory.mktemp("parameters")
    (folder / "workspace").mkdir()
    async with running(Speaker()) as upstream:
        text = WORKSPACE.replace("URL", upstream.url)
        (folder / "workspace/all.yaml").write_text(text)
        settings = Settings(data_dir=folder / "data", workspace=folder / "workspace")
        async with (
            in_process(settings) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as api,
            openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
        ):
            yield World(client, api, upstream)
            await assert_replay_equals_tables(server.url)


@pytest.fixture(autouse=True)
def says_hello(world: World) -> None:
    world.upstream.plays(Answer())


KNOBS: dict[str, Any] = {
    "temperature": 0.7, "top_p": 0.9, "stop": ["\n\n", "END"], "seed": 7, "presence_penalty": 0.5,
    "frequency_penalty": -0.5, "reasoning_effort": "medium",
}  # fmt: skip


def chosen(*names: str) -> Any:
    return {name: KNOBS[name] for name in names}


# -- parameters ---------------------------------------------------------------------------------------


@pytest.mark.requirement("PX-5", "HK-8", "HK-9")
async def test_sampling_of_a_chat_request_reaches_the_provider(world: World) -> None:
    await world.client.chat.completions.create(
        model="free", messages=[user("hi")], max_completion_tokens=64, **chosen(*KNOBS)
    )
    assert {name: world.sent[name] for name in KNOBS} == KNOBS
    assert world.sent["max_tokens"] == 64


@pytest.mark.requirement("PX-5")
async def test_sampling_of_a_response_reaches_the_provider_and_is_shown_in_the_answer(world: World) -> None:
    made = await world.client.responses.create(
        model="free", input="hi", temperature=0, top_p=0.5, max_output_tokens=20, reasoning={"effort": "high"}
    )
    sent = world.sent
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"], sent["reasoning_effort"]) == (0, 0.5, 20, "high")
    assert (made.temperature, made.top_p, made.max_output_tokens) == (0, 0.5, 20)
    assert made.reasoning is not None
    assert made.reasoning.effort == "high"


async def test_a_request_without_parameters_sends_and_records_none(world: World) -> None:
    raw = await world.client.chat.completions.with_raw_response.create(model="free", messages=[user("hi")])
    assert world.sent.keys() == {"model", "messages", "stream", "stream_options"}
    [queued] = await world.events(raw.headers["x-holdfast-run-id"], "runtime.request.queued")
    assert "parameters" not in queued and "toolChoice" not in queued


async def test_what_a_request_leaves_away_stays_as_the_agent_has_it(world: World) -> None:
    await world.client.chat.completions.create(model="bounded", messages=[user("hi")], temperature=0.9, stop="STOP")
    sent = world.sent
    assert (sent["temperature"], sent["stop"], sent["seed"], sent["reasoning_effort"]) == (0.9, ["STOP"], 1, "low")


@pytest.mark.parametrize(
    ("agent", "wanted", "sent"),
    [("bounded", 5000, 100), ("bounded", 10, 10), ("frugal", 5000, 50), ("frugal", 10, 10), ("free", 5000, 5000)],
)
async def test_a_client_lowers_the_tokens_of_an_answer_and_never_raises_them(
    world: World, agent: str, wanted: int, sent: int
) -> None:
    await world.client.chat.completions.create(model=agent, messages=[user("hi")], max_tokens=wanted)
    assert world.sent["max_tokens"] == sent


async def test_an_agent_may_pin_its_sampling(world: World) -> None:
    raw = await world.client.chat.completions.with_raw_response.create(
        model="pinned", messages=[user("hi")], max_tokens=5, **chosen("temperature", "seed")
    )
    assert world.sent["temperature"] == 0.1
    assert world.sent.keys().isdisjoint({"seed", "max_tokens"})
    [queued] = await world.events(raw.headers["x-holdfast-run-id"], "runtime.request.queued")
    assert "parameters" not in queued


async def test_parameters_are_for_the_run_s_own_answers_and_not_for_its_subagents(world: World) -> None:
    calling = Answer(chunks=(), calls=(Call("free", '{"input":"look"}', "call_1"),), finish="tool_use")
    world.upstream.plays(calling, Answer())
    before = len(world.upstream.seen)
    await world.client.chat.completions.create(model="chief", messages=[user("hi")], temperature=0.7)
    assert [seen.body.get("temperature") for seen in world.upstream.seen[before:]] == [0.7, None, 0.7]


@pytest.mark.requirement("HK-27")
async def test_a_rerun_asks_the_model_the_same(world: World) -> None:
    raw = await world.client.chat.completions.with_raw_response.create(
        model="free", messages=[user("hi")], **chosen("temperature", "seed", "stop")
    )
    run_id, first = raw.headers["x-holdfast-run-id"], world.sent
    token = (await world.api.get(f"/api/runs/{run_id}/replay-token")).json()["token"]
    again = (await world.api.post(f"/api/runs/{run_id}/rerun", json={"token": token, "mode": "strict"})).json()
    async with world.api.stream("GET", f"/api/runs/{again['id']}/stream") as events:
        text = "".join([line async for line in events.aiter_lines()])
    assert "runtime.request.completed" in text
    assert world.sent == first


@pytest.mark.requirement("G5")
async def test_a_run_that_is_resumed_after_a_crash_asks_the_model_the_same(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    async with running(Speaker()) as upstream, asyncio.timeout(90):
        (tmp_path / "workspace/all.yaml").write_text(WORKSPACE.replace("URL", upstream.url))
        upstream.plays(Answer(hang_after=1), Answer())
        server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", workspace=tmp_path / "workspace")
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            made = await client.responses.create(
                model="free", input="hi", background=True, tools=[TOOL], tool_choice="required", temperature=0.7
            )
        await upstream.hanging.wait()
        await asyncio.to_thread(server.kill)
        server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", workspace=tmp_path / "workspace")
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
            async for event in await client.responses.retrieve(made.id, stream=True):
                last = event
        await asyncio.to_thread(server.stop)
    assert last.type == "response.completed"
    assert upstream.seen[0].body == upstream.seen[1].body
    assert (upstream.seen[1].body["temperature"], upstream.seen[1].body["tool_choice"]) == (0.7, "required")


BAD: list[tuple[str, Any]] = [
    ("temperature", 2.1), ("temperature", "hot"), ("temperature", True), ("top_p", 1.5), ("top_p", -0.1),
    ("max_tokens", 0), ("max_completion_tokens", 1.5), ("max_completion_tokens", 2**40), ("stop", [""]), ("stop", 5),
    ("stop", ["a", "b", "c", "d", "e"]), ("seed", 0.5), ("seed", "x"), ("presence_penalty", 3),
    ("frequency_penalty", -2.5), ("reasoning_effort", "huge"), ("reasoning_effort", ["low"]),
    ("parallel_tool_calls", "no"), ("n", 2), ("logprobs", True), ("top_logprobs", 3), ("logit_bias", {"50256": -100}),
    ("audio", {"voice": "alloy", "format": "wav"}), ("modalities", ["text", "audio"]), ("functions", [{"name": "f"}]),
    ("function_call", {"name": "f"}), ("web_search_options", {}), ("moderation", {"model": "m"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{name}-{value}" for name, value in BAD])
async def test_a_chat_parameter_that_cannot_be_is_refused_by_name(world: World, name: str, value: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await world.client.chat.completions.create(model="free", messages=[user("hi")], extra_body={name: value})
    assert (caught.value.param, caught.value.code) == (name, "invalid_request")
    assert caught.value.response.headers["x-should-retry"] == "false"


BAD_RESPONSES: list[tuple[str, Any, str]] = [
    ("temperature", -1, "temperature"), ("max_output_tokens", 0, "max_output_tokens"),
    ("reasoning", {"effort": "huge"}, "reasoning.effort"), ("reasoning", "high", "reasoning"),
    ("top_logprobs", 2, "top_logprobs"), ("include", ["message.output_text.logprobs"], "include"),
    ("include", "x", "include"), ("prompt", {"id": "pmpt_1"}, "prompt"), ("max_tool_calls", 3, "max_tool_calls"),
    ("store", False, "store"), ("parallel_tool_calls", 0, "parallel_tool_calls"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "param"), BAD_RESPONSES)
async def test_a_response_parameter_that_cannot_be_is_refused_by_name(
    world: World, name: str, value: Any, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await world.client.responses.create(model="free", input="hi", extra_body={name: value})
    assert (caught.value.param, caught.value.code) == (param, "invalid_request")


@pytest.mark.requirement("PX-5")
async def test_harmless_parameters_are_taken_without_effect(world: World) -> None:
    await world.client.chat.completions.create(
        model="free", messages=[user("hi")], n=1, logprobs=False, logit_bias={}, modalities=["text"], user="u",
        safety_identifier="s", prompt_cache_key="k", prompt_cache_retention="24h", service_tier="auto",
        verbosity="low", store=True, prediction={"type": "content", "content": "x"}, temperature=None,
        tool_choice="auto",
    )  # fmt: skip
    assert world.sent.keys() == {"model", "messages", "stream", "stream_options"}
    made = await world.client.responses.create(
        model="free", input="hi", truncation="auto", include=["reasoning.encrypted_content"], service_tier="auto",
        user="u", safety_identifier="s", prompt_cache_key="k", store=True, reasoning={"summary": "auto"},
        text={"verbosity": "low"}, top_logprobs=0, tool_choice="auto", parallel_tool_calls=True,
    )  # fmt: skip
    assert made.status == "completed"
    assert world.sent.keys() == {"model", "messages", "stream", "stream_options"}


# -- tools --------------------------------------------------------------------------------------------


def cities(answer: ChatCompletion) -> list[str]:
    calls = answer.choices[0].message.tool_calls or []
    return [json.loads(call.function.arguments)["city"] for call in calls if call.type == "function"]


def tool_output(answer: ChatCompletion) -> Any:
    """The result of the answer's one call, by the id it was given to the client with."""
    (call,) = answer.choices[0].message.tool_calls or []
    return {"role": "tool", "tool_call_id": call.id, "content": "sunny"}


async def test_one_call_at_a_time_is_what_the_model_is_asked_for_and_what_the_client_gets(world: World) -> None:
    both = (Call("weather", '{"city":"Oslo"}', "one"), Call("weather", '{"city":"Rome"}', "two"))
    world.upstream.plays(Answer(chunks=(), calls=both, finish="tool_use"), Answer())
    asked: list[Any] = [user("the weather")]
    answer = await world.client.chat.completions.create(
        model="free", messages=asked, tools=[WEATHER], parallel_tool_calls=False
    )
    assert world.sent["parallel_tool_calls"] is False
    # A provider that calls twice all the same is heard one call after the other.
    assert cities(answer) == ["Oslo"]
    asked += [answer.choices[0].message, tool_output(answer)]
    answer = await world.client.chat.completions.create(model="free", messages=asked, tools=[WEATHER])
    assert cities(answer) == ["Rome"]


async def test_an_agent_that_calls_one_by_one_is_not_made_to_do_otherwise(world: World) -> None:
    await world.client.chat.completions.create(
        model="bounded", messages=[user("hi")], tools=[WEATHER], parallel_tool_calls=True
    )
    assert world.sent["parallel_tool_calls"] is False


NAMED: Any = {"type": "function", "function": {"name": "weather"}}


@pytest.mark.requirement("PX-5")
@pytest.mark.parametrize(("choice", "sent"), [("required", "required"), (NAMED, NAMED), ("auto", None)])
async def test_a_choice_of_tool_holds_for_the_first_model_call_of_a_segment(
    world: World, choice: Any, sent: Any
) -> None:
    world.calls()
    before = len(world.upstream.seen)
    asked: list[Any] = [user("the weather")]
    answer = await world.client.chat.completions.create(
        model="free", messages=asked, tools=[WEATHER, CLOCK], tool_choice=choice
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    asked += [answer.choices[0].message, tool_output(answer)]
    answer = await world.client.chat.completions.create(model="free", messages=asked, tools=[WEATHER, CLOCK])
    assert answer.choices[0].message.content == "Hello, world"
    assert [seen.body.get("tool_choice") for seen in world.upstream.seen[before:]] == [sent, None]


async def test_allowed_tools_are_all_that_the_model_is_offered(world: World) -> None:
    world.calls("hour")
    allowed: Any = {"mode": "required", "tools": [{"type": "function", "function": {"name": "hour"}}]}
    await world.client.chat.completions.create(
        model="free", messages=[user("hi")], tools=[WEATHER, CLOCK],
        tool_choice={"type": "allowed_tools", "allowed_tools": allowed},
    )  # fmt: skip
    assert [tool["function"]["name"] for tool in world.sent["tools"]] == ["hour"]
    assert world.sent["tool_choice"] == "required"


async def test_a_response_names_its_function_in_its_own_spelling(world: World) -> None:
    world.calls()
    named: Any = {"type": "function", "name": "weather"}
    first = await world.client.responses.create(model="free", input="hi", tools=[TOOL], tool_choice=named)
    assert world.sent["tool_choice"] == NAMED
    assert first.to_dict()["tool_choice"] == named
    call = next(item for item in first.output if item.type == "function_call")
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = await world.client.responses.create(
        model="free", input=[output], previous_response_id=first.id, tools=[TOOL], tool_choice="none", temperature=0.4
    )
    assert (world.sent["tool_choice"], world.sent["temperature"]) == ("none", 0.4)
    assert (second.tool_choice, second.temperature, first.temperature) == ("none", 0.4, None)
    assert (await frames(world.api, first.id))[-1]["response"]["tool_choice"] == named


@pytest.mark.requirement("PX-5", "G4")
async def test_parameters_with_tool_outputs_count_from_there_on_and_are_recorded_once(world: World) -> None:
    world.calls()
    asked: list[Any] = [user("the weather")]
    raw = await world.client.chat.completions.with_raw_response.create(
        model="free", messages=asked, tools=[WEATHER], temperature=0.2, seed=3
    )
    run_id = raw.headers["x-holdfast-run-id"]
    asked += [raw.parse().choices[0].message, tool_output(raw.parse())]
    wanted: Any = {"model": "free", "messages": asked, "tools": [WEATHER], "temperature": 0.9}
    answer = await world.client.chat.completions.create(**wanted)
    assert (world.sent["temperature"], world.sent["seed"]) == (0.9, 3)
    again = await world.client.chat.completions.create(**wanted)
    assert again.choices == answer.choices
    injected = await world.events(run_id, "runtime.command.injected")
    assert [(it["command"], it["arguments"]) for it in injected] == [
        ("set_parameters", {"parameters": {"temperature": 0.9}})
    ]


async def test_the_same_parameters_with_tool_outputs_are_not_recorded_again(world: World) -> None:
    world.calls()
    asked: list[Any] = [user("the weather")]
    raw = await world.client.chat.completions.with_raw_response.create(
        model="free", messages=asked, tools=[WEATHER], temperature=0.2
    )
    asked += [raw.parse().choices[0].message, tool_output(raw.parse())]
    await world.client.chat.completions.create(model="free", messages=asked, tools=[WEATHER], temperature=0.2)
    assert world.sent["temperature"] == 0.2
    assert await world.events(raw.headers["x-holdfast-run-id"], "runtime.command.injected") == []


async def test_a_function_that_the_run_does_not_have_cannot_be_chosen_on_the_way(world: World) -> None:
    world.calls()
    asked: list[Any] = [user("the weather")]
    answer = await world.client.chat.completions.create(model="free", messages=asked, tools=[WEATHER])
    asked += [answer.choices[0].message, tool_output(answer)]
    hour: Any = {"type": "function", "function": {"name": "hour"}}
    with pytest.raises(openai.BadRequestError) as caught:
        await world.client.chat.completions.create(
            model="free", messages=asked, tools=[WEATHER, CLOCK], tool_choice=hour
        )
    assert caught.value.param == "tool_choice"


CHOICES: list[Any] = [
    "always", 5, {"type": "function", "function": {"name": "nothing"}}, {"type": "function"}, {"type": "file_search"},
    {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    {"type": "allowed_tools", "allowed_tools": {"mode": "must", "tools": [NAMED]}},
    {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ["weather"]}},
]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_choice_that_means_nothing_is_refused(world: World, choice: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await world.client.chat.completions.create(
            model="free", messages=[user("hi")], tools=[WEATHER], tool_choice=choice
        )
    assert caught.value.param == "tool_choice"


async def test_a_choice_needs_something_to_choose_from(world: World) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await world.client.chat.completions.create(model="free", messages=[user("hi")], tool_choice="required")
    assert caught.value.param == "tool_choice"


async def test_a_provider_that_cannot_force_a_tool_is_not_asked(world: World) -> None:
    before = len(world.upstream.seen)
    with pytest.raises(openai.BadRequestError, match="toolChoice") as caught:
        await world.client.chat.completions.create(
            model="at_home", messages=[user("hi")], tools=[WEATHER], tool_choice="required"
        )
    assert caught.value.code == "negotiation_failed"
    assert len(world.upstream.seen) == before


# -- the same knobs natively --------------------------------------------------------------------------


@pytest.mark.requirement("HK-8", "HK-9")
async def test_a_native_run_sets_every_knob_of_its_model_calls(world: World) -> None:
    parameters = {
        "temperature": 0.7, "topP": 0.9, "maxTokens": 64, "stop": ["\n\n", "END"], "seed": 7, "presencePenalty": 0.5,
        "frequencyPenalty": -0.5, "effort": "medium",
    }  # fmt: skip
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    world.upstream.plays(Answer(chunks=('{"a": 1}',)))
    body = {"agent": "free", "input": "hi", "parameters": parameters, "responseSchema": schema}
    run = (await world.api.post("/api/runs", params={"wait": 10}, json=body)).json()
    assert run["status"] == "completed", run
    assert {name: world.sent[name] for name in KNOBS} == KNOBS
    assert 64 in (world.sent.get("max_tokens"), world.sent.get("max_completion_tokens"))
    world.upstream.plays(Answer())
    bounded = {"agent": "bounded", "input": "hi", "parameters": {"maxTokens": 5000, "temperature": 1}}
    said = await world.api.post(f"/api/threads/{run['threadId']}/messages", params={"wait": 10}, json=bounded)
    assert said.json()["status"] == "completed"
    assert (world.sent["temperature"], world.sent["seed"]) == (1, 1)
    assert 100 in (world.sent.get("max_tokens"), world.sent.get("max_completion_tokens"))
    pinned = {"agent": "pinned", "input": "hi", "parameters": {"temperature": 1}}
    await world.api.post("/api/runs", params={"wait": 10}, json=pinned)
    assert world.sent["temperature"] == 0.1


@pytest.mark.requirement("HK-8")
async def test_a_native_run_chooses_the_tool_of_its_first_model_call(world: World) -> None:
    for choice, sent in (
        ("required", "required"),
        ({"name": "free"}, {"type": "function", "function": {"name": "free"}}),
    ):
        world.upstream.plays(Answer())
        body = {"agent": "chief", "input": "hi", "toolChoice": choice}
        await world.api.post("/api/runs", params={"wait": 10}, json=body)
        assert world.upstream.seen[-1].body["tool_choice"] == sent


@pytest.mark.requirement("HK-8")
@pytest.mark.parametrize(
    "wrong",
    [
        {"parameters": {"temperature": 3}},
        {"parameters": {"temperature": "hot"}},
        {"parameters": {"topP": 0}},
        {"parameters": {"maxTokens": 0}},
        {"parameters": {"stop": ["a", "b", "c", "d", "e"]}},
        {"parameters": {"stop": [""]}},
        {"parameters": {"seed": 2**63}},
        {"parameters": {"presencePenalty": 9}},
        {"parameters": {"effort": "enormous"}},
        {"parameters": {"warmth": 1}},
        {"toolChoice": "always"},
        {"toolChoice": {"name": ""}},
        {"toolChoice": {"name": "nothing"}},
        {"responseSchema": {"type": "nonsense"}},
        {"tool": "hour", "agent": None, "parameters": {"temperature": 1}},
    ],
    ids=str,
)
async def test_a_wrong_knob_of_a_native_run_is_refused(world: World, wrong: dict[str, Any]) -> None:
    before = len(world.upstream.seen)
    answer = await world.api.post("/api/runs", json={"agent": "free", "input": "hi", **wrong})
    assert answer.status_code in (400, 404, 422) and answer.json()["error"]["code"], answer.text
    assert len(world.upstream.seen) == before
