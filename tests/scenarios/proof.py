"""After a scenario: every thread's chain holds, and folding its export gives what the server shows."""

import httpx2

from app.events.chain import Head, verify
from app.protocols.dialects.native import read_export
from app.views.records import replay
from app.views.run import run_json
from app.views.thread import thread_json
from tests.ui_events import assert_thread_is_valid


async def assert_replay_equals_tables(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=20, verify=False) as client:
        after: str | None = ""
        while after is not None:
            page = (await client.get("/api/threads", params={"after": after, "limit": 1000})).json()
            for thread in page["items"]:
                await _assert_thread(client, thread["id"])
            after = page["nextCursor"]


async def _assert_thread(client: httpx2.AsyncClient, thread_id: str) -> None:
    export = read_export((await client.get(f"/api/threads/{thread_id}/export")).content.splitlines())
    assert isinstance(verify(export.events, export.head), Head), thread_id
    assert_thread_is_valid(export.events)
    records = replay(thread_id, export.events)
    assert (await client.get(f"/api/threads/{thread_id}")).json() == thread_json(records.thread)
    for run in records.runs.values():
        assert (await client.get(f"/api/runs/{run.id}")).json() == run_json(run)
