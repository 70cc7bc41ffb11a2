"""Two tenants on every route there is. The routes come from the application: a new one without an entry here fails.

A route with ids gets those of the other tenant and must say 404 and nothing of theirs; a route without ids must be
named in `WITHOUT_IDS` with why it cannot reveal anything, or be asked and answer nothing of theirs.
"""

from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from starlette.routing import BaseRoute

from app.core import json
from app.events.catalog.artifact import ArtifactCreated
from app.events.catalog.evaluation import EvaluationStarted
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.ledger import WebhookChanged
from app.events.ports import WebhookStored
from app.events.recorder import Scope
from app.memory.contract import MemoryCandidate, RunIdentity
from app.protocols.auth.permissions import template
from app.runtime.intake.ledger import EVALS_THREAD, Ledger
from app.store.tables import metadata
from app.views.webhook import Webhook
from app.workspace.compiled import CompiledMemory
from app.workspace.specs.others import MemorySpec
from tests.protocols.auth.auth_server import AuthServer, open_auth_server

MARK: Final = "theirs-Zq7"
"""Is in everything that the other tenant says; must be in no answer."""

WITHOUT_IDS: Final = {
    "GET /": "about the program",
    "GET /console": "about the program",
    "GET /console/{}": "about the program",
    "GET /api/me": "about the caller",
    "POST /api/sign-in": "about the caller",
    "POST /api/sign-out": "about the caller",
    "GET /healthz": "about the process",
    "GET /readyz": "about the process",
    "GET /metrics": "totals of the process, without labels of tenants",
    "GET /openapi.json": "about the program",
    "GET /asyncapi.json": "about the program",
    "GET /docs": "about the program",
    "GET /api": "about the program",
    "GET /api/health": "about the process",
    "GET /api/capabilities": "about the program",
    "GET /api/ui/capabilities": "about the program",
    "POST /api/ui/validate": "about what the request brings",
    "POST /api/ui/project": "about what the request brings",
    "GET /api/workspace": "one workspace, seen by all tenants",
    "GET /api/workspace/compare": "one workspace, seen by all tenants",
    "GET /api/retention": "one rule for all tenants",
    "GET /api/doctor": "about the server itself",
    "GET /api/tenants": "only for who may manage all tenants: tests/protocols/auth/test_tenant_sessions.py",
    "GET /api/agents": "one workspace, seen by all tenants",
    "GET /api/agents/{}": "one workspace, seen by all tenants",
    "GET /api/agents/extensions": "one workspace, seen by all tenants",
    "POST /api/agents/extensions/reload": "one workspace, seen by all tenants",
    "GET /api/tools": "one workspace, seen by all tenants",
    "GET /api/tools/{}": "one workspace, seen by all tenants",
    "GET /api/workflows": "one workspace, seen by all tenants",
    "GET /api/workflows/{}": "one workspace, seen by all tenants",
    "GET /api/workflows/{}/graph": "one workspace, seen by all tenants",
    "POST /api/workflows/{}/plan": "one workspace, seen by all tenants",
    "GET /v1/models": "one workspace, seen by all tenants",
    "GET /v1/models/{}": "one workspace, seen by all tenants",
    "POST /api/workspace/reload": "one workspace, seen by all tenants",
    "POST /api/tools/{}/invoke": "makes something of the caller's own",
    "POST /api/files": "makes something of the caller's own",
    "POST /api/keys": "makes something of the caller's own; tests/protocols/auth/test_keys.py has the other tenant",
    "POST /api/webhooks": "makes something of the caller's own",
    "POST /api/schedules": "makes something of the caller's own",
    "POST /api/threads": "makes something of the caller's own",
    "POST /api/sessions": "makes something of the caller's own",
    "GET /api/features/experimental": "answers 501",
    "GET /api/collaboration/modes": "answers 501",
    "POST /api/skills/config": "answers 501",
    "GET /api/skills/remote": "answers 501",
    "POST /api/skills/remote": "answers 501",
    "POST /api/mcp/servers/{}/oauth/login": "answers 501",
    "GET /api/account": "answers 501",
    "POST /api/account/login/start": "answers 501",
    "POST /api/account/login/cancel": "answers 501",
    "POST /api/account/logout": "answers 501",
    "GET /api/account/rate-limits": "answers 501",
    "POST /api/config/value": "answers 501",
    "POST /api/config/batch": "answers 501",
    "POST /api/commands/exec": "answers 501",
    "POST /api/feedback": "answers 501",
    "GET /api/models": "one workspace, seen by all tenants",
    "GET /api/apps": "one workspace, seen by all tenants",
    "GET /api/skills": "one workspace, seen by all tenants",
    "GET /api/mcp/servers": "one workspace, seen by all tenants",
    "GET /api/config/requirements": "one workspace, seen by all tenants",
    "POST /api/mcp/reload": "one workspace, seen by all tenants",
    "POST /api/mcp-servers/{}/login": "the servers of one workspace: tests/scenarios/test_mcp_oauth.py",
    "POST /api/mcp-servers/{}/login/complete": "the servers of one workspace: tests/scenarios/test_mcp_oauth.py",
    "DELETE /api/mcp-servers/{}/login": "the servers of one workspace: tests/scenarios/test_mcp_oauth.py",
    "GET /api/projects/{}/orchestrator/jobs": "an unknown project has no jobs: tests/scenarios/test_session_jobs.py",
    "POST /api/projects": "makes something of the caller's own",
    "POST /api/datasets": "makes something of the caller's own",
    "POST /api/datasets/{}/import": "makes something of the caller's own",
    "POST /api/memory/records": "makes something of the caller's own",
    "POST /v1/embeddings": "tests/openai/test_plain_models.py has the other tenant",
    "POST /api/memory/search": "tests/scenarios/test_memory.py has the other tenant",
    "POST /api/memory/reindex": "changes nothing that can be seen",
    "WS /api/stream": "tests/protocols/auth/test_sockets.py",
    "GET /langgraph/info": "about the program",
    "GET /langgraph/ok": "about the process",
    "POST /langgraph/assistants": "one workspace, seen by all tenants",
    "POST /langgraph/assistants/search": "one workspace, seen by all tenants",
    "POST /langgraph/assistants/count": "one workspace, seen by all tenants",
    "GET /langgraph/assistants/{}": "one workspace, seen by all tenants",
    "PATCH /langgraph/assistants/{}": "one workspace, seen by all tenants",
    "DELETE /langgraph/assistants/{}": "one workspace, seen by all tenants",
    "GET /langgraph/assistants/{}/graph": "one workspace, seen by all tenants",
    "GET /langgraph/assistants/{}/schemas": "one workspace, seen by all tenants",
    "GET /langgraph/assistants/{}/subgraphs": "one workspace, seen by all tenants",
    "GET /langgraph/assistants/{}/subgraphs/{}": "one workspace, seen by all tenants",
    "POST /langgraph/assistants/{}/versions": "one workspace, seen by all tenants",
    "POST /langgraph/assistants/{}/latest": "one workspace, seen by all tenants",
    "WS /langgraph/threads/{}/stream/events": "tests/langgraph/test_protocol.py has the other tenant",
    "POST /langgraph/threads": "makes something of the caller's own",
    "POST /langgraph/threads/prune": "tests/langgraph/test_threads.py has the other tenant",
    "POST /langgraph/runs/crons": "makes something of the caller's own",
    "PUT /langgraph/store/items": "makes something of the caller's own",
    "GET /langgraph/store/items": "tests/langgraph/test_stores.py has the other tenant",
    "DELETE /langgraph/store/items": "tests/langgraph/test_stores.py has the other tenant",
    "POST /langgraph/runs": "makes something of the caller's own",
    "POST /langgraph/runs/stream": "makes something of the caller's own",
    "POST /langgraph/runs/wait": "makes something of the caller's own",
    "POST /langgraph/runs/batch": "makes something of the caller's own",
    "POST /mcp": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /mcp": "tests/protocols/auth/test_dialect_tenants.py",
    "POST /agui/{}": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /.well-known/agent-card.json": "one workspace, seen by all tenants",
    "GET /a2a/{}/.well-known/agent-card.json": "one workspace, seen by all tenants",
    "GET /a2a/{}/extendedAgentCard": "one workspace, seen by all tenants",
    "POST /a2a/{}": "tests/protocols/auth/test_dialect_tenants.py",
    "POST /a2a/{}/message:send": "tests/protocols/auth/test_dialect_tenants.py",
    "POST /a2a/{}/message:stream": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /a2a/{}/tasks": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /a2a/{}/tasks/{}": "tests/protocols/auth/test_dialect_tenants.py",
    "POST /a2a/{}/tasks/{}:cancel": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /a2a/{}/tasks/{}:subscribe": "tests/protocols/auth/test_dialect_tenants.py",
    "POST /a2a/{}/tasks/{}:subscribe": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /a2a/{}/tasks/{}/pushNotificationConfigs": "tests/protocols/auth/test_dialect_tenants.py",
    "POST /a2a/{}/tasks/{}/pushNotificationConfigs": "tests/protocols/auth/test_dialect_tenants.py",
    "GET /a2a/{}/tasks/{}/pushNotificationConfigs/{}": "tests/protocols/auth/test_dialect_tenants.py",
    "DELETE /a2a/{}/tasks/{}/pushNotificationConfigs/{}": "tests/protocols/auth/test_dialect_tenants.py",
}

