"""Kinds from a package, as docs/extending.md writes it, in a real server process."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from tests.server import ROOT, ServerProcess

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(POINTS,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
WORKSPACE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]  # the others are parts of documents


def install(folder: Path, points: Mapping[str, Mapping[str, str]], code: str = CODE) -> dict[str, str]:
    """What an installer leaves behind; the variables of a process that finds it."""
    about = folder / "acme_holdfast-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-holdfast\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    (folder / "acme_holdfast.py").write_text(code)
    return {"PYTHONPATH": f"{ROOT}:{folder}"}


def workspace(folder: Path, text: str = WORKSPACE) -> Path:
    folder.mkdir()
    (folder / "workspace.yaml").write_text(text)
    return folder


@pytest.mark.requirement("SH-4", "HK-16", "HK-17")
async def test_package_adds_a_backend_a_provider_and_kinds_of_tools_and_guardrails(tmp_path: Path) -> None:
    points = tomllib.loads(POINTS)["project"]["entry-points"]
    variables = install(tmp_path / "site", points)
    server = ServerProcess.start(tmp_path / "data", workspace=workspace(tmp_path / "space"), variables=variables)
    try:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            answer = await client.post("/api/runs?wait=20", json={"input": "How many of bolt"})
            run = answer.json()
            assert (run["status"], run["output"]) == ("completed", 'In stock: {"stock":40}'), run
            events = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
            refused = (await client.post("/api/runs?wait=20", json={"input": "How many of screw"})).json()
            assert refused["error"]["code"] == "GUARDRAIL_DENIED", refused
            assert refused["error"]["message"] == "That cannot be right."
    finally:
        server.stop()
    facts = {event["type"]: event["payload"] for event in events}
    assert facts["runtime.model.completed"]["provider"] == "acme"
    assert facts["runtime.tool.resulted"]["output"] == {"stock": 40}


async def test_broken_package_is_named_to_who_uses_it_and_stops_nobody_else(tmp_path: Path) -> None:
    """The server starts with the demo, though the package cannot be imported."""
    points = {"holdfast.backends": {"acme_one_turn": "acme_holdfast:BACKEND"}}
    variables = install(tmp_path / "site", points, "raise RuntimeError('no licence')\n")
    server = ServerProcess.start(tmp_path / "data", variables=variables)
    try:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            answer = await client.post("/api/runs?wait=20", json={"agent": "echo", "input": "hi"})
            assert answer.json()["output"] == "hi"
    finally:
        server.stop()
    with pytest.raises(AssertionError) as refused:
        ServerProcess.start(tmp_path / "other", workspace=workspace(tmp_path / "space"), variables=variables)
    assert "KIND_BROKEN" in str(refused.value)
    assert "'acme_one_turn' of the package 'acme-holdfast' cannot be used: RuntimeError: no licence" in str(
        refused.value
    )


async def test_config_of_a_package_s_kind_is_checked_by_its_own_model(tmp_path: Path) -> None:
    points = tomllib.loads(POINTS)["project"]["entry-points"]
    variables = install(tmp_path / "site", points)
    spoilt = WORKSPACE.replace("config: {tool: stock}", "config: {tol: stock}").replace("bolt: 40", "bolt: many")
    with pytest.raises(AssertionError) as refused:
        ServerProcess.start(tmp_path / "data", workspace=workspace(tmp_path / "space", spoilt), variables=variables)
    said = str(refused.value)
    assert "the provider 'acme' does not read `tol`" in said
    assert "the field `tool` is missing" in said
    assert "`spec.config.rows.bolt` is not a whole number" in said
