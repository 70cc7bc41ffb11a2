"""Checks `module:function` entries without importing anything: by reading the workspace's own sources.

A module of the workspace folder wins over an installed one of the same name.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import field

from app.core.syntax_tree import module_tree
from app.core.value import value
from app.workspace.files import SourceFile, WorkspaceFiles

_ENTRY = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")


@value(frozen=True, slots=True)
class Parameter:
    """`annotation` is the name of a type, such as `int`; None for anything more."""

    name: str
    has_default: bool
    positional_only: bool = False
    annotation: str | None = None


@value(frozen=True, slots=True)
class Signature:
    parameters: Mapping[str, Parameter]
    takes_any: bool = False
    """It has `**kwargs`."""

    def accepts(self) -> frozenset[str] | None:
        """The names of arguments that it takes; None if it takes any."""
        return None if self.takes_any else frozenset(self.parameters) - {"ctx"}


@value(frozen=True, slots=True)
class ModuleNames:
    """What a Python file defines at its top level, or where it fails to parse.

    `functions` are those whose signature can be read: not changed by an unknown decorator, not defined twice.
    """

    names: frozenset[str]
    error: str | None = None
    line: int = 1
    column: int = 1
    has_star: bool = False
    functions: Mapping[str, Signature] = field(default_factory=dict)


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
            tree = module_tree(file.content, file.path)
    except SyntaxError as error:
        return ModuleNames(frozenset(), error.msg, error.lineno or 1, error.offset or 1)
    except (ValueError, RecursionError, MemoryError):
        return ModuleNames(frozenset(), "the file cannot be parsed")
    names: set[str] = set()
    star = False
    for node in tree.body:
        names |= _defined(node)
        star = star or (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
    return ModuleNames(frozenset(names), has_star=star, functions=dict(_functions(tree)))


def _functions(tree: ast.Module) -> Iterator[tuple[str, Signature]]:
    counts: dict[str, int] = {}
    for node in tree.body:
        for name in _defined(node):
            counts[name] = counts.get(name, 0) + 1
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or counts[node.name] != 1:
            continue
        if all(_keeps_signature(decorator) for decorator in node.decorator_list):
            yield node.name, _signature(node.args)


def _keeps_signature(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(called, ast.Name) and called.id == "tool") or (
        isinstance(called, ast.Attribute) and called.attr == "tool"
    )


def _signature(arguments: ast.arguments) -> Signature:
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    found = [
        Parameter(one.arg, number >= without_default, number < len(arguments.posonlyargs), _type_name(one))
        for number, one in enumerate(positional)
    ]
    found += [
        Parameter(one.arg, default is not None, False, _type_name(one))
        for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return Signature({parameter.name: parameter for parameter in found}, arguments.kwarg is not None)


def _type_name(argument: ast.arg) -> str | None:
    hint = argument.annotation
    if isinstance(hint, ast.Subscript):
        hint = hint.value
    return hint.id if isinstance(hint, ast.Name) else None


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