ASKED_WITHOUT_IDS: Final = frozenset(
    {"GET /api/datasets", "GET /api/evals", "GET /api/gates", "GET /api/gates/report"}
    | {"GET /api/projects", "GET /api/config", "GET /api/stats/series", "GET /api/ledger"}
) | frozenset(
    {"GET /api/jobs", "GET /api/webhooks", "GET /api/schedules"}
    | {
        "GET /api/runs",
        "GET /api/threads",
        "GET /api/interrupts",
        "GET /api/keys",
        "GET /api/sessions",
        "GET /api/files",
    }
    | {"GET /api/memory", "GET /api/memory/records", "GET /api/memory/export", "GET /api/skills/candidates"}
    | {"POST /langgraph/threads/search", "POST /langgraph/threads/count", "POST /langgraph/runs/crons/search"}
    | {"POST /langgraph/runs/crons/count", "POST /langgraph/store/items/search", "POST /langgraph/store/namespaces"}
)

OF_A_USER: Final = frozenset({"GET /api/memory/export"})

BODIES: Final[dict[str, Any]] = {
    "POST /api/interrupts/{}/answer": {"decision": "approve"},
    "POST /api/approvals/{}/decision": {"decision": "accept"},
    "POST /api/tool-input/{}/decision": {"decision": "accept"},
    "POST /api/tool-calls/{}/response": {"text": "x"},
    "POST /api/runs/{}/commands": {"command": "steer", "arguments": {"message": "x"}},
    "POST /api/runs/{}/rerun": {},
    "POST /api/runs/{}/feedback": {"score": 1},
    "POST /api/runs/{}/gates": {"mode": "shadow"},
    "PATCH /api/memory/records/{}": {"confidence": 0.5},
    "POST /api/memory/records/{}/decide": {"decision": "accept"},
    "PATCH /api/threads/{}": {"title": "x"},
    "POST /api/threads/{}/messages": {"input": "x"},
    "POST /api/runs/{}/undo": {"planHash": "0" * 64},
    "POST /api/threads/{}/todos": {"items": []},
    "POST /api/threads/{}/events/{}/amend": {"reason": "x", "correction": {"output": "x"}},
    "POST /langgraph/threads/{}/commands": {"id": 1, "method": "state.get"},
    "POST /langgraph/threads/{}/stream/events": {"channels": ["values"]},
    "POST /langgraph/threads/{}/state": {"values": {"messages": "x"}},
    "POST /langgraph/threads/{}/runs/crons": {
        "assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {"messages": "x"},
    },
    "PATCH /langgraph/runs/crons/{}": {"enabled": False},
    "POST /langgraph/threads/{}/runs": {"assistant_id": "echo", "input": {"messages": "x"}},
    "POST /langgraph/threads/{}/runs/stream": {"assistant_id": "echo", "input": {"messages": "x"}},
    "POST /langgraph/threads/{}/runs/wait": {"assistant_id": "echo", "command": {"resume": "x"}},
    "POST /api/sessions/{}/messages": {"text": "x"},
    "POST /api/sessions/{}/rename": {"title": "x"},
    "POST /api/sessions/{}/turns/{}/steer": {"input": "x"},
    "POST /api/sessions/{}/approval-policy": {"approvalPolicy": "never"},
    "POST /api/sessions/{}/settings": {"scope": "session", "key": "a", "value": 1},
    "POST /api/sessions/{}/project": {"projectId": None},
    "POST /api/projects/{}/rename": {"name": "x"},
    "POST /api/sessions/{}/suggested-request/upsert": {"requestKey": "k", "status": "streaming"},
    "POST /api/projects/{}/chats/move-all": {"destination": "unassigned"},
    "POST /api/sessions/{}/transcript/upsert": {
        "messageId": "m", "turnId": "t", "role": "user", "type": "x", "content": "x", "status": "complete",
    },
}  # fmt: skip

