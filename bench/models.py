"""What a model call costs us: `python -m bench.models` prints one JSON line.

A server in another process streams 200 chunks in the OpenAI format. The same bytes are read once bare,
with aiohttp alone, and once through the whole router: parsing, deltas, events, limits, breaker, budget. Only
this process's CPU counts. `spaced` has every chunk arrive alone, as real tokens do; `burst` has them all at
once. Then 500 streams are held open in their middle, and what they take over an idle process is measured.
"""

import asyncio
import gc
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from app.core import json
from app.core.clock import SystemClock
from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.core.signal import CancelSignal
from app.models.budget import LocalBudget
from app.models.completion import CompletionRequest, Message
from app.models.contract import ProviderDeps
from app.models.kinds import openai
from app.models.limits import Limiter
from app.models.negotiate import ModelChoice
from app.models.registry import Providers
from app.models.router import ModelRouter
from app.outside.http import HttpClient
from app.workspace.catalog import Kinds
from tests.models.provider_setup import a_model

CHUNKS = 200
SPACING = 0.002  # seconds between two chunks, so that each arrives alone
STREAMS = 500
CALLS = {"spaced": 60, "burst": 200}
ROUNDS = 7
ASK = CompletionRequest((Message("system", "You are helpful."), Message("user", "Tell me a story.")))


def main() -> None:
    if "--serve" in sys.argv:
        uvloop.run(serve())
    else:
        print(json.dumps(uvloop.run(measure())).decode())


# -- the server -------------------------------------------------------------------------------------


def events() -> list[bytes]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": None}
    deltas: list[Any] = [{"content": f" token{n}"} for n in range(CHUNKS - 2)]
    made = [base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    made.append(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    made.append(base | {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": CHUNKS}})
    wire = [b"data: " + json.dumps(document) + b"\n\n" for document in made]
    wire[-1] += b"data: [DONE]\n\n"
    return [b"%x\r\n%s\r\n" % (len(event), event) for event in wire]


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def serve() -> None:
    chunks = events()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(HEAD)
                if b" /burst" in head:
                    writer.write(b"".join(chunks))
                else:
                    await drip(writer, chunks, held=b" /held" in head)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def drip(writer: asyncio.StreamWriter, chunks: list[bytes], *, held: bool) -> None:
    for number, chunk in enumerate(chunks):
        writer.write(chunk)
        if not held:
            await asyncio.sleep(SPACING)
        elif number == CHUNKS // 2:
            await writer.drain()
            await asyncio.sleep(3600)


# -- the measurement --------------------------------------------------------------------------------


def started() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.models", "--serve"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def measure() -> dict[str, Any]:
    server = started()
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        result: dict[str, Any] = {"bench": "models", "chunks": CHUNKS}
        for mode, calls in CALLS.items():
            result[mode] = await compare(url, mode, calls)
        result["heldStreams"] = STREAMS
        result["heldMegabytes"] = await held(url)
        result["goals"] = {
            "spaced.ratio <= 2": result["spaced"]["ratio"] <= 2,
            "heldMegabytes <= 150": result["heldMegabytes"] <= 150,
        }
        return result
    finally:
        server.terminate()
        server.wait()


async def compare(url: str, mode: str, calls: int) -> dict[str, Any]:
    """Rounds in turns, so that a busy neighbour hits both alike; the ratio is the median of the pairs."""
    bare: list[float] = []
    ours: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        client = HttpClient()
        router = a_router(client)
        for _ in range(ROUNDS):
            bare.append(await cpu(calls, lambda: read_bare(session, f"{url}/{mode}")))
            ours.append(await cpu(calls, lambda: complete(router, f"{url}/{mode}")))
        await client.close()
    ratios = sorted(round(b / a, 2) for a, b in zip(bare, ours, strict=True))
    return {
        "bareMs": round(sorted(bare)[ROUNDS // 2] * 1000, 3),
        "oursMs": round(sorted(ours)[ROUNDS // 2] * 1000, 3),
        "ratio": ratios[len(ratios) // 2],
        "rounds": ratios,
    }


async def cpu(calls: int, call: Callable[[], Awaitable[None]]) -> float:
    """CPU seconds per call of this process, 20 at a time."""
    await asyncio.gather(*(call() for _ in range(5)))
    gc.collect()
    began = time.process_time()
    for _ in range(calls // 20):
        await asyncio.gather(*(call() for _ in range(20)))
    return (time.process_time() - began) / (calls // 20 * 20)


async def read_bare(session: aiohttp.ClientSession, url: str) -> None:
    async with session.post(url, data=b"{}") as response:
        async for _ in response.content.iter_any():
            pass


async def recorded(payload: object) -> None:
    """The log's share is measured by its own benchmark."""


async def complete(router: ModelRouter, url: str) -> None:
    plan = ModelChoice(a_model("m", "openai", "gpt-test", base_url=url))
    outcome = await router.complete(plan, ASK, record=recorded, message_id="msg_1", budget=LocalBudget())
    assert not isinstance(outcome, Failure), outcome
    assert outcome.usage.output_tokens == CHUNKS


def a_router(client: HttpClient) -> ModelRouter:
    clock = SystemClock()
    deps = ProviderDeps(client, lambda reference: None, clock, asyncio.sleep)
    return ModelRouter(
        Providers(Kinds([openai.KIND]), deps),
        schemas=SchemaRegistry(),
        clock=clock,
        random=random.random,
        sleep=asyncio.sleep,
        limiter=Limiter(clock, concurrency=10_000),
    )


async def held(url: str) -> float:
    client = HttpClient()
    router = a_router(client)
    await complete(router, f"{url}/burst")
    gc.collect()
    idle = resident()
    recorded, everyone = 0, asyncio.Event()

    async def count(*payloads: object) -> None:
        nonlocal recorded
        recorded += len(payloads)
        if recorded == STREAMS * 3:  # negotiated, requested and the first delta of each
            everyone.set()

    plan = ModelChoice(a_model("m", "openai", "gpt-test", base_url=f"{url}/held"))
    calls = [
        asyncio.create_task(router.complete(plan, ASK, record=count, message_id="msg_1", cancelled=CancelSignal()))
        for _ in range(STREAMS)
    ]
    await asyncio.wait_for(everyone.wait(), 60)
    await asyncio.sleep(0.5)
    over = resident() - idle
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await client.close()
    return round(over / 1e6, 1)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    main()
