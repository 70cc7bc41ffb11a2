"""Corrections of texts: recorded as events of their own, by admins; views show them, the log keeps what was said."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import create_session, say, submit
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import running
from tests.server import in_process

Json = dict[str, Any]


async def _events(client: httpx2.AsyncClient, thread: str) -> list[Json]:
    items: list[Json] = (await client.get(f"/api/threads/{thread}/events", params={"limit": 1000})).json()["items"]
    return items


async def _amend(client: httpx2.AsyncClient, event: Json, **texts: str) -> Json:
    body = {"reason": "The speaker said otherwise.", "correction": texts}
    answer = await client.post(f"/api/threads/{event['threadId']}/events/{event['seq']}/amend", json=body)
    assert answer.status_code == 201, answer.text
    amended: Json = answer.json()
    return amended


def _of(events: list[Json], type_: str) -> Json:
    return next(event for event in events if event["type"] == type_)


@pytest.mark.requirement("OS-L4", "SH-13")
async def test_views_show_the_amended_answer_and_the_log_keeps_the_original(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "echo", "hello", wait=30)
    thread = run["threadId"]
    before = await _events(client, thread)
    wrong = _of(before, "runtime.request.completed")
    amended = await _amend(client, wrong, output="goodbye")
    assert (amended["type"], amended["runId"]) == ("runtime.event.amended", None)
    assert amended["payload"] == {
        "amendsSeq": wrong["seq"], "amendsId": wrong["id"], "amendsType": wrong["type"], "runId": run["id"],
        "reason": "The speaker said otherwise.", "correction": {"output": "goodbye"},
        "messageId": wrong["payload"]["messageId"], "inTranscript": True,
    }  # fmt: skip
    await _amend(client, _of(before, "runtime.request.queued"), input="good day")
    after = await _events(client, thread)
    assert after[: len(before)] == before
    shown = (await client.get(f"/api/runs/{run['id']}")).json()
    assert (shown["input"], shown["output"]) == ("good day", "goodbye")
    listed = (await client.get("/api/runs", params={"threadId": thread})).json()["items"]
    assert [item["output"] for item in listed] == ["goodbye"]
    for path in ("messages", "messages?limit=10", "transcript"):
        said = (await client.get(f"/api/threads/{thread}/{path}")).json()["items"]
        assert [item["content"] for item in said] == ["good day", "goodbye"], path
    session = (await client.get(f"/api/sessions/{thread}")).json()
    assert [row["content"] for row in session["transcript"]] == ["good day", "goodbye"]
    for path in (f"/api/threads/{thread}/ui/state", f"/api/runs/{run['id']}/ui/state"):
        parts = (await client.get(path)).json()["messages"]
        assert [part["text"] for part in parts if part["type"] == "text"] == ["good day", "goodbye"], path
    snapshot = (await client.get(f"/api/runs/{run['id']}/snapshot")).json()
    assert (snapshot["output"], snapshot["runs"][0]["output"]) == ("goodbye", "goodbye")
    kinds = [item["kind"] for item in (await client.get(f"/api/runs/{run['id']}/journal")).json()["items"]]
    assert kinds.count("EventAmended") == 2
    forks = [{}, {"seq": wrong["seq"]}]
    for body in forks:
        forked = (await client.post(f"/api/threads/{thread}/fork", json=body)).json()["id"]
        said = (await client.get(f"/api/threads/{forked}/messages")).json()["items"]
        assert [item["content"] for item in said] == ["good day", "goodbye"]
        rows = (await client.get(f"/api/threads/{forked}/transcript")).json()["items"]
        assert [row["content"] for row in rows] == ["good day", "goodbye"]


class Speaker(OpenAiSpeaker):
    key_header = ("content-type", "application/json")  # the model has no key


WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: amended}
spec: {defaultAgent: free}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-test, baseUrl: URL/v1}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: free}
spec: {model: main}
"""


@pytest.mark.requirement("OS-L4")
async def test_the_next_model_call_is_sent_the_amended_text(settings: Settings, tmp_path: Path) -> None:
    long = "The amended answer. " * 1000
    async with running(Speaker()) as upstream:
        (tmp_path / "workspace.yaml").write_text(WORKSPACE.replace("URL", upstream.url))
        settings = settings.model_copy(update={"workspace": tmp_path})

        def heard() -> list[str]:
            return [message["content"] for message in upstream.seen[-1].body["messages"] if message["role"] != "system"]

        async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            run = await submit(client, "free", "hello", wait=30)
            thread = run["threadId"]
            await submit(client, "free", "more", wait=30, threadId=thread)
            assert heard() == ["hello", "Hello, world", "more"]
            events = await _events(client, thread)
            await _amend(client, _of(events, "runtime.model.completed"), text=long)
            both = [e["payload"].get("amendsType") for e in await _events(client, thread)][-2:]
            assert both == ["runtime.model.completed", "runtime.request.completed"]
            await submit(client, "free", "and more", wait=30, threadId=thread)
            assert heard() == ["hello", long, "more", "Hello, world", "and more"]
            # A second amendment of the same text replaces the first.
            await _amend(client, _of(events, "runtime.request.completed"), output="short")
            assert (await client.get(f"/api/runs/{run['id']}")).json()["output"] == "short"
        async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            await submit(client, "free", "last", wait=30, threadId=thread)
            assert heard()[:3] == ["hello", "short", "more"]


