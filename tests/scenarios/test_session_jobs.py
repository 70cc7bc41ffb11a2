"""Jobs that work for a session: suggested requests, instructions to agents, their frames and their rows."""

import asyncio
from typing import Any, Final

import httpx2
import pytest
from pydantic import ValidationError
from websockets.asyncio.client import connect

from app.core import json
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.automation.instruction import Instruction
from app.runtime.automation.session_jobs import SessionJobs
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.threads import NewThread
from app.views.thread import Thread
from tests.clients import create_session, reached, say
from tests.server import InProcessServer, ServerProcess, in_process

FIELDS: Final = {
    "id", "type", "version", "projectId", "sourceSessionId", "priority", "state", "dedupeKey", "payload", "result",
    "error", "attempts", "maxAttempts", "createdAt", "startedAt", "completedAt", "cancelRequestedAt", "nextAttemptAt",
    "lastAttemptAt", "runningContext",
}  # fmt: skip


async def _frames(socket: Any, *, until: str, first: tuple[str, ...]) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    async with asyncio.timeout(30):
        while not heard or heard[-1]["type"] != until:
            frame = json.loads(await socket.recv())
            if frame["type"].startswith(first):
                heard.append(frame)
    return heard


@pytest.mark.requirement("CM-3")
async def test_a_request_is_suggested_by_a_job_that_the_session_hears_of(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    session_id = await create_session(client, model="echo")
    path = f"/api/sessions/{session_id}/suggested-request"
    nothing = await client.post(path)
    assert (nothing.status_code, nothing.json()["status"]) == (409, "no_context")
    assert nothing.json()["requestKey"] and nothing.json()["sessionId"] == session_id
    refused = await client.post(f"{path}/jobs")
    assert (refused.status_code, refused.json()["code"], refused.json()["status"]) == (409, "job_conflict", "error")
    await reached(client, await say(client, session_id, "plan the release"))
    async with connect(server.url.replace("http", "ws") + f"/api/stream?threadId={session_id}") as socket:
        await socket.recv()
        queued = await client.post(f"{path}/jobs", json={"draft": "And then"})
        assert (queued.status_code, queued.json()["status"], queued.json()["dedupe"]) == (202, "queued", "enqueued")
        heard = await _frames(socket, until="orchestrator_job_completed", first=("orchestrator_", "suggested_"))
    job_id, key = queued.json()["jobId"], queued.json()["requestKey"]
    assert queued.json()["projectId"] == f"session:{session_id}"
    assert [frame["type"] for frame in heard] == [
        "orchestrator_job_queued", "suggested_request_updated", "orchestrator_job_started",
        "orchestrator_job_progress", "suggested_request_updated", "orchestrator_job_completed",
    ]  # fmt: skip
    assert heard[3]["payload"]["progress"]["stage"] == "assistant_output"
    assert {frame["threadId"] for frame in heard} == {session_id}
    assert heard[-1]["payload"]["jobId"] == job_id and heard[-2]["payload"]["entry"]["status"] == "complete"
    assert "plan the release" in heard[-2]["payload"]["entry"]["suggestion"]
    shown = (await client.get(f"/api/orchestrator/jobs/{job_id}")).json()
    assert shown["status"] == "ok" and set(shown["job"]) == FIELDS and shown["job"]["state"] == "completed"
    listed = (await client.get(f"/api/projects/session:{session_id}/orchestrator/jobs")).json()["data"]
    assert [one["id"] for one in listed] == [job_id]
    by_state = await client.get(f"/api/projects/session:{session_id}/orchestrator/jobs", params={"state": "failed"})
    assert by_state.json() == {"data": []}
    assert (await client.get("/api/projects/nobody/orchestrator/jobs")).json() == {"data": []}
    late = await client.post(f"/api/orchestrator/jobs/{job_id}/cancel")
    assert (late.status_code, late.json()["status"]) == (409, "already_terminal")
    unknown = await client.get("/api/orchestrator/jobs/run_none")
    assert (unknown.status_code, unknown.json()) == (404, {"status": "not_found", "jobId": "run_none"})
    waited = (await client.post(path, json={})).json()
    assert waited["status"] == "ok" and waited["suggestion"] and waited["requestKey"] != key
    # What the job said is nobody's conversation.
    transcript = (await client.get(f"/api/sessions/{session_id}")).json()["transcript"]
    assert [row["content"] for row in transcript] == ["plan the release", "plan the release"]
    upsert = f"{path}/upsert"
    missing = await client.post(upsert, json={"requestKey": "k", "status": "complete"})
    assert (missing.status_code, missing.json()["code"]) == (400, "missing_suggestion")
    done = (await client.post(upsert, json={"requestKey": "k", "status": "complete", "suggestion": "go"})).json()
    assert (done["entry"]["status"], done["entry"]["suggestion"]) == ("complete", "go")
    again = (await client.post(upsert, json={"requestKey": "k", "status": "streaming"})).json()
    assert again["entry"]["status"] == "complete"  # an end is final


@pytest.mark.parametrize("claimed", [5, {"supplementalTargets": 7, "requestKey": 1}], ids=["number", "targets"])
@pytest.mark.parametrize("kind", ["agent_instruction", "suggest_request", "compact_context"])
async def test_a_clients_job_that_pretends_to_be_a_sessions_holds_up_nobody(
    server: ServerProcess, client: httpx2.AsyncClient, kind: str, claimed: Any
) -> None:
    session_id = await create_session(client, model="echo")
    await reached(client, await say(client, session_id, "plan the release"))
    forged = {"agent": "echo", "input": "x", "jobType": kind, "sourceSessionId": session_id, "dedupeKey": session_id,
              "projectId": f"session:{session_id}", "metadata": {"sessionJob": claimed}}  # fmt: skip
    sent = await client.post("/api/runs", json=forged)
    assert sent.status_code == 202, sent.text
    await reached(client, sent.json()["id"])
    # What tells sessions of their jobs came past it.
    async with connect(server.url.replace("http", "ws") + f"/api/stream?threadId={session_id}") as socket:
        await socket.recv()
        waited = (await client.post(f"/api/sessions/{session_id}/suggested-request", json={})).json()
        assert waited["status"] == "ok" and waited["suggestion"]
        await _frames(socket, until="orchestrator_job_completed", first=("orchestrator_",))
    rows = (await client.get(f"/api/sessions/{session_id}")).json()["transcript"]
    assert [row["content"] for row in rows] == ["plan the release", "plan the release"]
    merged = {**forged, "jobType": "suggest_request", "dedupe": "merge_duplicate"}
    assert (await client.post("/api/runs", json=merged)).status_code == 202
    listed = await client.get(f"/api/projects/session:{session_id}/orchestrator/jobs")
    assert listed.status_code == 200 and len(listed.json()["data"]) >= 2


@pytest.mark.requirement("CM-3")
async def test_a_conversation_is_summed_up_for_later_turns_and_its_rows_stay(
    server: ServerProcess, client: httpx2.AsyncClient
) -> None:
    session_id = await create_session(client, model="assistant")
    path = f"/api/sessions/{session_id}/compact"
    early = await client.post(path)
    assert (early.status_code, early.json()["code"]) == (409, "invalid_state")
    for text in ("the code word is otter", "and the number is seven"):
        await reached(client, await say(client, session_id, text))
    async with connect(server.url.replace("http", "ws") + f"/api/stream?threadId={session_id}") as socket:
        await socket.recv()
        asked = await client.post(path)
        assert (asked.status_code, asked.json()["status"], asked.json()["sessionId"]) == (200, "ok", session_id)
        heard = await _frames(socket, until="orchestrator_job_completed", first=("orchestrator_", "notification"))
    told = [frame["payload"] for frame in heard if frame["type"] == "notification"]
    assert told == [{"method": "thread/compacted", "params": {"threadId": session_id, "turnId": asked.json()["jobId"]}}]
    turn = await say(client, session_id, "hm")
    await reached(client, turn)
    found = await client.get(f"/api/threads/{session_id}/events", params={"type": "runtime.thread.compacted"})
    assert "otter" in found.json()["items"][0]["payload"]["summary"]
    sent = await client.get(f"/api/runs/{turn}/events", params={"type": "runtime.model.requested"})
    # The instructions, the summary and the request, whatever was said before.
    assert sent.json()["items"][0]["payload"]["messageCount"] == 3
    assert len((await client.get(f"/api/sessions/{session_id}")).json()["transcript"]) == 6


def _jobs(server: InProcessServer) -> SessionJobs:
    held = server.holdfast
    return SessionJobs(held.service, held.store.reader, held.workspace)


async def _instruct(server: InProcessServer, session_id: str, agent: str, **more: Any) -> str:
    targets: list[dict[str, Any]] = [
        {"messageId": "kept", "type": "review", "placeholderTexts": ["Reviewing..."], "completeFallback": "Reviewed."},
        {"messageId": "filled", "type": "note"},
        {"messageId": "filled", "type": "note"},
    ]
    wanted = Instruction.model_validate(
        {"agent": agent, "jobKind": "review", "turnId": "turn_1", "instructionText": "Review it.",
         "anchorItemId": "item_1", "supplementalTargets": targets, **more}
    )  # fmt: skip
    taken = await _jobs(server).instruct(LOCAL, session_id, wanted)
    assert not isinstance(taken, Rejected), taken
    return taken.run.id


async def _ended(server: InProcessServer, job: str) -> None:
    async with asyncio.timeout(60):
        while True:
            run = await server.holdfast.store.reader.run(LOCAL.tenant, job)
            if run is not None and run.terminal:
                return
            await asyncio.sleep(0.02)


async def _rows(server: InProcessServer, session_id: str, count: int, status: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            entries = await server.holdfast.store.reader.transcript(LOCAL.tenant, session_id)
            rows = {entry.message_id: entry for entry in entries if entry.supplemental}
            if len(rows) >= count and {row.status for row in rows.values()} == {status}:
                return rows
            await asyncio.sleep(0.02)


@pytest.mark.requirement("CM-10")
async def test_every_row_that_an_instruction_was_to_fill_ends_also_when_the_server_dies_in_between(
    settings: Settings,
) -> None:
    async with in_process(settings) as server:
        made = await server.holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(made, Thread)
        # The job ends while nobody reports it: as if the server had died in between.
        await server.holdfast.automation.follower.detach("session-jobs")
        job = await _instruct(server, made.id, "echo", expectResponse="assistant_text")
        await _ended(server, job)
        assert await server.holdfast.store.reader.transcript(LOCAL.tenant, made.id) == []
    async with in_process(settings) as server:
        rows = await _rows(server, made.id, 3, "complete")
        assert (rows["kept"].content, rows["filled"].content) == ("Reviewed.", "note complete.")
        assert rows[f"agent-job-output::{job}"].content == "Review it."
        assert json.loads(rows["kept"].details) == {"anchorItemId": "item_1"}
        # A job that cannot succeed leaves its rows in error, with the reason.
        failing = await server.holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(failing, Thread)
        await server.holdfast.automation.follower.detach("session-jobs")
        job = await _instruct(server, failing.id, "echo")
        assert not isinstance(await server.holdfast.lifecycle.cancel(LOCAL, job, "enough"), Rejected)
    async with in_process(settings) as server:
        ended = await server.holdfast.store.reader.run(LOCAL.tenant, job)
        assert ended is not None and ended.terminal
        if ended.status == "cancelled":
            rows = await _rows(server, failing.id, 3, "canceled")
            assert rows["filled"].content == "note canceled."


@pytest.mark.requirement("CM-10")
@pytest.mark.parametrize(
    "wrong",
    [
        {"supplementalTargets": [{"messageId": 5, "type": "note"}]},
        {"supplementalTargets": [{"messageId": "m", "type": {}}]},
        {"supplementalTargets": [{"messageId": "m", "type": "t"}] * 9},
        {"supplementalTargets": [{"messageId": "m", "type": "t", "placeholderTexts": ["x"] * 13}]},
        {"supplementalTargets": [{"messageId": "m", "type": "t", "completeFallback": ["x"]}]},
        {"supplementalTargets": "all"},
        {"turnId": 7},
        {"instructionText": ""},
        {"expectResponse": "applause"},
    ],
)
async def test_an_instruction_whose_rows_could_not_be_written_is_refused(wrong: dict[str, Any]) -> None:
    """Such a job would end, and every attempt to say so would fail."""
    right = {"agent": "echo", "jobKind": "review", "instructionText": "Review it."}
    assert Instruction.model_validate(right).payload() == {**right, "turnId": ""}
    with pytest.raises(ValidationError):
        Instruction.model_validate(right | wrong)
