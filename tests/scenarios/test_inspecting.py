"""What can be read over HTTP: lists with filters and cursors, the views of a run and of a thread, what is gone."""

from typing import Any

import httpx2
import pytest

from app.core.ids import new_id


async def _run(client: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    body = {"agent": "echo", "input": "hello there", **more}
    answer = await client.post("/api/runs?wait=20", json=body)
    assert answer.status_code == 200, answer.text
    run: dict[str, Any] = answer.json()
    return run


async def _ids(client: httpx2.AsyncClient, **params: Any) -> list[str]:
    answer = await client.get("/api/runs", params=params)
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.json()["items"]]


@pytest.mark.requirement("SH-22", "CARD-3")
async def test_runs_are_listed_newest_first_and_page_by_page(client: httpx2.AsyncClient) -> None:
    mark = f"page:{new_id('step')}"
    name, value = mark.split(":")
    made = [(await _run(client, labels={name: value}))["id"] for _ in range(5)]
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await client.get("/api/runs", params={"label": mark, "limit": 2, "after": after})).json()
        assert len(page["items"]) <= 2
        found += [run["id"] for run in page["items"]]
        after = page["nextCursor"]
    assert found == made[::-1]


@pytest.mark.requirement("SH-22")
async def test_runs_are_filtered_by_status_agent_label_thread_and_time(client: httpx2.AsyncClient) -> None:
    mark = new_id("step")
    early = await _run(client, labels={"case": mark, "team": "red"})
    late = await _run(client, agent="assistant", input="hello", labels={"case": mark, "team": "blue"})
    case = f"case:{mark}"
    assert await _ids(client, label=case) == [late["id"], early["id"]]
    assert await _ids(client, label=[case, "team:red"]) == [early["id"]]
    assert await _ids(client, label=case, agent="assistant") == [late["id"]]
    assert await _ids(client, label=case, status="failed") == []
    assert await _ids(client, threadId=early["threadId"]) == [early["id"]]
    assert await _ids(client, label=case, createdUntil=late["createdAt"]) == [early["id"]]
    assert await _ids(client, label=case, createdFrom=late["createdAt"]) == [late["id"]]


@pytest.mark.parametrize(
    "query", ["status=odd", "label=novalue", "createdFrom=yesterday", "createdFrom=2026-01-01T00:00:00", "limit=0"]
)
async def test_a_senseless_filter_is_refused(client: httpx2.AsyncClient, query: str) -> None:
    answer = await client.get(f"/api/runs?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("after", ["x", "run_1", ".", "1", "9999999999999999999.run_1"])
async def test_a_foreign_cursor_is_refused(client: httpx2.AsyncClient, after: str) -> None:
    answer = await client.get("/api/runs", params={"after": after})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "CURSOR_INVALID")


@pytest.mark.requirement("SH-14", "SH-22")
async def test_every_view_of_a_run_is_computed_from_its_events(client: httpx2.AsyncClient) -> None:
    run = await _run(client, agent="assistant", input="please calculate")
    path = f"/api/runs/{run['id']}"
    events = (await client.get(f"{path}/events?limit=1000")).json()["items"]
    trace = (await client.get(f"{path}/trace")).json()["items"]
    assert {"request", "agent.tool"} <= {item["category"] for item in trace}
    snapshot = (await client.get(f"{path}/snapshot")).json()
    assert (snapshot["closed"], snapshot["output"]) == (True, run["output"])
    assert [use["tool"] for use in snapshot["toolsInvoked"]] == ["calculator"]
    journal = (await client.get(f"{path}/journal")).json()["items"]
    hashes = {event["hash"] for event in events}
    assert journal[0]["kind"] == "InputAccepted" and all(item["hash"] in hashes for item in journal)
    audit = (await client.get(f"{path}/audit")).json()
    assert (audit["complete"], audit["missing"]) == (True, [])
    usage = (await client.get(f"{path}/usage")).json()
    assert usage["total"]["toolCalls"] == 1 and usage["total"]["calls"] == 2
    assert (await client.get(f"{path}/artifacts")).json() == {"items": [], "nextCursor": None}


