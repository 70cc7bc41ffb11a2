"""Runs that recall and learn: what is recorded, what the model sees, and who shares it."""

from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.blobs import restored, stored_blobs
from app.memory.contract import RecordFilter
from app.wiring.runtime import Holdfast
from tests.memory.workspaces import agent, memory, model, rule, write
from tests.runs import ended, events_until, opened, payloads, submit

BLUE = rule('{system: "favourite colour is blue"}', '{text: "It is blue."}')


def facts(folder: Path, spec: str = "{type: semantic}", more: str = "", rules: str = BLUE) -> Path:
    return write(folder, model(rules), memory("facts", spec), agent("clerk", "{model: script, memory: [facts]}"), more)


async def texts(holdfast: Holdfast, status: str = "accepted") -> list[str]:
    records = await holdfast.memory.table.records("default", RecordFilter(status=status), 0, 100)
    contents = await holdfast.memory.recollection.contents("default", records)
    return [contents[record.id]["text"] for record in records]


@pytest.mark.requirement("SH-17", "HK-11")
async def test_a_later_run_on_another_thread_is_given_what_the_user_said(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, facts(tmp_path / "ws")) as holdfast:
        said = await submit(holdfast, "clerk", "My favourite colour is blue. What time is it?")
        events = await events_until(holdfast, said)
        assert [event.type for event in events if "memory" in event.type] == [
            "runtime.memory.lifecycle",
            "runtime.memory.recall.completed",
            "runtime.memory.lifecycle",
            "runtime.memory.candidate.submitted",
        ]
        (candidate,) = payloads(events, "memory.candidate.submitted")
        assert candidate["decision"]["outcome"] == "accepted" and candidate["candidate"]["source"] == "user"
        assert "blue" not in str(candidate)
        assert await texts(holdfast) == ["My favourite colour is blue."]

        asked = await submit(holdfast, "clerk", "What is my favourite colour?")
        events = await events_until(holdfast, asked)
        assert (await ended(holdfast, asked)).output == "It is blue."
        (recalled,) = payloads(events, "memory.recall.completed")
        assert recalled["recordIds"] == [candidate["record"]["id"]] and recalled["hook"] == "read-before-plan"
        assert recalled["namespace"] == "default/clerk/local"
        load = stored_blobs(holdfast.store.reader, "default", asked.thread_id)
        assert "My favourite colour is blue." in await restored(recalled["context"], load)


async def test_a_new_fact_supersedes_the_one_it_contradicts_and_the_same_fact_is_merged(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, facts(tmp_path / "ws")) as holdfast:
        for text in ("My favourite colour is red.", "MY favourite COLOUR is  red!", "My favourite colour is blue."):
            await ended(holdfast, await submit(holdfast, "clerk", text))
        assert await texts(holdfast) == ["My favourite colour is blue."]
        assert await texts(holdfast, "superseded") == ["My favourite colour is red."]
        (old,) = await holdfast.memory.table.records("default", RecordFilter(status="superseded"), 0, 10)
        (new,) = await holdfast.memory.table.records("default", RecordFilter(status="accepted"), 0, 10)
        assert old.superseded_by == new.id and len(old.sources) == 2


@pytest.mark.requirement("SH-17")
async def test_what_a_model_said_waits_for_a_person_without_holding_the_run(settings: Settings, tmp_path: Path) -> None:
    workspace = facts(tmp_path / "ws", "{type: episodic}")
    async with opened(settings, workspace) as holdfast:
        run = await submit(holdfast, "clerk", "What is the capital of France?")
        events = await events_until(holdfast, run)
        assert (await ended(holdfast, run)).status == "completed"
        (asked,) = payloads(events, "memory.approval.requested")
        interrupt = await holdfast.store.reader.interrupt("default", asked["approval"]["interruptId"])
        assert interrupt is not None and interrupt.run_id is None and interrupt.kind == "approval"
        assert [one.id for one in await holdfast.store.reader.interrupts("default", thread_id=None, status="open")] == [
            interrupt.id
        ]
        again = await submit(holdfast, "clerk", "What is the capital of France?")
        assert payloads(await events_until(holdfast, again), "memory.recall.completed")[0]["recordIds"] == []
        answered: Any = await holdfast.interrupts.answer(LOCAL, interrupt.id, {"decision": "approve"})
        assert answered.status == "resolved"
        third = await submit(holdfast, "clerk", "What is the capital of France?")
        recalled = payloads(await events_until(holdfast, third), "memory.recall.completed")
        assert recalled[0]["recordIds"] == [asked["approval"]["recordId"]]


async def test_a_denied_candidate_loses_its_text(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, facts(tmp_path / "ws", "{type: episodic}")) as holdfast:
        run = await submit(holdfast, "clerk", "What is the capital of France?")
        (asked,) = payloads(await events_until(holdfast, run), "memory.approval.requested")
        await holdfast.interrupts.answer(LOCAL, asked["approval"]["interruptId"], {"decision": "deny"})
        record = await holdfast.memory.table.record("default", asked["approval"]["recordId"])
        assert record is not None and record.status == "rejected"
        assert await holdfast.memory.recollection.contents("default", [record]) == {}


async def test_working_memory_keeps_the_newest_and_forgets_the_oldest(settings: Settings, tmp_path: Path) -> None:
    spec = "{type: working, write: auto, config: {maxRecords: 2}}"
    async with opened(settings, facts(tmp_path / "ws", spec)) as holdfast:
        first = await submit(holdfast, "clerk", "one")
        await ended(holdfast, first)
        for text in ("two", "three"):
            await ended(holdfast, await submit(holdfast, "clerk", text, thread_id=first.thread_id))
        assert [text.split("\n")[0] for text in await texts(holdfast)] == ["Asked: two", "Asked: three"]
        (gone,) = await holdfast.memory.table.records("default", RecordFilter(status="forgotten"), 0, 10)
        assert gone.reason == "over the limit of the memory"
        elsewhere = await submit(holdfast, "clerk", "four")
        recalled = payloads(await events_until(holdfast, elsewhere), "memory.recall.completed")
        assert recalled[0]["recordIds"] == []


async def test_memory_before_the_final_answer_gives_the_model_one_more_turn(settings: Settings, tmp_path: Path) -> None:
    rules = rule('{system: "parrot", turn: 2}', '{text: "The parrot is called Polly."}')
    rules += rule('{contains: "pet"}', '{text: "It is a parrot, I think."}')
    spec = "{type: semantic, read: [beforeFinalize]}"
    async with opened(settings, facts(tmp_path / "ws", spec, rules=rules)) as holdfast:
        await ended(holdfast, await submit(holdfast, "clerk", "My parrot is called Polly."))
        run = await submit(holdfast, "clerk", "Which pet is it?")
        events = await events_until(holdfast, run)
        assert (await ended(holdfast, run)).output == "The parrot is called Polly."
        assert [one["hook"] for one in payloads(events, "memory.lifecycle")] == [
            "read-before-finalize",
            "write-after-run",
        ]


async def test_a_run_of_an_agent_without_memory_records_nothing_about_it(settings: Settings, tmp_path: Path) -> None:
    workspace = facts(tmp_path / "ws", more=agent("plain", "{model: script}"))
    async with opened(settings, workspace) as holdfast:
        run = await submit(holdfast, "plain", "My favourite colour is blue.")
        assert not [event.type for event in await events_until(holdfast, run) if "memory" in event.type]
