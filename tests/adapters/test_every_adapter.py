"""What each adapter does on the real runtime beyond the shared conformance suite."""

from pathlib import Path

import pytest

from app.backends.bridge import UNLISTED
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.memory_desk import MemoryPlace, NewRecord
from tests.adapters.space import ADAPTERS, effects, write
from tests.memory.workspaces import memory
from tests.runs import ended, events_until, opened, payloads, submit, waiting


@pytest.fixture(params=ADAPTERS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.requirement("SH-9", "SH-10")
async def test_answer_tools_refusal_and_approval(settings: Settings, tmp_path: Path, kind: str) -> None:
    root = write(tmp_path)
    async with opened(settings, root) as holdfast:
        first = await ended(holdfast, await submit(holdfast, kind, "hello"))
        assert (first.status, first.output) == ("completed", "about hello"), first.error
        noted = await submit(holdfast, kind, "note that", first.thread_id)
        over, events = await ended(holdfast, noted), await events_until(holdfast, noted)
        assert (over.status, over.output) == ("completed", "noted"), over.error
        asked = payloads(events, "model.requested")
        assert [message["role"] for message in asked[0]["messages"]] == ["system", "user", "assistant", "user"]
        assert {"note", "publish"} <= set(asked[0]["tools"]) and UNLISTED not in asked[0]["tools"]
        refused = await submit(holdfast, kind, "unknown tool")
        over, events = await ended(holdfast, refused), await events_until(holdfast, refused)
        assert (over.status, over.output) == ("completed", "refused"), over.error
        assert payloads(events, "tool.guarded"), "the guard has seen the call"
        run = await submit(holdfast, kind, "both")
        pause = await waiting(holdfast, run)
        await holdfast.executor.idle()
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, pause.id, {"decision": "approve"})
        over = await ended(holdfast, run)
        assert over.status == "completed", over.error
        assert sorted(effects(tmp_path)) == ["note a", "note that", "publish home"]


@pytest.mark.requirement("HK-11", "HK-7")
async def test_memory_is_given_to_every_framework_before_the_input_and_before_the_answer(
    settings: Settings, tmp_path: Path, kind: str
) -> None:
    memories = memory("facts", "{read: [beforePlan]}") + memory("late", "{read: [beforeFinalize], write: off}")
    rules = (
        '{match: {system: "Parrot, Polly"}, reply: {text: It is Polly.}}',
        '{match: {system: "colour is blue"}, reply: {text: It is the parrot.}}',
    )
    root = write(tmp_path, {kind: (kind, "  memory: [facts, late]\n")}, rules, {"memory.yaml": memories})
    async with opened(settings, root) as holdfast:
        place = MemoryPlace("late", agent=kind)
        assert isinstance(await holdfast.memory_desk.put(LOCAL, place, NewRecord("Parrot, Polly")), dict)
        first = await ended(holdfast, await submit(holdfast, kind, "My colour is blue."))
        assert (first.status, first.output) == ("completed", "about My colour is blue."), first.error
        asked = await submit(holdfast, kind, "Which pet has the colour?", first.thread_id)
        over, events = await ended(holdfast, asked), await events_until(holdfast, asked)
        # The first answer names a parrot, so memory has more to say before the final one.
        assert (over.status, over.output) == ("completed", "It is Polly."), over.error
        requested = [[message["role"] for message in one["messages"]] for one in payloads(events, "model.requested")]
        assert requested[0] == ["system", "user", "assistant", "system", "user"] and len(requested) == 2
        hooks = [one["hook"] for one in payloads(events, "memory.lifecycle")]
        assert hooks == ["read-before-plan", "read-before-finalize", "write-after-run"]
