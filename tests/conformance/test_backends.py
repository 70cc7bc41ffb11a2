"""What every kind of backend must do on the real runtime: the suite a new kind has to pass."""

from pathlib import Path

import pytest

from app.core.error_codes import CODES
from app.core.ids import new_id
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import Payload, request, thread
from app.events.catalog.model import ModelCompleted
from app.events.catalog.values import Usage
from app.events.ports import Appended
from app.events.recorder import Scope
from app.views.run import Run
from app.wiring.kinds import installed_backends
from app.wiring.runtime import Holdfast
from tests.adapters.space import ADAPTERS
from tests.conformance.backend_cases import ANSWER, BACKEND_CASES, BREAK, PUBLISH, WAIT, BackendCase, effects, write
from tests.runs import ended, events_until, opened, payloads, submit, waiting


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """SQLite is enough here: what differs between databases is the store's, and tested there."""
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.fixture(params=BACKEND_CASES, ids=lambda case: case.kind)
def case(request: pytest.FixtureRequest) -> BackendCase:
    case: BackendCase = request.param
    return case


def has_a_way_to(case: BackendCase, word: str) -> str:
    if word not in case.says:
        pytest.skip(f"{case.kind} has no way to do this")
    return case.says[word]


async def left_behind(holdfast: Holdfast, agent: str, text: str, *more: Payload) -> Run:
    """The log of a run whose executor died, as far as it had come."""
    scope = Scope("default", new_id("thread"), new_id("run"))
    digest = holdfast.workspace.current.digest
    await holdfast.executor.drain(0)
    left = [
        thread.ThreadCreated(), request.RequestQueued(agent=agent, input=text, workspace_digest=digest),
        request.RequestStarted(executor="dead", epoch=1), *more,
    ]  # fmt: skip
    assert isinstance(await holdfast.store.recorder.record(scope, *left), Appended)
    run = await holdfast.store.reader.run("default", scope.run_id or "")
    assert run is not None
    return run


async def test_there_is_a_case_for_every_kind_that_ships(settings: Settings, root: Path) -> None:
    async with opened(settings, root) as holdfast:
        usable = {kind for kind in holdfast.backends if installed_backends().usable(kind) is not None}
        assert {case.kind for case in BACKEND_CASES} >= usable - set(ADAPTERS)
        for kind in usable:
            backend = holdfast.backends[kind]
            assert backend.kind == kind
            assert backend.resume in ("replay", "restart", "fail")


@pytest.mark.requirement("HK-1", "G7")
async def test_a_run_completes_with_its_output_in_one_last_event(
    settings: Settings, root: Path, case: BackendCase
) -> None:
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, case.kind, ANSWER)
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert (over.status, over.output) == ("completed", case.says[ANSWER])
        assert [event.type for event in events if event.type in request.TERMINAL] == [events[-1].type]


async def test_two_runs_of_a_thread_follow_each_other(settings: Settings, root: Path, case: BackendCase) -> None:
    async with opened(settings, root) as holdfast:
        first = await ended(holdfast, await submit(holdfast, case.kind, ANSWER))
        second = await ended(holdfast, await submit(holdfast, case.kind, ANSWER, first.thread_id))
        assert second.output == case.says[ANSWER]


@pytest.mark.requirement("G5", "PX-2")
async def test_a_run_whose_executor_died_ends_all_the_same(settings: Settings, root: Path, case: BackendCase) -> None:
    async with opened(settings, root) as holdfast:
        run = await left_behind(holdfast, case.kind, ANSWER)
        resume = holdfast.backends[case.kind].resume
    async with opened(settings, root) as holdfast:
        over = await ended(holdfast, run)
        if resume == "fail":
            assert over.error is not None and over.error["code"] == "BACKEND_CANNOT_RESUME"
        else:
            assert (over.status, over.output) == ("completed", case.says[ANSWER])


@pytest.mark.requirement("G9", "SH-3")
async def test_a_run_that_waits_for_a_person_takes_no_worker(settings: Settings, root: Path, case: BackendCase) -> None:
    has_a_way_to(case, PUBLISH)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, case.kind, PUBLISH)
        asked = await waiting(holdfast, run)
        other = await ended(holdfast, await submit(holdfast, "echo", "meanwhile"))
        assert other.status == "completed"
        found = await holdfast.store.reader.run("default", run.id)
        assert found is not None and (found.status, found.waiting_on) == ("waiting", [asked.id])
        await holdfast.executor.idle()
        assert holdfast.executor.running == 0


@pytest.mark.requirement("G4", "G5", "G9", "PX-2")
async def test_a_run_goes_on_after_a_restart_and_repeats_nothing(
    settings: Settings, root: Path, tmp_path: Path, case: BackendCase
) -> None:
    said = has_a_way_to(case, PUBLISH)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, case.kind, PUBLISH)
        asked = await waiting(holdfast, run)
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert (over.status, over.output) == ("completed", said)
        assert effects(tmp_path) == ["home"]
        hashes = [payload["requestHash"] for payload in payloads(events, "model.requested")]
        assert len(set(hashes)) == len(hashes) == len(payloads(events, "model.completed"))
        facts = [
            event.payload for event in events
            if event.type in ("runtime.role.transitioned", "runtime.role.reported", "runtime.skill.invoked")
        ]  # fmt: skip
        assert all(facts.count(fact) == 1 for fact in facts)


@pytest.mark.requirement("G8")
async def test_a_cancelled_run_ends_in_the_middle_of_an_answer(
    settings: Settings, root: Path, case: BackendCase
) -> None:
    has_a_way_to(case, WAIT)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, case.kind, WAIT)
        await events_until(holdfast, run, "runtime.model.requested")
        await holdfast.lifecycle.cancel(LOCAL, run.id)
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "cancelled"
        assert events[-1].type == "runtime.request.cancelled"
        assert payloads(events, "model.completed") == []


@pytest.mark.requirement("OS-F", "G7")
async def test_a_failure_is_reported_with_a_known_code_in_one_last_event(
    settings: Settings, root: Path, case: BackendCase
) -> None:
    has_a_way_to(case, BREAK)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, case.kind, BREAK)
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "failed"
        assert over.error is not None and over.error["code"] in CODES and over.error["message"]
        assert [event.type for event in events if event.type in request.TERMINAL] == ["runtime.request.failed"]
        assert events[-1].type == "runtime.request.failed"


@pytest.mark.requirement("G5")
async def test_a_call_that_matches_nothing_recorded_is_a_new_call(
    settings: Settings, root: Path, case: BackendCase
) -> None:
    async with opened(settings, root) as holdfast:
        if holdfast.backends[case.kind].resume != "replay":
            pytest.skip(f"{case.kind} begins anew")
        another = ModelCompleted(
            message_id="msg_cut", model="script", provider="scripted", text="something else", tool_calls=[],
            finish_reason="stop", usage=Usage(), request_hash="0" * 64,
        )  # fmt: skip
        run = await left_behind(holdfast, case.kind, ANSWER, another)
    async with opened(settings, root) as holdfast:
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert (over.status, over.output) == ("completed", case.says[ANSWER])
        assert payloads(events, "model.requested"), "another answer is not an answer to this"
