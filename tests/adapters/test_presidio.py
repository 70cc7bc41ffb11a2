"""Guardrails of kind `presidio` with the real Presidio: what it finds without a trained model, without the internet."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.policy.contract import About
from app.policy.guardrails.contract import Found, Passed, Subject
from app.policy.guardrails.kinds.presidio import PresidioConfig, PresidioJudge
from tests.scenarios.guarded import agent, make_guarded_workspace, rule
from tests.server import ServerProcess

CARD, MAIL, IBAN = "4111 1111 1111 1111", "joe@example.com", "DE89 3704 0044 0532 0130 00"
RULES = (
    rule("analyst", "presidio", "redact", config={"entities": ["CREDIT_CARD", "EMAIL_ADDRESS", "IBAN_CODE"]})
    + rule("strict", "presidio", "block", message="No addresses, please.", config={"entities": ["EMAIL_ADDRESS"]})
    + agent("analysed", output=["analyst"])
    + agent("analysed_input", input=["strict"])
    + agent("analysed_tools", "caller", ("look_up",), toolArguments=["strict"], toolResults=["analyst"])
)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def refuse(*where: Any, **_: Any) -> Any:
        asked.append(str(where))
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", lambda _self, address: refuse(address))
    return asked


def judged(judge: PresidioJudge, content: Any) -> Any:
    return asyncio.run(judge.judge(Subject("input", content, About("run_x"))))


@pytest.mark.requirement("HK-18")
def test_it_finds_personal_data_and_asks_nothing_of_the_internet(offline: list[str]) -> None:
    judge = PresidioJudge(PresidioConfig(entities=("CREDIT_CARD", "EMAIL_ADDRESS", "IBAN_CODE")))
    text = f"Pay with {CARD} or {IBAN}, then write to {MAIL}."
    found = judged(judge, {"said": [text]})
    assert isinstance(found, Found)
    assert {(one.path, text[one.start : one.end], one.label) for one in found.positions} == {
        ("/said/0", CARD, "credit_card"),
        ("/said/0", IBAN, "iban_code"),
        ("/said/0", MAIL, "email_address"),
    }
    assert judged(judge, "Pay on Monday.") == Passed()
    assert offline == []


def test_it_forgets_the_words_that_it_saw(offline: list[str]) -> None:
    judge = PresidioJudge(PresidioConfig())
    before = len(judge._pipeline.vocab.strings)
    for number in range(20):
        judged(judge, " ".join(f"word{number}x{other}" for other in range(50)))
    assert len(judge._pipeline.vocab.strings) - before < 100
    assert offline == []


def test_an_entity_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="UNICORN"):
        PresidioJudge(PresidioConfig(entities=("UNICORN",)))


@pytest.fixture
async def client(tmp_path: Path, migrated_file: Path) -> AsyncIterator[httpx2.AsyncClient]:
    root, data = make_guarded_workspace(tmp_path / "workspace", RULES), tmp_path / "data"
    data.mkdir()
    shutil.copy(migrated_file, data / "holdfast.db")
    server = await asyncio.to_thread(ServerProcess.start, data, None, root)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
            yield client
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.requirement("HK-17", "HK-18")
async def test_its_rules_hold_for_a_run_at_every_stage(client: httpx2.AsyncClient) -> None:
    async def ran(name: str, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        answer = await client.post("/api/runs?wait=25", json={"agent": name, "input": text})
        assert answer.status_code == 200, answer.text
        run = answer.json()
        return run, (await client.get(f"/api/runs/{run['id']}/events?limit=500")).json()["items"]

    run, events = await ran("analysed", f"my card is {CARD}")
    assert run["output"] == "my card is [REDACTED:credit_card]"
    told = [event["payload"] for event in events if event["type"] == "runtime.guardrail.triggered"]
    assert [(one["guardrail"], one["action"]) for one in told] == [("analyst", "redact")]
    assert CARD not in str([event for event in events if event["type"].startswith("runtime.adapter")])

    run, events = await ran("analysed_input", f"write to {MAIL}")
    assert (run["status"], run["error"]["message"]) == ("failed", "No addresses, please.")
    assert not [event for event in events if event["type"] == "runtime.model.requested"]

    run, events = await ran("analysed_tools", "joe")
    assert "[REDACTED:email_address]" in run["output"] and MAIL not in str(events)
    run, events = await ran("analysed_tools", MAIL)
    assert run["error"]["code"] == "GUARDRAIL_DENIED"
    assert not [event for event in events if event["type"] == "runtime.tool.invoked"]
