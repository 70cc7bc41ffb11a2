"""Loads `module:function` of a workspace: from its own files, under a name that contains their digest, so that
two versions of a workspace live side by side; or from an installed package. Trusted code.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

from app.core.errors import Failure
from app.workspace.entries import module_file
from app.workspace.files import SourceFile, WorkspaceFiles

_PREFIX: Final = "holdfast_workspace_"


def load_entry(entry: str, files: WorkspaceFiles, *, own: bool) -> Any | Failure:
    """The object that `entry` names; `own` says that its module is a file of the workspace."""
    module, _, name = entry.partition(":")
    try:
        found: Any = importlib.import_module(_own_name(module, files) if own else module)
        for step in name.split("."):
            found = getattr(found, step)
    except Exception as error:
        # Importing runs the module; whatever it raises says that this tool cannot be had.
        return Failure("TOOL_INVALID", f"{entry} cannot be loaded: {type(error).__name__}")
    return found


def load_nearest(entry: str, files: WorkspaceFiles) -> Any | Failure:
    """The same from the workspace's own files if they have the module, else from an installed package."""
    return load_entry(entry, files, own=module_file(entry.partition(":")[0], files) is not None)


def _own_name(module: str, files: WorkspaceFiles) -> str:
    package = _PREFIX + files.digest[:16]
    if not any(isinstance(finder, _Finder) and finder.package == package for finder in sys.meta_path):
        sys.meta_path.append(_Finder(package, files.files))
    return f"{package}.{module}"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules from the workspace's stored sources; relative imports among them work."""

    def __init__(self, package: str, files: Mapping[str, SourceFile]) -> None:
        self.package, self._files = package, files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == self.package:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if not fullname.startswith(self.package + "."):
            return None
        base = fullname.removeprefix(self.package + ".").replace(".", "/")
        for place, is_package in ((f"{base}.py", False), (f"{base}/__init__.py", True)):
            if place in self._files:
                return importlib.machinery.ModuleSpec(fullname, self, origin=place, is_package=is_package)
        folder = any(place.startswith(base + "/") and place.endswith(".py") for place in self._files)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if folder else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        origin = module.__spec__.origin if module.__spec__ is not None else None
        if origin is not None:
            code = compile(self._files[origin].content, f"<workspace>/{origin}", "exec")
            exec(code, module.__dict__)  # noqa: S102  # the workspace's own code, read from its files
