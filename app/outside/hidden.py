"""What no sandboxed program may read, wherever it is: the data folder, and `.env` files in and above the workspace.

Looked up anew for each program, because such files come and go. Leaves to `process`: how they are hidden.
"""

import os
from collections import deque
from pathlib import Path
from typing import Final

MAX_ENTRIES: Final = 20_000
"""As many as a workspace may have files; nearer ones first."""
_SKIPPED: Final = frozenset({".git", "__pycache__", "node_modules"})


def hidden_from_programs(data: Path | None, workspace: Path | None) -> tuple[Path, ...]:
    """Resolved, the data folder first. Nothing where there is no server with both."""
    if data is None or workspace is None:
        return ()
    data, workspace = data.resolve(), workspace.resolve()
    found = [data]
    for folder in {*workspace.parents, *data.parents, Path()}:
        _note(folder, found)
    todo, left = deque([workspace]), MAX_ENTRIES
    while todo and left > 0:
        folders = _note(todo.popleft(), found, keep=left)
        left -= len(folders) + 1
        todo += (folder for folder in folders if folder != data)
    return tuple(dict.fromkeys(found))


def _note(folder: Path, found: list[Path], keep: int = 0) -> list[Path]:
    """Add the folder's `.env` files, and what they link to; answers at most `keep` of its folders."""
    folders: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".env") and not entry.is_dir():
                    found += [Path(entry.path).absolute(), Path(os.path.realpath(entry.path))]
                elif len(folders) < keep and entry.name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
    except OSError:
        return folders  # what we cannot list, a program of ours cannot either
    return folders