async def test_a_response_shows_the_amended_text(client: httpx2.AsyncClient) -> None:
    for agent in ("echo", "assistant"):
        answer = (await client.post("/v1/responses", json={"model": agent, "input": "hello"})).json()
        (run,) = (await client.get("/api/runs", params={"limit": 1})).json()["items"]
        events = await _events(client, run["threadId"])
        await _amend(client, _of(events, "runtime.request.completed"), output="amended")
        shown = (await client.get(f"/v1/responses/{answer['id']}")).json()
        texts = [part["text"] for item in shown["output"] for part in item["content"]]
        assert texts == ["amended"], agent


async def test_a_clients_row_is_amended_unless_it_was_replaced_since(client: httpx2.AsyncClient) -> None:
    session = await create_session(client)
    await say(client, session, "hello")
    path = f"/api/sessions/{session}/transcript/upsert"
    for content in ("first", "second"):
        row = {"messageId": "row", "turnId": "t", "role": "system", "type": "message", "content": content}
        assert (await client.post(path, json={**row, "status": "complete"})).status_code == 200
    rows = [event for event in await _events(client, session) if event["type"] == "runtime.transcript.upserted"]

    async def shown() -> str:
        entries = (await client.get(f"/api/threads/{session}/transcript")).json()["items"]
        return str(next(entry["content"] for entry in entries if entry["messageId"] == "row"))

    amended = await _amend(client, rows[0], content="other")
    assert amended["payload"]["inTranscript"] is False and await shown() == "second"
    await _amend(client, rows[1], content="better")
    assert await shown() == "better"


async def test_parts_keep_what_is_not_text(client: httpx2.AsyncClient) -> None:
    given = [{"type": "text", "text": "one"}, {"type": "json", "json": {"a": 1}}, {"type": "text", "text": "two"}]
    body = {"agent": "echo", "input": given}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    events = await _events(client, run["threadId"])
    await _amend(client, _of(events, "runtime.request.queued"), input="three")
    shown = (await client.get(f"/api/runs/{run['id']}")).json()["input"]
    assert [part["type"] for part in shown] == ["text", "json"] and shown[0]["text"] == "three"


async def test_only_texts_of_ended_runs_are_amended(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "echo", "hello", wait=30)
    thread = run["threadId"]
    events = await _events(client, thread)
    done = _of(events, "runtime.request.completed")["seq"]
    good = {"reason": "wrong", "correction": {"output": "x"}}

    async def refused(seq: Any, body: Json, where: str = thread) -> tuple[int, str]:
        answer = await client.post(f"/api/threads/{where}/events/{seq}/amend", json=body)
        return answer.status_code, answer.json()["error"]["code"]

    invalid = (400, "INVALID_REQUEST")
    for body in (
        {**good, "reason": ""},
        {**good, "reason": " "},
        {"correction": {"output": "x"}},
        {**good, "correction": {}},
        {**good, "correction": ["x"]},
        {**good, "correction": {"output": {"a": 1}}},
        {**good, "correction": {"output": ""}},
        {**good, "correction": {"output": "y" * 2_000_000}},
        {**good, "more": 1},
    ):
        assert await refused(done, body) == invalid, str(body)[:80]
    assert await refused(0, good) == invalid
    assert await refused("one", good) == invalid
    assert await refused(10_000, good) == (404, "EVENT_NOT_FOUND")
    for correction in ({"messageId": "x"}, {"output": "x", "other": "y"}, {"error": "x"}):
        assert await refused(done, {**good, "correction": correction}) == (400, "EVENT_NOT_AMENDABLE")
    started = _of(events, "runtime.request.started")["seq"]
    assert await refused(started, {**good, "correction": {"executor": "x"}}) == (400, "EVENT_NOT_AMENDABLE")
    assert await refused(1, good, "thr_none") == (404, "THREAD_NOT_FOUND")
    assert await refused(1, good, "sys_ledger") == (403, "THREAD_RESERVED")
    assert len(await _events(client, thread)) == len(events)


@pytest.mark.requirement("S25")
async def test_a_thread_has_a_bounded_number_of_amendments(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.runtime.intake.amendments.MAX_AMENDMENTS", 3)
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        run = await submit(client, "echo", "hello", wait=30)
        wrong = _of(await _events(client, run["threadId"]), "runtime.request.completed")
        for number in range(3):
            await _amend(client, wrong, output=f"version {number}")
        body = {"reason": "again", "correction": {"output": "one more"}}
        refused = await client.post(f"/api/threads/{run['threadId']}/events/{wrong['seq']}/amend", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "TOO_MANY_AMENDMENTS")
        assert (await client.get(f"/api/runs/{run['id']}")).json()["output"] == "version 2"


@pytest.mark.requirement("OS-L4", "G22")
async def test_amendments_at_once_are_all_recorded_and_the_last_one_counts(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "echo", "hello", wait=30)
    wrong = _of(await _events(client, run["threadId"]), "runtime.request.completed")
    await asyncio.gather(*(_amend(client, wrong, output=f"version {number}") for number in range(4)))
    amended = [e["payload"]["correction"]["output"] for e in await _events(client, run["threadId"]) if e["seq"] > 6]
    assert len(amended) == 4
    shown = (await client.get(f"/api/threads/{run['threadId']}/transcript")).json()["items"]
    assert shown[-1]["content"] == amended[-1] == (await client.get(f"/api/runs/{run['id']}")).json()["output"]


@pytest.mark.requirement("S7")
def test_amending_is_for_admins() -> None:
    from app.core.access import ROLES

    assert {role for role, scopes in ROLES.items() if "audit:amend" in scopes} == {"admin", "owner", "system"}
