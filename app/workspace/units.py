"""Compiles what Markdown holds: skills, roles, and the parts of the workflow plane.

An invalid skill that no agent names is left out with a warning; everything else fails closed.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from app.core.expressions import Expression, ExpressionProblem, compile_open_expression
from app.core.resources import shipped
from app.workspace.compiled import CompiledRole, CompiledSkill, MarkdownUnit
from app.workspace.diagnostics import DocPath
from app.workspace.index import Index
from app.workspace.markdown import parse_markdown
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedMarkdown
from app.workspace.report import Report
from app.workspace.triggers import MAX_TRIGGER

ROLES: Final = ("lead", "planner", "worker", "reviewer", "advisor", "scaffolder")
_SIGNALS: Final = {"phases": ("advance_signal", "halt_signal")}


@lru_cache(maxsize=1)
def default_roles(folder: Path | None = None) -> Mapping[str, CompiledRole]:
    """The prompts that ship with the program."""
    root = folder or shipped("workspaces") / "defaults" / "roles"
    roles = {}
    for name in ROLES:
        roles[name] = CompiledRole(name, parse_markdown((root / f"{name}.md").read_bytes()).body, None)
    return MappingProxyType(roles)


def compile_roles(index: Index, report: Report) -> Mapping[str, CompiledRole]:
    roles = dict(default_roles())
    for unit in index.units.get("role", {}).values():
        file = unit.place.source.file
        if unit.id not in ROLES:
            near = report.suggest.nearest(unit.id, ROLES)
            hint = f'; did you mean "{near}.md"?' if near else ""
            report.at("ROLE_UNKNOWN", file, f"there is no role {unit.id!r}; the roles are {', '.join(ROLES)}{hint}")
        elif not unit.body.strip():
            report.at("PROMPT_EMPTY", file, "the role's prompt has no text")
        else:
            roles[unit.id] = CompiledRole(unit.id, unit.body, file)
    return MappingProxyType(roles)


def compile_skills(index: Index, report: Report) -> tuple[Mapping[str, CompiledSkill], Mapping[str, str]]:
    """The valid skills, and the files of the invalid ones by name.

    A skill restricts its agent, so an agent must not do without one that it names: that is the agent's error. One that
    no agent names can never be chosen.
    """
    skills: dict[str, CompiledSkill] = {}
    invalid: dict[str, str] = {}
    for unit in index.units.get("skill", {}).values():
        usable = unit.id not in index.ambiguous_skills
        if unit.ok and _skill_is_usable(unit, index, report) and usable:
            skills[unit.id] = CompiledSkill(
                name=unit.id,
                description=unit.values["description"],
                triggers=tuple(unit.values.get("triggers", ())),
                allowed_tools=tuple(unit.values.get("allowed-tools", ())),
                body=unit.body,
                file=unit.place.source.file,
                frontmatter=MappingProxyType(dict(unit.values)),
            )
        else:
            invalid[unit.id] = unit.place.source.file
    return MappingProxyType(skills), MappingProxyType(invalid)


def _skill_is_usable(unit: ParsedMarkdown, index: Index, report: Report) -> bool:
    usable = True
    for number, tool in enumerate(unit.values.get("allowed-tools", ())):
        if tool not in index.documents["Tool"] and not index.may_be_unread(tool):
            hint = did_you_mean(report.suggest.nearest(tool, index.documents["Tool"]))
            message = f"the skill allows a tool that does not exist: there is no Tool named {tool!r}"
            report.warning("SKILL_INVALID", unit.place, ("allowed-tools", number), message, hint=hint)
            usable = False
    for number, trigger in enumerate(unit.values.get("triggers", ())):
        if not trigger.strip() or len(trigger) > MAX_TRIGGER:
            message = f"a trigger is a text of at most {MAX_TRIGGER} characters"
            report.warning("SKILL_INVALID", unit.place, ("triggers", number), message)
            usable = False
    folder = unit.place.source.file.split("/")[1]
    if usable and folder != unit.id:
        message = f"the skill is named {unit.id!r} and its folder {folder!r}"
        report.warning("NAME_DIFFERS", unit.place, ("name",), message)
    return usable


def compile_workflow_units(index: Index, report: Report) -> dict[str, Mapping[str, MarkdownUnit]]:
    """Cycles, phases, policies, personas and artifacts, each by id."""
    compiled: dict[str, Mapping[str, MarkdownUnit]] = {}
    for category in ("cycles", "phases", "policies", "personas", "artifacts"):
        units = index.units.get(category, {})
        compiled[category] = MappingProxyType(
            {unit.id: _unit(unit, category, index, report) for unit in units.values() if unit.ok}
        )
    return compiled


def _unit(unit: ParsedMarkdown, category: str, index: Index, report: Report) -> MarkdownUnit:
    if category == "cycles":
        _check_cycle(unit, index, report)
    elif category == "phases":
        _refers(unit, ("policies",), "policies", "POLICY_UNKNOWN", index, report)
        _check_invoked(unit, index, report)
    expressions = MappingProxyType(dict(_expressions(unit, category, report)))
    values = MappingProxyType(dict(unit.values))
    return MarkdownUnit(unit.id, values, unit.body, unit.place.source.file, expressions)


def _check_cycle(unit: ParsedMarkdown, index: Index, report: Report) -> None:
    _refers(unit, ("phases",), "phases", "PHASE_UNKNOWN", index, report)
    _refers(unit, ("policies",), "policies", "POLICY_UNKNOWN", index, report)
    entry, phases = unit.values["entry_phase"], unit.values["phases"]
    if entry not in phases:
        hint = did_you_mean(report.suggest.nearest(entry, phases))
        message = f"the entry phase {entry!r} is not one of the cycle's phases"
        report.error("PHASE_UNKNOWN", unit.place, ("entry_phase",), message, hint=hint)


def _check_invoked(unit: ParsedMarkdown, index: Index, report: Report) -> None:
    known = {*index.units.get("personas", {}), *index.documents["Agent"], *ROLES}
    for number, name in enumerate(unit.values.get("agents_invoked", ())):
        if name not in known and not index.may_be_unread(name):
            hint = did_you_mean(report.suggest.nearest(name, known))
            message = f"there is no persona, agent or role {name!r}"
            report.error("PERSONA_UNKNOWN", unit.place, ("agents_invoked", number), message, hint=hint)


def _refers(unit: ParsedMarkdown, path: DocPath, category: str, code: str, index: Index, report: Report) -> None:
    known = index.units.get(category, {})
    for number, name in enumerate(unit.values.get(str(path[0]), ())):
        if name not in known and not index.may_be_unread(name):
            hint = did_you_mean(report.suggest.nearest(name, known))
            word = code.removesuffix("_UNKNOWN").lower()
            report.error(code, unit.place, (*path, number), f"there is no {word} {name!r}", hint=hint)


def _expressions(unit: ParsedMarkdown, category: str, report: Report) -> Iterator[tuple[str, Expression]]:
    found: list[tuple[str, DocPath, Any]] = [
        (name, (name,), unit.values[name]) for name in _SIGNALS.get(category, ()) if name in unit.values
    ]
    if category == "cycles":
        conditions = unit.values.get("exit_conditions", {})
        found += [(f"exit_conditions.{key}", ("exit_conditions", key), text) for key, text in conditions.items()]
    if category == "policies":
        rules = unit.values.get("rules", ())
        found += [(f"rules.{n}.when", ("rules", n, "when"), rule["when"]) for n, rule in enumerate(rules)]
    for name, path, text in found:
        if not isinstance(text, str):
            report.error("EXPRESSION_INVALID", unit.place, path, "a condition is an expression", expected="CEL")
            continue
        compiled = compile_open_expression(text)
        if isinstance(compiled, ExpressionProblem):
            hint = "write a comparison, such as `review_aggregate.p0_unresolved == 0`"
            report.error("EXPRESSION_INVALID", unit.place, path, compiled.message[:300], hint=hint)
        else:
            yield name, compiled
