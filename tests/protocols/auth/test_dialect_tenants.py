"""Two tenants at the protocols whose ids are in bodies: nothing of the other one is shown, answered or cancelled."""

import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.events.catalog.interrupt import InterruptRaised
from app.events.recorder import Scope
from tests.protocols.auth.auth_server import AuthServer, open_auth_server
from tests.server import ROOT

MARK = "theirs-Zq7"


async def rpc(client: httpx2.AsyncClient, method: str, tasks: bool = True, **params: Any) -> dict[str, Any]:
    """One request of MCP's stateless revision."""
    capabilities: dict[str, Any] = {"elicitation": {}}
    capabilities |= {"extensions": {"io.modelcontextprotocol/tasks": {}}} if tasks else {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "accept": "application/json"}
    if (name := params.get("name") or params.get("uri")) is not None:
        headers["mcp-name"] = name
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    answer = await client.post("/mcp", json=body, headers=headers)
    assert MARK not in answer.text, answer.text
    return {"status": answer.status_code, **answer.json()}


async def other_s_run(client: httpx2.AsyncClient) -> dict[str, Any]:
    body = {"agent": "echo", "input": MARK}
    run: dict[str, Any] = (await client.post("/api/runs", params={"wait": 10}, json=body)).json()
    return run


@pytest.mark.requirement("S6", "PX-7", "PX-10")
async def test_mcp_shows_and_touches_nothing_of_another_tenant(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        theirs, ours = await server.caller("admin", "theirs"), await server.caller("admin", "ours")
        run = await other_s_run(theirs)
        listed = await rpc(ours, "resources/list")
        assert run["id"] not in str(listed) and run["threadId"] not in str(listed)
        for uri in (f"holdfast://runs/{run['id']}", f"holdfast://threads/{run['threadId']}"):
            assert (await rpc(ours, "resources/read", uri=uri))["error"]["code"] == -32602
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert (await rpc(ours, method, taskId=run["id"]))["error"]["data"]["code"] == "RUN_NOT_FOUND"
        arguments = {"message": "x", "threadId": run["threadId"]}
        refused = await rpc(ours, "tools/call", name="agent_echo", arguments=arguments)
        assert refused["error"]["data"]["code"] == "THREAD_NOT_FOUND"
        repeated = await rpc(ours, "tools/call", tasks=False, name="agent_echo", requestState=run["id"])
        assert repeated["error"]["code"] == -32602
        resumed = await ours.get("/mcp", headers={"last-event-id": f"1.{run['id']}"})
        assert resumed.status_code == 400 and MARK not in resumed.text


@pytest.mark.requirement("S5", "PX-10")
async def test_each_method_of_mcp_needs_its_scope(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        stranger = await server.client().post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert stranger.status_code == 401 and stranger.json()["error"]["data"]["code"] == "UNAUTHENTICATED"
        assert stranger.headers["www-authenticate"] == "Bearer"
        nobody = await _with_scopes(server, ["metrics:read"])
        assert "result" in await rpc(nobody, "server/discover")
        asked: dict[str, dict[str, Any]] = {
            "tools/list": {},
            "tools/call": {"name": "agent_echo", "arguments": {"message": "x"}},
            "resources/read": {"uri": "holdfast://runs/x"},
            "prompts/list": {},
            "tasks/get": {"taskId": "x"},
            "tasks/update": {"taskId": "x"},
            "tasks/cancel": {"taskId": "x"},
        }
        for method, params in asked.items():
            answer = await rpc(nobody, method, **params)
            assert (answer["status"], answer["error"]["data"]["code"]) == (403, "FORBIDDEN"), method
        assert (await rpc(nobody, "resources/list"))["result"]["resources"] == []


async def _with_scopes(server: AuthServer, scopes: list[str]) -> httpx2.AsyncClient:
    made = await (await server.caller("admin")).post("/api/keys", json={"name": "x", "scopes": scopes})
    return server.client({"authorization": f"Bearer {made.json()['key']}"})


@pytest.mark.requirement("PX-10")
async def test_a_hostile_mcp_client_gets_errors_of_the_protocol(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = await server.caller("admin")
        for raw, code in {
            b"": -32700,
            b"{": -32700,
            b"[]": -32600,
            b'{"jsonrpc":"1.0","id":1,"method":"ping"}': -32600,
            b'{"jsonrpc":"2.0","id":null,"method":"ping"}': -32600,
            b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}': -32600,
            b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % (b"x" * 300): -32600,
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}': -32602,
            b'{"jsonrpc":"2.0","id":1,"method":"no/such"}': -32601,
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":5}}': -32602,
            b'{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"cursor":"9:x"}}': -32602,
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}': -32602,
            b"[" * 2000 + b"]" * 2000: -32700,
        }.items():
            answer = await client.post("/mcp", content=raw)
            assert answer.json()["error"]["code"] == code, (raw[:80], answer.text)
        too_large = await client.post("/mcp", content=b'{"a":"' + b"x" * (5 * 1024 * 1024) + b'"}')
        assert (too_large.status_code, too_large.json()["error"]["data"]["code"]) == (413, "BODY_TOO_LARGE")
        listen = await client.get("/mcp")
        assert (listen.status_code, listen.headers["allow"]) == (405, "POST")
        for last in ("x", "1", "1.", "99999999999999999999.run", "1.run_nowhere"):
            assert (await client.get("/mcp", headers={"last-event-id": last})).status_code == 400
        for headers, code in (
            ({"mcp-protocol-version": "2026-07-28"}, -32602),
            ({"mcp-protocol-version": "2031-01-01"}, -32602),
            ({"mcp-session-id": "../../etc"}, -32602),
        ):
            answer = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
            assert answer.json()["error"]["code"] == code, (headers, answer.text)
        unasked = await client.post(
            "/mcp", json={"jsonrpc": "2.0", "id": "int_nowhere", "result": {"action": "accept"}}
        )
        assert unasked.status_code == 202


