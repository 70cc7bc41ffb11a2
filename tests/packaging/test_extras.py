"""The agent frameworks as optional extras: each has a lock of its own that agrees with all others, and works alone.

`make test-each-extra` installs each of the six in an empty environment and runs its backend there; the rest only reads.
"""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

from app.backends.contract import BackendKind
from app.wiring.kinds import installed_backends
from tests.server import ROOT, clean_environment

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FRAMEWORKS: Final = {
    "langgraph": "langgraph",
    "deepagents": "deepagents",
    "openai-agents": "openai_agents",
    "google-adk": "google_adk",
    "agent-framework": "agent_framework",
    "pydantic-ai": "pydantic_ai",
}
"""By extra, its backend."""
INSTALL_SECONDS: Final = 900
_PIN: Final = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


def pins(file: str) -> dict[str, set[str]]:
    """By package, its versions; a package may have one for each platform."""
    found: dict[str, set[str]] = {}
    for name, version in _PIN.findall((ROOT / "requirements" / file).read_text()):
        found.setdefault(name, set()).add(version)
    return found


@pytest.mark.requirement("SH-9")
def test_every_framework_is_an_extra_of_its_own_with_a_lock_and_a_floor() -> None:
    kinds = {name: kind for name, kind in installed_backends().items() if isinstance(kind, BackendKind)}
    assert {kind.extra: name for name, kind in kinds.items() if kind.extra} == FRAMEWORKS
    for extra in FRAMEWORKS:
        for line in PROJECT["optional-dependencies"][extra]:
            wanted = Requirement(line)
            (version,) = pins(f"extras/{extra}.txt")[wanted.name]
            assert any(part.operator == ">=" for part in wanted.specifier), f"{line} has no floor"
            assert version in wanted.specifier, f"{extra}.txt has {wanted.name} {version}"


@pytest.mark.requirement("SH-9", "SH-24")
@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_a_lock_agrees_with_the_joint_one_and_changes_nothing_of_the_server(extra: str) -> None:
    locked, joint, base = pins(f"extras/{extra}.txt"), pins("extras/all.txt"), pins("base.txt")
    assert {name: found for name, found in locked.items() if joint.get(name) != found} == {}
    assert {name: locked.get(name) for name, found in base.items() if locked.get(name) != found} == {}
    others = {Requirement(PROJECT["optional-dependencies"][other][0]).name for other in FRAMEWORKS if other != extra}
    if extra == "deepagents":
        others.discard("langgraph")  # which it is built on
    assert not others & set(locked), "a framework brings no other"
    text = (ROOT / "requirements" / "extras" / f"{extra}.txt").read_text()
    blocks = [block for block in re.split(r"\n(?=[a-z0-9])", text) if _PIN.match(block)]
    assert len(blocks) >= len(locked) and all("--hash=sha256:" in block for block in blocks)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [str(ROOT / ".venv/bin/python"), "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
@pytest.mark.requirement("SH-9", "SH-24")
@pytest.mark.parametrize("extra", FRAMEWORKS)
def test_an_extra_installs_alone_by_its_lock_and_its_backend_works(extra: str, wheel: Path, tmp_path: Path) -> None:
    uv, python = ROOT / ".venv/bin/uv", tmp_path / "venv/bin/python"
    lock = ROOT / "requirements" / "extras" / f"{extra}.txt"

    def done(*command: str | Path, code: int = 0) -> str:
        environment = clean_environment() | {"VIRTUAL_ENV": str(tmp_path / "venv"), "HOME": os.environ["HOME"]}
        ran = subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout + (ran.stderr if code else "")

    done(uv, "venv", "-q", "--python", ROOT / ".venv/bin/python", tmp_path / "venv")
    done(uv, "pip", "sync", "-q", "--require-hashes", lock)
    done(uv, "pip", "install", "-q", "--no-deps", wheel)
    done(uv, "pip", "check")
    holdfast, kind = tmp_path / "venv/bin/holdfast", FRAMEWORKS[extra]
    report = json.loads(done(holdfast, "compare", ROOT / "workspaces/compare", "--repeat", "1", "--json"))
    usable = [kind, "langgraph"] if extra == "deepagents" else [kind]
    assert {each["backend"] for each in report["backends"]} == {"native", "plan_work_review", *usable}
    for each in report["backends"]:
        assert (each["successRate"], each["toolArgumentMatchRate"], each["skillResolutionRate"]) == (1, 1, 1), each
    # Naming a backend of another extra is an error of the workspace, with a line that works.
    other = next(name for name, backend in FRAMEWORKS.items() if backend not in usable)
    space = tmp_path / "space"
    done(holdfast, "new", space)
    agent = f"apiVersion: holdfast/v1\nkind: Agent\nmetadata: {{name: other}}\nspec: {{backend: {FRAMEWORKS[other]}}}\n"
    (space / "other.yaml").write_text(agent)
    said = done(holdfast, "check", space, code=1)
    assert "KIND_NOT_INSTALLED" in said and f"pip install 'holdfast[{other}]'" in said
    assert python.exists()
