"""Reruns over HTTP: by token, strictly or compatibly."""

import httpx2
import pytest

from app.core.settings import Settings
from tests.server import in_process


@pytest.mark.requirement("HK-27", "PX-9")
async def test_a_run_is_repeated_by_its_token_on_a_thread_of_its_own(settings: Settings) -> None:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=20) as client:
        first = (await client.post("/api/runs", params={"wait": 10}, json={"agent": "echo", "input": "hi"})).json()
        token = (await client.get(f"/api/runs/{first['id']}/replay-token")).json()["token"]
        answer = await client.post(f"/api/runs/{first['id']}/rerun", json={"token": token})
        again = answer.json()
        assert (answer.status_code, again["rerunOf"], again["input"]) == (202, first["id"], "hi")
        assert again["threadId"] != first["threadId"]
        thread = (await client.get(f"/api/threads/{again['threadId']}")).json()
        assert thread["forkedFrom"]["threadId"] == first["threadId"]
        refused = await client.post(f"/api/runs/{first['id']}/rerun", json={"token": "rt2_nonsense"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REPLAY_TOKEN_INVALID")
