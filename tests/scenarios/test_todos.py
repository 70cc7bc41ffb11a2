"""The list of things to do over HTTP: agents and clients share it, with owners, and streams report its changes."""

import httpx2
import pytest

from app.core.settings import Settings
from tests.server import in_process


@pytest.mark.requirement("HK-27", "CM-6")
async def test_clients_read_add_and_change_things_to_do(settings: Settings) -> None:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        thread = (await client.post("/api/threads", json={})).json()["id"]
        path = f"/api/threads/{thread}/todos"
        assert (await client.get(path)).json() == {"items": [], "nextCursor": None}
        first = [{"id": "a", "title": "Look"}, {"title": "Leap", "status": "blocked", "owner": "ann"}]
        items = (await client.post(path, json={"items": first})).json()["items"]
        assert [(it["title"], it["status"], it["owner"]) for it in items] == [
            ("Look", "pending", "user:local"), ("Leap", "blocked", "ann"),
        ]  # fmt: skip
        changed = {"items": [{"id": "a", "status": "done"}, {"id": items[1]["id"], "owner": "bob"}]}
        items = (await client.post(path, json=changed)).json()["items"]
        assert [(it["title"], it["status"], it["owner"]) for it in items] == [
            ("Look", "done", "user:local"), ("Leap", "blocked", "bob"),
        ]  # fmt: skip
        events = (await client.get(f"/api/threads/{thread}/events", params={"type": "runtime.todos.updated"})).json()
        assert [event["actor"] for event in events["items"]] == ["user:local", "user:local"]
        wrong = [
            {"items": [{"id": "new"}]},
            {"items": [{"id": "a"}, {"id": "a"}]},
            {"items": [{"title": "x" * 500} for _ in range(30)]},
        ]
        for body in wrong:
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "TODO_INVALID"), body
        only = await client.post(path, json={"mode": "replace", "items": [{"id": "z", "title": "Rest"}]})
        assert [it["id"] for it in only.json()["items"]] == ["z"]
        assert (await client.get("/api/threads/thr_none/todos")).status_code == 404
