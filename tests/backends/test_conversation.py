"""Long conversations through the real runtime: the window, the summary and its hook, and the same again on resume."""

from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.wiring.runtime import Holdfast
from tests.runs import ended, events_until, opened, payloads, submit, waiting
from tests.runtime.run.hooked import Space, python

OTHER = "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: other}\nspec: {model: script}\n"
SUMMARISE = "  contextPolicy: {strategy: summarise, maxMessages: 8, keepLast: 2}\n"


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space(tmp_path)


def said(payload: dict[str, Any]) -> list[str]:
    return [message["content"] for message in payload["messages"]]


async def talk(holdfast: Holdfast, *texts: str, thread_id: str | None = None) -> str:
    """One run after the other on a thread, which is answered."""
    for text in texts:
        run = await ended(holdfast, await submit(holdfast, "clerk", text, thread_id))
        assert run.status == "completed", run.error
        thread_id = run.thread_id
    assert thread_id is not None
    return thread_id


@pytest.mark.requirement("HK-7")
async def test_the_oldest_messages_leave_the_window_and_a_note_says_so(space: Space) -> None:
    space.write({}, agent="  contextPolicy: {maxMessages: 4}\n")
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "look one", "two", "three")
        events = await events_until(holdfast, await submit(holdfast, "clerk", "four", thread_id))
        (asked,) = payloads(events, "model.requested")
        assert said(asked) == [
            "Be brief.", "three", "You said: three",
            "6 earlier messages are not shown. Tools used in them: look (1).", "four",
        ]  # fmt: skip
        (compacted,) = payloads(events, "context.compacted")
        assert (compacted["strategy"], compacted["messagesBefore"], compacted["messagesAfter"]) == ("window", 9, 3)


async def test_a_model_with_little_room_is_sent_no_more_than_it_takes(space: Space) -> None:
    space.write({}, limits="  limits: {contextTokens: 700, maxOutputTokens: 100}\n")
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, *(f"{number} " + "x" * 400 for number in range(4)))
        run = await submit(holdfast, "clerk", "now", thread_id)
        events = await events_until(holdfast, run)
        assert (await ended(holdfast, run)).status == "completed"
        assert len(payloads(events, "model.requested")[0]["messages"]) < 9


async def test_all_means_all(space: Space) -> None:
    space.write({}, agent="  contextPolicy: {strategy: all}\n")
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "one", "two")
        events = await events_until(holdfast, await submit(holdfast, "clerk", "three", thread_id))
        assert len(payloads(events, "model.requested")[0]["messages"]) == 6


async def test_a_long_result_is_shortened_for_the_model(space: Space) -> None:
    space.write({}, agent="  contextPolicy: {toolResultBytes: 4}\n")
    async with opened(space.settings, space.root) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "clerk", "look"))
        assert run.output == "seen look\n[shortened to 4 of 29 bytes]"


@pytest.mark.requirement("HK-7")
async def test_a_summary_takes_the_place_of_the_oldest_messages(space: Space) -> None:
    space.write({}, agent=SUMMARISE)
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "one", "two", "three", "four")
        events = await events_until(holdfast, await submit(holdfast, "clerk", "five", thread_id))
        summary, asked = payloads(events, "model.requested")
        assert (summary["role"], summary.get("tools")) == ("summary", None)
        assert "user: one\nassistant: You said: one\n" in said(summary)[1]
        assert said(asked) == [
            "Be brief.", "Summary of the conversation so far:\nthey talked", "four", "You said: four", "five",
        ]  # fmt: skip
        (compacted,) = payloads(events, "context.compacted")
        assert (compacted["strategy"], compacted["summary"]) == ("summarise", "they talked")
        assert compacted["tokensAfter"] < compacted["tokensBefore"]
        deltas = [payload["event"].get("text", "") for payload in payloads(events, "adapter.event")]
        assert "they talked" not in "".join(deltas), "a summary is sent to no client"
        transcript = await holdfast.store.reader.transcript("default", thread_id)
        assert "they talked" not in str(transcript)


