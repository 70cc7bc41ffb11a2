"""Jobs whose agent answers with actions: each is carried out once and within its scope, or the job fails."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.errors import Failure
from app.core.settings import Settings
from app.events.catalog.job import JobProgress
from app.events.ports import Answer, StoreError
from app.events.recorder import Recorder, Scope
from app.extensions.intents import MAX_ANSWER_BYTES, intents_of
from tests.clients import create_session, reached, say
from tests.server import ROOT, InProcessServer, ServerProcess, in_process

pytestmark = pytest.mark.requirement("CM-9", "CM-10")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the extension runs in the sandbox, which is Linux's")

ECHO: Final = """
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo, description: Says it again.}
spec: {backend: echo}
"""
EXTENSION: Final = """
import json


def _job(agent_says, **more):
    job = {"agent": "echo", "jobKind": "plan", "instructionText": agent_says, "expectResponse": "action_intents",
           "supplementalTargets": [{"messageId": "review", "type": "review", "completeFallback": "Reviewed.",
                                    "errorFallback": "Not reviewed."}]}
    return {"kind": "action_request", "actionType": "queue.enqueue", "payload": {**job, **more}}


def completed(event):
    said = str(event["payload"]["output"])
    return _job(said.removeprefix("<PLAN> ")) if said.startswith("<PLAN> ") else None


def raised(event):
    if "<PLAN>" == "MODEST":
        return None
    intents = [
        {"actionType": "transcript.upsert",
         "payload": {"messageId": "review", "role": "system", "type": "review", "content": "Too early.",
                     "status": "streaming"}},
        {"actionType": "turn.steer.create", "payload": {"input": "Be brief."}},
        {"actionType": "queue.enqueue",
         "payload": {"agent": "echo", "jobKind": "note", "instructionText": "Noted.",
                     "expectResponse": "assistant_text"}},
        {"actionType": "approval.decide",
         "payload": {"approvalId": event["payload"]["interruptId"], "decision": "decline"}},
        {"actionType": "approval.decide", "payload": {"approvalId": "int_unknown", "decision": "accept"}},
    ]
    answer = json.dumps({"kind": "action_intents", "intents": intents})
    return _job("This is what I would do:\\n```json\\n" + answer + "\\n```\\nGood luck.")


def register(events):
    events.on("runtime.request.completed", completed, timeout=10)
    events.on("runtime.interrupt.raised", raised, timeout=10)
"""


@pytest.fixture
def acting(settings: Settings, tmp_path: Path) -> Settings:
    """A workspace whose extension has an agent plan what is to be done."""
    workspace = tmp_path / "workspace"
    shutil.copytree(ROOT / "workspaces" / "supervised", workspace)
    shutil.rmtree(workspace / "extensions")
    with (workspace / "workspace.yaml").open("a") as documents:
        documents.write(ECHO)
    for name, word, actions in (("planner", "PLAN", ["*"]), ("modest", "MODEST", ["queue.enqueue"])):
        folder = workspace / "extensions" / name
        folder.mkdir(parents=True)
        events = ["runtime.request.completed", "runtime.interrupt.raised"]
        manifest = {"name": name, "version": "1.0.0", "agentId": name, "displayName": name,
                    "capabilities": {"events": events, "actions": actions}}  # fmt: skip
        (folder / "extension.manifest.json").write_bytes(json.dumps(manifest))
        (folder / "events.py").write_text(EXTENSION.replace("<PLAN>", word))
    return settings.model_copy(update={"workspace": workspace})


def _plan(*intents: Any) -> str:
    return json.dumps({"kind": "action_intents", "intents": list(intents)}).decode()


def _row(message: str, **more: Any) -> dict[str, Any]:
    row = {"messageId": message, "role": "system", "type": "note", "content": f"I am {message}.", "status": "complete"}
    return {"actionType": "transcript.upsert", "payload": {**row, **more}}


async def _events(client: httpx2.AsyncClient, thread: str, kind: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/api/threads/{thread}/events", params={"type": kind, "limit": "1000"})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def _notes(client: httpx2.AsyncClient, session: str) -> list[str]:
    """The rows that intents wrote, as often as they were written."""
    rows = [row["payload"] for row in await _events(client, session, "runtime.transcript.upserted")]
    return [row["messageId"] for row in rows if row["type"] == "note"]


async def _jobs(client: httpx2.AsyncClient, session: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await client.get(f"/api/projects/session:{session}/orchestrator/jobs")).json()[
        "data"
    ]
    return listed


async def _output_row(client: httpx2.AsyncClient, session: str, status: str) -> dict[str, Any]:
    """The row of the job's output, which is the last that the session gets of it."""
    async with asyncio.timeout(60):
        while True:
            rows = (await client.get(f"/api/sessions/{session}")).json()["transcript"]
            for row in rows:
                if row["type"] == "agent.jobOutput" and row["status"] == status:
                    return dict(row)
            await asyncio.sleep(0.05)


