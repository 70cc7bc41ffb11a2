"""The layers of `app/`: import-linter, as `make check` runs it, finds no import against their order."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.generate import ROOT


@pytest.mark.requirement("HK-L")
def test_no_package_imports_one_above_it() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
