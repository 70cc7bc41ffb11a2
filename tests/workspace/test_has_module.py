"""Whether the module that a kind needs is installed: found without importing anything, and never by half its name."""

import importlib
import sys
from pathlib import Path

import pytest

from app.workspace.catalog import has_module


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`vendor_a` is shared by packages of many, `vendor_b` belongs to one; importing any of it fails."""
    for name in ("vendor_a/storage", "vendor_b", "vendor_b/sdk"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "vendor_c.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return tmp_path


@pytest.mark.requirement("SH-7")
def test_a_module_counts_only_when_all_of_its_name_is_found(installed: Path) -> None:
    names = ["vendor_a", "vendor_a.storage", "vendor_a.adk", "vendor_a.storage.adk"]
    assert [has_module(name) for name in names] == [True, True, False, False]
    names = ["vendor_b", "vendor_b.sdk", "vendor_b.adk", "vendor_c", "vendor_c.adk", "vendor_d", "vendor_d.adk", ""]
    assert [has_module(name) for name in names] == [True, True, False, True, False, False, False, False]
    assert not [name for name in sys.modules if name.startswith("vendor_")], "nothing is imported for it"


def test_what_python_itself_brings_is_found() -> None:
    assert has_module("json.decoder") and has_module("sys") and not has_module("sys.adk")
