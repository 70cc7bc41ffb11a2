"""`holdfast dataset` and `holdfast eval` against a real server: tables, JSON, a page, and exit codes."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.evals.judged import agent, write
from tests.forks import run_holdfast
from tests.server import ServerProcess, clean_environment

Holdfast = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def holdfast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holdfast]:
    folder = tmp_path_factory.mktemp("evals")
    server = ServerProcess.start(folder / "data", None, write(folder, agent("clerk", "[{evaluator: polite}]")))

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_holdfast(*arguments, "--url", server.url, environment=clean_environment())

    try:
        yield call
    finally:
        server.stop()


@pytest.mark.requirement("HK-22", "PX-5")
def test_dataset_is_imported_evaluated_and_exported(holdfast: Holdfast, tmp_path: Path) -> None:
    lines = tmp_path / "talks.jsonl"
    cases = [{"id": "kind", "input": "hello"}, {"id": "rude", "input": "be rude"}]
    lines.write_text("".join(json.dumps(case) + "\n" for case in cases))
    made = holdfast("dataset", "import", "talks", str(lines))
    assert made.returncode == 0 and made.stdout.startswith("talks@1: 2 cases"), made.stderr

    page = tmp_path / "report.html"
    low = holdfast("eval", "run", "talks", "--agent", "clerk", "--gate", "polite>=0.9", "--html", str(page))
    assert low.returncode == 1, low.stderr
    assert "polite" in low.stdout and "0.500" in low.stdout and "failed" in low.stdout
    assert page.read_text().startswith("<!doctype html>") and "<svg" in page.read_text()

    high = holdfast(
        "eval", "run", "talks@1", "--agent", "clerk", "--model-plan", "spare", "--baseline", "latest", "--json"
    )
    assert high.returncode == 0, high.stderr
    report = json.loads(high.stdout)
    assert report["passed"] and report["scores"]["polite"]["baseline"]["difference"] == 0.5
    listed = holdfast("eval", "list", "--quiet")
    assert listed.stdout.split()[0] == report["id"]
    assert holdfast("eval", "show", report["id"], "--quiet").stdout.strip() == "passed"

    out = tmp_path / "talks.yaml"
    assert holdfast("dataset", "export", "talks", str(out)).returncode == 0
    again = holdfast("dataset", "import", "again", str(out), "--json")
    assert json.loads(again.stdout)["cases"] == 2
    collected = holdfast("dataset", "collect", "runs", "--agent", "clerk", "--label", "holdfast.eval:" + report["id"])
    assert "runs@1: 2 cases" in collected.stdout
    sample = holdfast("dataset", "sample", "talks", "--size", "1", "--seed", "3", "--save-as", "one", "--quiet")
    assert sample.stdout.strip() == "one@1"
    assert "talks" in holdfast("dataset", "list").stdout


def test_wrong_usage_is_told(holdfast: Holdfast) -> None:
    assert holdfast("eval", "run", "none", "--agent", "clerk").returncode == 1
    assert holdfast("eval", "run", "talks", "--agent", "clerk", "--gate", "polite>=much").returncode == 2
    assert holdfast("eval", "run", "talks@x", "--agent", "clerk").returncode == 2
