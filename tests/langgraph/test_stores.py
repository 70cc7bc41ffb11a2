"""LangGraph's store on our memory: items by key, found by fields and words, gone when deleted, apart by tenant."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.langgraph.frames import new_thread
from tests.protocols.auth.auth_server import open_auth_server

pytestmark = pytest.mark.requirement("PX-5")


async def _place(client: httpx2.AsyncClient) -> list[str]:
    return ["docs", (await new_thread(client)).replace("_", "")]


async def _put(client: httpx2.AsyncClient, namespace: list[str], key: str, value: Any, **more: Any) -> None:
    answer = await client.put("/store/items", json={"namespace": namespace, "key": key, "value": value, **more})
    assert answer.status_code == 204, answer.text


async def _get(client: httpx2.AsyncClient, namespace: list[str], key: str) -> Any:
    answer = await client.get("/store/items", params={"namespace": ".".join(namespace), "key": key})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _search(client: httpx2.AsyncClient, **body: Any) -> list[Any]:
    answer = await client.post("/store/items/search", json=body)
    assert answer.status_code == 200, answer.text
    items: list[Any] = answer.json()["items"]
    return items


async def test_an_item_is_what_was_put_last_under_its_key(client: httpx2.AsyncClient) -> None:
    place = await _place(client)
    await _put(client, place, "a", {"title": "Tides", "n": 1})
    first = await _get(client, place, "a")
    assert first["namespace"] == place and first["key"] == "a" and first["value"] == {"title": "Tides", "n": 1}
    # Keys and values that differ only in case and punctuation are others.
    await _put(client, place, "A", {"title": "Tides", "n": 1})
    await _put(client, place, "a", {"title": "tides!", "n": 1})
    again = await _get(client, place, "a")
    assert again["value"]["title"] == "tides!" and again["created_at"] == first["created_at"]
    assert (await _get(client, place, "A"))["value"]["title"] == "Tides"
    assert await _get(client, place, "b") is None and await _get(client, [*place, "deeper"], "a") is None
    gone = await client.request("DELETE", "/store/items", json={"namespace": place, "key": "a"})
    assert gone.status_code == 204 and await _get(client, place, "a") is None
    assert [item["key"] for item in await _search(client, namespace_prefix=place)] == ["A"]


async def test_items_are_found_by_prefix_fields_and_words(client: httpx2.AsyncClient) -> None:
    place = await _place(client)
    await _put(client, [*place, "x"], "one", {"text": "the harbour at low tide", "n": 1, "tags": {"kind": "note"}})
    await _put(client, [*place, "x"], "two", {"text": "a lighthouse in the fog", "n": 2})
    await _put(client, [*place, "xy"], "three", {"text": "low tide again", "n": 3}, index=False)
    assert [item["key"] for item in await _search(client, namespace_prefix=place)] == ["three", "two", "one"]
    assert [item["key"] for item in await _search(client, namespace_prefix=[*place, "x"])] == ["two", "one"]
    assert [item["key"] for item in await _search(client, namespace_prefix=place, limit=1, offset=1)] == ["two"]
    assert [item["key"] for item in await _search(client, namespace_prefix=place, filter={"n": {"$gte": 2}})] == [
        "three", "two",
    ]  # fmt: skip
    assert [i["key"] for i in await _search(client, namespace_prefix=place, filter={"tags": {"kind": "note"}})] == [
        "one"
    ]
    found = await _search(client, namespace_prefix=place, query="low tide")
    assert [item["key"] for item in found] == ["one"] and 0 < found[0]["score"] <= 1
    names = await client.post("/store/namespaces", json={"prefix": place})
    assert names.json() == {"namespaces": [[*place, "x"], [*place, "xy"]]}
    names = await client.post("/store/namespaces", json={"prefix": ["docs", "*"], "suffix": ["xy"]})
    assert [*place, "xy"] in names.json()["namespaces"] and [*place, "x"] not in names.json()["namespaces"]
    names = await client.post("/store/namespaces", json={"prefix": place, "max_depth": 2})
    assert names.json() == {"namespaces": [place]}


async def test_an_item_is_a_memory_record_of_its_tenant(client: httpx2.AsyncClient) -> None:
    place = await _place(client)
    await _put(client, place, "fact", {"text": "kept as a record"})
    url = str(client.base_url).removesuffix("/langgraph/")
    async with httpx2.AsyncClient(base_url=url, timeout=30, verify=False) as root:
        namespace = f"default/store/docs/{place[1]}"
        (record,) = (await root.get("/api/memory/records", params={"namespace": namespace})).json()["items"]
        assert record["memory"] == "store" and record["status"] == "accepted"
        assert record["attributes"]["value"] == {"text": "kept as a record"}
        secret = {"namespace": place, "key": "k", "value": {"token": "sk-ant-api03-" + "a1B2" * 24}}
        refused = await client.put("/store/items", json=secret)
        assert refused.status_code == 422 and refused.json()["code"] == "MEMORY_REJECTED"
        await root.delete(f"/api/memory/records/{record['id']}")
    assert await _get(client, place, "fact") is None


@pytest.mark.parametrize(
    "body",
    [
        {"namespace": ["a"], "key": "k"}, {"namespace": ["a"], "key": "k", "value": 1},
        {"namespace": ["a.b"], "key": "k", "value": {}}, {"namespace": [""], "key": "k", "value": {}},
        {"namespace": ["a"] * 17, "key": "k", "value": {}}, {"namespace": ["a"], "key": "", "value": {}},
        {"namespace": ["a"], "key": "k" * 501, "value": {}}, {"namespace": ["x" * 201], "key": "k", "value": {}},
        {"namespace": ["a"], "key": "k", "value": {"a": "x" * 70_000}}, {"namespace": "a", "key": "k", "value": {}},
        {"namespace": ["a"], "key": "k", "value": {}, "ttl": -1}, {"namespace": ["a"], "key": 1, "value": {}},
    ],
)  # fmt: skip
async def test_what_is_no_item_is_refused(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    answer = await client.put("/store/items", json=body)
    assert answer.status_code in (413, 422) and "detail" in answer.json()


@pytest.mark.parametrize(
    "body",
    [{"limit": -1}, {"filter": 1}, {"filter": {"a": {"$near": 1}}}, {"query": 7}, {"namespace_prefix": [1]}],
)
async def test_a_search_with_nonsense_is_refused(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    await _put(client, ["nonsense"], "a", {"a": 1})
    assert (await client.post("/store/items/search", json=body)).status_code == 422


async def test_labels_with_slashes_and_dots_reach_into_nobody_elses_namespace(client: httpx2.AsyncClient) -> None:
    place = await _place(client)
    await _put(client, [*place, "a/b"], "k", {"of": "one label"})
    assert await _get(client, [*place, "a", "b"], "k") is None
    assert (await _get(client, [*place, "a/b"], "k"))["namespace"] == [*place, "a/b"]
    await _put(client, [*place, ".."[:0] + "%2e%2e"], "k", {"of": "another"})
    assert [item["value"]["of"] for item in await _search(client, namespace_prefix=[*place, "%2e%2e"])] == ["another"]


@pytest.mark.requirement("PX-7")
async def test_items_and_crons_of_another_tenant_are_not_there(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        theirs, ours = await server.caller("admin", "theirs"), await server.caller("admin", "ours")
        item = {"namespace": ["docs"], "key": "k", "value": {"text": "secret plan"}}
        assert (await theirs.put("/langgraph/store/items", json=item)).status_code == 204
        cron = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {"messages": "secret plan"}}
        made = (await theirs.post("/langgraph/runs/crons", json=cron)).json()
        where = {"namespace": "docs", "key": "k"}
        assert (await ours.get("/langgraph/store/items", params=where)).json() is None
        assert (await ours.post("/langgraph/store/items/search", json={"query": "plan"})).json() == {"items": []}
        assert (await ours.post("/langgraph/store/namespaces", json={})).json() == {"namespaces": []}
        gone = await ours.request("DELETE", "/langgraph/store/items", json={"namespace": ["docs"], "key": "k"})
        assert gone.status_code == 204
        assert (await ours.post("/langgraph/runs/crons/search", json={})).json() == []
        assert (await ours.delete(f"/langgraph/runs/crons/{made['cron_id']}")).status_code == 404
        changed = await ours.patch(f"/langgraph/runs/crons/{made['cron_id']}", json={"enabled": False})
        assert changed.status_code == 404
        assert (await theirs.get("/langgraph/store/items", params=where)).json()["value"] == item["value"]
        (kept,) = (await theirs.post("/langgraph/runs/crons/search", json={})).json()
        assert kept["enabled"] is True
