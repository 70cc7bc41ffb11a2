"""Syntax trees are made by any number of threads."""

import ast
import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.core.syntax_tree import expression_tree, module_tree

SOURCE = (
    "def f(a):\n    return " + " + ".join(f"[a[{n}], (a.b({n}), {{'c': {n}}})]" for n in range(40)) + "\n"
).encode()


@pytest.fixture
def interrupted_by_collections() -> Iterator[None]:
    """Python code that a collection runs in the middle of a tree lets other threads go on, as finalizers do."""

    def let_others_go_on(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(let_others_go_on)
    gc.set_threshold(20)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(let_others_go_on)


@pytest.mark.usefixtures("interrupted_by_collections")
def test_threads_that_parse_at_once_all_get_their_tree() -> None:
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(lambda _: module_tree(SOURCE, "tools.py"), range(60)))
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(SOURCE))}


def test_what_is_not_python_is_refused_as_ever() -> None:
    with pytest.raises(SyntaxError, match=r"tools\.py"):
        module_tree(b"def f(:", "tools.py")
    assert isinstance(expression_tree("1 + 2"), ast.Expression)
