"""One class name occurs once in `app/`, so that a name in a message or a search means one thing."""

import ast
from collections import defaultdict

from scripts.generate import ROOT


def test_one_class_name_occurs_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "app").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}, "give each class a name of its own"
