"""Submitting, reading and waiting for runs over HTTP, against the real server on both databases."""

import asyncio

import httpx2
import pytest

from app.core.ids import new_id

RUN_FIELDS = {
    "id", "threadId", "agent", "tool", "workflow", "status", "input", "output", "error", "parentRunId", "metadata",
    "labels", "usage", "waitingOn", "cancelRequestedAt", "lastSeq", "workspaceDigest", "createdAt", "startedAt",
    "outputParts", "undoOf", "priority", "mode",
    "finishedAt", "rerunOf",
}  # fmt: skip
EVENT_FIELDS = {
    "id", "threadId", "runId", "seq", "runSeq", "type", "actor", "at", "payload", "parentId", "prevHash", "hash",
}  # fmt: skip


@pytest.mark.smoke
@pytest.mark.requirement("CARD-1")
async def test_a_running_server_is_alive_and_ready(client: httpx2.AsyncClient) -> None:
    alive, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")


@pytest.mark.smoke
@pytest.mark.requirement("CARD-3", "SH-3")
async def test_a_submitted_run_completes_in_the_background(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "to and fro"})
    run = answer.json()
    assert answer.status_code == 200
    assert (run["status"], run["output"], run["error"]) == ("completed", "to and fro", None)
    assert run["createdAt"] <= run["startedAt"] <= run["finishedAt"]


@pytest.mark.requirement("G1")
async def test_an_accepted_run_has_every_field_and_can_be_read_at_once(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": {"text": "hi"}, "metadata": {"a": [1, None]}, "labels": {"team": "red"}}
    answer = await client.post("/api/runs", json=body)
    run = answer.json()
    assert answer.status_code == 202
    assert "location" not in answer.headers
    assert run.keys() == RUN_FIELDS
    assert (run["status"], run["agent"], run["output"]) == ("queued", "echo", None)
    assert (run["input"], run["metadata"], run["labels"]) == (body["input"], body["metadata"], body["labels"])
    assert run["usage"] == {"inputTokens": 0, "outputTokens": 0, "costUsd": 0.0}
    assert run["waitingOn"] == []
    read = await client.get(f"/api/runs/{run['id']}")
    assert (read.status_code, read.json()["id"]) == (200, run["id"])


async def test_waiting_no_time_answers_202_with_the_run_as_it_stands(client: httpx2.AsyncClient) -> None:
    long_text = " ".join("word" for _ in range(300))
    answer = await client.post("/api/runs", params={"wait": 0}, json={"agent": "echo", "input": long_text})
    assert answer.status_code == 202
    assert answer.json()["status"] in ("queued", "running")


@pytest.mark.parametrize("wait", ["-1", "301", "nan", "soon"])
async def test_a_senseless_wait_is_refused(client: httpx2.AsyncClient, wait: str) -> None:
    answer = await client.post("/api/runs", params={"wait": wait}, json={"agent": "echo", "input": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


async def test_an_unknown_agent_is_404_and_creates_nothing(client: httpx2.AsyncClient) -> None:
    thread_id = new_id("thread")
    body = {"agent": "nobody-of-that-name", "input": "x", "threadId": thread_id, "createThread": True}
    answer = await client.post("/api/runs", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "AGENT_NOT_FOUND")
    assert "nobody-of-that-name" not in answer.text
    assert (await client.get(f"/api/threads/{thread_id}")).status_code == 404


async def test_a_run_that_names_no_agent_gets_the_workspace_s_default(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs", params={"wait": 30}, json={"input": "x"})).json()
    assert (run["agent"], run["status"]) == ("echo", "completed")


async def test_an_unknown_thread_is_404_unless_it_may_be_created(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "x", "threadId": new_id("thread")}
    refused = await client.post("/api/runs", json=body)
    created = await client.post("/api/runs", params={"wait": 30}, json=body | {"createThread": True})
    joined = await client.post("/api/runs", params={"wait": 30}, json=body | {"createThread": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "THREAD_NOT_FOUND")
    assert created.json()["threadId"] == joined.json()["threadId"] == body["threadId"]
    assert created.json()["id"] != joined.json()["id"]


async def test_concurrent_first_runs_of_a_thread_all_join_it(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "x", "threadId": new_id("thread"), "createThread": True}
    answers = await asyncio.gather(*(client.post("/api/runs", params={"wait": 30}, json=body) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 8


@pytest.mark.requirement("SH-3")
async def test_runs_of_one_thread_are_done_one_after_the_other(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "one two three", "threadId": new_id("thread"), "createThread": True}
    runs = [(await client.post("/api/runs", json=body)).json() for _ in range(4)]
    await client.post("/api/runs", params={"wait": 30}, json=body)
    events = (await client.get(f"/api/threads/{body['threadId']}/events", params={"limit": 1000})).json()["items"]
    lived = [e["runId"] for e in events if e["type"] in ("runtime.request.started", "runtime.request.completed")]
    assert lived[:8] == [run["id"] for run in runs for _ in range(2)]


@pytest.mark.requirement("G6")
async def test_the_same_key_and_body_give_the_same_run(client: httpx2.AsyncClient) -> None:
    headers = {"idempotency-key": new_id("key")}
    body = {"agent": "echo", "input": "once"}
    first = await client.post("/api/runs", json=body, headers=headers)
    await client.post("/api/runs", params={"wait": 30}, json=body, headers=headers)
    again = await client.post("/api/runs", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (202, 200)  # by now it has ended
    assert again.json()["id"] == first.json()["id"]


@pytest.mark.requirement("G6")
async def test_twenty_concurrent_requests_with_one_key_start_one_run(client: httpx2.AsyncClient) -> None:
    headers = {"idempotency-key": new_id("key")}
    body = {"agent": "echo", "input": "twenty times", "threadId": new_id("thread"), "createThread": True}
    answers = await asyncio.gather(*(client.post("/api/runs", json=body, headers=headers) for _ in range(20)))
    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    events = (await client.get(f"/api/threads/{body['threadId']}/events")).json()["items"]
    assert [event["type"] for event in events].count("runtime.request.queued") == 1


@pytest.mark.requirement("G6")
async def test_a_used_key_with_another_body_is_422(client: httpx2.AsyncClient) -> None:
    headers = {"idempotency-key": new_id("key")}
    first = await client.post("/api/runs", json={"agent": "echo", "input": "a"}, headers=headers)
    other = await client.post("/api/runs", json={"agent": "echo", "input": "b"}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert other.json()["error"]["runId"] == first.json()["id"]


@pytest.mark.requirement("PX-1", "SH-4", "CARD-3")
async def test_the_events_of_a_run_record_its_whole_life_in_order(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "one two"}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    events = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
    assert [event["type"] for event in events] == [
        "runtime.request.queued",
        "runtime.request.started",
        "runtime.adapter.event",
        "runtime.adapter.event",
        "runtime.adapter.event",
        "runtime.request.completed",
    ]
    assert all(event.keys() == EVENT_FIELDS for event in events)
    assert [event["seq"] for event in events] == [2, 3, 4, 5, 6, 7]
    assert [event["runSeq"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event["payload"]["event"]["text"] for event in events[3:5]] == ["one ", "two"]
    assert {event["runId"] for event in events} == {run["id"]}


async def test_events_are_paged_by_the_last_seq_seen(client: httpx2.AsyncClient) -> None:
    text = " ".join("abcdefghij")
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": text})).json()
    for path in (f"/api/runs/{run['id']}/events", f"/api/threads/{run['threadId']}/events"):
        whole = (await client.get(path, params={"limit": 1000})).json()
        pages = [(await client.get(path, params={"limit": 4})).json()]
        while (cursor := pages[-1]["nextCursor"]) is not None:
            pages.append((await client.get(path, params={"after": cursor, "limit": 4})).json())
        assert whole["nextCursor"] is None
        assert [event for page in pages for event in page["items"]] == whole["items"]
        assert {len(page["items"]) for page in pages[:-1]} == {4}


async def test_a_run_s_events_can_be_asked_for_by_type(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "a b c"})).json()
    path = f"/api/runs/{run['id']}/events"
    found = (await client.get(path, params={"type": "runtime.request.completed"})).json()["items"]
    none = (await client.get(path, params={"type": "runtime.request.failed"})).json()["items"]
    assert ([event["payload"]["output"] for event in found], none) == (["a b c"], [])


@pytest.mark.parametrize("after", ["-1", "x", "99999999999999999999999"])
async def test_a_cursor_that_cannot_be_one_is_refused(client: httpx2.AsyncClient, after: str) -> None:
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "a"})).json()
    answer = await client.get(f"/api/threads/{run['threadId']}/events", params={"after": after})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


async def test_a_cursor_beyond_the_end_gives_an_empty_page(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "a"})).json()
    answer = await client.get(f"/api/threads/{run['threadId']}/events", params={"after": 2**63 - 1})
    assert (answer.status_code, answer.json()) == (200, {"items": [], "nextCursor": None})


@pytest.mark.requirement("G8")
async def test_cancelling_a_run_that_ended_changes_nothing(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "a"})).json()
    answers = [await client.post(f"/api/runs/{run['id']}/cancel") for _ in range(2)]
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, run), (200, run)]


