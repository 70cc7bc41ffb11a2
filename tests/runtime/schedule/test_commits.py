"""Which events of a run are stored together: its acceptance with its claim, its last answer with its end."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from app.backends.contract import Backend, Context, Resume, StepFailed
from app.core.errors import Failure
from app.core.principal import LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.catalog import model, request
from app.events.catalog.adapter import AdapterEvent
from app.events.envelope import Event
from app.events.ports import StorageDown
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.runtime.run import model_calls
from app.wiring.runtime import Holdfast
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Fake, running
from tests.runs import opened, submit

WORKER = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec: {provider: scripted, model: script, capabilities: {streaming: true}, script: {default: %s}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script}
"""
WHOLE = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: openai
  model: gpt-test
  baseUrl: %s/v1
  capabilities: {streaming: false}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script}
"""
"""Its provider sends an answer and the answer's end together."""
OPENING = [AdapterEvent.type, model.ModelNegotiated.type, model.ModelRequested.type]
SECRET = f'{{text: "sk-ant-{"a1B2" * 10}"}}'


class Patient:
    """Asks a model once, then waits for a word from outside before it ends."""

    kind = "native"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def run(self, ctx: Context) -> str:
        answer = await ctx.call_model([{"role": "user", "content": "hello"}])
        await self.go_on.wait()
        return answer.text


class Failing:
    """Fails as soon as it has its answer."""

    kind = "native"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> str:
        await ctx.call_model([{"role": "user", "content": "hello"}])
        raise StepFailed(Failure("STEP_FAILED", "It does not like the answer."))


class Commits:
    """Every commit as the types of one run's events in it."""

    def __init__(self, holdfast: Holdfast) -> None:
        self.all: list[list[str]] = []
        self.changed = asyncio.Event()
        holdfast.store.log.on_commit = self._note

    def _note(self, events: Sequence[Event], seconds: float) -> None:
        self.all.append([event.type for event in events])
        self.changed.set()

    async def until(self, kind: str) -> list[str]:
        async with asyncio.timeout(30):
            while True:
                for types in self.all:
                    if kind in types:
                        return types
                self.changed.clear()
                await self.changed.wait()


def started(
    settings: Settings, tmp_path: Path, backend: Backend | None = None, script: str = SECRET, worker: str = WORKER
) -> AbstractAsyncContextManager[Holdfast]:
    root = tmp_path / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "models" / "script.yaml").write_text(worker % script)
    return opened(settings, root, backends={"native": backend} if backend else None)


@pytest.mark.requirement("G4")
async def test_a_run_that_finds_a_place_is_accepted_and_claimed_in_one_commit(
    settings: Settings, tmp_path: Path
) -> None:
    async with started(settings, tmp_path) as holdfast:
        commits = Commits(holdfast)
        run = await submit(holdfast, "worker", "hello")
        first = await commits.until(request.RequestQueued.type)
        assert first[-2:] == [request.RequestQueued.type, request.RequestStarted.type]
        assert run.status == "queued", "whoever submitted it is shown what was accepted"
        await asyncio.wait_for(holdfast.executor.idle(), 30)


async def test_a_models_request_is_stored_with_the_first_of_its_answer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The scripted answer follows at once; a stalled machine must not take it for one that takes its time.
    monkeypatch.setattr(model_calls, "REQUEST_WAITS_SECONDS", 30.0)
    async with started(settings, tmp_path) as holdfast:
        commits = Commits(holdfast)
        await submit(holdfast, "worker", "hello")
        stored = await commits.until(model.ModelRequested.type)
        assert stored[:3] == OPENING
        assert stored[3] == AdapterEvent.type, "the handoff comes first, a piece of the answer last"
        await asyncio.wait_for(holdfast.executor.idle(), 30)


async def test_a_models_request_is_stored_before_an_answer_that_takes_its_time(
    settings: Settings, tmp_path: Path
) -> None:
    async with started(settings, tmp_path, script='{text: "at last", delaySeconds: 300}') as holdfast:
        commits = Commits(holdfast)
        run = await submit(holdfast, "worker", "hello")
        assert await commits.until(model.ModelRequested.type) == OPENING
        await holdfast.lifecycle.cancel(LOCAL, run.id)
        await asyncio.wait_for(holdfast.executor.idle(), 30)


async def test_the_last_answer_and_the_end_are_one_commit(settings: Settings, tmp_path: Path) -> None:
    async with started(settings, tmp_path) as holdfast:
        commits = Commits(holdfast)
        await submit(holdfast, "worker", "hello")
        assert await commits.until(request.RequestCompleted.type) == [
            model.ModelCompleted.type,
            request.RequestCompleted.type,
        ]


