"""Embeddings from a real HTTP server, in each provider's format: batches, retries, refusals, and runs that use them."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.core.clock import SystemClock
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog.memory import MEMORY_THREAD
from app.memory import service
from app.models.budget import LocalBudget
from app.models.config import ModelConfig, model_config
from app.models.contract import ProviderDeps
from app.models.embeddings import BATCH, Embedder, scripted_vector
from app.outside.http import HttpClient
from app.runtime.intake.memory_desk import MemoryPlace, NewRecord
from app.workspace.specs.model import ModelSpec
from tests.databases import create_database
from tests.memory.embedding_process import meaning
from tests.memory.workspaces import agent, memory, model, rule, write
from tests.postgres import PostgresServer
from tests.runs import ended, events_until, opened, payloads, submit
from tests.server import secret_file

PLACE = "default/clerk/local"


class EmbeddingServer:
    """Speaks all three formats. Words that mean the same have the same vector."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failing = 0
        self.status = 503
        self.answer: Any = None
        self.url = ""
        self.at_once = self.most_at_once = 0

    async def handle(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._answered(request)
        finally:
            self.at_once -= 1

    async def _answered(self, request: web.Request) -> web.Response:
        body = await request.json()
        if request.path.endswith("batchEmbedContents"):
            texts = [one["content"]["parts"][0]["text"] for one in body["requests"]]
        else:
            texts = body["input"]
        self.asked.append(texts)
        if self.failing:
            self.failing -= 1
            return web.json_response({"error": {"message": "busy"}}, status=self.status)
        if self.answer is not None:
            return web.json_response(self.answer)
        vectors = [meaning(text) for text in texts]
        tokens = 10 * len(texts)
        if request.path.endswith("/embeddings"):
            data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
            return web.json_response({"data": list(reversed(data)), "usage": {"prompt_tokens": tokens}})
        if request.path.endswith("/api/embed"):
            return web.json_response({"embeddings": vectors, "prompt_eval_count": tokens})
        return web.json_response({"embeddings": [{"values": vector} for vector in vectors]})


@asynccontextmanager
async def embedding_server() -> AsyncIterator[EmbeddingServer]:
    served = EmbeddingServer()
    app = web.Application()
    app.router.add_post("/{path:.*}", served.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()


def config(provider: str, url: str) -> ModelConfig:
    return model_config("words", ModelSpec.model_validate({"provider": provider, "model": "small", "baseUrl": url}))


@asynccontextmanager
async def embedder() -> AsyncIterator[tuple[Embedder, list[float]]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    client = HttpClient()
    try:
        yield Embedder(ProviderDeps(client, lambda text: text, SystemClock(), sleep)), pauses
    finally:
        await client.close()


@pytest.mark.parametrize("provider", ["openai", "gemini", "ollama"])
async def test_each_provider_is_asked_in_its_format_in_batches_and_once_for_each_text(provider: str) -> None:
    async with embedding_server() as server, embedder() as (made, _):
        texts = [f"a car, number {n}" for n in range(BATCH + 5)]
        first_time = await made.embed(config(provider, server.url), texts)
        assert first_time.failure is None and [len(batch) for batch in server.asked] == [BATCH, 5]
        assert (first_time.texts, first_time.requests) == (BATCH + 5, 2)
        # Gemini does not say, so it is estimated.
        assert provider == "gemini" or first_time.usage.input_tokens == 10 * (BATCH + 5)
        assert first_time.usage.input_tokens > BATCH
        first = struct.unpack("<4f", first_time.vectors[0])
        assert abs(sum(value * value for value in first) - 1) < 1e-6 and first[0] > 0.99
        again = await made.embed(config(provider, server.url), texts)
        assert again.vectors == first_time.vectors and len(server.asked) == 2
        assert (again.texts, again.requests, again.usage.input_tokens) == (0, 0, 0)


async def test_a_busy_server_is_asked_again_with_growing_pauses_and_a_refusal_is_final() -> None:
    async with embedding_server() as server, embedder() as (made, pauses):
        server.failing = 2
        assert len((await made.embed(config("openai", server.url), ["tea"])).vectors) == 1
        assert pauses == [0.5, 1.0]
        server.failing, server.status = 1, 401
        refused = (await made.embed(config("openai", server.url), ["dog"])).failure
        assert refused is not None and not refused.retryable and len(server.asked) == 4


@pytest.mark.parametrize(
    "answer",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": ["x"]}]},
        {"data": [{"index": 0, "embedding": [0.0, 0.0]}]},
        {"data": [{"index": 0, "embedding": [1e999]}]},
        {"wrong": 1},
        [],
    ],
)
async def test_an_answer_that_is_not_one_vector_per_text_is_refused(answer: Any) -> None:
    async with embedding_server() as server, embedder() as (made, _):
        server.answer = answer
        refused = (await made.embed(config("openai", server.url), ["tea"])).failure
        assert refused is not None and refused.code == "PROVIDER_MALFORMED"


async def test_a_request_that_does_not_fit_the_budget_is_not_made_and_those_before_it_stay_counted() -> None:
    async with embedding_server() as server, embedder() as (made, _):
        budget = LocalBudget(tokens=900, cost_usd=1.0, calls=0)
        texts = [f"tea with sugar, number {n:04}" for n in range(2 * BATCH)]
        cut = await made.embed(config("openai", server.url), texts, budget)
        assert cut.failure is not None and cut.failure.code == "BUDGET_EXCEEDED" and cut.vectors == []
        assert len(server.asked) == cut.requests == 1
        assert budget.used_tokens == cut.usage.input_tokens == 10 * BATCH and budget.used_calls == 0
        # What was made is known: the rest alone is asked for.
        budget.allow(tokens=2_000, cost_usd=1.0)
        whole = await made.embed(config("openai", server.url), texts, budget)
        assert len(whole.vectors) == 2 * BATCH and (whole.texts, whole.requests) == (BATCH, 1)
        server.failing, server.status = 1, 400
        used = budget.used_tokens
        assert (await made.embed(config("openai", server.url), ["dog"], budget)).failure is not None
        assert budget.used_tokens == used


def workspace(folder: Path, provider: str, url: str | None, more: str = "") -> Path:
    base = f", baseUrl: '{url}'" if url is not None else ""
    words = "---\napiVersion: holdfast/v1\nkind: Model\nmetadata: {name: words}\n"
    words += f"spec: {{provider: {provider}, model: small{base}{more}}}\n"
    return write(
        folder,
        model(rule('{system: "automobile is red"}', '{text: "It is red."}')),
        words,
        memory("facts", "{type: semantic, kind: vector, embedding: words}"),
        agent("clerk", "{model: script, memory: [facts]}"),
    )


@pytest.mark.requirement("SH-17", "HK-11")
async def test_a_run_recalls_by_meaning_what_has_no_word_in_common(settings: Settings, tmp_path: Path) -> None:
    async with embedding_server() as server:
        async with opened(settings, workspace(tmp_path / "ws", "openai", server.url)) as holdfast:
            first = await events_until(holdfast, await submit(holdfast, "clerk", "My automobile is red."))
            assert payloads(first, "memory.plugin.started") and payloads(first, "memory.plugin.completed")
            run = await ended(holdfast, await submit(holdfast, "clerk", "Which colour has the car?"))
            assert run.output == "It is red."


PRICED = ", prices: {input: 1000}"


@pytest.mark.requirement("SH-17")
async def test_embeddings_are_counted_for_the_run_and_a_run_without_budget_finds_by_words(
    settings: Settings, tmp_path: Path
) -> None:
    async with embedding_server() as server:
        async with opened(settings, workspace(tmp_path / "ws", "openai", server.url, PRICED)) as holdfast:
            run = await submit(holdfast, "clerk", "My automobile is red.")
            events = await events_until(holdfast, run)
            # The query of the recall is the text that is learned: embedded once, and known then.
            (spent,) = payloads(events, "memory.embedding.completed")
            assert spent["usage"] == {"inputTokens": 10, "outputTokens": 0, "costUsd": 0.01}
            assert (spent["model"], spent["textCount"], spent["requestCount"]) == ("words", 1, 1)
            (answer,) = payloads(events, "model.completed")
            used = (await ended(holdfast, run)).usage
            assert used["inputTokens"] == 10 + answer["usage"]["inputTokens"] and used["costUsd"] == 0.01
            poor = await submit(holdfast, "clerk", "Which automobile has a cheap price?", limits={"costUsd": 0.001})
            events = await events_until(holdfast, poor)
            assert (await ended(holdfast, poor)).output == "It is red."
            (failed,) = payloads(events, "memory.plugin.failed")
            assert failed["error"]["code"] == "BUDGET_EXCEEDED" and not payloads(events, "memory.embedding.completed")


async def test_a_tenant_pays_for_searches_of_clients_from_its_day_also_after_a_restart(
    settings: Settings, tmp_path: Path
) -> None:
    async with embedding_server() as server:
        folder = workspace(tmp_path / "ws", "openai", server.url, PRICED)
        (folder / "runtime.yaml").write_text(
            "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: runtime}\n"
            "spec: {defaultAgent: clerk, budgets: {tenant: {costUsdPerDay: 0.021}}}\n"
        )
        place = MemoryPlace("facts", agent="clerk")
        async with opened(settings, folder) as holdfast:
            put = await holdfast.memory_desk.put(LOCAL, place, NewRecord("My automobile is red."))
            assert isinstance(put, dict)
            found = await holdfast.memory_desk.search(LOCAL, place, "car", 5)
            assert isinstance(found, list) and len(found) == 1 and len(server.asked) == 2
            kept = await holdfast.store.reader.events_of(
                "default", MEMORY_THREAD, ["runtime.memory.embedding.completed"], 0, 2**62, 10
            )
            assert [event.payload["usage"]["costUsd"] for event in kept] == [0.01, 0.01]
        async with opened(settings, folder) as holdfast:
            assert await holdfast.memory_desk.search(LOCAL, place, "vehicle", 5) == [], "the day is used up"
            by_words = await holdfast.memory_desk.search(LOCAL, place, "automobile", 5)
            assert isinstance(by_words, list) and len(by_words) == 1 and len(server.asked) == 2


def limited(server: EmbeddingServer, limits: dict[str, int], seconds: float = 30) -> ModelConfig:
    spec = {"provider": "openai", "model": "small", "baseUrl": server.url, "limits": limits}
    return model_config("words", ModelSpec.model_validate(spec | {"timeouts": {"totalSeconds": seconds}}))


async def test_no_more_embeddings_are_asked_for_at_once_than_the_model_allows() -> None:
    async with embedding_server() as server, embedder() as (made, _):
        one_at_a_time = limited(server, {"concurrency": 1})
        tenants = ["acme", "acme", "acme", "beta"]
        asked = [made.embed(one_at_a_time, [f"text {n}"], None, tenant) for n, tenant in enumerate(tenants)]
        assert all(answer.failure is None for answer in await asyncio.gather(*asked))
        assert server.most_at_once == 1
        # Tenants take turns: the one that came last does not wait for all of the other.
        assert server.asked.index(["text 3"]) < server.asked.index(["text 2"])


@pytest.mark.parametrize("limits", [{"requestsPerMinute": 1}, {"tokensPerMinute": 10}])
async def test_embeddings_over_the_rate_of_their_model_wait_and_are_not_made_when_that_takes_too_long(
    limits: dict[str, int],
) -> None:
    async with embedding_server() as server, embedder() as (made, pauses):
        assert (await made.embed(limited(server, limits), ["tea"])).failure is None
        budget = LocalBudget(tokens=900, cost_usd=1.0, calls=0)
        late = (await made.embed(limited(server, limits, 0.05), ["a dog"], budget)).failure
        assert late is not None and late.code == "MODEL_QUEUE_FULL" and pauses == []
        assert len(server.asked) == 1 and budget.used_tokens == 0


async def test_a_run_waits_for_the_rate_of_embeddings_only_so_long_and_then_finds_by_words(
    settings: Settings, tmp_path: Path
) -> None:
    limits = ", limits: {requestsPerMinute: 1}, timeouts: {totalSeconds: 2}"
    async with embedding_server() as server:
        async with opened(settings, workspace(tmp_path / "ws", "openai", server.url, limits)) as holdfast:
            await ended(holdfast, await submit(holdfast, "clerk", "My automobile is red."))
            run = await submit(holdfast, "clerk", "Tell me of my automobile")
            events = await events_until(holdfast, run)
            assert (await ended(holdfast, run)).output == "It is red." and len(server.asked) == 1
            assert payloads(events, "memory.plugin.failed")[0]["error"]["code"] == "MODEL_QUEUE_FULL"


async def test_servers_with_one_database_share_the_limits_of_an_embedding_model(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    await create_database(postgres_server, "shared_embeddings")
    url, secret = postgres_server.url("shared_embeddings"), secret_file(tmp_path)
    settings = Settings(data_dir=tmp_path / "one", database_url=url, secret_file=secret)
    limits = ", limits: {requestsPerMinute: 1}, timeouts: {totalSeconds: 2}"
    async with embedding_server() as server:
        folder = workspace(tmp_path / "ws", "openai", server.url, limits)
        other = settings.model_copy(update={"data_dir": tmp_path / "other"})
        place = MemoryPlace("facts", agent="clerk")
        async with opened(settings, folder) as first, opened(other, folder) as second:
            await first.memory_desk.search(LOCAL, place, "tea", 5)
            assert len(server.asked) == 1
            await second.memory_desk.search(LOCAL, place, "a dog", 5)
            assert len(server.asked) == 1, "the first server used the minute's only request"


async def test_without_the_embedding_server_words_still_find_and_maintenance_catches_up(
    settings: Settings, tmp_path: Path
) -> None:
    async with embedding_server() as server:
        async with opened(settings, workspace(tmp_path / "ws", "openai", server.url)) as holdfast:
            server.failing, server.status = 1000, 400
            events = await events_until(holdfast, await submit(holdfast, "clerk", "My automobile is red."))
            # Of the recall, and of what was learned.
            assert [failed["provider"] for failed in payloads(events, "memory.plugin.failed")] == ["vector", "vector"]
            by_word = await ended(holdfast, await submit(holdfast, "clerk", "Tell me of my automobile"))
            assert by_word.output == "It is red."
            server.failing = 0
            done = await holdfast.maintenance.run(holdfast.workspace.current.memories)
            assert done == {"default": {"indexed": 1}}
            assert await holdfast.maintenance.run(holdfast.workspace.current.memories) == {}
            by_meaning = await ended(holdfast, await submit(holdfast, "clerk", "Which colour has the car?"))
            assert by_meaning.output == "It is red."


async def test_another_embedding_model_makes_all_vectors_anew_and_the_job_can_be_interrupted(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace(tmp_path / "ws", "scripted", None)
    async with opened(settings, folder) as holdfast:
        for number in range(3):
            await ended(holdfast, await submit(holdfast, "clerk", f"I have the number {number} at home."))
        table: Any = holdfast.memory.table
        (old,) = holdfast.memory.embeddings_in_use("default", holdfast.workspace.current.memories)
        assert len(await table.vectors("default", PLACE, old, 0, 10)) == 3
        first = (await table.vectors("default", PLACE, old, 0, 10))[0]
        assert first[1] == scripted_vector("I have the number 0 at home.")
        documents = folder / "all.yaml"
        documents.write_text(documents.read_text().replace("model: small", "model: large"))
        assert (await holdfast.workspace.reload()).rejected is None
        memories = holdfast.workspace.current.memories
        (new,) = holdfast.memory.embeddings_in_use("default", memories)
        assert new != old
        assert await holdfast.maintenance.run(memories, lambda: True) == {}
        assert len(await table.vectors("default", PLACE, old, 0, 10)) == 3
        put, stopped = holdfast.memory.put, asyncio.Event()

        async def put_one(*asked: Any) -> Any:
            stopped.set()
            return await put(*asked)

        monkeypatch.setattr(service, "_PUT_AT_ONCE", 1)
        with monkeypatch.context() as interrupted:
            interrupted.setattr(holdfast.memory, "put", put_one)
            assert await holdfast.maintenance.run(memories, stopped.is_set) == {"default": {"indexed": 1}}
        assert len(await table.vectors("default", PLACE, new, 0, 10)) == 1
        assert await holdfast.maintenance.run(memories) == {"default": {"indexed": 2}}
        assert await holdfast.maintenance.run(memories) == {}
        assert len(await table.vectors("default", PLACE, new, 0, 10)) == 3
        assert len(await table.vectors("default", PLACE, old, 0, 10)) == 0


async def test_the_event_loop_is_not_held_while_the_server_thinks() -> None:
    async with embedding_server() as server, embedder() as (made, _):
        asked = asyncio.create_task(made.embed(config("openai", server.url), ["tea"]))
        await asyncio.sleep(0)
        assert not asked.done()
        assert (await asked).failure is None
