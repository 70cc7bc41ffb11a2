"""Commands that are accepted while a run gives its last answer: followed, or answered as too late."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.envelope import Event
from app.models.kinds import scripted
from app.runtime.intake.rejection import Rejected
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import events_until, opened, submit, until_said
from tests.waiting import until

SPACE = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: runtime}
spec: {defaultAgent: worker}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true}
  script:
    rules:
      - {match: {contains: "be quick"}, reply: {text: "quickly"}}
      - {match: {contains: "fail please"}, fail: {status: 400, message: as asked}}
      - {match: {contains: slowly}, reply: {chunks: ["one ", "two ", "three ", "four"], chunkDelaySeconds: 1}}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script, maxTurns: 3}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: brief}
spec: {model: script, maxTurns: 1}
"""


def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir(exist_ok=True)
    (root / "all.yaml").write_text(SPACE)
    return root


class Pauses:
    """The pauses of the scripted model before its words: so many are over at once, the others when `end` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, skipped: int) -> None:
        self._skipped, self._over, provider = skipped, asyncio.Event(), scripted.Scripted
        monkeypatch.setattr(scripted, "Scripted", lambda _: provider(self._pause))

    async def _pause(self, _seconds: float) -> None:
        if self._skipped:
            self._skipped -= 1
        else:
            await self._over.wait()

    def end(self) -> None:
        self._over.set()


def at_the_very_end(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, work: Callable[[str], Awaitable[None]]
) -> None:
    """Do something once, after the run has its answer and before its end is appended."""
    conduct: Any = holdfast.executor._conduct_run
    left = [work]

    async def conducted(run: Run, *more: Any) -> Any:
        ending = await conduct(run, *more)
        if left:
            await left.pop()(run.id)
        return ending

    monkeypatch.setattr(holdfast.executor, "_conduct_run", conducted)


async def inject(holdfast: Holdfast, run_id: str, name: str, **arguments: Any) -> None:
    answer = await holdfast.commands.inject(LOCAL, run_id, name, arguments)
    assert isinstance(answer, Run), answer


def denied(events: list[Event]) -> list[Any]:
    taken = [event.payload["result"] for event in events if event.type == "runtime.step.completed"]
    return [command["arguments"].get("denied") for result in taken for command in result]


@pytest.mark.requirement("HK-26")
async def test_steering_during_the_last_model_call_gives_one_more_turn(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(monkeypatch, skipped=1)
    async with opened(settings, workspace(tmp_path)) as holdfast:
        run = await submit(holdfast, "worker", "slowly")
        await until_said(holdfast, run)
        await inject(holdfast, run.id, "steer", message="be quick")
        pauses.end()
        events = await events_until(holdfast, run)
        assert events[-1].payload["output"] == "quickly"
        assert [event.type for event in events].count("runtime.model.completed") == 2
        assert denied(events) == [None]


@pytest.mark.requirement("HK-26")
@pytest.mark.parametrize("replica", ["here", "elsewhere"])
async def test_steering_between_the_answer_and_the_end_gives_one_more_turn(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replica: str
) -> None:
    """Accepted by another replica, the run's owner hears of it from its own append, which is refused."""
    async with opened(settings, workspace(tmp_path)) as holdfast:
        if replica == "elsewhere":
            monkeypatch.setattr(holdfast.executor, "deliver", lambda tenant, run_id, command: None)
        at_the_very_end(holdfast, monkeypatch, lambda run_id: inject(holdfast, run_id, "steer", message="be quick"))
        run = await submit(holdfast, "worker", "hello")
        events = await events_until(holdfast, run)
        assert events[-1].type == "runtime.request.completed" and events[-1].payload["output"] == "quickly"
        types = [event.type for event in events]
        assert types.count("runtime.model.completed") == 2, "the first answer was not asked for again"
        assert types.count("runtime.request.started") == 1 and "runtime.request.resumed" not in types