@pytest.mark.requirement("G21")
async def test_a_secret_in_the_input_is_in_no_answer_and_in_no_event(client: httpx2.AsyncClient) -> None:
    secret = "sk-live-" + "a1B2" * 8
    body = {"agent": "echo", "input": f"the key is\n{secret}"}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    export = (await client.get(f"/api/threads/{run['threadId']}/export")).text
    assert run["output"] == "the key is\n[REDACTED:api_key]"
    assert secret not in export and secret not in str(run)


async def test_an_input_that_looks_like_a_reference_does_no_harm(client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": {"$blob": {"sha256": ["not", "a", "hash"]}}}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    export = await client.get(f"/api/threads/{run['threadId']}/export")
    assert (export.status_code, run["input"]) == (200, body["input"])
    assert export.text.splitlines()[-1].startswith('{"head":')


async def test_a_large_input_is_kept_as_a_blob_and_travels_with_the_export(client: httpx2.AsyncClient) -> None:
    text = "0123456789" * 5000
    run = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": text})).json()
    lines = (await client.get(f"/api/threads/{run['threadId']}/export")).text.splitlines()
    assert run["input"]["$blob"]["size"] == len(text)
    assert any(line.startswith('{"blob":{"data":"') for line in lines)


@pytest.mark.requirement("G13")
async def test_metrics_report_the_size_of_every_queue_and_what_was_committed(client: httpx2.AsyncClient) -> None:
    await client.post("/api/runs?wait=30", json={"agent": "echo", "input": "count me"})
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    metrics = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert float(metrics["holdfast_events_appended_total"]) >= 5
    assert float(metrics["holdfast_commit_seconds_count"]) >= 1
    for name in (
        "events_waiting",
        "hot_threads",
        "subscribers",
        "readers_dropped_total",
        "runs_running",
        "runs_wanted",
    ):
        assert float(metrics[f"holdfast_{name}"]) >= 0
