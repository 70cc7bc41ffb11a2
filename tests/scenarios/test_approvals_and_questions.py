"""An agent that asks before it acts, over HTTP: the run waits, a person decides, the run goes on."""

import httpx2
import pytest

from tests.clients import reached


async def submitted(client: httpx2.AsyncClient) -> tuple[str, str]:
    answer = await client.post("/api/runs?wait=30", json={"agent": "assistant", "input": "publish it now"})
    # A run that waits for a person is answered at once, as it stands.
    assert answer.status_code == 202 and answer.json()["status"] == "waiting", answer.text
    (interrupt,) = answer.json()["waitingOn"]
    return answer.json()["id"], interrupt


@pytest.mark.requirement("CM-4", "HK-25")
async def test_a_run_waits_is_listed_and_goes_on_after_its_approval(client: httpx2.AsyncClient) -> None:
    run_id, interrupt_id = await submitted(client)
    listed = (await client.get("/api/interrupts?status=open")).json()["items"]
    (mine,) = [item for item in listed if item["id"] == interrupt_id]
    assert (mine["kind"], mine["tool"], mine["runId"]) == ("approval", "publish", run_id)
    answer = await client.post(f"/api/interrupts/{interrupt_id}/answer", json={"decision": "approve"})
    assert answer.status_code == 200 and answer.json()["answeredBy"] == "user:local"
    assert (await reached(client, run_id))["output"] == "It has been published."
    again = await client.post(f"/api/interrupts/{interrupt_id}/answer", json={"decision": "deny"})
    assert again.status_code == 409 and again.json()["error"]["answeredBy"] == "user:local"


@pytest.mark.requirement("CM-4")
async def test_a_wrong_answer_is_refused_and_leaves_the_question_open(client: httpx2.AsyncClient) -> None:
    run_id, interrupt_id = await submitted(client)
    wrong = await client.post(f"/api/interrupts/{interrupt_id}/answer", json={"decision": "perhaps"})
    assert wrong.status_code == 400 and wrong.json()["error"]["code"] == "ANSWER_INVALID"
    assert "perhaps" not in wrong.text
    assert (await client.get(f"/api/runs/{run_id}")).json()["status"] == "waiting"
    missing = await client.post("/api/interrupts/int_nowhere/answer", json={"decision": "deny"})
    assert missing.status_code == 404


@pytest.mark.requirement("G8")
async def test_a_waiting_run_is_cancelled_at_once(client: httpx2.AsyncClient) -> None:
    run_id, interrupt_id = await submitted(client)
    cancelled = (await client.post(f"/api/runs/{run_id}/cancel")).json()
    assert cancelled["status"] == "cancelled" and cancelled["waitingOn"] == []
    late = await client.post(f"/api/interrupts/{interrupt_id}/answer", json={"decision": "approve"})
    assert late.status_code == 409
    listed = (await client.get("/api/interrupts?status=open")).json()["items"]
    assert interrupt_id not in [item["id"] for item in listed]
