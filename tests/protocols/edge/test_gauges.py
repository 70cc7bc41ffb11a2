"""What the edge remembers has a size that can be watched."""

import re
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.protocols.auth.auth_server import bearer, open_auth_server
from tests.protocols.auth.test_tokens import claims, issuers, sign


async def _gauges(client: httpx2.AsyncClient) -> dict[str, float]:
    page = (await client.get("/metrics")).text
    return {name: float(size) for name, size in re.findall(r"^holdfast_(\w+) ([0-9.e+]+)$", page, re.MULTILINE)}


@pytest.mark.requirement("G13")
async def test_caches_of_the_edge_are_gauges(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="keys,jwt", jwt_issuers=issuers(tmp_path)) as server:
        admin, member = await server.caller("admin"), await server.key("member")
        empty = await _gauges(admin)
        assert [empty[f"{name}_remembered"] for name in ("keys", "tokens", "titles", "stories")] == [1, 0, 0, 0]
        assert (empty["frames_in_the_making"], empty["trace_contexts"]) == (0, 0)
        await server.client(bearer(sign(claims()))).get("/api/threads")
        async with connect(server.stream_url, additional_headers=bearer(member)) as socket:
            assert b'"ready"' in await socket.recv(decode=False)
            body = {"tool": "clock", "input": {}}
            await server.client(bearer(member)).post("/api/runs", params={"wait": 10}, json=body)
            while b"turn/completed" not in await socket.recv(decode=False):
                pass
        full = await _gauges(admin)
        assert [full[f"{name}_remembered"] for name in ("keys", "tokens", "titles", "stories")] == [2, 1, 1, 1]