class Keyless(OpenAiSpeaker):
    """Asks for no key, as a server on the same machine would."""

    key_header = ("content-type", "application/json")


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fake]:
    monkeypatch.setattr(model_calls, "REQUEST_WAITS_SECONDS", 30.0)
    async with running(Keyless()) as fake:
        yield fake


async def test_an_answer_that_comes_whole_is_stored_with_the_end(
    settings: Settings, tmp_path: Path, provider: Fake
) -> None:
    async with started(settings, tmp_path, script=provider.url, worker=WHOLE) as holdfast:
        commits = Commits(holdfast)
        await submit(holdfast, "worker", "hello")
        assert await commits.until(request.RequestCompleted.type) == [
            *OPENING,
            AdapterEvent.type,
            model.ModelCompleted.type,
            request.RequestCompleted.type,
        ]


async def test_an_answer_that_comes_whole_is_stored_at_once_when_the_backend_waits_after_it(
    settings: Settings, tmp_path: Path, provider: Fake
) -> None:
    patient = Patient()
    async with started(settings, tmp_path, patient, provider.url, WHOLE) as holdfast:
        commits = Commits(holdfast)
        await submit(holdfast, "worker", "hello")
        stored = await commits.until(model.ModelCompleted.type)
        assert stored == [*OPENING, AdapterEvent.type, model.ModelCompleted.type]
        patient.go_on.set()
        assert await commits.until(request.RequestCompleted.type) == [request.RequestCompleted.type]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_run_that_fails_after_an_answer_has_no_partial_answer(
    settings: Settings, tmp_path: Path, provider: Fake, whole: bool
) -> None:
    """Its message is complete, whether it came in one piece or in several."""
    script, worker = (provider.url, WHOLE) if whole else ('{chunks: ["one ", "two"]}', WORKER)
    async with started(settings, tmp_path, Failing(), script, worker) as holdfast:
        run = await submit(holdfast, "worker", "hello")
        await asyncio.wait_for(holdfast.executor.idle(), 30)
        events = await holdfast.store.reader.run_events("default", run.id, 0, 100)
        assert [event.type for event in events[-2:]] == [model.ModelCompleted.type, request.RequestFailed.type]
        assert "output" not in events[-1].payload


async def test_an_answer_is_stored_at_once_when_the_backend_waits_after_it(settings: Settings, tmp_path: Path) -> None:
    patient = Patient()
    async with started(settings, tmp_path, patient) as holdfast:
        commits = Commits(holdfast)
        await submit(holdfast, "worker", "hello")
        assert await commits.until(model.ModelCompleted.type) == [model.ModelCompleted.type]
        patient.go_on.set()
        assert await commits.until(request.RequestCompleted.type) == [request.RequestCompleted.type]


async def test_a_cancel_after_the_answer_loses_neither(settings: Settings, tmp_path: Path) -> None:
    async with started(settings, tmp_path, Patient()) as holdfast:
        commits = Commits(holdfast)
        run = await submit(holdfast, "worker", "hello")
        await commits.until(model.ModelCompleted.type)
        await holdfast.lifecycle.cancel(LOCAL, run.id)
        await commits.until(request.RequestCancelled.type)


async def test_the_run_ends_with_the_held_answer_as_it_is_stored(settings: Settings, tmp_path: Path) -> None:
    async with started(settings, tmp_path) as holdfast:
        run = await submit(holdfast, "worker", "hello")
        await asyncio.wait_for(holdfast.executor.idle(), 30)
        events = await holdfast.store.reader.run_events("default", run.id, 0, 100)
        [answer] = [event.payload["text"] for event in events if event.type == model.ModelCompleted.type]
        assert "sk-ant" not in answer
        assert events[-1].payload["output"] == answer


async def test_a_refused_submission_gives_its_place_back(settings: Settings, tmp_path: Path) -> None:
    async with started(settings, tmp_path) as holdfast:
        first = Submission("worker", "hello", idempotency_key="once", body_hash="one")
        second = Submission("worker", "bye", idempotency_key="once", body_hash="two")
        await holdfast.service.submit(LOCAL, first)
        assert isinstance(await holdfast.service.submit(LOCAL, second), Rejected)
        await asyncio.wait_for(holdfast.executor.idle(), 30)
        assert holdfast.executor.running == 0


async def test_a_submission_that_meets_a_broken_store_gives_its_place_back(settings: Settings, tmp_path: Path) -> None:
    async with started(settings, tmp_path) as holdfast:
        holdfast.store.log._down = StorageDown()
        with pytest.raises(StorageDown):
            await submit(holdfast, "worker", "hello")
        holdfast.store.log._down = None
        await asyncio.wait_for(holdfast.executor.idle(), 30)
        assert holdfast.executor.running == 0
