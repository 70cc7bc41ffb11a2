"""Models without an agent and embeddings under `/v1`, by the real `openai` package on both databases."""

import asyncio
import base64
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from app.core.settings import Settings
from app.events.catalog.memory import MEMORY_THREAD
from app.wiring.store import open_store
from tests.memory.embedding_process import embedding_thread, meaning
from tests.memory.workspaces import agent, write
from tests.scenarios.conftest import settings as settings  # both databases, one for all tests of this file
from tests.server import ServerProcess
from tests.store_equals_replay import assert_tables_equal_replay

KEY = "AKIAABCDEFGHIJKLMNOP"
DOCUMENTS = """---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  expose: true
  guardrails: {input: [politics], output: [codename]}
  capabilities: {tools: true, structuredOutput: true}
  prices: {input: 1, output: 20}
  script:
    rules:
      - match: {contains: weather, turn: 1}
        reply: {toolCalls: [{name: weather, args: {city: Oslo}}]}
      - match: {afterTool: weather}
        reply: {text: "The tool said: {{ toolResult }}"}
      - match: {system: speak like a pirate}
        reply: {text: "Arr: {{ input }}"}
      - match: {contains: the plan}
        reply: {text: It is project falcon.}
    default: {text: "You said: {{ input }}", chunkSize: 4, usage: {inputTokens: 5, outputTokens: 5}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: hidden}
spec: {provider: scripted, model: script}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: words}
spec: {provider: openai, model: small, baseUrl: 'URL', expose: true, prices: {input: 1000}}
---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: politics}
spec: {kind: topic, action: block, config: {deny: [election]}}
---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: codename}
spec: {kind: regex, action: redact, config: {patterns: ['project [a-z]{3,12}'], label: codename}}
"""
RUNTIME = (
    "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: runtime}\n"
    "spec: {defaultAgent: helper, budgets: {tenant: {costUsdPerDay: 0.5}}}\n"
)


class Setup:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.embedded = Counter[str]()
        """What tests embedded, by tenant. Not all of them need to have run here: another process may have the rest."""

    @asynccontextmanager
    async def client(self, tenant: str = "acme", roles: str = "member") -> AsyncIterator[openai.AsyncOpenAI]:
        headers = {"x-holdfast-user": "lena", "x-holdfast-tenant": tenant, "x-holdfast-roles": roles}
        http = httpx2.AsyncClient(timeout=30, headers=headers)
        base = f"{self.server.url}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key="any", http_client=http, max_retries=0) as client:
            yield client


@pytest.fixture(scope="module")
def setup(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    folder = tmp_path_factory.mktemp("plain")
    with embedding_thread() as url:
        workspace = write(folder, DOCUMENTS.replace("URL", url), agent("helper", "{model: script}"))
        (folder / "runtime.yaml").write_text(RUNTIME)
        variables = {"HOLDFAST_AUTH": "header", "HOLDFAST_TRUSTED_PROXIES": "127.0.0.1"}
        server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, variables)
        try:
            yield (made := Setup(server))
        finally:
            server.stop()
    with asyncio.Runner() as runner:
        runner.run(_proof(settings, made.embedded))


async def _proof(settings: Settings, embedded: Counter[str]) -> None:
    """Each tenant has what it asked for in its own log, by whom, and no text of it."""
    types = ["runtime.memory.embedding.completed"]
    async with open_store(settings) as store:
        await assert_tables_equal_replay(store)
        kept = {
            tenant: await store.reader.events_of(tenant, MEMORY_THREAD, types, 0, 2**62, 100)
            for tenant in ("acme", "poor", "rich")
        }
    assert all(len(kept[tenant]) == embedded[tenant] for tenant in ("poor", "rich")), embedded
    assert len(kept["acme"]) >= embedded["acme"]
    for event in (event for events in kept.values() for event in events):
        assert event.actor == "user:lena" and event.payload["model"] in ("words", "script")
        assert "tea" not in str(event.payload)


async def test_only_exposed_models_are_listed_and_answer(setup: Setup) -> None:
    async with setup.client() as client:
        names = [model.id async for model in client.models.list()]
        assert names == ["helper", "model:script", "model:words"]
        assert (await client.models.retrieve("model:script")).id == "model:script"
        for name in ("model:hidden", "model:none", "hidden", "model:helper"):
            with pytest.raises(openai.NotFoundError) as refused:
                await client.models.retrieve(name)
            with pytest.raises(openai.NotFoundError) as refused:
                await client.chat.completions.create(model=name, messages=[{"role": "user", "content": "Hi"}])
            assert refused.value.code == "model_not_found" and refused.value.param == "model"
            with pytest.raises(openai.NotFoundError):
                await client.responses.create(model=name, input="Hi")
            with pytest.raises(openai.NotFoundError):
                await client.embeddings.create(model=name, input="Hi")


