"""The journal through the front door: all kinds of changes, in pages, and every tampering is found."""

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.cli.client import Client
from app.cli.command_session import CommandSession
from app.cli.journal import journal_fault
from app.core.settings import Settings
from app.events.catalog.policy import GateEvaluated
from app.events.recorder import Scope
from app.store.engine import Sql, Tx
from app.views.journal import check_links
from app.wiring.runtime import Holdfast
from tests.clients import reached
from tests.forks import run_holdfast
from tests.server import clean_environment, in_process
from tests.undo_world import Doer, do, make_workspace, payments, undo, write

KINDS: Final = {
    "ArtifactCreated", "CheckpointCreated", "CommandInjected", "EvalGateDecision", "EventAmended", "InputAccepted",
    "InterruptRaised", "InterruptResolved",
    "OutputCommitted", "ToolCalled", "ToolResultApplied", "UndoActionCompleted", "UndoCompleted", "UndoPlanned",
}  # fmt: skip
_TAMPERED: Final = Sql("UPDATE events SET payload = $1 WHERE id = $2")


@pytest.mark.requirement("HK-36", "G19")
async def test_a_journal_has_all_kinds_in_pages_and_every_tampering_is_found(
    settings: Settings, tmp_path: Path
) -> None:
    async with payments() as shop:
        root = make_workspace(tmp_path / "workspace", shop)
        settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path / "data"})
        settings.data_dir.mkdir()
        async with (
            in_process(settings, {"native": Doer()}) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
        ):
            run = await _waiting_run(client)
            undone = await undo(client, run)
            asked = f"/api/interrupts/{undone['waitingOn'][0]}/answer"
            assert (await client.post(asked, json={"decision": "approve"})).status_code == 200
            await reached(client, undone["id"])
            await _judge_and_amend(server.holdfast, client, run)
            session = CommandSession(Client(client), as_json=False, quiet=False, in_process=False)
            kinds: set[str] = set()
            for one in (run, undone):
                items = await _whole(client, one["id"], limit=3)
                assert items == await _whole(client, one["id"], limit=1000) and check_links(items) is None
                assert [item["seq"] for item in items] == sorted(item["seq"] for item in items)
                kinds |= {item["kind"] for item in items}
                assert await journal_fault(session, one["id"], one["threadId"], items) is None
                await _tamper_with_each(server.holdfast, session, one, items)
            assert kinds >= KINDS
            command = ["journal", "verify", undone["id"], "--url", server.url]
            verified = await asyncio.to_thread(run_holdfast, *command, environment=clean_environment())
            assert verified.returncode == 0 and "intact" in verified.stdout, verified


async def _waiting_run(client: httpx2.AsyncClient) -> dict[str, Any]:
    steps = [write("a.txt", "one"), ["checkpoint", "c"], ["asked", {"seat": "9Z"}], ["charge", {"amount": 2}]]
    body = {"agent": "doer", "input": {"do": steps}}
    run: dict[str, Any] = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
    command = {"command": "checkpoint", "arguments": {"label": "by a person"}}
    assert (await client.post(f"/api/runs/{run['id']}/commands", json=command)).status_code == 202
    answer = {"decision": "approve", "scope": "session"}
    await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json=answer)
    await do(client, thread=run["threadId"])  # one after the other on a thread: the first has ended
    return run


async def _judge_and_amend(holdfast: Holdfast, client: httpx2.AsyncClient, run: dict[str, Any]) -> None:
    """What is recorded about a run after its end."""
    verdict = GateEvaluated(gate="polite", mode="shadow", score=0.4, min_score=0.5, passed=False, run_id=run["id"])
    await holdfast.store.recorder.record(Scope("default", run["threadId"]), verdict)
    events = (await client.get(f"/api/runs/{run['id']}/events", params={"limit": 1000})).json()["items"]
    seq = next(event["seq"] for event in events if isinstance(event["payload"].get("output"), str))
    body = {"reason": "a typo", "correction": {"output": "amended"}}
    answer = await client.post(f"/api/threads/{run['threadId']}/events/{seq}/amend", json=body)
    assert answer.status_code == 201, answer.text


async def _whole(client: httpx2.AsyncClient, run_id: str, limit: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after: str | None = "0"
    while after is not None:
        page = (await client.get(f"/api/runs/{run_id}/journal", params={"after": after, "limit": limit})).json()
        assert len(page["items"]) <= limit
        items += page["items"]
        after = page["nextCursor"]
    return items


async def _tamper_with_each(
    holdfast: Holdfast, session: CommandSession, run: dict[str, Any], items: list[dict[str, Any]]
) -> None:
    """One event of each kind: first in a copy of the journal, then in the database."""
    tried: set[str] = set()
    for number, item in enumerate(items):
        if item["kind"] in tried:
            continue
        tried.add(item["kind"])
        changed = {**item, "payload": {**item["payload"], "forged": True}}
        fault = await journal_fault(
            session, run["id"], run["threadId"], [*items[:number], changed, *items[number + 1 :]]
        )
        assert fault is not None and fault.seq == item["seq"], item["kind"]
        [event] = await holdfast.store.reader.events("default", run["threadId"], item["seq"] - 1, 1)
        forged = (
            event.payload_bytes.replace(b'"', b' "', 1)
            if event.payload_bytes == b"{}"
            else _forged(event.payload_bytes)
        )
        await _write(holdfast, forged, event.id)
        fault = await journal_fault(session, run["id"], run["threadId"], items)
        assert fault is not None and fault.seq == item["seq"], (item["kind"], fault)
        await _write(holdfast, event.payload_bytes, event.id)
    assert await journal_fault(session, run["id"], run["threadId"], items) is None


def _forged(payload: bytes) -> bytes:
    """Still JSON in its canonical form, with one more member."""
    return payload[:-1] + (b"," if len(payload) > 2 else b"") + b'"zzz":1}'


async def _write(holdfast: Holdfast, payload: bytes, event_id: str) -> None:
    async def work(tx: Tx) -> None:
        await tx.many(_TAMPERED, [(payload, event_id)])

    await holdfast.store.database.write(work)
