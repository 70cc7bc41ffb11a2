"""After a scenario: every thread's chain holds, and folding its export gives what the server shows."""

import asyncio

import httpx2

from app.events.chain import Head, verify
from app.protocols.dialects.native import Export, read_export
from app.views.records import Records, replay
from app.views.run import run_json
from app.views.thread import thread_json
from tests.ui_events import assert_thread_is_valid


async def assert_replay_equals_tables(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60, verify=False) as client:
        after: str | None = ""
        while after is not None:
            page = (await client.get("/api/threads", params={"after": after, "limit": 1000})).json()
            for thread in page["items"]:
                await _assert_thread(client, thread["id"])
            after = page["nextCursor"]


async def _assert_thread(client: httpx2.AsyncClient, thread_id: str) -> None:
    """What is written between two questions (a verdict, a delivery) is no difference: both are asked again."""
    export, records = await _at_rest(client, thread_id)
    while (difference := await _difference(client, records)) is not None:
        before = len(export.events)
        export, records = await _at_rest(client, thread_id)
        assert len(export.events) > before, difference
    assert isinstance(verify(export.events, export.head), Head), thread_id
    assert_thread_is_valid(export.events)


async def _difference(client: httpx2.AsyncClient, records: Records) -> str | None:
    """Between what the server shows and these records."""
    places = {f"/api/threads/{records.thread.id}": thread_json(records.thread)}
    places |= {f"/api/runs/{run.id}": run_json(run) for run in records.runs.values()}
    for path, folded in places.items():
        shown = (await client.get(path)).json()
        if shown != folded:
            return f"{shown} is not {folded}"
    return None


async def _at_rest(client: httpx2.AsyncClient, thread_id: str) -> tuple[Export, Records]:
    """The thread when none of its runs is at work: the last scenario may not have waited for what it submitted. One
    that is at work for longer than 5 s does nothing meanwhile."""
    for _ in range(100):
        export = read_export((await client.get(f"/api/threads/{thread_id}/export")).content.splitlines())
        records = replay(thread_id, export.events)
        if not any(run.status in ("queued", "running") for run in records.runs.values()):
            break
        await asyncio.sleep(0.05)  # over HTTP there is no event to await that would not be the thing tested
    return export, records
