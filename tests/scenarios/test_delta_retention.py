"""`retention.deltaDays`: deltas go when their time has come, and everything that is made of them stays as it was."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from app.events.chain import Broken, Head, verify
from app.protocols.dialects.native import read_export
from app.views.records import records_json, replay
from tests.clients import submit
from tests.forks import run_holdfast
from tests.protocols.test_log_format import run_the_printed_verifier
from tests.scenarios.delta_threads import ANSWER, COMPACTED, DAYS, Aged, compacted, events, is_delta, said
from tests.server import clean_environment


async def _views(client: httpx2.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    """Everything that can be asked about the run and its thread, but the events themselves."""
    thread = f"/api/threads/{run['threadId']}"
    paths = [f"/api/runs/{run['id']}"]
    paths += [f"/api/runs/{run['id']}/{view}" for view in ("trace", "journal", "usage", "artifacts")]
    paths += [f"{thread}/{view}" for view in ("messages", "transcript")]
    paths += [f"/api/sessions/{run['threadId']}"]
    found = {}
    for path in paths:
        answer = await client.get(path)
        assert answer.status_code in (200, 404), (path, answer.text)
        found[path] = answer.json()
    return found


@pytest.mark.requirement("G19", "G22")
async def test_old_deltas_are_dropped_and_everything_else_stays_as_it_was(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        run = await said(client, "add them")
        await said(client, "hello", threadId=run["threadId"])
        before = await events(client, run["threadId"])
        views = await _views(client, run)
    deltas = [event for event in before if is_delta(event)]
    assert {event["payload"]["event"]["phase"] for event in deltas} == {
        "agent.output.delta", "agent.reasoning.delta", "agent.tool.delta",
    }  # fmt: skip
    async with aged.serving(DAYS - 1) as (_, client):
        assert await events(client, run["threadId"]) == before
    async with aged.serving(2) as (_, client):
        after = await compacted(client, run["threadId"])
        assert [event for event in after if event["type"] != COMPACTED] == [e for e in before if not is_delta(e)]
        (fact,) = (event for event in after if event["type"] == COMPACTED)
        assert (fact["seq"], fact["runId"], fact["actor"]) == (len(before) + 1, None, "system")
        assert fact["payload"]["deltas"] == len(deltas) and fact["payload"]["deltaDays"] == DAYS
        for found in fact["payload"]["ranges"]:
            first, last = before[found["fromSeq"] - 1], before[found["toSeq"] - 1]
            assert is_delta(first) and is_delta(last)
            assert (found["prevHash"], found["headHash"]) == (first["prevHash"], last["hash"])
        assert await _views(client, run) == views
        audited = (await client.get(f"/api/runs/{run['id']}/audit")).json()
        assert audited["complete"], audited
        assert await events(client, run["threadId"], limit=3) == after
        async with asyncio.timeout(30):  # counted after the commit, which readers may see first
            while f"holdfast_deltas_dropped_total {len(deltas)}" not in (await client.get("/metrics")).text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    async with aged.serving(1) as (_, client):
        assert await events(client, run["threadId"]) == after, "there is nothing left to drop"


async def test_deltas_stay_where_nobody_asked_for_anything_else(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    path = tmp_path / "w" / "w.yaml"
    path.write_text(path.read_text().replace("retention: {deltaDays: 30}", "retention: {}"))
    async with aged.serving() as (_, client):
        kept = (await said(client, "hello"))["threadId"]
        before = await events(client, kept)
    async with aged.serving(1000) as (_, client):
        assert await events(client, kept) == before
    path.write_text(path.read_text().replace("retention: {}", "retention: {deltaDays: 900}"))
    ceiling = Aged(aged.settings.model_copy(update={"retention_delta_days": 500}), aged.clock)
    async with ceiling.serving() as (_, client):
        assert len(await compacted(client, kept)) < len(before)


async def test_abandoned_messages_and_open_runs_keep_their_deltas(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        waiting = await submit(client, "talker", "publish it", wait=30)
        assert waiting["status"] == "waiting"
        broken = await said(client, "break it")
        brief = await said(client, "briefly")
        before = {name: await events(client, run["threadId"]) for name, run in
                  (("waiting", waiting), ("broken", broken), ("brief", brief))}  # fmt: skip
    (abandoned,) = (e["payload"]["messageId"] for e in before["broken"] if e["type"] == "runtime.model.failed")
    async with aged.serving(DAYS + 1) as (_, client):
        left = [event for event in await compacted(client, broken["threadId"]) if is_delta(event)]
        assert left and {event["payload"]["event"]["messageId"] for event in left} == {abandoned}
        assert left == [e for e in before["broken"] if is_delta(e) and e["payload"]["event"]["messageId"] == abandoned]
        # Threads are swept by age: this one came first.
        assert await events(client, waiting["threadId"]) == before["waiting"]
        pending = (await client.get("/api/interrupts", params={"threadId": waiting["threadId"]})).json()["items"]
        await client.post(f"/api/interrupts/{pending[0]['id']}/answer", json={"decision": "approve"})
        ended = await said(client, "hello", threadId=waiting["threadId"])
        assert ended["status"] == "completed"
    async with aged.serving(1) as (_, client):
        assert await events(client, brief["threadId"]) == before["brief"], "too few to save anything"
        assert not any(e["type"] == COMPACTED for e in await events(client, waiting["threadId"])), "it ended yesterday"
    async with aged.serving(DAYS) as (_, client):
        assert not any(map(is_delta, await compacted(client, waiting["threadId"])))


@pytest.mark.requirement("G19")
async def test_an_export_without_the_deltas_is_verified_and_imported(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        thread_id = (await said(client, "add them"))["threadId"]
        whole = read_export((await client.get(f"/api/threads/{thread_id}/export")).content.splitlines())
    async with aged.serving(DAYS + 1) as (_, client):
        await compacted(client, thread_id)
        lines = (await client.get(f"/api/threads/{thread_id}/export")).content.splitlines()
    export = read_export(lines)
    dropped = whole.events[-1].seq + 1 - len(export.events)
    found = verify(export.events, export.head)
    assert isinstance(found, Head) and found == export.head and found.dropped == dropped > 0
    assert b'"dropped":%d' % dropped in lines[-1]
    assert whole.head is not None and verify(export.events, whole.head) == export.head, "against an earlier head"
    assert run_the_printed_verifier(tmp_path, lines) == 0
    kept = records_json(replay(thread_id, export.events))
    folded = records_json(replay(thread_id, whole.events))
    for name in ("runs", "interrupts", "transcript", "artifacts"):
        assert kept[name] == folded[name]
    assert kept["thread"]["updatedAt"] == folded["thread"]["updatedAt"], "retention is no use of the thread"
    (tmp_path / "export.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    assert "deltas dropped by retention, chain intact" in _cli("log", "verify", str(tmp_path / "export.jsonl"))
    other = str(tmp_path / "other")
    assert f"imported {len(export.events)} events" in _cli(
        "log", "import", str(tmp_path / "export.jsonl"), "--data-dir", other
    )
    assert f"{dropped} deltas dropped" in _cli("log", "verify", thread_id, "--data-dir", other)
    assert "complete" in _cli("audit", thread_id, "--data-dir", other)


def _cli(*arguments: str) -> str:
    done = run_holdfast(*arguments, environment=clean_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.requirement("G19")
async def test_a_missing_or_changed_reason_is_found(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        thread_id = (await said(client, "add them"))["threadId"]
    async with aged.serving(DAYS + 1) as (_, client):
        await compacted(client, thread_id)
        lines = (await client.get(f"/api/threads/{thread_id}/export")).content.splitlines()
    events = read_export(lines).events
    gap = next(event.seq for event, following in pairwise(events) if following.seq > event.seq + 1)
    without = verify(events[:-1])
    assert isinstance(without, Broken) and without.seq == gap + 1
    assert run_the_printed_verifier(tmp_path, [*lines[:-2], lines[-1]]) != 0
    for number in range(1, len(events) - 1):
        fewer = [*events[:number], *events[number + 1 :]]
        assert isinstance(verify(fewer), Broken), f"without {events[number]}"
        assert run_the_printed_verifier(tmp_path, [*lines[:number], *lines[number + 1 :]]) != 0


async def test_a_fork_and_a_rerun_know_what_was_said_without_the_deltas(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        first = await said(client, "hello")
        run = await said(client, "add them", threadId=first["threadId"])
        before = await events(client, run["threadId"])
        token = (await client.get(f"/api/runs/{run['id']}/replay-token")).json()["token"]
        inside = next(e["seq"] for e in before if is_delta(e) and e["runId"] == run["id"]) + 1
        forked = await client.post(f"/api/threads/{run['threadId']}/fork", json={"seq": inside})
        messages = (await client.get(f"/api/threads/{forked.json()['id']}/messages")).json()
    async with aged.serving(DAYS + 1) as (_, client):
        left = await compacted(client, run["threadId"])
        again = (await client.post(f"/api/threads/{run['threadId']}/fork", json={"seq": inside})).json()
        assert (await client.get(f"/api/threads/{again['id']}/messages")).json()["items"] == messages["items"]
        seq, digest = again["forkedFrom"]["seq"], again["forkedFrom"]["hash"]
        assert (seq, digest) in {(event["seq"], event["hash"]) for event in left}
        rerun = await client.post(f"/api/runs/{run['id']}/rerun", json={"token": token})
        assert rerun.status_code == 202, rerun.text


async def test_a_thread_that_nobody_uses_expires_on_time(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w", retention_threads_days=DAYS + 5, retention_deleted_days=1)
    async with aged.serving() as (_, client):
        thread_id = (await said(client, "hello"))["threadId"]
    async with aged.serving(DAYS + 1) as (_, client):
        await compacted(client, thread_id)
    async with aged.serving(5) as (_, client):
        while (await client.get(f"/api/threads/{thread_id}")).status_code != 410:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the sweep runs in the background and notifies nobody


async def test_the_answer_is_what_the_deltas_were(settings: Settings, tmp_path: Path) -> None:
    aged = Aged.on(settings, tmp_path / "w")
    async with aged.serving() as (_, client):
        echoed, spoken = await said(client, "a b c d e f g h", agent="echo"), await said(client, "hello")
        before = await events(client, echoed["threadId"])
        for run, text in ((spoken, ANSWER), (echoed, "a b c d e f g h")):
            deltas = [e["payload"]["event"]["text"] for e in await events(client, run["threadId"]) if is_delta(e)]
            assert "".join(deltas) == text == run["output"]
    async with aged.serving(DAYS + 1) as (_, client):
        assert not any(map(is_delta, await compacted(client, spoken["threadId"])))
        assert (await client.get(f"/api/runs/{spoken['id']}")).json() == spoken
        assert await events(client, echoed["threadId"]) == before, "no model's answer has its text"
