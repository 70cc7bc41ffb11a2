"""Narration as the recorder writes it: behind its source, in the same commit, and never in anybody's way."""

import pytest

from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import Payload, request, skill, thread
from app.events.catalog.log import ProgressNarration
from app.events.catalog.tool import ToolInvoked
from app.events.envelope import Event
from app.events.ports import Appended, ThreadIsNew
from app.events.recorder import Narrator, Scope
from app.views.narration import TemplateNarrator
from app.wiring.store import open_store

INVOKED = ToolInvoked(call_id="c", tool="echo", arguments={}, argument_hash="0", effect="readonly")


async def recorded(settings: Settings, narrator: Narrator | None, *batches: list[Payload]) -> list[Event]:
    async with open_store(settings) as store:
        store.recorder.narrator = narrator
        scope = Scope("default", new_id("thread"), new_id("run"))
        opening: list[Payload] = [thread.ThreadCreated(), request.RequestQueued(agent="a", input="x")]
        await store.recorder.record(scope, *opening, conditions=[ThreadIsNew()])
        for batch in batches:
            assert isinstance(await store.recorder.record(scope, *batch), Appended)
        return await store.reader.events("default", scope.thread_id, 0, 100)


@pytest.mark.requirement("SH-16")
async def test_a_sentence_stands_behind_its_source_and_names_it(settings: Settings) -> None:
    events = await recorded(settings, TemplateNarrator(), [INVOKED])
    source, words = events[-2:]
    assert (source.type, words.type) == (INVOKED.type, ProgressNarration.type)
    assert words.payload == {
        "message": "Using echo.", "provider": "template", "style": "brief",
        "sourceEventTypes": [INVOKED.type], "sourceEventIds": [source.id],
    }  # fmt: skip
    assert (words.parent_id, words.run_id, words.actor, words.at) == (source.id, source.run_id, "system", source.at)


@pytest.mark.requirement("SH-16", "G7")
async def test_nothing_is_narrated_after_a_run_s_end(settings: Settings) -> None:
    ending: list[Payload] = [skill.SkillInvoked(skill="greet"), request.RequestCompleted(output="y")]
    events = await recorded(settings, TemplateNarrator("detailed"), [INVOKED], ending)
    assert [event.type for event in events[-3:]] == [
        "runtime.skill.invoked", "runtime.progress.narration", "runtime.request.completed",
    ]  # fmt: skip


@pytest.mark.requirement("SH-16")
async def test_without_a_narrator_nothing_is_narrated(settings: Settings) -> None:
    events = await recorded(settings, None, [INVOKED])
    assert events[-1].type == INVOKED.type


class Stumbling:
    provider = "stumbling"
    style = "brief"

    def narrate(self, event_type: str, payload: object) -> str | None:
        raise LookupError("no words")


@pytest.mark.requirement("SH-16")
async def test_a_narrator_that_fails_stops_nobody(settings: Settings) -> None:
    events = await recorded(settings, Stumbling(), [INVOKED], [request.RequestCompleted(output="y")])
    assert [event.type for event in events[-2:]] == [INVOKED.type, "runtime.request.completed"]


class Chatty:
    provider = "chatty"
    style = "brief"

    def narrate(self, event_type: str, payload: object) -> str | None:
        return "The key is sk-ant-REDACTED0123456789."


@pytest.mark.requirement("SH-16", "G21")
async def test_words_are_redacted_like_everything_else(settings: Settings) -> None:
    events = await recorded(settings, Chatty(), [INVOKED])
    assert "sk-ant" not in events[-1].payload["message"]
    assert "[REDACTED:" in events[-1].payload["message"]
