"""The webhook of a single run, named by a LangGraph client: sent its end, and to listed hosts only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from aiohttp import web

from app.core import json
from tests.langgraph.frames import new_thread, run_body
from tests.waiting import until

pytestmark = pytest.mark.requirement("PX-5")


@asynccontextmanager
async def _receiver() -> AsyncIterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/{name}", take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", got
    finally:
        await runner.cleanup()


async def test_the_end_of_a_run_is_sent_to_its_webhook(client: httpx2.AsyncClient) -> None:
    thread = await new_thread(client)
    async with _receiver() as (url, got):
        await client.post(f"/threads/{thread}/runs/wait", json=run_body("hello", webhook=url))
        async with asyncio.timeout(30):
            await until(lambda: bool(got))
    sent = json.loads(got[0])
    assert thread in json.dumps(sent).decode() and "runtime.request.completed" in json.dumps(sent).decode()


@pytest.mark.parametrize("url", ["https://example.com/x", "http://169.254.169.254/", "ftp://127.0.0.1/x", "nobody", 7])
async def test_another_host_is_refused_and_nothing_runs(client: httpx2.AsyncClient, url: object) -> None:
    thread = await new_thread(client)
    for path in (f"/threads/{thread}/runs", f"/threads/{thread}/runs/crons"):
        answer = await client.post(path, json=run_body("hello", webhook=url, schedule="0 0 1 1 *"))
        assert answer.status_code in (404, 422) and "detail" in answer.json(), answer.text
    assert (await client.get(f"/threads/{thread}/runs")).json() == []
