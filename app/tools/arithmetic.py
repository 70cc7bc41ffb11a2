"""Arithmetic as text, evaluated by walking its syntax tree: numbers and operators, nothing else, bounded."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Final

from app.core.errors import Failure
from app.core.syntax_tree import expression_tree

Number = int | float

_BINARY: Final[dict[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_LARGEST: Final = 2**63 - 1  # what our JSON can carry; also keeps a power tower from filling the memory
_MAX_NODES: Final = 200


def evaluate(expression: str) -> Number | Failure:
    try:
        tree = expression_tree(expression.strip())
        if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
            return _failure("is too long")
        return _value(tree.body)
    except ZeroDivisionError:
        return _failure("divides by zero")
    except OverflowError:
        return _failure("has a result that is too large")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _failure("may only contain numbers, + - * / // % ** and parentheses")


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _bounded(_power(_value(left), _value(right)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left), _value(right)))
    raise ValueError


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if abs(base) > 1 and exponent > 64:
            raise OverflowError
        return int(base**exponent)
    return math.pow(base, exponent)


def _bounded(number: Number) -> Number:
    if isinstance(number, int):
        if abs(number) > _LARGEST:
            raise OverflowError
    elif not math.isfinite(number):
        raise OverflowError
    return number


def _failure(what: str) -> Failure:
    return Failure("TOOL_FAILED", f"The expression {what}")
