"""Corrections of events: recorded as events of their own, by operators; what was stored stays as it was."""

import httpx2
import pytest

from tests.clients import submit


@pytest.mark.requirement("OS-L4", "SH-13")
async def test_an_event_is_corrected_by_another_one_and_stays_as_it_was(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "echo", "hello", wait=10)
    path = f"/api/threads/{run['threadId']}"
    before = (await client.get(f"{path}/events")).json()["items"]
    wrong = next(event for event in before if event["type"] == "runtime.request.completed")
    body = {"seq": wrong["seq"], "reason": "The speaker said otherwise.", "correction": {"output": "goodbye"}}
    answer = await client.post(f"{path}/amendments", json=body)
    assert answer.status_code == 201, answer.text
    amended = answer.json()
    assert (amended["type"], amended["runId"]) == ("runtime.event.amended", None)
    assert amended["payload"] == {
        "amendsSeq": wrong["seq"], "amendsId": wrong["id"],
        "reason": "The speaker said otherwise.", "correction": {"output": "goodbye"},
    }  # fmt: skip
    after = (await client.get(f"{path}/events")).json()["items"]
    assert after == [*before, amended]
    assert (await client.get(f"/api/runs/{run['id']}")).json()["output"] == "hello"
    for wanted, code in (
        ({**body, "seq": 10_000}, "INVALID_REQUEST"),
        ({**body, "seq": 0}, "INVALID_REQUEST"),
        ({**body, "reason": ""}, "INVALID_REQUEST"),
        ({**body, "correction": ["x"]}, "INVALID_REQUEST"),
        ({**body, "correction": {"x": "y" * 20_000}}, "INVALID_REQUEST"),
    ):
        refused = await client.post(f"{path}/amendments", json=wanted)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, code), wanted
    assert (await client.post("/api/threads/sys_ledger/amendments", json=body)).status_code in (403, 404, 409)
    assert (await client.post("/api/threads/thr_none/amendments", json=body)).status_code == 404


@pytest.mark.requirement("S7")
def test_amending_is_for_operators() -> None:
    from app.core.access import ROLES

    assert {role for role, scopes in ROLES.items() if "audit:amend" in scopes} == {
        "operator", "admin", "owner", "system",
    }  # fmt: skip
