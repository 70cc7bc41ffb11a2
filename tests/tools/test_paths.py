"""Path arguments: which ones stay beneath their folder."""

from pathlib import Path

import pytest

from app.tools.contract import ToolDefinition
from app.tools.guard import Guard
from app.tools.paths import problem_with

BAD = [
    "/etc/passwd", "..", "../x", "a/../../x", "a/..", "%2e%2e/x", "%2E%2e%2fx", "%252e%252e/x", "..%2fx", "..\\x",
    "a\\..\\b", "\\x", "\\\\host\\x", "C:\\x", "c:/x", "~", "~/x", "~root/x", "file:///x", "FILE:x", "x\x00y", "%00",
    "\uff0e\uff0e/x", "\uff0fetc",
]  # fmt: skip
GOOD = ["a", "a/b.txt", ".", "./a", ".hidden", "a..b/c", "..a", "...", "50%/x", "a%20b", "~draft", "C", "a:b", "é/ß"]


@pytest.mark.requirement("SH-12", "S16")
@pytest.mark.parametrize("path", BAD)
def test_a_path_that_leaves_its_folder_is_a_problem(path: str) -> None:
    assert problem_with(path, None) is not None


@pytest.mark.parametrize("path", GOOD)
def test_a_path_beneath_its_folder_is_none(path: str) -> None:
    assert problem_with(path, None) is None


@pytest.mark.requirement("S16")
def test_a_path_through_a_link_is_a_problem_only_if_it_leads_outside(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (root / "out").symlink_to("..")
    (root / "in").symlink_to("inside")
    assert problem_with("out/x", root) is not None
    assert problem_with("in/x", root) is None


@pytest.mark.requirement("SH-12")
def test_only_what_is_declared_as_a_path_is_checked_as_one() -> None:
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "file": {"type": "string", "format": "path"},
            "target": {"type": "string"},
            "files": {"type": "array", "items": {"type": "string"}},
            "place": {"anyOf": [{"type": "string", "format": "path"}, {"type": "string", "format": "uri"}]},
        },
    }
    guard = Guard(ToolDefinition("t", input=schema, paths=("target", "/files")))
    assert guard.accepts({"text": "/etc/passwd", "place": "https://example.org/a/../b"})
    for bad in ({"file": "../x"}, {"target": "/x"}, {"files": ["ok", "../x"]}, {"place": "../x"}):
        assert not guard.accepts(bad)
        assert {finding.kind for finding in guard.check(bad)} <= {"bad_path", "constraint"}
    [finding] = guard.check({"files": ["ok", "../x"]})
    assert finding.path == "/files/1"
    assert "contains '..'" in finding.message
