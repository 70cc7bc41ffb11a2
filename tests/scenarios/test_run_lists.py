"""Lists of runs by status, agent and label, and pages of messages and transcript: complete, in order, page by page."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from app.store.engine import Sql
from app.store.migrate import migrate
from app.store.tables import metadata
from app.wiring.store import open_store
from tests.server import in_process
from tests.store.test_deltas import OF_0007
from tests.store_equals_replay import assert_tables_equal_replay

LONG_VALUE = "x" * 200
"""As long as a label may be."""


@pytest.fixture
async def http(settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client
        await assert_tables_equal_replay(server.holdfast.store)


async def _run(http: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post("/api/runs?wait=30", json={"agent": "echo", "input": "hello"} | body)
    assert answer.status_code in (200, 202), answer.text
    found: dict[str, Any] = answer.json()
    return found


async def _pages(http: httpx2.AsyncClient, path: str, **wanted: Any) -> list[dict[str, Any]]:
    """All that a list has, in pages of two."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = await http.get(path, params=wanted | {"limit": 2} | cursor)
        assert answer.status_code == 200, answer.text
        found += answer.json()["items"]
        following = answer.json()["nextCursor"]
        if following is None:
            return found
        cursor = {"after": following}


@pytest.mark.requirement("G13")
async def test_runs_are_listed_by_what_is_asked_for_in_any_combination(http: httpx2.AsyncClient) -> None:
    plain = [await _run(http) for _ in range(3)]
    labelled = [await _run(http, labels={"team": "a", "n": str(n)}) for n in range(3)]
    other = await _run(http, labels={"team": "b", "long": LONG_VALUE})
    failed = await _run(http, agent="assistant", input="fail please", labels={"team": "a"})
    assert failed["status"] == "failed", failed
    newest = [run["id"] for run in [*plain, *labelled, other, failed]][::-1]

    async def listed(**wanted: Any) -> list[str]:
        return [run["id"] for run in await _pages(http, "/api/runs", **wanted)]

    assert await listed() == newest
    assert await listed(status="failed") == [failed["id"]]
    assert await listed(status="completed") == [id for id in newest if id != failed["id"]]
    assert await listed(status="running") == await listed(status="waiting") == await listed(agent="nobody") == []
    assert await listed(agent="assistant") == await listed(agent="assistant", status="failed") == [failed["id"]]
    assert await listed(agent="assistant", status="completed") == []
    assert await listed(label="team:a") == [failed["id"], *(run["id"] for run in labelled[::-1])]
    assert await listed(label="team:a", status="completed") == [run["id"] for run in labelled[::-1]]
    assert await listed(label=["team:a", "n:1"]) == [labelled[1]["id"]]
    assert await listed(label=f"long:{LONG_VALUE}") == [other["id"]]
    assert await listed(label=f"long:{LONG_VALUE[:150]}") == []
    assert await listed(threadId=other["threadId"]) == [other["id"]]
    assert await listed(threadId=other["threadId"], status="failed") == []
    moment = other["createdAt"]
    assert set(await listed(createdFrom=moment)) >= {other["id"], failed["id"]}
    assert set(await listed(createdUntil=moment)) <= {run["id"] for run in [*plain, *labelled]}
    await http.delete(f"/api/threads/{other['threadId']}")
    assert await listed(label="team:b") == []


async def test_runs_of_openai_clients_are_found_by_the_labels_that_have_no_index(http: httpx2.AsyncClient) -> None:
    await _run(http)
    made = []
    for _ in range(3):
        body = {"model": "echo", "messages": [{"role": "user", "content": "hello"}], "metadata": {"team": "a"}}
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        made.append(answer.headers["x-holdfast-run-id"])
    found = await _pages(http, "/api/runs", label="openai.api:chat")
    assert [run["id"] for run in found] == made[::-1]
    request = found[0]["labels"]["openai.request"]
    assert len(await _pages(http, "/api/runs", label=["openai.api:chat", f"openai.request:{request}"])) == 3
    assert await _pages(http, "/api/runs", label=["openai.api:chat", "team:a"]) == []
    assert await _pages(http, "/api/runs", label="openai.request:unknown") == []


@pytest.mark.requirement("G13")
async def test_messages_and_transcript_in_pages_are_what_they_are_as_a_whole(http: httpx2.AsyncClient) -> None:
    first = await _run(http, input="word 0")
    thread = first["threadId"]
    for n in range(1, 6):
        await _run(http, threadId=thread, input=f"word {n}")
    whole = (await http.get(f"/api/threads/{thread}/messages")).json()["items"]
    assert [message["content"] for message in whole] == [f"word {n // 2}" for n in range(12)]
    pages: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    while True:
        answer = (await http.get(f"/api/threads/{thread}/messages", params={"limit": 4} | before)).json()
        assert len(answer["items"]) == 4
        pages = answer["items"] + pages
        if answer["nextCursor"] is None:
            break
        before = {"before": answer["nextCursor"]}
    assert pages == whole
    one = (await http.get(f"/api/threads/{thread}/messages?limit=1")).json()
    assert one["items"] == whole[-2:], "a run's messages stay together"

    entries = await _pages(http, f"/api/threads/{thread}/transcript")
    assert entries == (await http.get(f"/api/threads/{thread}/transcript?limit=1000")).json()["items"]
    assert len(entries) == 12


@pytest.mark.requirement("G13")
async def test_messages_of_a_fork_begin_with_what_it_took_over(http: httpx2.AsyncClient) -> None:
    first = await _run(http, input="before")
    answer = await http.post(f"/api/threads/{first['threadId']}/fork", json={})
    assert answer.status_code in (200, 201), answer.text
    fork = answer.json()["id"]
    await _run(http, threadId=fork, input="after")
    whole = (await http.get(f"/api/threads/{fork}/messages")).json()["items"]
    paged = (await http.get(f"/api/threads/{fork}/messages?limit=100")).json()
    assert paged == {"items": whole, "nextCursor": None}
    assert [message["content"] for message in whole] == ["before", "before", "after", "after"]


async def test_the_migration_takes_over_the_labels_of_stored_runs(settings: Settings) -> None:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        run = await _run(http, labels={"team": "old", "long": LONG_VALUE})
        await _run(http)
    async with open_store(settings) as store:
        later = [
            f"DROP TABLE {table.name}"
            for table in reversed(metadata.sorted_tables)
            if table.name not in OF_0007 and table.name != "deltas"
        ]
        for statement in (
            *later,
            "DROP TABLE run_labels",
            "DROP INDEX runs_by_status",
            "DROP INDEX runs_by_agent",
            "DROP INDEX transcript_by_position",
            "DROP INDEX threads_of_tenant",
            "DROP INDEX threads_by_age",
            "DROP INDEX leases_by_previous",
            "DROP TABLE deltas",
            "ALTER TABLE threads DROP COLUMN swept_seq",
            "ALTER TABLE tombstones DROP COLUMN deleted_at",
            "UPDATE alembic_version SET version_num = '0005'",
        ):
            await store.database.write(lambda tx, statement=statement: tx.rows(Sql(statement)))  # type: ignore[misc]
    await migrate(settings)
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        for label in ("team:old", f"long:{LONG_VALUE}"):
            assert [found["id"] for found in await _pages(http, "/api/runs", label=label)] == [run["id"]]
        # The deltas of its thread were dropped with their table, so the thread is named.
        await assert_tables_equal_replay(server.holdfast.store, [("default", run["threadId"])])
