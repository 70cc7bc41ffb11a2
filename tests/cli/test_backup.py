"""`holdfast backup`: what it copies while a server writes is a whole data folder."""

from pathlib import Path

import httpx2
import pytest

from app.core import json
from tests.cli.conftest import Holdfast
from tests.server import ServerProcess


@pytest.mark.requirement("SH-23")
def test_a_copy_made_next_to_a_running_server_can_be_served_and_verified(holdfast: Holdfast, tmp_path: Path) -> None:
    server = ServerProcess.start(tmp_path / "data")
    try:
        with httpx2.Client(base_url=server.url) as client:
            run = client.post("/api/runs?wait=10", json={"agent": "echo", "input": "keep me"}).json()
            (server.data_dir / "files").mkdir(exist_ok=True)
            (server.data_dir / "files" / "note.txt").write_text("and me")
            copied = holdfast("backup", tmp_path / "copy", "--data-dir", server.data_dir)
            client.post("/api/runs?wait=10", json={"agent": "echo", "input": "too late"})
    finally:
        server.stop()
    assert (copied.exit_code, copied.stdout.startswith("copied ")) == (0, True)
    place = ["--data-dir", tmp_path / "copy"]
    assert holdfast("log", "verify", *place).exit_code == 0
    assert json.loads(holdfast("runs", "show", run["id"], "--json", *place).stdout)["output"] == "keep me"
    assert (tmp_path / "copy" / "files" / "note.txt").read_text() == "and me"


def test_nothing_is_overwritten_or_left_half_done(holdfast: Holdfast, data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    refused = holdfast("backup", tmp_path / "there", "--data-dir", data_dir)
    missing = holdfast("backup", tmp_path / "copy", "--data-dir", tmp_path / "nowhere")
    assert (refused.exit_code, missing.exit_code) == (1, 1)
    assert not (tmp_path / "copy").exists() and not (tmp_path / "copy.part").exists()


def test_postgres_is_left_to_its_tools(holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql://localhost/x")
    result = holdfast("backup", tmp_path / "copy")
    assert (result.exit_code, "pg_dump" in result.stderr) == (1, True)