async def test_events_are_filtered_by_type_and_by_prefix(client: httpx2.AsyncClient) -> None:
    run = await _run(client, agent="assistant", input="please calculate")
    for wanted, expected in (
        ("runtime.request.queued", {"runtime.request.queued"}),
        ("runtime.tool.*", {"runtime.tool.invoked", "runtime.tool.resulted"}),
    ):
        answer = await client.get(f"/api/runs/{run['id']}/events", params={"type": wanted, "limit": 1000})
        assert expected <= {event["type"] for event in answer.json()["items"]}
        assert all(event["type"].startswith(wanted.rstrip("*")) for event in answer.json()["items"])


@pytest.mark.requirement("SH-22")
async def test_a_thread_is_created_changed_talked_to_and_read(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/threads", json={"title": "trip", "metadata": {"a": 1}, "labels": {"x": "y"}})
    thread = answer.json()
    assert (answer.status_code, thread["title"], thread["status"]) == (201, "trip", "idle")
    path = f"/api/threads/{thread['id']}"
    changed = (await client.patch(path, json={"metadata": {"a": None, "b": 2}})).json()
    assert (changed["title"], changed["metadata"], changed["labels"]) == ("trip", {"b": 2}, {"x": "y"})
    said = await client.post(f"{path}/messages?wait=20", json={"agent": "echo", "input": "hello"})
    assert (said.status_code, said.json()["output"], said.json()["threadId"]) == (200, "hello", thread["id"])
    messages = (await client.get(f"{path}/messages")).json()["items"]
    assert messages == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"}]
    transcript = (await client.get(f"{path}/transcript")).json()["items"]
    assert [(entry["role"], entry["content"]) for entry in transcript] == [("user", "hello"), ("assistant", "hello")]


async def test_a_transcript_is_read_page_by_page(client: httpx2.AsyncClient) -> None:
    thread_id = (await client.post("/api/threads", json={})).json()["id"]
    for text in ("one", "two", "three"):
        await client.post(f"/api/threads/{thread_id}/messages?wait=20", json={"agent": "echo", "input": text})
    found: list[str] = []
    after: str | None = "0"
    while after is not None:
        page = (await client.get(f"/api/threads/{thread_id}/transcript?after={after}&limit=4")).json()
        found += [entry["content"] for entry in page["items"]]
        after = page["nextCursor"]
    assert found == ["one", "one", "two", "two", "three", "three"]


@pytest.mark.requirement("G6")
async def test_a_message_with_a_key_is_said_once(client: httpx2.AsyncClient) -> None:
    first, second = [(await client.post("/api/threads", json={})).json()["id"] for _ in range(2)]
    headers, body = {"idempotency-key": new_id("step")}, {"agent": "echo", "input": "hello"}
    answers = [await client.post(f"/api/threads/{first}/messages", json=body, headers=headers) for _ in range(2)]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    elsewhere = await client.post(f"/api/threads/{second}/messages", json=body, headers=headers)
    assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.requirement("PX-9")
async def test_a_fork_knows_what_was_said_up_to_its_seq(client: httpx2.AsyncClient) -> None:
    run = await _run(client, input="first")
    await client.post(f"/api/threads/{run['threadId']}/messages?wait=20", json={"agent": "echo", "input": "second"})
    answer = await client.post(f"/api/threads/{run['threadId']}/fork", json={"seq": run["lastSeq"], "title": "again"})
    fork = answer.json()
    assert (answer.status_code, fork["title"]) == (201, "again")
    assert (fork["forkedFrom"]["threadId"], fork["forkedFrom"]["seq"]) == (run["threadId"], run["lastSeq"])
    messages = (await client.get(f"/api/threads/{fork['id']}/messages")).json()["items"]
    assert [message["content"] for message in messages] == ["first", "first"]
    beyond = await client.post(f"/api/threads/{run['threadId']}/fork", json={"seq": 10**6})
    assert beyond.status_code == 400


@pytest.mark.parametrize(
    "path",
    ["", "/events", "/trace", "/snapshot", "/journal", "/audit", "/usage", "/artifacts", "/stream"],
)
async def test_everything_of_a_deleted_run_is_410_and_of_an_unknown_one_404(
    client: httpx2.AsyncClient, path: str
) -> None:
    run = await _run(client)
    assert (await client.delete(f"/api/threads/{run['threadId']}")).status_code == 204
    gone = await client.get(f"/api/runs/{run['id']}{path}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "THREAD_DELETED")
    unknown = await client.get(f"/api/runs/run_nowhere{path}")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "RUN_NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/stream"),
        ("GET", "/messages"),
        ("GET", "/transcript"),
        ("GET", "/export"),
        ("GET", "/blobs/" + "0" * 64),
        ("DELETE", ""),
        ("PATCH", ""),
        ("POST", "/fork"),
    ],
)
async def test_everything_of_a_deleted_thread_is_410_and_of_an_unknown_one_404(
    client: httpx2.AsyncClient, method: str, path: str
) -> None:
    thread_id = (await client.post("/api/threads", json={})).json()["id"]
    assert (await client.delete(f"/api/threads/{thread_id}")).status_code == 204
    body: dict[str, str] | None = {} if method in ("PATCH", "POST") else None
    gone = await client.request(method, f"/api/threads/{thread_id}{path}", json=body)
    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "THREAD_DELETED")
    unknown = await client.request(method, f"/api/threads/thr_nowhere{path}", json=body)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "THREAD_NOT_FOUND")