@pytest.mark.requirement("HK-7")
async def test_later_runs_of_the_agent_go_on_from_its_summary_and_other_agents_see_all(space: Space) -> None:
    space.write({}, agent=SUMMARISE, more=OTHER)
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "one", "two", "three", "four", "five")
        run = await submit(holdfast, "clerk", "six", thread_id)
        (asked,) = payloads(await events_until(holdfast, run), "model.requested")
        assert said(asked) == [
            "Be brief.", "Summary of the conversation so far:\nthey talked", "four", "You said: four", "five",
            "You said: five", "six",
        ]  # fmt: skip
        run = await submit(holdfast, "other", "seven", thread_id)
        (asked,) = payloads(await events_until(holdfast, run), "model.requested")
        assert said(asked)[:2] == ["one", "You said: one"]


@pytest.mark.requirement("HK-7", "OS-L6")
async def test_a_hook_that_denies_compaction_leaves_the_window(space: Space) -> None:
    rules = "def no(input): return {'decision': 'deny', 'reason': 'keep it'}"
    space.write({"no": python("no", "PreCompact", "rules:no")}, rules=rules, agent=SUMMARISE)
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "one", "two", "three", "four")
        events = await events_until(holdfast, await submit(holdfast, "clerk", "look five", thread_id))
        assert [payload.get("role") for payload in payloads(events, "model.requested")] == [None, None]
        assert len(payloads(events, "hook.fired")) == 1, "a run that was denied does not ask again"
        assert [compacted["strategy"] for compacted in payloads(events, "context.compacted")] == ["window"]


@pytest.mark.requirement("OS-L6")
async def test_a_hook_can_say_what_a_summary_must_keep(space: Space) -> None:
    rules = "def keep(input): return {'decision': 'transform', 'output': {'instructions': 'Keep the order numbers.'}}"
    space.write({"keep": python("keep", "PreCompact", "rules:keep")}, rules=rules, agent=SUMMARISE)
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "one", "two", "three", "four")
        events = await events_until(holdfast, await submit(holdfast, "clerk", "five", thread_id))
        summary, _ = payloads(events, "model.requested")
        assert said(summary)[0].endswith("\nKeep the order numbers.")


@pytest.mark.requirement("HK-7", "G4", "G5")
async def test_a_run_that_compacted_goes_on_after_a_restart_without_doing_it_again(
    settings: Settings, space: Space
) -> None:
    space.write({"all": python("all", "PreCompact", "witness:allow")}, agent=SUMMARISE)
    async with opened(settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "one", "two", "three", "four")
        run = await submit(holdfast, "clerk", "publish it", thread_id)
        asked = await waiting(holdfast, run)
    async with opened(settings, space.root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        over = await ended(holdfast, run)
        assert (over.status, over.output) == ("completed", "published")
        events = await events_until(holdfast, run)
        assert [payload.get("role") for payload in payloads(events, "model.completed")] == ["summary", None, None]
        assert len(payloads(events, "context.compacted")) == 1
        assert space.seen() == ["PreCompact", "tool home"]


@pytest.mark.requirement("HK-7")
async def test_memory_comes_after_the_conversation_and_before_notes_and_the_request(space: Space) -> None:
    space.write({}, agent="  contextPolicy: {maxMessages: 4}\n  memory: [facts]\n")
    document = "apiVersion: holdfast/v1\nkind: Memory\nmetadata: {name: facts}\nspec: {write: candidates}\n"
    (space.root / "facts.yaml").write_text(document)
    async with opened(space.settings, space.root) as holdfast:
        thread_id = await talk(holdfast, "look one", "I was born in May.", "three")
        events = await events_until(holdfast, await submit(holdfast, "clerk", "When was I born?", thread_id))
        (asked,) = payloads(events, "model.requested")
        assert said(asked) == [
            "Be brief.", "three", "You said: three", "[recalled memory]",
            "6 earlier messages are not shown. Tools used in them: look (1).", "When was I born?",
        ]  # fmt: skip
