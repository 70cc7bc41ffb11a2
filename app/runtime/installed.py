"""What a run executes besides its workspace, in a few characters: the server itself, and modules that are installed.

The files of a workspace are kept with its digest; what its tools and hooks name in installed modules is not, and may be
another after a restart. A module is known by its source and by the version of the package that holds it; what it
imports in turn is not looked at. Leaves to others: comparing, and what to make of a difference.
"""

import importlib.machinery
import importlib.metadata
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from app import __version__
from app.workspace.compiled import CompiledWorkspace
from app.workspace.entries import module_file


def installed_code(workspace: CompiledWorkspace) -> str:
    """The server's version, with a hash where the workspace names installed modules. Reads files, imports nothing."""
    modules = sorted(set(_named(workspace)))
    if not modules:
        return __version__
    packages = importlib.metadata.packages_distributions()
    found = sha256()
    for module in modules:
        holders = sorted(set(packages.get(module.partition(".")[0], ())))
        versions = [f"{holder} {importlib.metadata.version(holder)}" for holder in holders]
        found.update("\n".join([module, *versions, sha256(_source(module)).hexdigest(), ""]).encode())
    return f"{__version__}+{found.hexdigest()[:16]}"


def _named(workspace: CompiledWorkspace) -> Iterator[str]:
    entries = [tool.spec.entry for tool in workspace.tools.values() if tool.spec.kind == "python"]
    undo = [tool.spec.compensation for tool in workspace.tools.values()]
    entries += [one.entry for one in undo if one is not None]
    entries += [hook.spec.entry for hook in workspace.hooks.values() if hook.spec.kind == "python"]
    for entry in entries:
        module = (entry or "").partition(":")[0]
        if module and module_file(module, workspace.files) is None:
            yield module


def _source(module: str) -> bytes:
    """Empty for what has none: a module in C, or one that is gone."""
    path, name = None, ""
    spec: importlib.machinery.ModuleSpec | None = None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None:
            return b""
        path = spec.submodule_search_locations
    try:
        return Path(spec.origin).read_bytes() if spec is not None and spec.origin is not None else b""
    except OSError:
        return b""