async def _planned(
    client: httpx2.AsyncClient, answer: str, status: str, word: str = "PLAN"
) -> tuple[str, dict[str, Any], list[Any]]:
    """A session for which a job's agent answers so; the job, and its progress, when it has ended."""
    session = await create_session(client, model="echo")
    await reached(client, await say(client, session, f"{word} {answer}"))
    row = await _output_row(client, session, status)
    job = (await client.get(f"/api/orchestrator/jobs/{row['messageId'].removeprefix('agent-job-output::')}")).json()
    told = await _events(client, session, "runtime.session.job.updated")
    progress = [one["payload"]["progress"] for one in told if one["payload"]["state"] == "progress"]
    return session, job["job"], [one for one in progress if one["stage"] == "action_intent"]


@linux
async def test_what_an_agent_intends_is_carried_out_by_the_same_gate_as_an_extensions_actions(acting: Settings) -> None:
    async with in_process(acting) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        session = await create_session(client)
        async with connect(server.url.replace("http", "ws") + f"/api/stream?threadId={session}") as socket:
            await socket.recv()
            turn = await say(client, session, "write the notes")
            heard: list[dict[str, Any]] = []
            async with asyncio.timeout(60):
                while not heard or heard[-1]["type"] != "orchestrator_job_completed":
                    frame = json.loads(await socket.recv())
                    if frame["type"] in ("orchestrator_job_progress", "orchestrator_job_completed"):
                        heard.append(frame)
        progress = [frame["payload"]["progress"] for frame in heard[:-1]]
        said = [one for one in progress if one["stage"] == "assistant_output"]
        assert len(said) == 1 and said[0]["text"].startswith("This is what I would do:")
        assert [one for one in progress if one["stage"] == "action_intent"] == [
            {"stage": "action_intent", "index": index, "actionType": action, "status": status}
            for index, (action, status) in enumerate(
                [
                    ("transcript.upsert", "performed"),
                    ("turn.steer.create", "performed"),
                    ("queue.enqueue", "performed"),
                    ("approval.decide", "performed"),
                    ("approval.decide", "already_resolved"),
                ]
            )
        ]
        job, actor = heard[-1]["payload"]["jobId"], f"extension:planner:{heard[-1]['payload']['jobId']}"
        await reached(client, turn)
        [steered] = await _events(client, session, "runtime.command.injected")
        [resolved] = await _events(client, session, "runtime.interrupt.resolved")
        assert {steered["actor"], resolved["actor"]} == {actor}
        assert resolved["payload"]["answer"]["decision"] == "deny"
        rows = {row["messageId"]: row for row in (await client.get(f"/api/sessions/{session}")).json()["transcript"]}
        # The row was one of the job's own: what the agent wrote stays, and it ends with the job.
        assert (rows["review"]["content"], rows["review"]["status"]) == ("Too early.", "complete")
        assert rows[f"agent-job-output::{job}"]["content"] == said[0]["text"]
        assert sorted(one["payload"]["jobKind"] for one in await _jobs(client, session)) == ["note", "plan"]


