"""Undo through the front door: files and payments are restored, once each, and nothing is claimed that was not done."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from app.events.chain import Head, verify
from app.protocols.dialects.native import read_export
from tests.clients import reached
from tests.server import in_process
from tests.undo_world import Doer, World, do, gather, make_workspace, payments, plan, types_of, undo, write


@asynccontextmanager
async def shop(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[World, httpx2.AsyncClient]]:
    async with payments() as fake:
        root = make_workspace(tmp_path / "workspace", fake)
        settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path / "data"})
        settings.data_dir.mkdir()
        async with (
            in_process(settings, {"native": Doer()}) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
        ):
            yield World(settings, root, fake), client


@pytest.mark.requirement("HK-37", "S20")
async def test_undo_to_a_checkpoint_restores_files_and_refunds_once_each(settings: Settings, tmp_path: Path) -> None:
    async with shop(settings, tmp_path) as (world, client):
        await do(client, write("old.txt", "before the run"))
        run = await do(
            client,
            ("charge", {"amount": 3}),
            write("kept.txt", "kept"),
            ("checkpoint", "here"),
            write("old.txt", "changed", "before the run"),
            write("old.txt", "changed twice", "changed"),
            write("deep/new.txt", "new"),
            ("charge", {"amount": 5}),
            ("book", {"seat": "1A"}),
            ("charge", {"amount": 7}),
            ("look", {}),
        )
        before = world.seen()
        planned = await plan(client, run, "here")
        assert world.seen() == before, "planning has no effect"
        assert planned["fromCheckpoint"]["label"] == "here" and planned["runId"] == run["id"]
        assert await plan(client, run, planned["fromCheckpoint"]["seq"]) == planned
        assert [(it["tool"], it["status"]) for it in planned["actions"]] == [
            ("charge", "planned"), ("book", "planned"), ("charge", "planned"),
            ("write_file", "planned"), ("write_file", "planned"), ("write_file", "planned"),
        ]  # fmt: skip
        assert planned["actions"][0]["compensation"] == {
            "tool": "refund", "arguments": {"charge": "ch_3", "note": {"amount": 7}},
        }  # fmt: skip
        world.shop.trouble = [503]  # passes after one more try
        undone = await undo(client, run, "here")
        assert (undone["status"], undone["undoOf"], undone["threadId"]) == ("completed", run["id"], run["threadId"])
        report = undone["output"]
        assert (report["verdict"], report["skipped"], report["failed"]) == ("done", [], [])
        assert [it["attempts"] for it in report["executed"]] == [2, 1, 1, 1, 1, 1]
        now = world.seen()
        assert now == {"files": {"old.txt": b"before the run", "kept.txt": b"kept"}, "balance": 3, "seats": []}
        assert world.shop.refunds == {"ch_3": 1, "ch_2": 1}
        types = await types_of(client, undone)
        assert types.count("runtime.undo.action.completed") == 6
        assert types[:2] == ["runtime.request.queued", "runtime.undo.planned"]
        assert types[-2:] == ["runtime.undo.completed", "runtime.request.completed"]
        again = await undo(client, run, "here")
        assert (again["output"]["verdict"], again["output"]["executed"]) == ("done", [])
        rest = await undo(client, run)
        assert [it["tool"] for it in rest["output"]["executed"]] == ["write_file", "charge"]
        assert world.seen() == {"files": {"old.txt": b"before the run"}, "balance": 0, "seats": []}
        assert set(world.shop.refunds.values()) == {1}
        export = read_export((await client.get(f"/api/threads/{run['threadId']}/export")).content.splitlines())
        assert isinstance(verify(export.events, export.head), Head)
        journal = (await client.get(f"/api/runs/{undone['id']}/journal")).json()["items"]
        kinds = [item["kind"] for item in journal]
        assert kinds[:2] == ["InputAccepted", "UndoPlanned"] and kinds[-2:] == ["UndoCompleted", "OutputCommitted"]
        assert kinds.count("UndoActionCompleted") == 6
        # Who had it undone, exactly what, and what came of it.
        planned, completed = journal[1], journal[-2]
        assert planned["actor"] == "user:local" and len(planned["payload"]["actions"]) == 6
        assert planned["payload"]["undoOf"] == run["id"], planned["payload"]
        assert (completed["payload"]["skipped"], completed["payload"]["failed"]) == (0, 0), completed["payload"]
        audit = (await client.get(f"/api/runs/{undone['id']}/audit")).json()
        assert audit["complete"], audit["missing"]
        told = await do(client, thread=run["threadId"])
        assert "Calls that were undone: charge (2), book (1), write_file (3)." in told["output"]


@pytest.mark.requirement("HK-37")
async def test_what_cannot_be_undone_is_named_and_a_failure_stops_or_not(settings: Settings, tmp_path: Path) -> None:
    async with shop(settings, tmp_path) as (world, client):
        run = await do(
            client,
            ("mail", {"to": "a@b.example"}),
            ("charge", {"amount": 1}),
            ("charge", {"amount": 2}),
            ("risky", {"seat": "2B"}),
            write("mine.txt", "mine"),
            write("mine.txt", "nobody's", "somebody's"),
        )
        world.file("mine.txt").write_text("theirs")
        planned = await plan(client, run)
        reasons = [(it["tool"], it["status"], (it["reason"] or {}).get("code")) for it in planned["actions"]]
        assert reasons == [
            ("write_file", "impossible", "UNDO_CONFLICT"),
            ("risky", "impossible", "UNDO_OUTCOME_UNKNOWN"),
            ("charge", "planned", None),
            ("charge", "planned", None),
            ("mail", "impossible", "UNDO_NOT_DECLARED"),
        ]
        world.shop.trouble = [400]
        stopped = await undo(client, run)
        assert (stopped["status"], stopped["error"]["code"]) == ("failed", "UNDO_FAILED")
        report = stopped["output"]
        assert (report["verdict"], len(report["failed"]), len(report["skipped"])) == ("failed", 1, 4)
        assert report["skipped"][0]["reason"]["code"] == "UNDO_STOPPED" and not world.shop.refunds
        world.shop.trouble = [400]
        went_on = await undo(client, run, onFailure="continue")
        report = went_on["output"]
        assert (report["verdict"], len(report["executed"]), len(report["failed"])) == ("partial", 1, 1)
        last = await undo(client, run)
        assert (last["status"], last["output"]["verdict"], len(last["output"]["executed"])) == (
            "completed", "partial", 1,
        )  # fmt: skip
        assert world.shop.refunds == {"ch_1": 1, "ch_2": 1}
        nothing = (await undo(client, run))["output"]
        assert (nothing["verdict"], nothing["executed"], len(nothing["skipped"])) == ("failed", [], 3)
        assert world.file("mine.txt").read_text() == "theirs"


@pytest.mark.requirement("HK-37")
async def test_of_two_undos_at_once_one_is_accepted_and_a_stale_plan_is_a_conflict(
    settings: Settings, tmp_path: Path
) -> None:
    async with shop(settings, tmp_path) as (world, client):
        run = await do(client, ("charge", {"amount": 1}), ("checkpoint", "x"), write("a.txt", "one"))
        whole, part = await plan(client, run), await plan(client, run, "x")
        address = f"/api/runs/{run['id']}/undo"
        bodies = [{"planHash": it["planHash"]} for it in (whole, part, whole, part)]
        answers = await gather(*(client.post(address, params={"wait": 20}, json=body) for body in bodies))
        codes = sorted(answer.status_code for answer in answers)
        assert codes == [200, 409, 409, 409], [answer.text for answer in answers]
        winner = next(answer.json()["id"] for answer in answers if answer.status_code == 200)
        lost = next(answer.json()["error"] for answer in answers if answer.status_code == 409)
        assert lost["code"] == "UNDO_CONFLICT" and lost.get("runId") in (winner, None)
        stale = await client.post(address, json=bodies[0])
        assert (stale.status_code, stale.json()["error"]["code"]) == (409, "UNDO_CONFLICT")
        run = await do(client, write("b.txt", "one"))
        planned = await plan(client, run)
        world.file("b.txt").write_text("changed by somebody")
        address, body = f"/api/runs/{run['id']}/undo", {"planHash": planned["planHash"]}
        changed = await client.post(address, json=body)
        assert (changed.status_code, changed.json()["error"]["code"]) == (409, "UNDO_CONFLICT")
        world.file("b.txt").write_text("one")
        key = {"idempotency-key": f"undo-{run['id']}"}
        first = await client.post(address, params={"wait": 20}, json=body, headers=key)
        repeated = await client.post(address, json=body, headers=key)
        assert (first.json()["id"], repeated.status_code) == (repeated.json()["id"], 200)
        other = await client.post(address, json={**body, "onFailure": "continue"}, headers=key)
        assert other.status_code in (409, 422) and not world.file("b.txt").exists()


@pytest.mark.requirement("HK-37")
async def test_an_undo_is_approved_by_whoever_had_to_approve_the_call(settings: Settings, tmp_path: Path) -> None:
    async with shop(settings, tmp_path) as (world, client):
        body = {"agent": "doer", "input": {"do": [["asked", {"seat": "9Z"}], ["asked", {"seat": "3C"}]]}}
        run = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
        assert run["status"] == "waiting"
        early = await client.post(f"/api/runs/{run['id']}/undo/plan", json={})
        assert (early.status_code, early.json()["error"]["code"]) == (409, "UNDO_RUN_ACTIVE")
        await _answer(client, run, "approve")
        await _ended(client, run)
        assert world.seen()["seats"] == ["3C", "9Z"]
        undone = await undo(client, run)
        assert undone["status"] == "waiting"
        interrupt = (await client.get(f"/api/interrupts/{undone['waitingOn'][0]}")).json()
        assert (interrupt["tool"], interrupt["arguments"]["arguments"]) == ("undo:asked", {"seat": "9Z"})
        assert world.seen()["seats"] == ["9Z"]
        await _answer(client, undone, "deny")
        denied = await _ended(client, undone)
        assert (denied["status"], denied["output"]["failed"][0]["reason"]["code"]) == ("failed", "APPROVAL_DENIED")
        assert world.seen()["seats"] == ["9Z"]
        second = await undo(client, run)
        await _answer(client, second, "approve")
        assert (await _ended(client, second))["output"]["verdict"] == "done" and world.seen()["seats"] == []


@pytest.mark.requirement("HK-37")
async def test_a_wrong_request_for_an_undo_says_what_is_wrong(settings: Settings, tmp_path: Path) -> None:
    async with shop(settings, tmp_path) as (_, client):
        run = await do(client, ("charge", {"amount": 1}))
        undone = await undo(client, run)
        wrong = [
            (f"/api/runs/{run['id']}/undo/plan", {"toCheckpoint": "nowhere"}, 404, "CHECKPOINT_NOT_FOUND"),
            (f"/api/runs/{run['id']}/undo", {"planHash": "7-" + "0" * 64}, 400, "INVALID_REQUEST"),
            (f"/api/runs/{run['id']}/undo", {"planHash": "x"}, 400, "INVALID_REQUEST"),
            (f"/api/runs/{run['id']}/undo", {}, 400, "INVALID_REQUEST"),
            (f"/api/runs/{run['id']}/undo", {"planHash": "0-" + "0" * 64}, 409, "UNDO_CONFLICT"),
            (f"/api/runs/{undone['id']}/undo/plan", {}, 409, "RUN_IS_AN_UNDO"),
            (f"/api/runs/{undone['id']}/rerun", {}, 409, "RUN_IS_AN_UNDO"),
            ("/api/runs/run_none/undo/plan", {}, 404, "RUN_NOT_FOUND"),
        ]
        for path, body, status, code in wrong:
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


async def _answer(client: httpx2.AsyncClient, run: dict[str, Any], decision: str) -> None:
    shown = (await client.get(f"/api/runs/{run['id']}")).json()
    answer = await client.post(f"/api/interrupts/{shown['waitingOn'][0]}/answer", json={"decision": decision})
    assert answer.status_code == 200, answer.text


async def _ended(client: httpx2.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    return await reached(client, run["id"])
