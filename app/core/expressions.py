"""CEL expressions: compiled and type-checked at load, evaluated to a bool within a bounded cost.

The one module that knows the CEL library, which takes 4 MB and is loaded with the first expression. A result that is
not a bool, an error or too much work is a `Failure`; what follows from it (deny, ask, skip) is the caller's choice, and
a safe one is to deny.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, Final, Literal

from app.core.errors import Failure
from app.core.expression_cost import Allowance, allowance
from app.core.value import value

VariableType = Literal["map", "list", "string", "int", "bool", "any"]

MAX_SOURCE: Final = 2_000  # characters; a longer rule is a program and belongs in a tool
MAX_DEPTH: Final = 64  # the library recurses over values; a far deeper one ends the process

_POSITION = re.compile(r"<input>:(\d+):(\d+): (.*)")

_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "namespace",
        "package",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Words that CEL keeps for itself. A variable may have such a name all the same: it is compiled by another one."""
_TOKEN: Final = re.compile(
    r"""(?:[bB]?[rR]|[rR][bB])(?:"{3}.*?"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')"""
    r"""|[bB]?(?:"{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|//[^\n]*|(?P<selected>\.\s*)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)""",
    re.DOTALL,
)


@value(frozen=True, slots=True)
class ExpressionProblem:
    """Why a source is not a valid expression, and where in it (both counted from 1)."""

    message: str
    line: int = 1
    column: int = 1


@value(frozen=True, slots=True)
class Expression:
    source: str
    variables: frozenset[str]
    _program: Any = field(repr=False, compare=False)
    _allowance: Allowance = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, Any]) -> bool | Failure:
        """The answer for these values, which are JSON (strings, numbers, bools, None, lists, dicts)."""
        costly = _too_costly(values, self._allowance)
        if costly is not None:
            return Failure("EXPRESSION_TOO_COSTLY", costly)
        try:
            result = self._program.eval(data=_renamed(values))
            answer = result.value()
        except (RuntimeError, TypeError, ValueError, UnicodeError):
            return Failure("EXPRESSION_FAILED", "The expression could not be evaluated.")
        if answer is True or answer is False:
            return bool(answer)
        # The library's text may quote keys and values of the arguments, which are not ours to show.
        return Failure("EXPRESSION_FAILED", "The expression returned an error instead of true or false.")


@value(frozen=True, slots=True)
class NumberExpression:
    """An expression whose value is a number, such as a grade."""

    source: str
    variables: frozenset[str]
    _program: Any = field(repr=False, compare=False)
    _allowance: Allowance = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, Any]) -> float | Failure:
        """The number for these values; a result that is no finite number is a `Failure`."""
        costly = _too_costly(values, self._allowance)
        if costly is not None:
            return Failure("EXPRESSION_TOO_COSTLY", costly)
        try:
            answer = self._program.eval(data=_renamed(values)).value()
        except (RuntimeError, TypeError, ValueError, UnicodeError):
            return Failure("EXPRESSION_FAILED", "The expression could not be evaluated.")
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not math.isfinite(answer):
            return Failure("EXPRESSION_FAILED", "The expression returned no finite number.")
        return float(answer)


def compile_expression(source: str, variables: Mapping[str, VariableType]) -> Expression | ExpressionProblem:
    """Parse and type-check; the static type must be bool."""
    return _compile(source, tuple(sorted(variables.items())))


def compile_number(source: str, variables: Mapping[str, VariableType]) -> NumberExpression | ExpressionProblem:
    """Parse and type-check; the static type must be a number, or unknown."""
    names = tuple(sorted(variables.items()))
    made = _program(source, names)
    if isinstance(made, ExpressionProblem):
        return made
    program, allowed = made
    from cel_expr_python import cel

    if program.return_type() not in (cel.Type.INT, cel.Type.UINT, cel.Type.DOUBLE, cel.Type.DYN):
        return ExpressionProblem(f"the expression gives {str(program.return_type()).lower()}, not a number")
    return NumberExpression(source, frozenset(variables), program, allowed)


@lru_cache(maxsize=64)
def _environment(variables: tuple[tuple[str, VariableType], ...]) -> Any:
    from cel_expr_python import cel

    types: dict[VariableType, Any] = {
        "map": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        "list": cel.Type.List(cel.Type.DYN),
        "string": cel.Type.STRING,
        "int": cel.Type.INT,
        "bool": cel.Type.BOOL,
        "any": cel.Type.DYN,
    }
    return cel.NewEnv(variables={_spelled(name): types[kind] for name, kind in variables})


def _spelled(name: str) -> str:
    """The name by which the library knows a variable: as long as its own, so that places in a source stay the same."""
    return f"_{name[1:]}" if name in _RESERVED else name


def _respelled(source: str, variables: Iterable[str]) -> str:
    reserved = _RESERVED.intersection(variables)
    if not reserved:
        return source

    def token(found: re.Match[str]) -> str:
        is_variable = found["name"] in reserved and not found["selected"]
        return _spelled(found["name"]) if is_variable else found[0]

    return _TOKEN.sub(token, source)


def _renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_spelled(name): value for name, value in values.items()}


def _compile(source: str, variables: tuple[tuple[str, VariableType], ...]) -> Expression | ExpressionProblem:
    made = _program(source, variables)
    if isinstance(made, ExpressionProblem):
        return made
    program, allowed = made
    from cel_expr_python import cel

    if program.return_type() != cel.Type.BOOL:
        kind = str(program.return_type()).lower()
        return ExpressionProblem(f"the expression gives {kind}, not bool")
    return Expression(source, frozenset(name for name, _ in variables), program, allowed)


def _program(source: str, variables: tuple[tuple[str, VariableType], ...]) -> tuple[Any, Allowance] | ExpressionProblem:
    if not source.strip():
        return ExpressionProblem("the expression is empty")
    if len(source) > MAX_SOURCE:
        return ExpressionProblem(f"the expression is longer than {MAX_SOURCE} characters")
    allowed = allowance(source, [name for name, _ in variables])
    if isinstance(allowed, str):
        return ExpressionProblem(allowed)
    try:
        program = _environment(variables).compile(_respelled(source, (name for name, _ in variables)))
    except (RuntimeError, TypeError, ValueError, UnicodeError) as error:
        return _problem(str(error))
    return program, allowed


def _problem(text: str) -> ExpressionProblem:
    found = _POSITION.search(text)
    if found is not None:
        return ExpressionProblem(found[3].removesuffix(" (in container '')").strip(), int(found[1]), int(found[2]))
    if "recursion limit" in text:
        return ExpressionProblem("the expression is nested too deeply")
    return ExpressionProblem("the expression cannot be read")


def _too_costly(values: Mapping[str, Any], allowed: Allowance) -> str | None:
    nodes = text = 0
    level: list[Any] = list(values.values())
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        nodes += len(level)
        for item in level:
            if isinstance(item, str):
                text += len(item)
            elif isinstance(item, Mapping):
                text += sum(len(key) for key in item if isinstance(key, str))
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
        if nodes + len(below) > allowed.nodes or text > allowed.text:
            return "the values are larger than an expression may work through"
        if not below:
            return (
                None if allowed.covers(nodes, text) else "the values are larger than this expression may work through"
            )
        level = below
    return f"the values are nested deeper than {MAX_DEPTH} levels"