@linux
async def test_a_job_fails_if_an_intent_may_not_be_carried_out_and_the_others_are(acting: Settings) -> None:
    nested = {"agent": "echo", "jobKind": "again", "instructionText": "x", "expectResponse": "action_intents"}
    intents: list[Any] = [
        _row("first"),
        _row("elsewhere", sessionId="thr_other"),
        _row("other-turn", turnId="run_other"),
        {"actionType": "queue.enqueue", "payload": {**nested, "projectId": "foreign"}},
        {"actionType": "queue.enqueue", "payload": nested},
        {"actionType": "shell.execute", "payload": {}},
        {"actionType": "transcript.upsert", "payload": {"messageId": 5}},
        "do something",
        {**_row("last"), "idempotencyKey": "k"},
        {**_row("last"), "idempotencyKey": "k"},
        {**_row("not last"), "idempotencyKey": "k"},
    ]
    async with in_process(acting) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        session, job, progress = await _planned(client, _plan(*intents), "error")
        statuses = [one["status"] for one in progress]
        assert [one["index"] for one in progress] == list(range(len(intents)))
        assert statuses == ["performed", *["forbidden"] * 4, *["invalid"] * 3, "performed", "performed", "conflict"]
        assert job["state"] == "failed" and job["attempts"] == 1
        for code in ("scope_session_mismatch", "scope_turn_mismatch", "scope_project_mismatch"):
            assert code in job["error"]
        assert "4 queue.enqueue: forbidden (nested_action_intents)" in job["error"]
        rows = [row["payload"] for row in await _events(client, session, "runtime.transcript.upserted")]
        assert await _notes(client, session) == ["first", "last"]
        ended = [row for row in rows if row["messageId"] == "review"][-1]
        assert ended["status"] == "error" and ended["content"].startswith("Not reviewed. (1 transcript.upsert")
        [failed] = await _events(client, job["runningContext"]["threadId"], "runtime.request.failed")
        assert failed["payload"]["error"]["code"] == "ACTION_INTENT_FAILED"
        # An agent may do no more than the extension that it works for.
        session, job, _ = await _planned(client, _plan(_row("mine")), "error", "MODEST")
        assert job["error"] == "0 transcript.upsert: forbidden (undeclared_capability)"
        assert await _notes(client, session) == []
        # Not an answer that can be read, or too much of one: nothing of it is done.
        for answer in ("I would rather not.", _plan(*(_row(f"row-{number}") for number in range(33))), _plan()):
            session, job, progress = await _planned(client, answer, "error")
            assert (job["state"], progress) == ("failed", []) and "asks for no actions" in job["error"]
            assert await _notes(client, session) == []


@linux
async def test_a_clients_own_job_carries_out_nothing_whatever_it_says_that_it_is(acting: Settings) -> None:
    claimed = {"agent": "echo", "jobKind": "plan", "expectResponse": "action_intents", "instructionText": "x",
               "intentActions": ["transcript.upsert"]}  # fmt: skip
    async with in_process(acting) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        session = await create_session(client, model="echo")
        body = {"agent": "echo", "input": _plan(_row("forged")), "jobType": "agent_instruction",
                "sourceSessionId": session, "metadata": {"sessionJob": claimed}}  # fmt: skip
        sent = await client.post("/api/runs", json=body)
        assert sent.status_code == 202, sent.text
        ended = await reached(client, sent.json()["id"])
        assert ended["status"] == "completed" and await _notes(client, session) == []


class CutOffRecorder:
    """Fails to record that an intent was carried out, once: as if the server had died just before."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.failed = recorder, False

    def record(self, scope: Scope, *entries: Any, **more: Any) -> Awaitable[Answer]:
        steps = [entry.progress for entry in entries if isinstance(entry, JobProgress)]
        if not self.failed and any(step.get("index") == 1 for step in steps):
            self.failed = True
            raise StoreError("STORAGE_FULL", "there is no room")
        return self._recorder.record(scope, *entries, **more)


def _cut_off(server: InProcessServer) -> CutOffRecorder:
    intents: Any = server.holdfast.executor.follow_answer.__self__  # type: ignore[attr-defined]
    intents._recorder = CutOffRecorder(intents._recorder)
    return intents._recorder  # type: ignore[no-any-return]


@linux
async def test_an_intent_that_was_carried_out_before_a_crash_is_not_carried_out_again(acting: Settings) -> None:
    async with in_process(acting) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        cut = _cut_off(server)
        note = {"agent": "echo", "jobKind": "note", "instructionText": "Noted."}
        plan = _plan(_row("a"), {"actionType": "queue.enqueue", "payload": note}, _row("b"))
        session, job, progress = await _planned(client, plan, "complete")
        assert cut.failed and job["state"] == "completed"
        assert [(one["index"], one["status"]) for one in progress] == [(n, "performed") for n in range(3)]
        assert await _notes(client, session) == ["a", "b"]
        assert sorted(one["payload"]["jobKind"] for one in await _jobs(client, session)) == ["note", "plan"]


@linux
@pytest.mark.parametrize("cancelled", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["kept", "cancelled"])
async def test_no_intent_is_carried_out_twice_though_the_server_is_killed_between_them(
    acting: Settings, cancelled: bool
) -> None:
    names = [f"row-{number}" for number in range(32)]
    server = await asyncio.to_thread(ServerProcess.start, acting.data_dir, acting.database_url, acting.workspace, None)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            session = await create_session(client, model="echo")
            await say(client, session, f"PLAN {_plan(*map(_row, names))}")
            async with asyncio.timeout(60):
                # Without a pause: the kill is to hit the job while it works.
                while not await _notes(client, session):
                    pass
            [job] = await _jobs(client, session)
            if cancelled:
                await client.post(f"/api/orchestrator/jobs/{job['id']}/cancel", json={})
        await asyncio.to_thread(server.kill)
        server = await asyncio.to_thread(server.again)
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            async with asyncio.timeout(120):
                while (ended := (await _jobs(client, session))[0])["state"] in ("queued", "running"):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            done = await _notes(client, session)
            # A job that had carried out everything may have ended before it was to be cancelled.
            assert (ended["state"], done) == ("completed", names) or (
                (ended["state"], done) == ("canceled", names[: len(done)]) and cancelled
            )
    finally:
        await asyncio.to_thread(server.stop)


class HeldRecorder:
    """Stops after it recorded the first intent, until somebody cancels who waits."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.reached = recorder, asyncio.Event()

    async def record(self, scope: Scope, *entries: Any, **more: Any) -> Answer:
        answer = await self._recorder.record(scope, *entries, **more)
        if any(isinstance(entry, JobProgress) and entry.progress.get("index") == 0 for entry in entries):
            self.reached.set()
            await asyncio.Event().wait()
        return answer


