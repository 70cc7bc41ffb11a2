"""Compiles skills and roles, which are Markdown. Leaves to `cycles`: the files of `workflows/`.

An invalid skill that no agent names is left out with a warning; everything else fails closed.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from app.core.resources import shipped
from app.workspace.compiled import CompiledRole, CompiledSkill
from app.workspace.index import Index
from app.workspace.markdown import parse_markdown
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedMarkdown
from app.workspace.report import Report
from app.workspace.triggers import MAX_TRIGGER

ROLES: Final = ("lead", "planner", "worker", "reviewer", "advisor", "scaffolder")


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
                cycle=unit.values.get("cycle"),
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
    cycle = unit.values.get("cycle")
    if cycle is not None and not _is_cycle(cycle, index):
        hint = did_you_mean(report.suggest.nearest(str(cycle), index.units.get("cycles", {})))
        message = f"the skill starts a cycle that does not exist: there is no cycle {cycle!r}"
        report.warning("SKILL_INVALID", unit.place, ("cycle",), message, hint=hint)
        usable = False
    folder = unit.place.source.file.split("/")[1]
    if usable and folder != unit.id:
        message = f"the skill is named {unit.id!r} and its folder {folder!r}"
        report.warning("NAME_DIFFERS", unit.place, ("name",), message)
    return usable


def _is_cycle(name: object, index: Index) -> bool:
    return isinstance(name, str) and (name in index.units.get("cycles", {}) or index.may_be_unread(name))
