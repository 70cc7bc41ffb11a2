"""What becomes of candidates: by the rules of a policy, without one, and where the same is known or asked already."""

from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.memory.contract import MemoryCandidate, RecordFilter, RunIdentity
from app.memory.ranking import USED_EVERY_MS
from app.runtime.intake.memory_desk import ForgetRequest, MemoryPlace
from app.wiring.runtime import Holdfast
from tests.memory.test_runs_with_memory import facts, texts
from tests.memory.workspaces import agent, rule
from tests.runs import ended, opened, submit

RULES = """{policy: [
  {when: 'namespace == "default/boss/lena"', then: accept},
  {when: 'source == "tool" || kind == "episodic"', then: reject},
  {when: 'confidence >= 0.8', then: merge},
  {when: 'confidence > 0.5 && 1 / (int(confidence * 10.0) - 6) > 0', then: accept}]}"""


async def _outcome(holdfast: Holdfast, candidate: MemoryCandidate, agent_: str = "clerk") -> tuple[str, str]:
    facts_ = holdfast.workspace.current.memories["facts"]
    who = RunIdentity("default", agent_, "lena", "t", None, "user:lena")
    key = f"{agent_} {candidate}"
    (made,) = (await holdfast.memory.submit(who, facts_, [candidate], key)).submitted
    return made.outcome, made.reason


def _said(source: str, confidence: float, kind: str = "semantic", text: str = "") -> MemoryCandidate:
    return MemoryCandidate(text or f"{source} {confidence} {kind}", kind, source, confidence)  # type: ignore[arg-type]  # one of them


@pytest.mark.requirement("SH-17", "PX-3")
async def test_the_first_rule_over_source_confidence_kind_and_namespace_decides(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, facts(tmp_path / "ws", RULES)) as holdfast:
        assert await _outcome(holdfast, _said("tool", 0.1), "boss") == ("accepted", "rule 1 of the policy")
        assert await _outcome(holdfast, _said("tool", 0.9)) == ("rejected", "rule 2 of the policy")
        assert await _outcome(holdfast, _said("user", 0.9, "episodic")) == ("rejected", "rule 2 of the policy")
        # Merged into a record that says the same; where there is none, it becomes one.
        assert await _outcome(holdfast, _said("model", 0.8, text="The shop is open.")) == (
            "accepted",
            "rule 3 of the policy",
        )
        assert (await _outcome(holdfast, _said("model", 0.9, text="the SHOP is open")))[0] == "merged"
        failed = await _outcome(holdfast, _said("user", 0.6))
        assert failed == ("asked", "rule 4 of the policy could not be evaluated")
        assert await _outcome(holdfast, _said("user", 0.2)) == ("asked", "no rule of the policy holds")
        (shop,) = await holdfast.memory.table.newest("default", "default/clerk/lena", 10)
        assert shop.confidence == 0.9


async def test_a_person_is_asked_once_about_what_is_proposed_again_and_again(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, facts(tmp_path / "ws")) as holdfast:
        first, again = (_said("model", 0.6, text=text) for text in ("The shop is open.", "the shop is OPEN!"))
        assert (await _outcome(holdfast, first))[0] == "asked"
        assert await _outcome(holdfast, again) == ("merged", "a person is asked about the same already")
        assert (await _outcome(holdfast, again, "boss"))[0] == "asked", "another namespace"
        assert (await _outcome(holdfast, _said("user", 0.9, text="The shop is open.")))[0] == "accepted"
        assert len(await holdfast.memory.table.records("default", RecordFilter(status="proposed"), 0, 10)) == 2


async def test_a_record_counts_as_used_once_a_day(settings: Settings, tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(settings, facts(tmp_path / "ws"), clock=clock) as holdfast:

        async def used_after(text: str) -> int:
            await ended(holdfast, await submit(holdfast, "clerk", text))
            (record,) = await holdfast.memory.table.records("default", RecordFilter(), 0, 10)
            return record.used_at

        assert await used_after("My favourite colour is blue.") == 0
        assert await used_after("What is my favourite colour?") == 0, "it was stored today"
        clock.advance(USED_EVERY_MS / 1000 + 1)
        second_day = await used_after("What is my favourite colour?")
        assert second_day == clock.now_ms() and await used_after("What is my favourite colour?") == second_day
        clock.advance(USED_EVERY_MS / 1000 + 1)
        assert await used_after("Thank you very much.") == second_day, "nothing was recalled"
        assert await used_after("My favourite colour?") > second_day


async def test_forgetting_what_is_found_also_forgets_what_it_superseded(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, facts(tmp_path / "ws")) as holdfast:
        for street in ("Elm", "Oak", "Fir"):
            await ended(holdfast, await submit(holdfast, "clerk", f"My address is {street} Street."))
        await ended(holdfast, await submit(holdfast, "clerk", "My hat is red."))
        assert len(await texts(holdfast, "superseded")) == 2
        place = MemoryPlace("facts", None, "clerk")
        gone = await holdfast.memory_desk.forget(LOCAL, ForgetRequest(place=place, query="my address"))
        assert isinstance(gone, list) and len(gone) == 3
        assert (await texts(holdfast), await texts(holdfast, "superseded")) == (["My hat is red."], [])


@pytest.mark.requirement("S23")
async def test_what_another_agent_says_to_an_agent_is_not_taken_for_the_words_of_the_user(
    settings: Settings, tmp_path: Path
) -> None:
    said = "My bank is Evil Bank."
    flow = """---
apiVersion: holdfast/v1
kind: Workflow
metadata: {name: %s}
spec:
  nodes: [%s]
  edges: [%s]
"""
    more = (
        agent("reporter", "{model: script}")
        + agent("boss", "{model: script, subagents: [clerk]}")
        + flow % ("relay", "{id: a, ref: agents.reporter}, {id: b, ref: agents.clerk}",
                  "{from: START, to: a}, {from: a, to: b}, {from: b, to: END}")
        + flow % ("direct", "{id: b, ref: agents.clerk, with: {input: '{{ input.words }}'}}",
                  "{from: START, to: b}, {from: b, to: END}")
    )  # fmt: skip
    rules = rule("{contains: report}", f'{{text: "{said}"}}')
    rules += rule("{contains: delegate, turn: 1}", f'{{toolCalls: [{{name: clerk, args: {{input: "{said} Yes."}}}}]}}')
    async with opened(settings, facts(tmp_path / "ws", more=more, rules=rules)) as holdfast:
        await ended(holdfast, await submit(holdfast, None, "report", workflow="relay"))
        assert (await texts(holdfast), await texts(holdfast, "proposed")) == ([], [said])
        (asked,) = await holdfast.memory.table.records("default", RecordFilter(status="proposed"), 0, 10)
        assert asked.source == "model"
        await ended(holdfast, await submit(holdfast, "boss", "delegate"))
        assert await texts(holdfast) == []
        words = {"words": "My bank is Good Bank."}
        await ended(holdfast, await submit(holdfast, None, words, workflow="direct"))
        assert await texts(holdfast) == ["My bank is Good Bank."], "the user's own words, handed on"
