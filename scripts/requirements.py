"""Which requirements are proven, partly proven and open: joins docs/requirements.yaml with the marks of the tests.

    python -m scripts.requirements [--json]

Marks are read from the source, not by importing it, so the answer does not depend on what can be imported
here. A requirement with tests is proven, or partly proven where the file says what is missing; one without tests is
open. Fails on a mark whose id is not in the file; an open requirement is reported, not a failure.
"""

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from app.core import json

ROOT: Final = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Proof:
    """A test, or a class or module of tests, that carries a requirement's id."""

    requirement: str
    test: str


@dataclass(frozen=True, slots=True)
class Requirement:
    sentence: str
    missing: str | None = None
    """What is known not to be so yet."""


@dataclass(frozen=True, slots=True)
class Report:
    requirements: dict[str, Requirement]
    proofs: dict[str, list[str]]
    unknown: list[Proof]

    @property
    def proven(self) -> list[str]:
        return [id for id, it in self.requirements.items() if id in self.proofs and it.missing is None]

    @property
    def partial(self) -> list[str]:
        return [id for id, it in self.requirements.items() if id in self.proofs and it.missing is not None]

    @property
    def open(self) -> list[str]:
        return [id for id in self.requirements if id not in self.proofs]


def report(root: Path = ROOT) -> Report:
    requirements = read_requirements(root / "docs/requirements.yaml")
    proofs: dict[str, list[str]] = {}
    unknown = []
    for proof in collect(root / "tests"):
        if proof.requirement in requirements:
            proofs.setdefault(proof.requirement, []).append(proof.test)
        else:
            unknown.append(proof)
    return Report(requirements, proofs, unknown)


def read_requirements(path: Path) -> dict[str, Requirement]:
    """In the order of the file. Composed, because loading keeps the last duplicate in silence."""
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    requirements: dict[str, Requirement] = {}
    for key, value in node.value:
        assert key.value not in requirements, f"{path.name} line {key.start_mark.line + 1}: {key.value} stands twice"
        if isinstance(value, yaml.MappingNode):
            fields = {name.value: text.value for name, text in value.value}
            assert fields.keys() == {"says", "missing"}, f"{path.name} line {key.start_mark.line + 1}: {key.value}"
            requirements[key.value] = Requirement(fields["says"], fields["missing"])
        else:
            requirements[key.value] = Requirement(value.value)
    return requirements


def collect(tests: Path) -> Iterator[Proof]:
    for path in sorted(tests.rglob("*.py")):
        where = path.relative_to(tests.parent).as_posix()
        yield from _proofs(ast.parse(path.read_bytes(), filename=str(path)), where)


def _proofs(scope: ast.Module | ast.ClassDef, where: str) -> Iterator[Proof]:
    for statement in scope.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{where}::{statement.name}"
            for decorator in statement.decorator_list:
                yield from (Proof(requirement, name) for requirement in _ids(decorator))
            if isinstance(statement, ast.ClassDef):
                yield from _proofs(statement, name)
        elif _assigns_pytestmark(statement):
            yield from (Proof(requirement, where) for requirement in _ids(statement))


def _assigns_pytestmark(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets
    )


def _ids(node: ast.AST) -> Iterator[str]:
    """The ids of every `requirement(...)` mark in a piece of source, parametrised cases included."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "requirement"):
            continue
        for argument in call.args:
            # An id that is computed cannot be read here; it shows up as unknown, under its source.
            literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            yield argument.value if literal else ast.unparse(argument)  # type: ignore[attr-defined]


def main(arguments: list[str] | None = None, *, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.requirements")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json: bool = parser.parse_args(arguments).json
    found = report(root)
    if as_json:
        unknown = [{"id": proof.requirement, "test": proof.test} for proof in found.unknown]
        lists = {"proven": found.proven, "partial": found.partial, "open": found.open}
        print(json.dumps({**lists, "tests": found.proofs, "unknown": unknown}).decode())
    else:
        _print(found)
    return 1 if found.unknown else 0


def _print(found: Report) -> None:
    for id, requirement in found.requirements.items():
        tests = found.proofs.get(id, [])
        print(f"{id:8} {len(tests):4}  {requirement.sentence}")
        if requirement.missing is not None:
            print(f"{'':14}  missing: {requirement.missing}")
        for test in tests:
            print(f"{'':14}  {test}")
    print(f"\npartial: {' '.join(found.partial) or 'none'}\nopen: {' '.join(found.open) or 'none'}")
    counts = f"{len(found.proven)} proven, {len(found.partial)} partial, {len(found.open)} open"
    print(f"{len(found.requirements)} requirements: {counts}")
    for proof in found.unknown:
        print(f"{proof.test}: unknown requirement {proof.requirement}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
