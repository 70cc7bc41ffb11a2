"""The container files, without an engine: read, checked against what the promises say, and each step carried out.

What an engine would do is done in a clean folder: the same files copied, the same commands run, with the image's
folders moved there. What cannot be shown so (the kernel's side of a read-only root) is checked in the text.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.core import json
from app.core.settings import PREFIX, Settings
from scripts.generate import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
INSTALL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    text: str


def _stages() -> list[list[Instruction]]:
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    stages: list[list[Instruction]] = []
    for line in lines:
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append(Instruction(name, rest.strip()))
    return stages


STAGES = _stages()
BUILD, FINAL = STAGES
ENVIRONMENT = dict(
    pair.split("=", 1) for one in FINAL if one.name == "ENV" for pair in shlex.split(one.text) if "=" in pair
)


@pytest.mark.requirement("CARD-2")
def test_the_top_level_has_what_a_newcomer_looks_for() -> None:
    wanted = "pyproject.toml Dockerfile docker-compose.yml app migrations schemas workspaces tests"
    wanted += " README.md CHANGELOG.md LICENSE Makefile docs bench .ci"
    assert [name for name in wanted.split() if not (ROOT / name).exists()] == []


@pytest.mark.requirement("S22")
def test_the_image_runs_as_a_user_without_a_name_and_checks_its_own_health() -> None:
    (user,) = [one.text for one in FINAL if one.name == "USER"]
    assert all(part.isdigit() and int(part) >= 10_000 for part in user.split(":"))
    assert [one.name for one in FINAL if one.name in ("RUN", "ADD")] == []
    (health,) = [one.text for one in FINAL if one.name == "HEALTHCHECK"]
    assert "/readyz" in health
    assert ENVIRONMENT["HOLDFAST_AUTH"] == "keys"  # it listens to more than loopback


@pytest.mark.requirement("S21")
def test_everything_that_is_installed_is_pinned_by_hash() -> None:
    installs = [part for one in BUILD if one.name == "RUN" for part in one.text.split("&&") if " install " in part]
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or ("--no-deps" in install and "--no-index" in install), install
    for name in ("base", "build", "dev", "nats"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        pins = [index for index, line in enumerate(lines) if "==" in line and not line.startswith((" ", "#"))]
        assert pins
        assert [lines[index] for index in pins if "--hash=sha256:" not in lines[index + 1]] == []


def test_base_images_are_the_same_and_none_is_the_newest_by_accident() -> None:
    images = [stage[0].text.split()[0] for stage in STAGES]
    images += [service["image"] for service in COMPOSE["services"].values() if "build" not in service]
    assert images[0] == images[1]
    assert [image for image in images if ":" not in image or image.endswith(":latest")] == []


def test_what_is_copied_exists_and_is_let_through_to_the_builder() -> None:
    copied = [word for one in BUILD if one.name == "COPY" for word in one.text.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert [path for path in copied if f"!{path}" not in ignored] == []


def test_variables_of_the_container_files_are_settings() -> None:
    used = {name for name in ENVIRONMENT if name.startswith(PREFIX)}
    for service in COMPOSE["services"].values():
        used |= {name for name in service.get("environment", {}) if name.startswith(PREFIX)}
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    assert used - known == set()


@pytest.mark.requirement("S22")
@pytest.mark.parametrize("name", ["server", "keys", "prometheus"])
def test_services_have_a_read_only_root_and_no_privileges(name: str) -> None:
    service = COMPOSE["services"][name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_nothing_is_published_beyond_the_machine() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports != []
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_files_and_volumes_of_the_services_exist() -> None:
    mounts = [one.split(":")[0] for service in COMPOSE["services"].values() for one in service.get("volumes", [])]
    named = {mount for mount in mounts if not mount.startswith("./")}
    assert [mount for mount in mounts if mount.startswith("./") and not (ROOT / mount).is_file()] == []
    assert named == set(COMPOSE["volumes"])


def test_a_drain_has_the_time_it_may_take() -> None:
    from app.core.settings import Settings

    assert float(COMPOSE["services"]["server"]["stop_grace_period"].rstrip("s")) > Settings().drain_seconds + 5


# -- dashboards and alerts -------------------------------------------------------------------------------


@pytest.mark.requirement("HK-12")
def test_dashboard_and_alerts_ask_only_for_metrics_that_exist() -> None:
    from scripts.metrics import names

    board = json.loads((ROOT / "docs/deploy/grafana/holdfast.json").read_bytes())
    rules = yaml.safe_load((ROOT / "docs/deploy/alerts.yml").read_text())["groups"][0]["rules"]
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    asked += [rule["expr"] for rule in rules]
    wanted = {name for expression in asked for name in re.findall(r"holdfast_[a-z_]+", expression)}
    assert len(wanted) > 25
    assert wanted - names() == set()


def test_every_alert_leads_to_a_part_of_the_runbook() -> None:
    rules = yaml.safe_load((ROOT / "docs/deploy/alerts.yml").read_text())["groups"][0]["rules"]
    headings = re.findall(r"^## (.+)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert {rule["annotations"]["runbook"].split("#")[1] for rule in rules} - anchors == set()


# -- carried out -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(INSTALL_SECONDS)
@pytest.mark.requirement("S21", "S22")
def test_each_step_of_the_image_works_in_a_clean_folder(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    environment = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    environment |= {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": os.environ["HOME"]}
    for one in BUILD:
        if one.name == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(one.text))
        elif one.name == "COPY":
            *paths, target = one.text.split()
            for path in paths:
                _copy(ROOT / path, source / target / (Path(path).name if target.endswith("/") else ""))
        elif one.name == "RUN":
            command = one.text.replace("/opt/", f"{tmp_path}/opt/")
            subprocess.run(["sh", "-ec", command], cwd=source, env=environment, check=True, timeout=INSTALL_SECONDS)
    _serve_the_image(tmp_path)


def _copy(source: Path, target: Path) -> None:
    target = target / source.name if target.is_dir() and source.is_file() else target
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def _serve_the_image(place: Path) -> None:
    """Entry point, health check and SIGTERM, with nothing written but in the data folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program, data = place / "opt/holdfast", place / "opt/empty/data"
    before = sorted(program.rglob("*"))
    moved = {"HOLDFAST_HOST": "127.0.0.1", "HOLDFAST_PORT": str(port), "HOLDFAST_DATA_DIR": str(data),
             "HOLDFAST_ADMIN_KEY_FILE": str(data / "admin.key"), "PATH": f"{program}/bin:/usr/bin:/bin"}  # fmt: skip
    environment = ENVIRONMENT | moved
    (entry,) = [json.loads(one.text) for one in FINAL if one.name == "ENTRYPOINT"]
    (command,) = [json.loads(one.text) for one in FINAL if one.name == "CMD"]
    (health,) = [one.text for one in FINAL if one.name == "HEALTHCHECK"]
    check = json.loads(health[health.index("CMD ") + 4 :].replace("8700", str(port)))
    server = subprocess.Popen([program / "bin" / entry[0], *command], env=environment, cwd=place)
    try:
        ends = time.monotonic() + 30
        while subprocess.run(check, env=environment, capture_output=True, check=False).returncode != 0:
            assert server.poll() is None and time.monotonic() < ends
            time.sleep(0.2)
        server.send_signal(signal.SIGTERM)
        assert server.wait(40) == 0
    finally:
        server.kill()
    assert sorted(program.rglob("*")) == before
