"""`holdfast tool-bench` on the example workspace, and `holdfast compare` on what is always installed."""

import json
import subprocess

import pytest

from tests.forks import run_holdfast
from tests.server import clean_environment


def holdfast(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_holdfast(*arguments, environment=clean_environment())


@pytest.mark.requirement("SH-25")
def test_fifty_natural_calls_and_every_fault_with_repair_off_and_on() -> None:
    done = holdfast("tool-bench", "workspaces/tool-bench", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    natural = report["natural"]
    assert (report["model"], natural["asked"], natural["withoutCall"], natural["modelFailed"]) == ("script", 50, 0, 0)
    assert natural["repairOff"] == {"exact": 30, "repaired": 0, "accepted": 0, "refused": 20}
    assert natural["repairOn"] == {"exact": 30, "repaired": 13, "accepted": 0, "refused": 7}
    assert natural["badExecutions"] == {"withoutGuard": 10, "withGuard": 0}
    assert set(report["faults"]) == {
        "unknown_tool", "near_miss_name", "unparsable_arguments", "missing_required", "wrong_type", "bad_enum",
        "extra_argument", "absolute_path", "escaping_path", "broken_rule",
    }  # fmt: skip
    for kind, fault in report["faults"].items():
        assert fault["repairOff"]["refused"] == fault["injected"], kind
        assert fault["badExecutions"]["withGuard"] == 0, kind
        assert fault["repairOn"]["accepted"] == fault["repairOn"]["exact"] == 0, kind


def test_a_model_that_is_not_there_is_wrong_usage() -> None:
    done = holdfast("tool-bench", "workspaces/tool-bench", "--model", "gpt")
    assert done.returncode == 2 and "Models: script." in done.stderr


def test_a_comparison_with_a_backend_that_is_not_installed_is_wrong_usage() -> None:
    done = holdfast("compare", "workspaces/compare", "--backends", "native,acme")
    assert done.returncode == 2 and "acme" in done.stderr and "native" in done.stderr
