"""The least that can stand between a client and a model: passes an upstream's bytes through and stores nothing.

The yardstick of `bench.edge`: Starlette and aiohttp, as one would write it in an hour.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import aiohttp
import orjson
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

UPSTREAM = sys.argv[1] if len(sys.argv) > 1 else ""
_session: aiohttp.ClientSession | None = None


async def chat(request: Request) -> StreamingResponse:
    global _session
    if _session is None:
        _session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    body = orjson.loads(await request.body())
    upstream = await _session.post(f"{UPSTREAM}/{body['model']}/chat/completions", data=orjson.dumps(body))

    async def through() -> AsyncIterator[bytes]:
        async with upstream:
            async for piece in upstream.content.iter_any():
                yield piece

    return StreamingResponse(through(), media_type="text/event-stream")


async def serve() -> None:
    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    config = uvicorn.Config(app, port=0, loop="none", http="httptools", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # the framework announces it nowhere
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    uvloop.run(serve())
