"""Which requirements have a test: joins docs/requirements.yaml with the marks of the tests.

    python -m scripts.requirements [--json]

Marks are read from the source, not by importing it, so the answer does not depend on what can be imported
here. Fails on an id that is not in the file; an id without a test is reported, not a failure.
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
class Report:
    sentences: dict[str, str]
    proofs: dict[str, list[str]]
    unknown: list[Proof]

    @property
    def untested(self) -> list[str]:
        return [requirement for requirement in self.sentences if requirement not in self.proofs]


def report(root: Path = ROOT) -> Report:
    sentences = read_sentences(root / "docs/requirements.yaml")
    proofs: dict[str, list[str]] = {}
    unknown = []
    for proof in collect(root / "tests"):
        if proof.requirement in sentences:
            proofs.setdefault(proof.requirement, []).append(proof.test)
        else:
            unknown.append(proof)
    return Report(sentences, proofs, unknown)


def read_sentences(path: Path) -> dict[str, str]:
    """Ids in the order of the file. Composed, because loading keeps the last duplicate in silence."""
    node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    sentences: dict[str, str] = {}
    for key, value in node.value:
        assert key.value not in sentences, f"{path.name} line {key.start_mark.line + 1}: {key.value} stands twice"
        sentences[key.value] = value.value
    return sentences


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
        print(json.dumps({"tested": found.proofs, "untested": found.untested, "unknown": unknown}).decode())
    else:
        _print(found)
    return 1 if found.unknown else 0


def _print(found: Report) -> None:
    for requirement, sentence in found.sentences.items():
        tests = found.proofs.get(requirement, [])
        print(f"{requirement:8} {len(tests):4}  {sentence}")
        for test in tests:
            print(f"{'':14}  {test}")
    print(f"\nwithout a test: {' '.join(found.untested) or 'none'}")
    print(f"{len(found.proofs)} of {len(found.sentences)} requirements have a test")
    for proof in found.unknown:
        print(f"{proof.test}: unknown requirement {proof.requirement}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
