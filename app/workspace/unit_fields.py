"""What the files of `workflows/` may say: known fields, ids, bounds, and the names that expressions may use.

The published schemas check the form and let other fields pass; here a field that nothing reads is a mistake.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from app.core.expressions import Expression, ExpressionProblem, NumberExpression, compile_expression, compile_number
from app.core.expressions import VariableType as Kind
from app.core.value import value
from app.workspace.diagnostics import DocPath
from app.workspace.index import Index
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedMarkdown
from app.workspace.report import Report

_SHARED: Final = ("schema_version", "version", "description")
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cycles": (*_SHARED, "id", "phases", "entry_phase", "exit_conditions", "loop_bounds", "policies"),
    "phases": (
        *_SHARED,
        "id",
        "advance_signal",
        "halt_signal",
        "agents_invoked",
        "input_schema",
        "output_schema",
        "policies",
        "artifact",
    ),
    "policies": (*_SHARED, "id", "kind", "rules", "default"),
    "personas": (*_SHARED, "name", "agent", "allowed-tools", "triggers", "plugin"),
    "artifacts": (*_SHARED, "id", "naming", "schema", "frontmatter"),
}

MAX_PHASES: Final = 100
MAX_INVOKED: Final = 32
MAX_POLICIES: Final = 50
MAX_RULES: Final = 200

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CEL_WORDS: Final = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"namespace", "null", "package", "return", "true", "var", "void", "while"}
)

CONTRACT_NAMES: Final = (
    "review_aggregate",
    "brainstorm",
    "plan",
    "solution",
    "learning",
    "pulse_report",
    "lead_directive",
    "worker_report",
    "review_result",
)
"""Published schemas without their version: in an expression, the newest output that has the schema."""

STATE_NAMES: Final[Mapping[str, Kind]] = {
    "input": "any",
    "mode": "string",
    "cycle": "string",
    "phase": "string",
    "generation": "int",
    "visits": "int",
    "output": "any",
    "outputs": "any",
    "phases": "any",
    **dict.fromkeys(CONTRACT_NAMES, "any"),
}


@value(frozen=True, slots=True)
class UnitCheck:
    """One file of `workflows/` while it is checked."""

    unit: ParsedMarkdown
    index: Index
    report: Report

    def error(self, code: str, path: DocPath, message: str, *, expected: str | None = None, hint: str = "") -> None:
        self.report.error(code, self.unit.place, path, message, expected=expected, hint=hint or None)

    def fields(self) -> None:
        """Says each field that nothing reads, and an id that cannot be one. `x-` begins a field of the author's own."""
        known = FIELDS[self.unit.category]
        self._unknown(self.unit.values, known, ())
        if not _ID.fullmatch(self.unit.id):
            field = "name" if self.unit.category == "personas" else "id"
            expected = "at most 64 letters, digits, `_`, `.` and `-`"
            self.error("VALUE_INVALID", (field,), "the id has characters that an id may not have", expected=expected)

    def _unknown(self, values: Mapping[str, Any], known: Collection[str], path: DocPath) -> None:
        for name in values:
            if name not in known and not name.startswith("x-"):
                near = did_you_mean(self.report.suggest.nearest(name, known))
                expected = f"one of: {', '.join(known)}"
                self.report.error(
                    "FIELD_UNKNOWN",
                    self.unit.place,
                    (*path, name),
                    "there is no such field",
                    expected=expected,
                    hint=near,
                    key=True,
                )

    def section(self, name: str, known: Collection[str]) -> Mapping[str, Any]:
        """A mapping of the frontmatter with its keys checked; empty when there is none."""
        values: Mapping[str, Any] = self.unit.values.get(name) or {}
        self._unknown(values, known, (name,))
        return values

    def at_most(self, name: str, most: int) -> Sequence[Any]:
        """A list of the frontmatter; a longer one than that is a mistake, and nothing of it is looked at."""
        values: Sequence[Any] = self.unit.values.get(name) or ()
        if len(values) <= most:
            return values
        self.error("VALUE_INVALID", (name,), f"there are {len(values)} entries; the limit is {most}")
        return ()

    def references(self, name: str, category: str, code: str, most: int) -> tuple[str, ...]:
        """A list of ids of another folder. Unknown ones and repeated ones are mistakes."""
        names, known = self.at_most(name, most), self.index.units.get(category, {})
        word = code.removesuffix("_UNKNOWN").lower()
        for number, one in enumerate(names):
            if one not in known and not self.index.may_be_unread(one):
                hint = did_you_mean(self.report.suggest.nearest(one, known)) or ""
                self.error(code, (name, number), f"there is no {word} {one!r}", hint=hint)
            elif one in names[:number]:
                self.error("REFERENCE_DUPLICATE", (name, number), f"{one!r} is listed twice")
        return tuple(names)

    def expression(self, path: DocPath, text: object, more: Mapping[str, Kind] | None = None) -> Expression | None:
        if not isinstance(text, str):
            self.error("EXPRESSION_INVALID", path, "a condition is an expression", expected="CEL")
            return None
        made = compile_expression(text, {**self._names(), **(more or {})})
        if isinstance(made, ExpressionProblem):
            self._problem(path, made)
            return None
        return made

    def number(self, path: DocPath, text: object) -> NumberExpression | None:
        if not isinstance(text, str):
            self.error("EXPRESSION_INVALID", path, "a grade is an expression", expected="CEL that gives a number")
            return None
        made = compile_number(text, self._names())
        if isinstance(made, ExpressionProblem):
            self._problem(path, made)
            return None
        return made

    def _names(self) -> Mapping[str, Kind]:
        """A phase's output is also known by the phase's id, where that can be a name."""
        phases = self.index.units.get("phases", {})
        own = [name for name in phases if _IDENTIFIER.fullmatch(name) and name not in _CEL_WORDS]
        return {**dict.fromkeys(own, "any"), **STATE_NAMES}

    def _problem(self, path: DocPath, problem: ExpressionProblem) -> None:
        hint = "write a comparison, such as `review_aggregate.p0_unresolved == 0`"
        if problem.message.startswith("undeclared reference"):
            hint = f"use the id of a phase, or one of: {', '.join(sorted(STATE_NAMES))}"
        self.error("EXPRESSION_INVALID", path, problem.message[:300], hint=hint)