@pytest.mark.requirement("G7", "CM-3")
@pytest.mark.parametrize("replica", ["here", "elsewhere"])
@pytest.mark.parametrize("text", ["hello", "fail please"])
async def test_a_cancel_between_the_answer_and_the_end_is_the_end(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replica: str, text: str
) -> None:
    """Whoever is told that the run will be cancelled finds it cancelled, also if it had its answer, or had failed."""
    async with opened(settings, workspace(tmp_path)) as holdfast:
        if replica == "elsewhere":
            monkeypatch.setattr(holdfast.executor, "stop", lambda tenant, run_id: None)
        accepted: list[Any] = []

        async def cancel(run_id: str) -> None:
            accepted.append(await holdfast.lifecycle.cancel(LOCAL, run_id))

        async def cancel_beside(run_id: str) -> None:
            await asyncio.shield(asyncio.ensure_future(cancel(run_id)))  # the run's own task may be what it ends

        at_the_very_end(holdfast, monkeypatch, cancel_beside)
        run = await submit(holdfast, "worker", text)
        events = await events_until(holdfast, run)
        await until(lambda: bool(accepted), 30)
        (answer,) = accepted
        assert isinstance(answer, Run) and answer.cancel_requested_at is not None
        types = [event.type for event in events]
        assert types[-1] == "runtime.request.cancelled"
        assert types.count("runtime.model.completed") == (text == "hello"), "what was said is kept"
        again = await holdfast.lifecycle.cancel(LOCAL, run.id)
        assert isinstance(again, Run) and again.status == "cancelled"


@pytest.mark.requirement("HK-26")
@pytest.mark.parametrize("agent", ["brief", "echo"])
async def test_steering_that_no_turn_is_left_for_is_answered_as_too_late(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    echo = "---\napiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: echo}\nspec: {backend: echo}\n"
    monkeypatch.setattr(f"{__name__}.SPACE", SPACE + echo)
    async with opened(settings, workspace(tmp_path)) as holdfast:
        at_the_very_end(holdfast, monkeypatch, lambda run_id: inject(holdfast, run_id, "steer", message="be quick"))
        run = await submit(holdfast, agent, "hello")
        events = await events_until(holdfast, run)
        assert events[-1].type == "runtime.request.completed" and "quick" not in events[-1].payload["output"]
        assert ["too late" in reason for reason in denied(events)] == [True]
        late = await holdfast.commands.inject(LOCAL, run.id, "steer", {"message": "be quick"})
        assert isinstance(late, Rejected) and late.failure.code == "RUN_TERMINAL"


@pytest.mark.requirement("HK-26")
@pytest.mark.parametrize("moment", ["during the answer", "after the answer"])
async def test_a_pause_during_the_last_model_call_takes_effect(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    pauses = Pauses(monkeypatch, skipped=1)
    async with opened(settings, workspace(tmp_path)) as holdfast:
        if moment == "after the answer":
            at_the_very_end(holdfast, monkeypatch, lambda run_id: inject(holdfast, run_id, "pause"))
        run = await submit(holdfast, "worker", "slowly" if moment == "during the answer" else "hello")
        if moment == "during the answer":
            await until_said(holdfast, run)
            await inject(holdfast, run.id, "pause")
            pauses.end()
        paused = await events_until(holdfast, run, "runtime.interrupt.raised")
        assert paused[-1].payload["kind"] == "paused"
        await inject(holdfast, run.id, "resume")
        events = await events_until(holdfast, run)
        assert events[-1].type == "runtime.request.completed"
        assert [event.type for event in events].count("runtime.model.completed") == 1


async def test_a_pause_that_is_taken_back_before_the_end_changes_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings, workspace(tmp_path)) as holdfast:

        async def pause_and_resume(run_id: str) -> None:
            await inject(holdfast, run_id, "pause")
            await inject(holdfast, run_id, "resume")

        at_the_very_end(holdfast, monkeypatch, pause_and_resume)
        run = await submit(holdfast, "worker", "hello")
        events = await events_until(holdfast, run)
        assert events[-1].payload["output"] == "You said: hello"
        assert "runtime.interrupt.raised" not in [event.type for event in events]
        assert denied(events) == []
        await until(lambda: holdfast.executor.running == 0)