@pytest.mark.requirement("S6", "PX-7", "PX-3")
async def test_agui_continues_and_answers_nothing_of_another_tenant(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        theirs, ours = await server.caller("admin", "theirs"), await server.caller("admin", "ours")
        run = await other_s_run(theirs)
        raised = InterruptRaised.model_validate(
            {"interruptId": "int_theirs", "kind": "approval", "title": MARK, "expiresAt": "2099-01-01T00:00:00.000Z"}
        )
        await server.holdfast.store.recorder.record(Scope("theirs", run["threadId"], run["id"]), raised)
        body: dict[str, Any] = {"threadId": run["threadId"], "runId": "r1"}
        body["messages"] = [{"id": "1", "role": "user", "content": "mine"}]
        resume = [{"interruptId": "int_theirs", "status": "resolved", "payload": {"decision": "approve"}}]
        answer = await ours.post("/agui/echo", json={**body, "resume": resume})
        assert answer.status_code == 404 and MARK not in answer.text
        # A thread's id is its tenant's own: the same one elsewhere is another thread.
        answer = await ours.post("/agui/echo", json=body)
        assert answer.status_code == 200 and MARK not in answer.text
        assert (await theirs.get(f"/api/runs?threadId={run['threadId']}")).json()["items"][0]["id"] == run["id"]
        reader = await _with_scopes(server, ["runs:read"])
        assert (await reader.post("/agui/echo", json=body)).status_code == 403
        writer = await _with_scopes(server, ["runs:write"])
        await writer.post("/agui/echo", json={**body, "threadId": "own"})
        again = {**body, "threadId": "own", "resume": [{"interruptId": "int_nowhere", "status": "cancelled"}]}
        assert (await writer.post("/agui/echo", json=again)).status_code == 404


@pytest.mark.requirement("S6", "PX-7", "PX-3")
async def test_a2a_shows_and_touches_nothing_of_another_tenant(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        theirs, ours = await server.caller("admin", "theirs"), await server.caller("admin", "ours")
        run = await other_s_run(theirs)
        task = f"/a2a/echo/tasks/{run['id']}"
        said = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": run["id"]}
        for method, path, body in (
            ("GET", task, None),
            ("POST", f"{task}:cancel", {}),
            ("GET", f"{task}:subscribe", None),
            ("POST", f"{task}:subscribe", {}),
            ("POST", "/a2a/echo/message:send", {"message": said}),
            ("POST", "/a2a/echo/message:stream", {"message": said}),
        ):
            answer = await ours.request(method, path, json=body)
            assert answer.status_code == 404 and MARK not in answer.text, (path, answer.text)
            assert (await theirs.request(method, path, json=body)).status_code != 404, path
        for name in ("GetTask", "CancelTask", "SubscribeToTask"):
            rpc_body = {"jsonrpc": "2.0", "id": 1, "method": name, "params": {"id": run["id"]}}
            answer = await ours.post("/a2a/echo", json=rpc_body)
            assert answer.json()["error"]["code"] == -32001 and MARK not in answer.text
        assert (await ours.get("/a2a/echo/tasks")).json()["tasks"] == []
        assert run["id"] in (await theirs.get("/a2a/echo/tasks")).text
        nobody = await _with_scopes(server, ["metrics:read"])
        refused = await nobody.post("/a2a/echo", json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {}})
        assert refused.status_code == 403


@pytest.mark.requirement("S6", "PX-7", "PX-3")
async def test_push_configs_of_another_tenant_s_task_are_not_there(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(ROOT / "workspaces" / "demo", workspace)
    with (workspace / "runtime.yaml").open("a") as runtime:
        runtime.write('  outgoing: {webhooks: ["127.0.0.1"], private: ["127.0.0.1"]}\n')
    async with open_auth_server(tmp_path, workspace=workspace) as server:
        theirs, ours = await server.caller("admin", "theirs"), await server.caller("admin", "ours")
        run = await other_s_run(theirs)
        configs = f"/a2a/echo/tasks/{run['id']}/pushNotificationConfigs"
        config = {"id": "mine", "url": "http://127.0.0.1:9/told"}
        reader, writer = await _with_scopes(server, ["runs:read"]), await _with_scopes(server, ["runs:write"])
        for method, path, body in (
            ("POST", configs, config),
            ("GET", configs, None),
            ("GET", f"{configs}/mine", None),
            ("DELETE", f"{configs}/mine", None),
        ):
            answer = await ours.request(method, path, json=body)
            assert answer.status_code == 404 and "/told" not in answer.text, (path, answer.text)
            unable = reader if method in ("POST", "DELETE") else writer
            assert (await unable.request(method, path, json=body)).status_code == 403, (method, path)
            assert (await theirs.request(method, path, json=body)).status_code == 200, (method, path)
        for name in ("Create", "Get", "Delete"):
            params = {**config, "taskId": run["id"]}
            called = {"jsonrpc": "2.0", "id": 1, "method": f"{name}TaskPushNotificationConfig", "params": params}
            assert (await ours.post("/a2a/echo", json=called)).json()["error"]["code"] == -32001


@pytest.mark.requirement("S5")
@pytest.mark.parametrize("public", [False, True])
async def test_the_card_is_shown_without_a_key_only_where_that_is_set(tmp_path: Path, public: bool) -> None:
    async with open_auth_server(tmp_path, a2a_public_card=public) as server:
        stranger = server.client()
        for path in ("/.well-known/agent-card.json", "/a2a/echo/.well-known/agent-card.json"):
            assert (await stranger.get(path)).status_code == (200 if public else 401)
            assert (await stranger.get(path, headers={"authorization": "Bearer wrong"})).status_code == 401
        for method, path in (("GET", "/a2a/echo/tasks"), ("POST", "/a2a/echo"), ("GET", "/a2a/echo/extendedAgentCard")):
            assert (await stranger.request(method, path)).status_code == 401
        card = (await (await server.caller("admin")).get("/a2a/echo/.well-known/agent-card.json")).json()
        assert card["securitySchemes"] and card["supportedInterfaces"][0]["url"].endswith("/a2a/echo")


def _a2a_reason(answer: httpx2.Response) -> str:
    """Of an error of either binding, in the shape that the address speaks."""
    body = answer.json()
    if "/" in answer.request.url.path.removeprefix("/a2a/"):
        assert body.keys() == {"error"} and body["error"]["code"] == answer.status_code, body
        return str(body["error"]["details"][0]["reason"])
    assert body.keys() == {"jsonrpc", "id", "error"} and body["id"] is None and body["error"]["code"] < 0, body
    return str(body["error"]["data"][0]["reason"])


def _mcp_reason(answer: httpx2.Response) -> str:
    body = answer.json()
    assert body["jsonrpc"] == "2.0" and body["id"] is None and body["error"]["code"] == -32010, body
    return str(body["error"]["data"]["code"])


def _own_reason(answer: httpx2.Response) -> str:
    """AG-UI has no errors before its stream."""
    return str(answer.json()["error"]["code"])


GATED = (("/a2a/echo", _a2a_reason), ("/a2a/echo/message:send", _a2a_reason), ("/mcp", _mcp_reason),
         ("/agui/echo", _own_reason))  # fmt: skip


@pytest.mark.requirement("PX-5", "S5")
async def test_what_the_gate_refuses_is_said_in_the_words_of_the_protocol(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        stranger, nobody = server.client(), await _with_scopes(server, ["metrics:read"])
        writer = await server.caller("admin")
        for path, reason_of in GATED:
            unknown = await stranger.post(path, json={})
            assert (unknown.status_code, reason_of(unknown)) == (401, "UNAUTHENTICATED"), path
            assert unknown.headers["www-authenticate"] == "Bearer"
            method = "tools/list" if path == "/mcp" else "GetTask"
            forbidden = await nobody.post(path, json={"jsonrpc": "2.0", "method": method, "id": 1})
            if path in ("/mcp", "/a2a/echo"):  # each method needs another scope: the message has been read
                assert (forbidden.status_code, forbidden.json()["id"]) == (403, 1), forbidden.text
                assert "FORBIDDEN" in forbidden.text
            else:
                assert (forbidden.status_code, reason_of(forbidden)) == (403, "FORBIDDEN"), path
            large = await writer.post(path, content=b'{"a":"' + b"x" * (9 * 1024 * 1024) + b'"}')
            assert large.status_code == 413 and reason_of(large) in ("BODY_TOO_LARGE", "INVALID_PARAMS"), path
            many = await writer.post(path, json={}, headers={f"x-{n}": "y" * 7000 for n in range(20)})
            assert many.status_code == 431 and reason_of(many) in ("HEADERS_TOO_LARGE", "INVALID_PARAMS"), path
        card = await stranger.get("/.well-known/agent-card.json")
        assert card.status_code == 401 and card.json()["error"]["status"] == "UNAUTHENTICATED"
        assert _a2a_reason(await writer.get("/a2a/echo/no/such/route")) == "METHOD_NOT_FOUND"


@pytest.mark.requirement("PX-5")
async def test_who_asks_too_often_is_told_so_in_the_words_of_the_protocol(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, rate_per_key=1) as server:
        for path, reason_of in GATED:
            caller = await server.caller("admin")
            answers = [await caller.post(path, json={}) for _ in range(30)]
            refused = next(one for one in answers if one.status_code == 429)
            assert reason_of(refused) == "RATE_LIMITED" and int(refused.headers["retry-after"]) >= 1, path
