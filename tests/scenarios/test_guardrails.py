"""Guardrails through the front door: each kind, stage and action, and what happens when a rule cannot be asked."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import create_session, reached, say
from tests.scenarios.guarded import KNOWN_SECRET, make_guarded_workspace
from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess

TRIGGERED: Final = "runtime.guardrail.triggered"
DENIED: Final = "GUARDRAIL_DENIED"
MAIL: Final = "joe@example.com"


@pytest.fixture(scope="module")
def guarded(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    workspace = make_guarded_workspace(tmp_path_factory.mktemp("guarded") / "workspace")
    variables = {"SCENARIO_SECRET": KNOWN_SECRET}
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, variables)
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def client(guarded: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=guarded.url, timeout=60) as client:
        yield client


async def ran(client: httpx2.AsyncClient, agent: str, text: str, **more: Any) -> dict[str, Any]:
    answer = await client.post("/api/runs?wait=20", json={"agent": agent, "input": text, **more})
    assert answer.status_code in (200, 202), answer.text
    run: dict[str, Any] = answer.json()
    return run


async def events(client: httpx2.AsyncClient, run: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/api/runs/{run['id']}/events?limit=1000")).json()["items"]
    return found


async def verdicts(client: httpx2.AsyncClient, run: dict[str, Any]) -> list[dict[str, Any]]:
    return [event["payload"] for event in await events(client, run) if event["type"] == TRIGGERED]


def _said(found: list[dict[str, Any]]) -> str:
    signals = [event["payload"]["event"] for event in found if event["type"] == "runtime.adapter.event"]
    return "".join(signal.get("text", "") for signal in signals)


def after_input(found: list[dict[str, Any]]) -> str:
    """All that was stored of the run but the request itself."""
    return str([event["payload"] for event in found if event["type"] != "runtime.request.queued"])


# -- stages and actions ----------------------------------------------------------------------------------


@pytest.mark.requirement("HK-17", "HK-18")
async def test_an_input_is_redacted_before_the_model_sees_it_and_for_later_turns(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "redacts_input", f"Write to {MAIL} today")
    assert run["output"] == "Write to [REDACTED:email] today"
    assert MAIL not in after_input(await events(client, run))
    found = await verdicts(client, run)
    assert [(v["guardrail"], v["stage"], v["action"], v["blocked"]) for v in found] == [
        ("no_pii", "input", "redact", False)
    ]
    assert found[0]["positions"] == [{"path": "", "start": 9, "end": 9 + len(MAIL), "label": "email"}]
    again = await ran(client, "redacts_input", "And now?", threadId=run["threadId"])
    requested = [e["payload"] for e in await events(client, again) if e["type"] == "runtime.model.requested"]
    assert MAIL not in str(requested) and "[REDACTED:email]" in str(requested)


@pytest.mark.requirement("HK-17", "HK-18")
async def test_a_blocked_input_reaches_no_model_and_no_later_turn(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "blocks_input", f"Write to {MAIL}")
    assert (run["status"], run["error"]["code"], run["error"]["message"]) == (
        "failed",
        DENIED,
        "No personal data, please.",
    )
    assert "runtime.model.requested" not in [event["type"] for event in await events(client, run)]
    again = await ran(client, "blocks_input", "And now?", threadId=run["threadId"])
    assert again["output"] == "And now?" and MAIL not in str(await events(client, again))


@pytest.mark.requirement("HK-17")
async def test_a_message_to_a_running_run_passes_the_same_rules(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "asks_input", f"Write to {MAIL}")
    steered = {"command": "steer", "arguments": {"message": "the other is ann@example.com"}}
    answer = await client.post(f"/api/runs/{run['id']}/commands", json=steered)
    assert answer.status_code in (200, 202), answer.text
    await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": "approve"})
    waiting = await reached(client, run["id"], "waiting", "completed", "failed")
    assert waiting["status"] == "waiting"  # for the second question, about what was said on the way
    await client.post(f"/api/interrupts/{waiting['waitingOn'][0]}/answer", json={"decision": "deny"})
    ended = await reached(client, run["id"], "completed", "failed")
    assert (ended["status"], ended["error"]["code"]) == ("failed", DENIED)


@pytest.mark.requirement("HK-17", "HK-18")
async def test_an_output_is_redacted_in_every_event(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "redacts", f"Mail {MAIL} about project apollo now")
    assert run["output"] == "Mail [REDACTED:email] about [REDACTED:codename] now"
    stored = [e for e in await events(client, run) if e["type"] not in ("runtime.request.queued",)]
    assert all(MAIL not in str(e) and "apollo" not in str(e) for e in stored if e["type"] != "runtime.model.requested")
    assert {v["guardrail"] for v in await verdicts(client, run)} == {"no_pii", "codename"}


@pytest.mark.requirement("HK-17")
async def test_a_blocked_output_ends_the_run_and_is_stored_nowhere(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "blocks", f"Well then {MAIL} is it")
    assert (run["status"], run["error"]["code"]) == ("failed", DENIED)
    found = await events(client, run)
    said = _said(found)
    assert said == "Well then "
    assert [e["payload"]["abandoned"] for e in found if e["type"] == "runtime.model.failed"] == [True]
    again = await ran(client, "blocks", "Hello", threadId=run["threadId"])
    assert again["output"] == "Hello"


@pytest.mark.requirement("HK-17")
async def test_a_rule_with_a_reply_answers_instead_of_failing(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "replies", "The election is near")
    assert (run["status"], run["output"]) == ("completed", "Let us talk about the weather.")
    assert [v["blocked"] for v in await verdicts(client, run)] == [True]
    fine = await ran(client, "replies", "The selection is near")
    assert fine["output"] == "The selection is near" and not await verdicts(client, fine)


@pytest.mark.requirement("HK-17")
async def test_a_flag_changes_nothing_and_is_recorded(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "flags", f"Mail {MAIL}")
    assert run["output"] == f"Mail {MAIL}"
    assert [(v["action"], v["blocked"], v["count"]) for v in await verdicts(client, run)] == [("flag", False, 1)]


@pytest.mark.requirement("HK-17")
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_person_decides_about_an_output_before_it_leaves(client: httpx2.AsyncClient, decision: str) -> None:
    run = await ran(client, "asks", f"Mail {MAIL}")
    assert run["status"] == "waiting"
    before = await events(client, run)
    assert not [e for e in before if e["type"] == "runtime.model.completed" or "text" in e["payload"].get("event", ())]
    raised = next(e["payload"] for e in before if e["type"] == "runtime.interrupt.raised")
    assert raised["arguments"]["completed"]["text"] == f"Mail {MAIL}" and raised["kind"] == "approval"
    await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": decision})
    ended = await reached(client, run["id"], "completed", "failed")
    found = await events(client, run)
    if decision == "approve":
        assert ended["output"] == f"Mail {MAIL}"
        said = _said(found)
        assert said == f"Mail {MAIL}"
        assert len([e for e in found if e["type"] == "runtime.model.requested"]) == 1  # not asked again
    else:
        assert (ended["status"], ended["error"]["code"]) == ("failed", DENIED)
        assert not [
            e for e in found if e["type"] == "runtime.model.completed" or "text" in e["payload"].get("event", ())
        ]


@pytest.mark.requirement("HK-17")
async def test_nobody_is_asked_where_the_caller_wants_no_questions(client: httpx2.AsyncClient) -> None:
    session = await create_session(client)
    run_id = await say(client, session, f"Mail {MAIL}", model="asks", approvalPolicy="never")
    run = await reached(client, run_id, "completed", "failed", "waiting")
    assert (run["status"], run["error"]["code"]) == ("failed", DENIED)


# -- tools -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("HK-17", "HK-18")
async def test_arguments_and_results_are_redacted_before_they_are_used_and_stored(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "tools_redact", MAIL)
    found = await events(client, run)
    invoked = next(e["payload"] for e in found if e["type"] == "runtime.tool.invoked")
    assert invoked["arguments"] == {"name": "[REDACTED:email]"}
    other = await ran(client, "tools_redact", "joe")
    resulted = next(e["payload"] for e in await events(client, other) if e["type"] == "runtime.tool.resulted")
    assert resulted["output"] == {"known": True, "mail": "[REDACTED:email]", "name": "joe"}
    assert MAIL not in str(await events(client, other))


@pytest.mark.requirement("HK-17")
async def test_the_text_of_a_failed_tool_is_a_result_too(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "tools_redact", "fails")
    assert MAIL not in str(await events(client, run)) and "[REDACTED:email]" in run["output"]


@pytest.mark.requirement("HK-17", "OS-I3")
@pytest.mark.parametrize(("agent", "given", "called"), [("tools_block", MAIL, False), ("results_block", "joe", True)])
async def test_a_blocked_call_or_result_ends_the_run(
    client: httpx2.AsyncClient, agent: str, given: str, called: bool
) -> None:
    run = await ran(client, agent, given)
    assert (run["status"], run["error"]["code"]) == ("failed", DENIED)
    found = await events(client, run)
    assert ("runtime.tool.invoked" in [e["type"] for e in found]) is called
    results = [e["payload"] for e in found if e["type"] == "runtime.tool.resulted"]
    assert [(r["ok"], r["error"]["code"], "output" in r) for r in results] == [(False, DENIED, False)]


@pytest.mark.requirement("HK-17")
@pytest.mark.parametrize(("agent", "given"), [("tools_ask", MAIL), ("results_ask", "joe")])
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_person_decides_about_a_call_or_its_result(
    client: httpx2.AsyncClient, agent: str, given: str, decision: str
) -> None:
    run = await ran(client, agent, given)
    assert run["status"] == "waiting"
    await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": decision})
    ended = await reached(client, run["id"], "completed", "failed")
    invoked = [e for e in await events(client, run) if e["type"] == "runtime.tool.invoked"]
    if decision == "approve":
        assert ended["status"] == "completed" and f"{given.partition('@')[0]}@example.com" in ended["output"]
    elif agent == "tools_ask":
        assert not invoked and "APPROVAL_DENIED" in ended["output"]  # the model learns that the call was not approved
    else:
        assert (ended["status"], ended["error"]["code"]) == ("failed", DENIED)
    assert len(invoked) == (0 if (agent, decision) == ("tools_ask", "deny") else 1)


async def test_output_rules_cover_the_arguments_that_a_model_streams(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "output_tools", MAIL)
    stored = [e for e in await events(client, run) if e["type"] not in ("runtime.request.queued",)]
    assert MAIL not in str([e for e in stored if e["type"] != "runtime.model.requested"])
    invoked = next(e["payload"] for e in stored if e["type"] == "runtime.tool.invoked")
    assert invoked["arguments"] == {"name": "[REDACTED:email]"}


# -- fail closed -------------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-I3", "HK-17")
@pytest.mark.parametrize(
    ("agent", "given", "error"),
    [
        ("raises", "x", "it failed with RuntimeError"),
        ("raises_input", "x", "it failed with RuntimeError"),
        ("late", "x", "it did not answer in time"),
        ("odd", "x", "it failed with TypeError"),
        ("nowhere", "x", "it did not say which texts of the content are to be redacted"),
        ("broken_cel", "x", "it failed with NeitherTrueNorFalse"),
        ("fair", "gibberish", "it failed with StepFailed"),
        ("fair", "outage", "it failed with StepFailed"),
    ],
)
async def test_a_rule_that_cannot_answer_blocks_whatever_its_action(
    client: httpx2.AsyncClient, agent: str, given: str, error: str
) -> None:
    run = await ran(client, agent, given)
    assert (run["status"], run["error"]["code"]) == ("failed", DENIED)
    assert [(v["error"], v["blocked"]) for v in await verdicts(client, run)] == [(error, True)]
    assert "secret detail" not in str(await events(client, run))


@pytest.mark.requirement("HK-17")
@pytest.mark.parametrize(
    ("agent", "bad", "good"),
    [
        ("short", "x" * 50, "brief"),
        ("as_json", "{}", '{"ok":1}'),
        ("fair", "take a bribe", "a fair offer"),
        ("fair_input", "take a bribe", "a fair offer"),
        ("loud", "HELLO", "hello"),
    ],
)
async def test_each_kind_of_judge_blocks_what_it_is_about_and_nothing_else(
    client: httpx2.AsyncClient, agent: str, bad: str, good: str
) -> None:
    refused, passed = await ran(client, agent, bad), await ran(client, agent, good)
    assert (refused["status"], refused["error"]["code"]) == ("failed", DENIED)
    assert (passed["status"], passed["output"]) == ("completed", good)
    assert not await verdicts(client, passed)
    if not agent.endswith("_input") and agent != "loud":
        assert bad not in after_input([e for e in await events(client, refused) if "model.req" not in e["type"]])


@pytest.mark.requirement("HK-17")
async def test_what_a_model_is_asked_about_content_is_not_stored(client: httpx2.AsyncClient) -> None:
    run = await ran(client, "fair", "take a bribe")
    asked = [e["payload"] for e in await events(client, run) if e["payload"].get("role") == "guardrail"]
    assert len(asked) == 2 and "messages" not in asked[0] and "bribe" not in str(asked[1])
