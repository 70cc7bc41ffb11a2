"""What a release needs: a workflow that is ready, and a program that says where it does not run."""

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
    assert publish["needs"] == "build" and publish["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_a_release_is_made_by_a_tag_only() -> None:
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true


def test_on_windows_the_program_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="WSL 2"):
        runpy.run_module("app.main", run_name="__main__")
