"""Checks `module:function` entries without importing anything: by reading the workspace's own sources.

A module of the workspace folder wins over an installed one of the same name.
"""

import ast
import re
import warnings
from dataclasses import dataclass

from app.workspace.files import SourceFile, WorkspaceFiles

_ENTRY = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """What a Python file defines at its top level, or where it fails to parse."""

    names: frozenset[str]
    error: str | None = None
    line: int = 1
    column: int = 1
    has_star: bool = False


def split_entry(entry: str) -> tuple[str, str] | None:
    found = _ENTRY.fullmatch(entry)
    return (found[1], found[2]) if found is not None else None


def module_file(module: str, files: WorkspaceFiles) -> SourceFile | None:
    base = module.replace(".", "/")
    return files.files.get(f"{base}.py") or files.files.get(f"{base}/__init__.py")


def read_module(file: SourceFile) -> ModuleNames:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a doubtful escape in a string is the author's business
            tree = ast.parse(file.content, filename=file.path)
    except SyntaxError as error:
        return ModuleNames(frozenset(), error.msg, error.lineno or 1, error.offset or 1)
    except (ValueError, RecursionError, MemoryError):
        return ModuleNames(frozenset(), "the file cannot be parsed")
    names: set[str] = set()
    star = False
    for node in tree.body:
        names |= _defined(node)
        star = star or (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
    return ModuleNames(frozenset(names), has_star=star)


def _defined(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    if isinstance(node, ast.If | ast.Try):
        return {name for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt) for name in _defined(child)}
    return set()
