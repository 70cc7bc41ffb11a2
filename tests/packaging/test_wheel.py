"""The built wheel, installed in an empty environment elsewhere, is a whole product.

No network: the base dependencies are lent by the environment that runs the tests, through a path file.
"""

import asyncio
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest

from scripts.generate import ROOT

START_LIMIT = 60  # seconds; importing everything cold on a busy machine takes a few
STOP_LIMIT = 40  # seconds; a drain may take 30

SHIPPED = ("migrations", "schemas", "workspaces")

pytestmark = pytest.mark.skipif(
    not all((ROOT / name).is_dir() for name in SHIPPED), reason="a folder that ships is not there yet"
)
needs_server = pytest.mark.skipif(find_spec("app.main") is None, reason="the server is not there yet")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-qq",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*command, "--disable-pip-version-check", str(wheel)], check=True, timeout=60)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Path files inside a folder that is itself lent are not followed, so the checkout stays out of reach.
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_wheel_holds_the_program_with_what_it_reads_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for name in SHIPPED:
        inside = {entry.removeprefix(f"app/shipped/{name}/") for entry in names if f"/shipped/{name}/" in entry}
        outside = {
            path.relative_to(ROOT / name).as_posix()
            for path in (ROOT / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert inside == outside, name
    assert {entry.split("/")[0] for entry in names} == {
        "app",
        "holdfast",
        next(e for e in names if "dist-info" in e).split("/")[0],
    }


def test_installed_program_is_the_wheels_and_finds_its_files(environment: Path, tmp_path: Path) -> None:
    source = (
        "import app; from app.core.resources import shipped; from app.core.schemas import SchemaRegistry;"
        "print(app.__file__, shipped('workspaces'), len(SchemaRegistry().ids()), sep='\\n')"
    )
    done = subprocess.run(
        [environment / "bin/python", "-c", source],
        cwd=tmp_path,
        env=_bare(),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    package, workspaces, schemas = done.stdout.splitlines()
    assert Path(package).is_relative_to(environment)
    assert Path(workspaces).is_relative_to(environment)
    assert int(schemas) > 0


@needs_server
@pytest.mark.requirement("CARD-2")
async def test_installed_server_does_a_run_from_an_unrelated_folder(environment: Path, tmp_path: Path) -> None:
    server = await asyncio.create_subprocess_exec(
        environment / "bin/holdfast",
        "serve",
        cwd=tmp_path,
        env=_bare() | {"HOLDFAST_PORT": "0", "HOLDFAST_DATA_DIR": str(tmp_path / "data")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        url = await asyncio.wait_for(_listening(server), START_LIMIT)
        async with httpx2.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
            answer = await client.post("/api/runs?wait=10", json={"agent": "echo", "input": "hello"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "completed"
        server.terminate()
        _, status = await asyncio.wait_for(asyncio.gather(_drain(server), server.wait()), STOP_LIMIT)
        assert status == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def _listening(server: asyncio.subprocess.Process) -> str:
    assert server.stdout is not None
    said = b""
    async for line in server.stdout:
        said += line
        found = re.search(rb"listening on (http://127\.0\.0\.1:\d+)", line)
        if found:
            return found[1].decode()
    raise AssertionError(f"the server ended before it listened: {said.decode()}")


async def _drain(server: asyncio.subprocess.Process) -> None:
    assert server.stdout is not None
    while await server.stdout.read(65536):
        pass


def _bare() -> dict[str, str]:
    """No variable of ours and none of Python's: PYTHONPATH would bring the checkout back."""
    return {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")}