REFERENCES: Final[dict[str, list[dict[str, Any]]]] = {
    # Bodies in which an id of theirs may stand; each must be answered as if it were not there.
    "POST /api/runs": [
        {"agent": "echo", "input": "x", "threadId": "{thread_id}"},
        {"agent": "echo", "input": "x", "webhook": "{webhook_id}"},
    ],
    "POST /langgraph/runs/cancel": [{"thread_id": "{thread_id}", "run_ids": ["{run_id}"]}],
    "POST /api/evals": [{"dataset": "{name}", "agent": "echo"}],
    "POST /api/memory/forget": [{"records": ["{record_id}"]}],
    "POST /v1/chat/completions": [
        {"model": "echo", "messages": [{"role": "user", "content": "x"}], "metadata": {"thread_id": "{thread_id}"}}
    ],
    "POST /v1/responses": [{"model": "echo", "input": "x", "previous_response_id": "resp_{run_id}_1"}],
}


async def _fill(server: AuthServer, client: httpx2.AsyncClient) -> dict[str, str]:
    """What the other tenant has, by the name that routes give to its id."""
    body = {"agent": "echo", "input": MARK, "metadata": {"mark": MARK}}
    run = (await client.post("/api/runs", params={"wait": 10}, json=body)).json()
    scope = Scope("theirs", run["threadId"])
    raised = InterruptRaised.model_validate(
        {"interruptId": "int_theirs", "kind": "approval", "title": MARK, "expiresAt": "2099-01-01T00:00:00.000Z"}
    )
    made = ArtifactCreated.model_validate({"artifact": {"id": "art_theirs", "name": MARK}})
    await server.holdfast.store.recorder.record(scope, raised, made)
    who = RunIdentity("theirs", "echo", MARK, run["threadId"], None, f"user:{MARK}")
    memory = CompiledMemory("facts", "", {}, MemorySpec())
    candidate = MemoryCandidate(f"My name is {MARK}.", "semantic", "user", 0.9)
    (learned,) = (await server.holdfast.memory.submit(who, memory, [candidate], "theirs")).submitted
    assert learned.record_id is not None
    key = (await client.post("/api/keys", json={"name": MARK, "roles": ["viewer"]})).json()
    file = (await client.post("/api/files", params={"name": MARK}, content=MARK.encode())).json()
    await client.post(f"/api/runs/{run['id']}/feedback", json={"score": 1, "label": MARK})
    spec = {"cron": "0 0 1 1 *", "run": {"agent": "echo", "input": MARK}}
    await client.post("/api/schedules", json={"name": "theirs", "spec": spec})
    hook = WebhookStored("whk_theirs", json.dumps(Webhook("theirs", "whk_theirs", MARK).to_state()), b"sealed")
    changed = WebhookChanged(webhook_id="whk_theirs", change="created")
    await Ledger(server.holdfast.store.recorder).record("theirs", changed, conditions=[hook])
    job = (await client.post("/api/runs", json={"agent": "echo", "input": MARK, "priority": "background"})).json()
    await client.post("/api/datasets", json={"name": MARK, "cases": [{"input": MARK}]})
    project = (await client.post("/api/projects", json={"name": MARK})).json()["project"]
    started = EvaluationStarted(
        evaluation_id="eval_theirs", dataset=MARK, version=1, agent="echo", workspace_digest="0" * 64,
        thresholds={}, parallel=1, use_cache=True,
    )  # fmt: skip
    await Ledger(server.holdfast.store.recorder, EVALS_THREAD).record("theirs", started)
    return {
            "name": MARK, "evaluation_id": "eval_theirs",
            "run_id": run["id"], "thread_id": run["threadId"], "session_id": run["threadId"], "turn_id": run["id"],
            "interrupt_id": "int_theirs", "approval_id": "int_theirs", "request_id": "int_theirs",
            "call_id": "int_theirs", "artifact_id": "art_theirs", "key_id": key["id"], "sha256": "f" * 64,
            "record_id": learned.record_id, "candidate_id": "skc_theirs",
            "file_id": file["id"], "response_id": f"resp_{run['id']}_1", "key": "a", "setting": "a",
            "webhook_id": "whk_theirs", "schedule": "theirs", "cron_id": "theirs",
            "lane": "messages", "checkpoint_id": "1f000000-0000-6000-8000-000000000002",
            "seq": "2", "job_id": job["id"], "project_id": project["projectId"],
    }  # fmt: skip