@linux
async def test_a_job_that_is_cancelled_between_two_intents_carries_out_no_other(acting: Settings) -> None:
    """Also not after a restart, and the rows that it was to fill end with it."""
    async with in_process(acting) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        intents: Any = server.holdfast.executor.follow_answer.__self__  # type: ignore[attr-defined]
        held = intents._recorder = HeldRecorder(intents._recorder)
        session = await create_session(client, model="echo")
        await say(client, session, f"PLAN {_plan(_row('a'), _row('b'), _row('c'))}")
        async with asyncio.timeout(60):
            await held.reached.wait()
        [job] = await _jobs(client, session)
        asked = await asyncio.gather(
            *(client.post(f"/api/orchestrator/jobs/{job['id']}/cancel", json={}) for _ in range(3))
        )
        assert {answer.status_code for answer in asked} <= {200, 409} and 200 in {one.status_code for one in asked}
        row = await _output_row(client, session, "canceled")
        assert row["messageId"] == f"agent-job-output::{job['id']}"
    async with in_process(acting) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        [job] = await _jobs(client, session)
        assert job["state"] == "canceled" and job["attempts"] == 1
        assert await _notes(client, session) == ["a"]
        rows = {row["messageId"]: row for row in (await client.get(f"/api/sessions/{session}")).json()["transcript"]}
        assert (rows["review"]["content"], rows["review"]["status"]) == ("review canceled.", "canceled")
        events = (await client.get(f"/api/runs/{job['id']}/events", params={"limit": 500})).json()["items"]
        ends = [one["type"] for one in events if one["type"] in ("runtime.job.cancelled", "runtime.request.cancelled")]
        assert ends == ["runtime.job.cancelled", "runtime.request.cancelled"] and events[-1]["type"] == ends[-1]


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (_plan({}), 1),
        (f"  {_plan({}, {})}\n", 2),
        (f"So:\n```json\n{_plan({})}\n```", 1),
        (f"So:\n```\nnothing\n```\n```\n{_plan({})}\n```", 1),
        (f"I say {_plan({})} and stop.", 1),
        (_plan(*[{}] * 32), 32),
    ],
)
def test_intents_are_found_in_an_answer_that_says_more(answer: str, count: int) -> None:
    assert intents_of(answer) == [{}] * count


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "}{",
        "[]",
        '"action_intents"',
        '{"kind": "action_intents"}',
        '{"kind": "action_intents", "intents": {}}',
        '{"kind": "applause", "intents": [{}]}',
        '{"kind": "action_intents", "kind": "action_intents", "intents": [{}]}',
        _plan(*[{}] * 33),
        _plan([[1] * 6000]),
        _plan({"payload": "x" * MAX_ANSWER_BYTES}),
        '{"kind": "action_intents", "intents": [' + '{"a":' * 40 + "1" + "}" * 40 + "]}",
        "`" * MAX_ANSWER_BYTES,
        "```\n" * (MAX_ANSWER_BYTES // 4),
        "{" * MAX_ANSWER_BYTES,
    ],
)
def test_an_answer_without_intents_is_none(answer: str) -> None:
    found = intents_of(answer)
    assert isinstance(found, Failure) and found.code == "ACTION_INTENTS_INVALID"