@pytest.mark.requirement("PX-5", "PX-3")
async def test_a_plain_model_answers_as_a_run_that_the_log_has(setup: Setup) -> None:
    async with setup.client() as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="model:script",
            messages=[{"role": "system", "content": "Please speak like a pirate."}, {"role": "user", "content": "Hi"}],
        )
        assert raw.parse().choices[0].message.content == "Arr: Hi"
        answer = await client._client.get(f"{setup.server.url}/api/runs/{raw.headers['x-holdfast-run-id']}")
        run = answer.json()
        assert (run["agent"], run["status"], run["output"]) == ("model:script", "completed", "Arr: Hi")
        response = await client.responses.create(model="model:script", input="Tell me")
        assert response.output_text == "You said: Tell me" and response.model == "model:script"
        again = await client.responses.create(
            model="model:script", input="And now", previous_response_id=response.id, stream=True
        )
        events = [event async for event in again]
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == (
            "You said: And now"
        )


async def test_a_plain_model_streams_and_calls_functions_of_the_client(setup: Setup) -> None:
    tools: Any = [
        {
            "type": "function",
            "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}},
        }
    ]
    async with setup.client() as client:
        messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
        first = await client.chat.completions.create(model="model:script", messages=messages, tools=tools)
        calls = first.choices[0].message.tool_calls
        assert calls is not None and len(calls) == 1
        call = calls[0]
        messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        stream = await client.chat.completions.create(model="model:script", messages=messages, tools=tools, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        assert text == "The tool said: sunny"


async def test_guardrails_of_an_exposed_model_hold_and_secrets_are_redacted(setup: Setup) -> None:
    async with setup.client() as client:

        async def said(text: str) -> str | None:
            messages: Any = [{"role": "user", "content": text}]
            made = await client.chat.completions.create(model="model:script", messages=messages)
            return made.choices[0].message.content

        assert "falcon" not in str(await said("What is the plan?"))
        with pytest.raises(openai.APIStatusError):
            await said("Who wins the election?")
        assert KEY not in str(await said(f"The key is {KEY}"))


async def test_embeddings_come_as_floats_and_as_base64_for_one_text_and_for_many(setup: Setup) -> None:
    async with setup.client() as client:
        one = await client.embeddings.create(model="model:words", input="a car")
        assert one.model == "model:words" and one.usage.prompt_tokens == one.usage.total_tokens == 10
        wanted = meaning("a car")
        length = sum(number**2 for number in wanted) ** 0.5
        assert one.data[0].embedding == pytest.approx([number / length for number in wanted], abs=1e-6)
        many = await client.embeddings.create(
            model="model:words", input=["tea", "a dog", "a car"], encoding_format="float"
        )
        assert [item.index for item in many.data] == [0, 1, 2] and many.data[2].embedding == one.data[0].embedding
        answer = await client._client.post(
            f"{setup.server.url}/v1/embeddings",
            json={"model": "model:words", "input": "a car", "encoding_format": "base64"},
        )
        packed = base64.b64decode(answer.json()["data"][0]["embedding"])
        assert list(struct.unpack("<4f", packed)) == one.data[0].embedding


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": None}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a" * 32_769}, "input"),
        ({"input": ["a" * 32_768] * 31}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "encoding_format": ["float"]}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": True}, "dimensions"),
        ({"input": "a", "model": 5}, "model"),
        ({"input": "a", "base_url": "http://127.0.0.1:1"}, "base_url"),
    ],
)
async def test_embeddings_that_cannot_be_made_are_refused(setup: Setup, more: dict[str, Any], param: str) -> None:
    async with setup.client() as client:
        answer = await client._client.post(f"{setup.server.url}/v1/embeddings", json={"model": "model:words"} | more)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == param


async def test_a_model_that_makes_no_embeddings_or_takes_no_dimensions_says_so(setup: Setup) -> None:
    async with setup.client() as client:
        # The scripted provider makes vectors of the words, but only of one size.
        assert len((await client.embeddings.create(model="model:script", input="a")).data[0].embedding) == 256
        setup.embedded["acme"] += 1
        with pytest.raises(openai.BadRequestError):
            await client.embeddings.create(model="model:script", input="a", dimensions=64)


async def test_a_tenants_day_pays_for_embeddings_and_plain_models_and_others_have_their_own(setup: Setup) -> None:
    async with setup.client("poor") as client:
        for number in range(45):  # ten tokens each, for a cent
            await client.embeddings.create(model="model:words", input=f"tea number {number}")
            setup.embedded["poor"] += 1
        with pytest.raises(openai.RateLimitError) as refused:
            await client.embeddings.create(model="model:words", input=[f"dog number {number}" for number in range(20)])
        assert refused.value.code == "budget_exceeded"
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="model:script", messages=[{"role": "user", "content": "Hi"}])
    async with setup.client("rich") as client:
        assert (await client.embeddings.create(model="model:words", input="tea")).data
        setup.embedded["rich"] += 1


async def test_without_the_permission_to_start_runs_nothing_is_embedded(setup: Setup) -> None:
    async with setup.client("acme", "viewer") as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.embeddings.create(model="model:words", input="tea")
