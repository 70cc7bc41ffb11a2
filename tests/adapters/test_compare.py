"""`holdfast compare` on the example workspace, over everything that is installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.space import ADAPTERS
from tests.server import ROOT, clean_environment

EIGHT = ["native", "plan_work_review", *ADAPTERS]


@pytest.mark.requirement("SH-11", "OS-I2")
def test_one_workspace_runs_on_all_eight_and_the_report_says_where_they_differ(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.main", "compare", "workspaces/compare", "--repeat", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=clean_environment(), timeout=110)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [each["backend"] for each in report["backends"]] == EIGHT
    for each in report["backends"]:
        assert (each["successRate"], each["toolArgumentMatchRate"], each["skillResolutionRate"]) == (1, 1, 1), each
        assert each["meanMs"] > 0 and each["cases"][0]["outputShape"] == "text"
    nodes = {each["backend"]: each["cases"][0]["traceNodes"] for each in report["backends"]}
    assert nodes["native"] == ["skills.lookup", "model", "tools.find_order", "model"]
    assert nodes["langgraph"].count("node.model") == 2 and nodes["plan_work_review"][1] == "model.lead"
    assert {found["what"] for found in report["differences"]} >= {"traceNodes", "toolsOffered"}
    assert "deepagents: 2 runs" in done.stderr, "progress while it runs"


def test_the_documented_report_is_one_of_all_eight() -> None:
    report = json.loads((ROOT / "docs" / "backends-comparison.json").read_text())
    assert [each["backend"] for each in report["backends"]] == EIGHT
    assert report["repeat"] == 20 and all(each["runs"] == 40 for each in report["backends"])
