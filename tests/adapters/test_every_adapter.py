"""What each adapter does on the real runtime beyond the shared conformance suite."""

from pathlib import Path

import pytest

from app.backends.bridge import UNLISTED
from app.core.principal import LOCAL
from app.core.settings import Settings
from tests.adapters.space import ADAPTERS, effects, write
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
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, pause.id, {"decision": "approve"})
        over = await ended(holdfast, run)
        assert over.status == "completed", over.error
        assert sorted(effects(tmp_path)) == ["note a", "note that", "publish home"]