async def test_a_deleted_thread_leaves_every_list(client: httpx2.AsyncClient) -> None:
    waiting = (await client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "publish it now"})).json()
    assert waiting["status"] == "waiting"
    await client.delete(f"/api/threads/{waiting['threadId']}")
    assert waiting["id"] not in await _ids(client, threadId=waiting["threadId"])
    listed = (await client.get("/api/interrupts", params={"threadId": waiting["threadId"]})).json()["items"]
    assert listed == []
    (interrupt_id,) = waiting["waitingOn"]
    assert (await client.get(f"/api/interrupts/{interrupt_id}")).status_code == 410


async def test_a_thread_that_exists_is_not_created_twice(client: httpx2.AsyncClient) -> None:
    body = {"id": new_id("thread")}
    first, second = [await client.post("/api/threads", json=body) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 409)
    assert second.json()["error"]["code"] == "THREAD_EXISTS"


@pytest.mark.requirement("SH-22")
async def test_a_large_value_is_read_by_its_hash_and_never_shown_as_a_page(client: httpx2.AsyncClient) -> None:
    text = "<script>alert(1)</script>" * 2000
    run = await _run(client, input=text)
    events = (await client.get(f"/api/runs/{run['id']}/events?limit=1")).json()["items"]
    blob = events[0]["payload"]["input"]["$blob"]
    answer = await client.get(f"/api/threads/{run['threadId']}/blobs/{blob['sha256']}")
    assert (answer.status_code, answer.text) == (200, text)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")
    other = await _run(client)
    foreign = await client.get(f"/api/threads/{other['threadId']}/blobs/{blob['sha256']}")
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (404, "BLOB_NOT_FOUND")


async def test_tools_show_their_schema_and_what_they_may_do(client: httpx2.AsyncClient) -> None:
    tools = {tool["name"]: tool for tool in (await client.get("/api/tools")).json()["items"]}
    assert (tools["publish"]["kind"], tools["publish"]["effect"]) == ("python", "keyed")
    assert tools["calculator"]["input"]["properties"].keys() == {"expression"}
    assert (await client.get("/api/tools/publish")).json() == tools["publish"]
    missing = await client.get("/api/tools/nothing")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "TOOL_NOT_FOUND")


@pytest.mark.requirement("S22")
async def test_the_page_of_the_interface_needs_nothing_from_outside(client: httpx2.AsyncClient) -> None:
    page, document = await client.get("/docs"), await client.get("/openapi.json")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text and "https://" not in page.text and "<script" not in page.text
    for path in document.json()["paths"]:
        assert f"<code>{path}</code>" in page.text
