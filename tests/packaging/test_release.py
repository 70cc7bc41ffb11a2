"""What a release needs: a workflow that is ready, and a program that says where it does not run."""

import re
import runpy
import sys
from typing import Any

import pytest
import yaml

from scripts.generate import ROOT

WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())


def test_a_release_is_checked_built_tried_and_published_without_a_stored_token() -> None:
    build, publish = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["publish"]
    commands = "\n".join(step.get("run", "") for step in build["steps"])
    assert "make check" in commands and "-t wheel -t sdist" in commands and "holdfast check" in commands
    assert publish["needs"] == ["build", "extras"] and publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_a_release_is_made_by_a_tag_only() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true


def test_on_windows_the_program_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="WSL 2"):
        runpy.run_module("app.main", run_name="__main__")


@pytest.mark.parametrize(
    ("package", "below"), [("websockets", (16,)), ("opentelemetry-api", (1, 45)), ("uuid-utils", (1,))]
)
def test_the_base_lock_leaves_room_for_the_agent_frameworks(package: str, below: tuple[int, ...]) -> None:
    """google-adk, openai-agents and langsmith cap these; `scripts/lock.sh` resolves them together with ours."""
    (version,) = re.findall(rf"^{package}==(\S+)", (ROOT / "requirements/base.txt").read_text(), re.MULTILINE)
    assert tuple(map(int, version.split("."))) < below
