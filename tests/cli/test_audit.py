"""`holdfast audit`: whether a run's log is complete, from a database or from an exported file."""

import asyncio
from pathlib import Path

import pytest

from app.core import json
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.recorder import Scope
from app.wiring.store import open_store
from tests.cli.conftest import RUN, SMALL, THREAD, Holdfast


@pytest.mark.requirement("OS-A")
def test_what_is_missing_is_named_and_the_exit_code_is_1(holdfast: Holdfast, place: list[str]) -> None:
    result = holdfast("audit", THREAD, *place)
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"{RUN}: 10 events, incomplete",
        "  runtime.model.negotiated msg_1: a model was asked before one was chosen",
        "  runtime.request.resumed 2: no event says who worked on the run at its claim number 2",
    ]


@pytest.mark.requirement("OS-A")
def test_a_line_taken_out_of_an_export_is_found(holdfast: Holdfast, place: list[str], tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    holdfast("log", "export", THREAD, "-o", whole, *place)
    cut.write_bytes(
        b"\n".join(line for line in whole.read_bytes().splitlines() if b"runtime.tool.resulted" not in line)
    )
    report = json.loads(holdfast("audit", cut, "--run", RUN, "--json").stdout)
    named = [(missing["type"], missing["subject"]) for missing in report["runs"][RUN]["missing"]]
    assert ("runtime.tool.resulted", "call_1") in named


@pytest.mark.requirement("OS-A")
def test_a_complete_run_exits_0(holdfast: Holdfast, tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_store(Settings(data_dir=tmp_path)) as store:
            scope = Scope(DEFAULT_TENANT, THREAD, RUN)
            started = request.RequestStarted(executor="e", epoch=1)
            for payload in (thread.ThreadCreated(), request.RequestQueued(agent="echo"), started):
                await store.recorder.record(scope, payload)
            await store.recorder.record(scope, request.RequestCompleted(output="y"))

    asyncio.run(fill())
    result = holdfast("audit", THREAD, "--data-dir", tmp_path)
    assert (result.exit_code, result.output) == (0, f"{RUN}: 3 events, complete\n")


def test_a_thread_without_runs_has_nothing_to_audit(holdfast: Holdfast, data_dir: Path) -> None:
    result = holdfast("audit", SMALL, "--data-dir", data_dir)
    assert result.exit_code == 1 and "There is no such run." in result.output
