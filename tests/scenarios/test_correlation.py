"""From a request's name to its run and back: the first event of a run says which request asked for it."""

from typing import Any

import httpx2
import pytest


async def _context(client: httpx2.AsyncClient, run_id: str) -> Any:
    first = (await client.get(f"/api/runs/{run_id}/events", params={"limit": 1})).json()["items"][0]
    assert first["type"] == "runtime.request.queued"
    return first["payload"].get("traceContext")


@pytest.mark.requirement("HK-12")
async def test_every_way_to_submit_keeps_the_request_s_name(client: httpx2.AsyncClient) -> None:
    session = (await client.post("/api/sessions", json={"model": "echo"})).json()["session"]["sessionId"]
    said = [{"role": "user", "content": "x"}]
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/api/runs", {"agent": "echo", "input": "x"}),
        (f"/api/threads/{session}/messages", {"agent": "echo", "input": "x"}),
        (f"/api/sessions/{session}/messages", {"text": "x"}),
        ("/api/tools/clock/invoke", {"arguments": {}}),
        ("/v1/chat/completions", {"model": "echo", "messages": said}),
        ("/v1/responses", {"model": "echo", "input": "x"}),
    ]
    for number, (path, body) in enumerate(asked):
        answer = await client.post(path, json=body, headers={"x-request-id": f"order-{number}"})
        assert answer.is_success, (path, answer.text)
        accepted = answer.json()
        run_id = (
            answer.headers.get("x-holdfast-run-id") or accepted.get("turnId") or accepted.get("runId") or accepted["id"]
        )
        assert await _context(client, run_id) == {"requestId": f"order-{number}"}, path
        if path == "/api/runs":
            again = await client.post(f"/api/runs/{run_id}/rerun", json={}, headers={"x-request-id": "again"})
            assert await _context(client, again.json()["id"]) == {"requestId": "again"}


@pytest.mark.requirement("HK-12")
async def test_a_request_without_a_name_is_given_one_in_addition_to_its_trace(client: httpx2.AsyncClient) -> None:
    parent = f"00-{'a1' * 16}-{'b2' * 8}-01"
    for path, body in (
        ("/api/runs", {"agent": "echo", "input": "x"}),
        ("/v1/responses", {"model": "echo", "input": "x"}),
    ):
        answer = await client.post(path, json=body, headers={"traceparent": parent})
        run_id = answer.headers.get("x-holdfast-run-id") or answer.json()["id"]
        named = answer.headers["x-request-id"]
        assert named.startswith("req_")
        assert await _context(client, run_id) == {"traceparent": parent, "requestId": named}
