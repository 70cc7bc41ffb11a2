"""Finds the folders that ship with the program: migrations, schemas, workspaces.

In a checkout they stand at the top level; in an installed wheel inside the package.
"""

from pathlib import Path

import app

_PACKAGE = Path(app.__file__).parent


def shipped(name: str) -> Path:
    installed = _PACKAGE / "shipped" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
