"""The syntax tree of Python source, made by one thread at a time.

CPython before 3.11.8 counts the depth of all trees that are being made together: where a garbage collection lets
another thread make one in between, `ast.parse` fails with a SystemError. Source that is not Python is refused as
`ast.parse` refuses it. Leaves to others: what a tree means.
"""

import ast
import threading
from typing import Final

_TURN: Final = threading.Lock()


def module_tree(source: bytes, filename: str) -> ast.Module:
    with _TURN:
        return ast.parse(source, filename=filename)


def expression_tree(source: str) -> ast.Expression:
    with _TURN:
        return ast.parse(source, mode="eval")
