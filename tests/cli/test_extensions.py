"""`holdfast extensions` with a server: what is loaded, and a reload that works and one that does not."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core import json
from tests.cli.conftest import Holdfast
from tests.server import ROOT, ServerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("extensions")
    shutil.copytree(ROOT / "workspaces" / "supervised", folder / "ws")
    (folder / "ws/extensions/broken").mkdir()
    (folder / "ws/extensions/broken/extension.manifest.json").write_text("{")
    server = ServerProcess.start(folder / "data", workspace=folder / "ws")
    yield server
    server.stop()


@pytest.mark.requirement("CM-8")
def test_extensions_are_listed_and_loaded_again_or_kept(holdfast: Holdfast, server: ServerProcess) -> None:
    here = ["--data-dir", str(server.data_dir)]
    listed = holdfast("extensions", "list", *here)
    assert listed.exit_code == 0 and "supervisor" in listed.stdout and "accepted (enforced)" in listed.stdout
    assert "broken was not loaded: the manifest is not readable JSON (invalid_manifest)" in listed.output
    shutil.rmtree(server.data_dir.parent / "ws/extensions/broken")
    assert [one["agentId"] for one in json.loads(holdfast("extensions", "list", "--json", *here).stdout)] == [
        "supervisor"
    ]
    again = holdfast("extensions", "reload", *here)
    assert again.stdout == "1 extensions are loaded, version 2 of the set\n", again.output
    manifest = next(Path(server.data_dir.parent / "ws" / "extensions").glob("*/extension.manifest.json"))
    manifest.write_text("{}")
    failed = holdfast("extensions", "reload", *here)
    assert failed.exit_code == 1 and "(invalid_manifest)" in failed.output, failed.output
    assert "Correct the request as the message says." in failed.output
    assert "supervisor" in holdfast("extensions", "list", *here).stdout, "the old set is kept"