def _routes(server: AuthServer) -> list[tuple[str, str, BaseRoute]]:
    found = []
    for route in server.app.routes:
        methods = sorted(getattr(route, "methods", None) or {"WS"})
        found += [(method, route.path, route) for method in methods if method != "HEAD"]  # type: ignore[attr-defined]
    return found


@pytest.mark.requirement("S6", "PX-7")
async def test_nothing_crosses_from_one_tenant_to_another_on_any_route(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        theirs = await server.caller("admin", "theirs")
        ours = await server.caller("admin", "ours")
        known = await _fill(server, theirs)
        wrong = []
        for method, path, _ in _routes(server):
            name = f"{method} {template(path)}"
            if name in WITHOUT_IDS:
                continue
            if "{" in path:
                wrong += await _ask_with_their_ids(ours, method, path, name, known)
            elif name in ASKED_WITHOUT_IDS:
                answer = await ours.request(method, path, params={"user": MARK} if name in OF_A_USER else {})
                wrong += [] if answer.status_code == 200 and not _reveals(answer, known) else [f"{name}: {answer.text}"]
            elif name in REFERENCES:
                for body in REFERENCES[name]:
                    sent = json.dumps(body).decode()
                    for word, value in known.items():
                        sent = sent.replace("{" + word + "}", value)
                    answer = await ours.request(method, path, content=sent)
                    if answer.status_code != 404 or MARK in answer.text:
                        wrong.append(f"{name}: {answer.status_code} {answer.text}")
            else:
                wrong.append(f"{name}: has no entry in this test")
        assert wrong == [], chr(10).join(wrong)
        # And what was asked for is still as it was.
        interrupts = (await theirs.get("/api/interrupts")).json()["items"]
        assert [found["status"] for found in interrupts] == ["open"]
        assert (await theirs.get(f"/api/threads/{known['thread_id']}")).status_code == 200
        assert {key["revokedAt"] for key in (await theirs.get("/api/keys")).json()["items"]} == {None}


async def _ask_with_their_ids(
    ours: httpx2.AsyncClient, method: str, path: str, name: str, known: dict[str, str]
) -> list[str]:
    try:
        address = path.replace(":path}", "}").format(**known)
    except KeyError as missing:
        return [f"{name}: this test does not know an id for {missing}"]
    body = BODIES.get(name, {} if method in ("POST", "PATCH", "PUT") else None)
    answer = await ours.request(method, address, json=body)
    if answer.status_code != 404 or MARK in answer.text:
        return [f"{name}: {answer.status_code} {answer.text}"]
    return []


def _reveals(answer: httpx2.Response, known: dict[str, str]) -> bool:
    return MARK in answer.text or any(len(id) > 8 and id in answer.text for id in known.values())


OPEN_ANSWERS: Final = {"/console": 308, "/console/{}": 404}
"""What else than 200 open routes answer here: the first leads to the page, the other has no file of the name asked."""


@pytest.mark.requirement("S5")
async def test_every_route_but_the_open_ones_needs_credentials_and_a_scope(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        stranger = server.client()
        made = await (await server.caller("admin")).post("/api/keys", json={"name": "x", "scopes": ["tools:read"]})
        nobody = server.client({"authorization": f"Bearer {made.json()['key']}"})
        for method, path, route in _routes(server):
            if method == "WS":
                continue
            address = path.replace("{", "").replace("}", "")
            needs = getattr(route, "holdfast_needs", "anybody")
            first = await stranger.request(method, address)
            second = await nobody.request(method, address)
            if needs == "open":
                assert first.status_code == OPEN_ANSWERS.get(template(path), 200), path
                continue
            assert first.status_code == 401, path
            assert (second.status_code == 403) == (needs not in ("anybody", "tools:read")), path


WITHOUT_A_TENANT: Final = {
    "consumers": "what follows the log follows it for all tenants",
    "events": "the tenant is its thread's, which `thread_key` stands for",
    "deltas": "the tenant is its thread's, which `thread_key` stands for",
    "memory_index": "the tenant is its namespace's, which `namespace_key` stands for",
    "memory_postings": "the tenant is that of its term's namespace",
    "memory_terms": "the tenant is its namespace's, which `namespace_key` stands for",
    "memory_vectors": "the tenant is its namespace's, which `namespace_key` stands for",
    "model_limits": "a provider's limit is shared by all tenants",
    "schema_support": "one row, about the database as a whole",
    "transcript_entries": "the tenant is its thread's, which `thread_key` stands for",
    "workspaces": "one server has one workspace, seen by all its tenants",
}


@pytest.mark.requirement("S6")
def test_every_table_has_a_tenant_or_a_stated_reason() -> None:
    without = {table.name for table in metadata.sorted_tables if "tenant" not in table.columns}
    assert without == WITHOUT_A_TENANT.keys()
    for name, reason in WITHOUT_A_TENANT.items():
        if "thread_key" in reason:
            assert {key.target_fullname for key in metadata.tables[name].foreign_keys} == {"threads.key"}
