"""What the console needed and everybody may use: runs over time, filters, past states, verification, the ledger."""

from typing import Any

import httpx2
import pytest

from app.protocols.http.digests import changed_files


async def _run(client: httpx2.AsyncClient, text: str, agent: str = "echo") -> dict[str, Any]:
    answer = await client.post("/api/runs", params={"wait": 20}, json={"agent": agent, "input": text})
    made: dict[str, Any] = answer.json()
    return made


async def test_runs_are_counted_in_the_interval_of_their_creation(client: httpx2.AsyncClient) -> None:
    before = (await client.get("/api/stats/series", params={"range": "15m"})).json()
    await _run(client, "count me")
    await _run(client, "what time is it", "assistant")
    after = (await client.get("/api/stats/series", params={"range": "15m"})).json()
    assert _sum(after, "completed") - _sum(before, "completed") == 2
    assert _sum(after, "inputTokens") > _sum(before, "inputTokens")
    assert len(after["points"]) in (60, 61) and after["stepSeconds"] == 15
    week = (await client.get("/api/stats/series", params={"range": "7d"})).json()
    assert _sum(week, "runs") >= _sum(after, "runs") and len(week["points"]) <= 96
    assert (await client.get("/api/stats/series", params={"range": "1y"})).status_code == 400


def _sum(series: dict[str, list[dict[str, float]]], name: str) -> float:
    return sum(point[name] for point in series["points"])


async def test_runs_are_found_by_the_text_of_their_input_in_any_case(client: httpx2.AsyncClient) -> None:
    run = await _run(client, "Where Is The Kraken")
    await _run(client, "elsewhere")
    found = (await client.get("/api/runs", params={"text": "the kraken"})).json()
    assert [one["id"] for one in found["items"]] == [run["id"]]
    assert (await client.get("/api/runs", params={"text": "the kraken", "workflow": "none"})).json()["items"] == []


@pytest.mark.requirement("PX-6")
async def test_a_run_is_seen_as_of_an_event_and_its_chain_is_verified(client: httpx2.AsyncClient) -> None:
    run = await _run(client, "look back")
    events = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
    now = (await client.get(f"/api/runs/{run['id']}/snapshot")).json()
    then = (await client.get(f"/api/runs/{run['id']}/snapshot", params={"until": events[1]["seq"]})).json()
    assert now != then and now == (await client.get(f"/api/runs/{run['id']}/snapshot?until=100000")).json()
    found = (await client.get(f"/api/threads/{run['threadId']}/verify")).json()
    assert found["intact"] and found["broken"] is None and found["headHash"] == events[-1]["hash"]
    assert found["lastSeq"] == found["events"] == events[-1]["seq"]
    assert (await client.get("/api/threads/thr_none/verify")).status_code == 404


async def test_an_approval_is_compared_with_the_one_before_it_for_the_same_tool(client: httpx2.AsyncClient) -> None:
    asked = []
    for text in ("publish one", "publish two"):
        run = await _run(client, text, "assistant")
        (interrupt,) = run["waitingOn"]
        asked.append(interrupt)
        await client.post(f"/api/interrupts/{interrupt}/answer", json={"decision": "deny"})
    similar = (await client.get(f"/api/interrupts/{asked[1]}/similar")).json()["interrupt"]
    assert similar["id"] == asked[0] and similar["arguments"]["text"] == "publish one"
    assert similar["answer"]["decision"] == "deny"
    assert (await client.get("/api/interrupts/int_none/similar")).status_code == 404


async def test_the_ledger_is_read_newest_first_and_page_by_page(client: httpx2.AsyncClient) -> None:
    for _ in range(3):
        assert (await client.post("/api/workspace/reload")).status_code == 200
    whole = (await client.get("/api/ledger", params={"limit": 1000})).json()
    seqs = [event["seq"] for event in whole["items"]]
    assert seqs == list(range(seqs[0], 0, -1)) and whole["nextCursor"] is None
    paged: list[int] = []
    after: str | None = "0"
    while after is not None:
        page = (await client.get("/api/ledger", params={"limit": 2, "after": after})).json()
        paged += [event["seq"] for event in page["items"]]
        after = page["nextCursor"]
    assert paged == seqs
    only = (await client.get("/api/ledger", params={"limit": 1000, "type": "runtime.workspace.reload*"})).json()
    assert len(only["items"]) >= 3


@pytest.mark.requirement("PX-6")
async def test_the_doctor_answers_over_http_and_keeps_its_answer_for_a_while(client: httpx2.AsyncClient) -> None:
    report = (await client.get("/api/doctor")).json()
    levels = {one["about"]: one["level"] for one in report["findings"]}
    assert levels["settings"] == levels["migrations"] == levels["workspace"] == "ok"
    assert report["ok"] == ("wrong" not in levels.values())
    again = (await client.get("/api/doctor")).json()
    assert again["checkedAt"] == report["checkedAt"]


async def test_the_rules_of_retention_are_shown_with_where_they_come_from(client: httpx2.AsyncClient) -> None:
    rules = {one["what"]: one for one in (await client.get("/api/retention")).json()["items"]}
    assert rules["deleted"]["days"] == rules["deleted"]["settingDays"] and rules["threads"]["workspaceDays"] is None


async def test_a_workspace_is_compared_with_itself_and_not_with_an_unknown_one(client: httpx2.AsyncClient) -> None:
    digest = (await client.get("/api/workspace")).json()["digest"]
    same = (await client.get("/api/workspace/compare", params={"base": digest, "head": digest})).json()
    assert (same["files"], same["documents"], same["truncated"]) == ([], [], False)
    for other, status in (("0" * 64, 404), ("../etc", 400)):
        found = await client.get("/api/workspace/compare", params={"base": other, "head": digest})
        assert found.status_code == status


def test_files_are_compared_within_limits() -> None:
    old = {"a.yaml": b"one\ntwo\n", "gone.md": b"text", "same.md": b"same", "long.md": b"x\n" * 3000}
    new = {"a.yaml": b"one\nthree\n", "new.bin": b"\xff\xfe", "same.md": b"same", "long.md": b"y\n" * 3000}
    found, truncated = changed_files(old, new)
    shown = {file["path"]: (file["change"], file["diff"]) for file in found}
    assert truncated and shown["new.bin"] == ("added", None) and shown["long.md"] == ("changed", None)
    assert shown["gone.md"][0] == "removed" and "same.md" not in shown
    assert shown["a.yaml"][1].splitlines()[-3:] == [" one", "-two", "+three"]
