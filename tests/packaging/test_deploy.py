"""The files of deploy/: rendered and checked by the programs that would use them, where those are installed."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it ships no types
import pytest
import yaml

from app.core.settings import PREFIX, Settings
from scripts.generate import ROOT

DEPLOY = ROOT / "deploy"
OVERLAYS = sorted(path.parent.name for path in (DEPLOY / "kubernetes/overlays").glob("*/kustomization.yaml"))
KUBERNETES = ("1.29", "1.33")
"""The oldest and the newest version that the manifests are checked against."""


def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        pytest.skip(f"{name} is not installed, so it cannot check its file")
    return found


@cache
def _rendered(overlay: str) -> list[dict[str, Any]]:
    command = [_program("kubectl"), "kustomize", str(DEPLOY / "kubernetes/overlays" / overlay)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [document for document in yaml.safe_load_all(text) if document]


def _files() -> list[dict[str, Any]]:
    """The documents as they are written, for a machine without kubectl."""
    paths = [path for path in (DEPLOY / "kubernetes").rglob("*.yaml") if path.name != "kustomization.yaml"]
    documents = [yaml.safe_load(path.read_text()) for path in paths if path.parent.name == "base"]
    return [document for document in documents if document["kind"] not in ("Deployment", "Service")]


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_rendered_manifests_match_the_schemas_of_kubernetes(overlay: str, version: str) -> None:
    kinds = set()
    for document in _rendered(overlay):
        kubernetes_validate.validate(document, version, strict=True)
        kinds.add(document["kind"])
    assert {"Deployment", "Service", "PodDisruptionBudget", "ConfigMap", "ServiceAccount"} <= kinds


def test_written_manifests_match_the_schemas_of_kubernetes() -> None:
    for document in _files():
        kubernetes_validate.validate(document, KUBERNETES[-1], strict=True)


@pytest.mark.requirement("S22")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_probes_a_read_only_root_and_no_privileges(overlay: str) -> None:
    (deployment,) = [one for one in _rendered(overlay) if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert not pod["automountServiceAccountToken"]
    (container,) = pod["containers"]
    inside = container["securityContext"]
    assert inside["readOnlyRootFilesystem"] and not inside["allowPrivilegeEscalation"]
    assert inside["capabilities"] == {"drop": ["ALL"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/data", "/tmp"}
    (settings,) = [one["data"] for one in _rendered(overlay) if one["kind"] == "ConfigMap"]
    drain = float(settings["HOLDFAST_DRAIN_SECONDS"])
    assert pod["terminationGracePeriodSeconds"] >= drain + 5 + 10  # the pause before, and what requests may take after
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_autoscaler_watches_a_metric_that_exists() -> None:
    (scaler,) = [one for one in _rendered("large") if one["kind"] == "HorizontalPodAutoscaler"]
    names = {one["pods"]["metric"]["name"] for one in scaler["spec"]["metrics"] if one["type"] == "Pods"}
    assert names == {"holdfast_runs_wanted"}
    assert all(f"`{name}`" in (ROOT / "docs/metrics.md").read_text() for name in names)
    (deployment,) = [one for one in _rendered("large") if one["kind"] == "Deployment"]
    assert "replicas" not in deployment["spec"]  # applying again must not undo what the autoscaler did


def test_every_variable_in_the_files_is_a_setting() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            used = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", path.read_text()))
            assert used <= known, path


def test_haproxy_accepts_its_configuration() -> None:
    names = {f"SERVER_{number}": f"127.0.0.1:{number}" for number in (1, 2, 3)}
    command = [_program("haproxy"), "-c", "-f", str(DEPLOY / "compose/haproxy.cfg")]
    checked = subprocess.run(
        command,
        env={"LISTEN": "127.0.0.1:8700", "NAMESERVER": "127.0.0.11:53", **names},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    command = [_program("nginx"), "-t", "-e", "stderr", "-g", f"pid {tmp_path}/pid;", "-c"]
    checked = subprocess.run(
        [*command, str(DEPLOY / "compose/nginx.conf")], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd/holdfast.service").read_text()
    unit = tmp_path / "holdfast.service"
    unit.write_text(text.replace("/opt/holdfast/bin/holdfast", "/bin/true"))
    checked = subprocess.run(
        [_program("systemd-analyze"), "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0 and "holdfast.service" not in checked.stderr, checked.stderr
    stop = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert stop is not None and int(stop[1]) >= Settings().drain_seconds + 10


def test_compose_has_three_servers_that_differ_in_nothing() -> None:
    compose = yaml.safe_load((DEPLOY / "compose/docker-compose.yml").read_text())
    services = compose["services"]
    assert services["one"] == services["two"] == services["three"]
    assert services["one"]["read_only"] and services["one"]["cap_drop"] == ["ALL"]
    images = {name: service["image"] for name, service in services.items()}
    assert [image for image in images.values() if ":" not in image or image.endswith(":latest")] == []
    (volume,) = services["balancer"]["volumes"]
    assert (DEPLOY / "compose" / volume.split(":")[0]).is_file()
    used = set(re.findall(r'"\$([A-Z_0-9]+)"', (DEPLOY / "compose/haproxy.cfg").read_text()))
    assert used == set(services["balancer"]["environment"])
    (name,) = services["one"]["networks"]["default"]["aliases"]
    assert f"set $servers {name};" in (DEPLOY / "compose/nginx.conf").read_text()
    assert services["secret"]["networks"] == ["default"]  # it is no server
    grace = int(services["one"]["stop_grace_period"].removesuffix("s"))
    assert grace >= Settings().drain_seconds + 5
