"""Hostile LangGraph clients: too much, too deep, nothing that means anything. The server says so and goes on."""

from typing import Any

import httpx2
import pytest

from tests.langgraph.frames import new_thread, run_body
from tests.server import ServerProcess

DEEP = b'{"assistant_id":"helper","input":' + b'{"a":' * 100 + b"1" + b"}" * 101


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 422),
        (b"[]", 422),
        (b'"x"', 422),
        (b"\xff\xfe", 422),
        (DEEP, 422),
        (b'{"assistant_id":"helper","assistant_id":"chief"}', 422),
        (b'{"assistant_id":"helper","input":{"messages":"' + b"x" * 5_000_000 + b'"}}', 413),
    ],
)
async def test_a_body_that_is_too_much_or_no_request_starts_nothing(
    client: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    thread = await new_thread(client)
    for path in (f"/threads/{thread}/runs", f"/threads/{thread}/runs/stream", f"/threads/{thread}/runs/wait"):
        answer = await client.post(path, content=body)
        assert answer.status_code == status and "detail" in answer.json(), (path, answer.text[:200])
    assert (await client.get(f"/threads/{thread}/runs")).json() == []


@pytest.mark.parametrize(
    "body",
    [
        {"limit": 10**9}, {"limit": -1}, {"limit": True}, {"offset": "x"}, {"status": "sleeping"}, {"metadata": 1},
        {"ids": "x"}, {"ids": ["x"] * 2000}, {"sort_by": "colour"}, {"select": [1]},
    ],
)  # fmt: skip
async def test_a_search_with_nonsense_is_refused(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    assert (await client.post("/threads/search", json=body)).status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/threads", {"ttl": {"strategy": "delete", "ttl": 5}}),
        ("POST", "/threads", {"supersteps": [{"updates": []}]}),
        ("POST", "/threads/search", {"extract": {"last": "values.messages[-1]"}}),
        ("PUT", "/store/items", {"namespace": [], "key": "k", "value": {}}),
        ("POST", "/store/items/search", {"namespace_prefix": ["nothing"], "filter": {"n": {"$in": [1]}}}),
    ],
)
async def test_what_would_have_no_effect_is_refused_instead(
    client: httpx2.AsyncClient, method: str, path: str, body: dict[str, Any]
) -> None:
    answer = await client.request(method, path, json=body)
    assert answer.status_code == 422 and "detail" in answer.json(), answer.text


async def test_ids_are_names_and_nothing_else(client: httpx2.AsyncClient) -> None:
    for named in ("..%2f..%2fetc", "a b", "%F0%9F%98%80", "x" * 3000):
        for path in (f"/threads/{named}", f"/threads/{named}/state", f"/threads/{named}/runs/{named}"):
            assert (await client.get(path)).status_code in (403, 404), path
    assert (await client.post("/threads", json={"thread_id": "sys_mine"})).status_code == 403
    assert (await client.post("/threads", json={"thread_id": "a/b"})).status_code == 422
    assert (await client.post("/runs/batch", json=[run_body("x")] * 101)).status_code == 422
    assert (await client.post("/runs/batch", json=[])).status_code == 422


async def test_at_the_root_the_limits_are_the_same(server: ServerProcess, client: httpx2.AsyncClient) -> None:
    """`HOLDFAST_LANGGRAPH_AT_ROOT`: a body over 1 MiB is read there too, and one that is too large refused alike."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as at_root:
        for given, status in (("x" * 2_000_000, 200), ("x" * 33 * 1024 * 1024, 413)):
            body = run_body("hello", context={"note": given})
            answers = [await one.post("/runs/wait", json=body) for one in (client, at_root)]
            assert [answer.status_code for answer in answers] == [status, status]
        assert [set(answer.json()) for answer in answers] == [{"detail", "code"}] * 2
