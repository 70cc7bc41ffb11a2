"""Hostile clients of the sessions API: wrong types, unknown methods, other tenants, on every operation.

Leaves to others: bodies over the limit (`test_body_limits`).
"""

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.events.catalog.session_job import SessionJobUpdated
from tests.clients import create_session, reached, say
from tests.protocols.auth.auth_server import open_auth_server
from tests.scenarios.strict_sessions import OPERATIONS

pytestmark = pytest.mark.requirement("S9", "S10")

FIELDS: Final = (
    "text", "title", "name", "input", "decision", "scope", "answers", "response", "success", "contentItems", "settings",
    "key", "value", "mode", "controls", "approvalPolicy", "projectId", "destination", "messageId", "turnId", "role",
    "type", "content", "status", "details", "startedAt", "numTurns", "model", "effort", "draft", "requestKey",
    "suggestion", "dynamicTools", "cwd", "networkAccess", "filesystemSandbox", "parts", "workingDirectory",
)  # fmt: skip
WRONG: Final[tuple[Any, ...]] = (
    [], "x", None, 7, {"": ""},
    {name: {"$blob": {"sha256": "x"}} for name in FIELDS},
    {name: [[[[[]]]]] for name in FIELDS},
    dict.fromkeys(FIELDS, -1),
    dict.fromkeys(FIELDS, "\x00\ud7ff"),
    dict.fromkeys(FIELDS, "x" * 20000),
)  # fmt: skip
RAW: Final = (b"", b"{", b'{"text": "a", "text": "b"}', b"\xff\xfe", b"[" * 5000 + b"]" * 5000, b'{"text": 1e999}')


def _path(path: str, session: str) -> str:
    ids = {"s": session, "t": "run_x", "k": "a", "a": "int_x", "r": "int_x", "j": "run_x", "p": "prj_x", "m": "x"}
    return "/api" + path.format(**ids)


def _sound(answer: httpx2.Response, place: tuple[Any, ...]) -> None:
    assert answer.status_code < 500 or answer.status_code == 501, (place, answer.text)
    assert answer.headers["content-type"].startswith("application/json"), place
    assert "Traceback" not in answer.text and len(answer.content) < 100_000, place
    body = answer.json()
    if answer.status_code == 400:
        assert body["status"] in ("error", "invalid_request") and body["code"] and body["message"], place


@pytest.mark.parametrize("operation", sorted(name for name, found in OPERATIONS.items() if found[0] != "GET"))
async def test_a_body_of_wrong_types_is_refused_and_breaks_nothing(client: httpx2.AsyncClient, operation: str) -> None:
    verb, path, _ = OPERATIONS[operation]
    session = await create_session(client)
    for body in WRONG:
        _sound(await client.request(verb, _path(path, session), json=body), (operation, str(body)[:100]))
    typed = {"content-type": "application/json"}
    for raw in RAW:
        _sound(await client.request(verb, _path(path, session), content=raw, headers=typed), (operation, raw[:50]))
    assert (await client.get("/api/health")).json()["status"] == "ok"


async def test_an_unknown_method_is_answered_and_does_nothing(client: httpx2.AsyncClient) -> None:
    session = await create_session(client)
    for path in sorted({found[1] for found in OPERATIONS.values()}):
        for verb in ("PUT", "PATCH"):
            answer = await client.request(verb, _path(path, session), json={})
            assert answer.status_code in (404, 405), (verb, path, answer.text)
    assert (await client.get(f"/api/sessions/{session}")).status_code == 200


async def _told_of_its_end(client: httpx2.AsyncClient, session: str) -> None:
    """The session hears of its job after the job has ended."""
    async with asyncio.timeout(30):
        while True:
            events = (await client.get(f"/api/threads/{session}/events", params={"limit": 200})).json()["items"]
            if any(one["type"] == SessionJobUpdated.type and one["payload"]["state"] == "completed" for one in events):
                return
            await asyncio.sleep(0.05)


async def test_no_operation_shows_or_changes_what_belongs_to_another_tenant(tmp_path: Path) -> None:
    """On every operation that names something; `tests/protocols/auth/test_tenants` has the other routes."""
    async with open_auth_server(tmp_path) as server:
        theirs, mine = await server.caller("admin", tenant="theirs"), await server.caller("admin", tenant="mine")
        session = await create_session(theirs, model="echo")
        await reached(theirs, await say(theirs, session, "their secret"))
        project = (await theirs.post("/api/projects", json={"name": "Theirs"})).json()["project"]["projectId"]
        job = (await theirs.post(f"/api/sessions/{session}/suggested-request/jobs", json={})).json()["jobId"]
        await reached(theirs, job)
        await _told_of_its_end(theirs, session)
        before = (await theirs.get(f"/api/sessions/{session}")).json()
        ids = {"s": session, "t": before["thread"]["turns"][0]["id"], "k": "a", "a": "int_x", "r": "int_x", "j": job,
               "p": project, "m": "x"}  # fmt: skip
        right: dict[str, Any] = {
            "text": "x", "title": "mine now", "name": "mine now", "input": "x", "scope": "session", "key": "a",
            "value": 1, "approvalPolicy": "never", "projectId": None, "destination": "archive",
        }  # fmt: skip
        for operation, (verb, path, _) in OPERATIONS.items():
            if not {"{s}", "{p}", "{j}"} & set(path.replace("/", " ").split()):
                continue
            answer = await mine.request(verb, "/api" + path.format(**ids), json=None if verb == "GET" else right)
            empty = operation == "listProjectOrchestratorJobs" and answer.json() == {"data": []}
            assert answer.status_code == 404 or empty, (operation, answer.text)
            assert "secret" not in answer.text and "Theirs" not in answer.text
        put = await mine.post(f"/api/sessions/{await create_session(mine)}/project", json={"projectId": project})
        assert (put.status_code, put.json()["status"]) == (404, "project_not_found")
        assert (await theirs.get(f"/api/sessions/{session}")).json() == before
