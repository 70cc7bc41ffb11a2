"""`holdfast check` and `holdfast new`, as an operator types them."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.cli.check import check
from app.cli.new import new, templates
from app.core import json
from app.core.resources import shipped
from tests.workspace.building import GOOD

app = typer.Typer()
app.command()(check)
app.command()(new)
runner = CliRunner()


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_good_workspace_exits_0_and_shows_its_digest(tmp_path: Path) -> None:
    result = runner.invoke(app, ["check", str(write(tmp_path, GOOD))])
    assert result.exit_code == 0
    assert "1 agent, 1 model, 1 tool, 0 skills; 0 errors, 0 warnings" in result.output


@pytest.mark.requirement("SH-1")
def test_bad_workspace_exits_1_and_names_place_and_hint(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "agents/helper.yaml": GOOD["agents/helper.yaml"].replace("main", "mian")})
    result = runner.invoke(app, ["check", str(tmp_path)])
    assert result.exit_code == 1
    assert "agents/helper.yaml:6:10 MODEL_UNKNOWN spec.model" in result.output
    assert 'did you mean "main"?' in result.output
    assert "\x1b[" not in result.output


def test_json_is_one_document_for_machines(tmp_path: Path) -> None:
    write(tmp_path, {**GOOD, "agents/helper.yaml": "a: ["})
    result = runner.invoke(app, ["check", str(tmp_path), "--json", "--graph"])
    report = json.loads(result.output)
    assert result.exit_code == 1
    assert report["ok"] is False and report["digest"] is None and report["graph"] == []
    assert {"code", "severity", "file", "line", "column", "path", "message", "expected", "hint"} <= set(
        report["diagnostics"][0]
    )


def test_graph_draws_who_uses_what() -> None:
    demo = str(shipped("workspaces") / "demo")
    text = runner.invoke(app, ["check", demo, "--graph"]).output
    assert "agent/assistant\n├─ model: model/demo\n├─ skills: skill/greet\n" in text
    graph = json.loads(runner.invoke(app, ["check", demo, "--graph", "--json"]).output)["graph"]
    assert {"from": "skill/greet", "to": "tool/echo", "label": "allows"} in graph


def test_profile_is_taken_from_the_environment() -> None:
    demo = str(shipped("workspaces") / "demo")
    assert runner.invoke(app, ["check", demo], env={"HOLDFAST_PROFILE": "openai"}).exit_code == 0
    refused = runner.invoke(app, ["check", demo], env={"HOLDFAST_PROFILE": "opnai"})
    assert refused.exit_code == 1 and "PROFILE_UNKNOWN" in refused.output


def test_names_cannot_drive_the_terminal(tmp_path: Path) -> None:
    write(
        tmp_path,
        {**GOOD, "x.yaml": 'apiVersion: holdfast/v1\nkind: "\\e[31mTool"\nmetadata: {name: x}\nspec: {}\n'},
    )
    write(tmp_path, {"y.yaml": GOOD["agents/helper.yaml"].replace("main", '"\\e]0;gotcha\\a"')})
    assert "\x1b" not in runner.invoke(app, ["check", str(tmp_path)]).output


@pytest.mark.parametrize("template", ["demo", "openai", "local"])
def test_new_workspace_is_good_and_finds_its_schemas(tmp_path: Path, template: str) -> None:
    folder = tmp_path / "mine"
    assert runner.invoke(app, ["new", str(folder), "--template", template]).exit_code == 0
    assert runner.invoke(app, ["check", str(folder)]).exit_code == 0
    for path in folder.rglob("*.yaml"):
        schema = path.read_text().splitlines()[0].partition("$schema=")[2]
        assert (path.parent / schema).is_file(), path


def test_new_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    assert runner.invoke(app, ["new", str(tmp_path)]).exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_new_refuses_an_unknown_template(tmp_path: Path) -> None:
    result = runner.invoke(app, ["new", str(tmp_path / "x"), "--template", "../demo"])
    assert result.exit_code == 1 and not (tmp_path / "x").exists()
    assert set(templates()) >= {
        "brainstorm-cycle",
        "compare",
        "demo",
        "guarded",
        "judged",
        "local",
        "memory",
        "openai",
        "plan-work-review",
        "spec-driven",
        "tool-bench",
    }
