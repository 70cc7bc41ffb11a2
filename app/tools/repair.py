"""Deterministic repair: a call that is wrong in form gets the one form it can have meant, or none.

Lossless only, each change recorded with before and after. The gateway sends a repaired call through the whole
gate again. Leaves to others: the round with a model, which is a port of the run.
"""

import copy
from collections.abc import Iterable, Mapping
from itertools import combinations, islice
from typing import Any, Final

from app.core import json
from app.core.value import value
from app.events.catalog.tool import Repair
from app.events.catalog.values import Effect
from app.tools.coerce import Coercion
from app.tools.contract import ToolRequest
from app.tools.guard import Guard, GuardProblem
from app.tools.jsontext import JsonReading, read
from app.tools.names import one_edit_away, same_but_spelling

_MAX_PLACES: Final = 8  # places inside unions that are tried together; more than that is no slip
_MAX_TOGETHER: Final = 3
_MAX_PROBLEMS: Final = 200  # in all; a call with more of them was not meant for this tool, and each costs a search
_MAX_ROUNDS: Final = 16  # a repaired place may bring the next one to light (an object that was text)


@value(frozen=True, slots=True)
class Repaired:
    arguments: dict[str, Any]
    repairs: tuple[Repair, ...]


def repair_name(name: str, known: Mapping[str, Effect], allowed: Iterable[str]) -> str | None:
    """The tool that a misspelt name means. Candidates are sought among all tools, so that an allowed one
    never stands in for another that the caller may not use; an unsafe tool is not found by an edit."""
    allowed = set(allowed)
    candidates = same_but_spelling(name, known)
    if not candidates:
        candidates = one_edit_away(name, known)
        if any(known[candidate] == "unsafe" for candidate in candidates):
            return None
    return candidates[0] if len(candidates) == 1 and candidates[0] in allowed else None


def repair_text(guard: Guard, call: ToolRequest) -> Repaired | None:
    """Arguments that did not parse, read leniently and then repaired like any others."""
    if not guard.definition.repair.json:
        return None
    reading = read(call.raw or "", complete=call.complete is True)
    if reading is None or not _nothing_lost(guard, reading, call.complete):
        return None
    repairs = tuple(Repair(kind=kind, path="", before=call.raw, after=reading.value) for kind in reading.kinds)
    if guard.accepts(reading.value):
        return Repaired(reading.value, repairs)
    further = repair_arguments(guard, reading.value)
    return None if further is None else Repaired(further.arguments, repairs + further.repairs)


def repair_arguments(guard: Guard, arguments: dict[str, Any]) -> Repaired | None:
    switches = guard.definition.repair
    if not (switches.types or switches.enums):
        return None
    work = copy.deepcopy(arguments)
    coercion = Coercion(guard.schema, types=switches.types, enums=switches.enums)
    repairs: list[Repair] = []
    for _ in range(_MAX_ROUNDS):
        problems = list(islice(guard.problems(work), _MAX_PROBLEMS + 1))
        if len(problems) > _MAX_PROBLEMS:
            return None
        done = [_apply(coercion, guard, work, problem) for problem in problems if not problem.in_union]
        repairs += [repair for repair in done if repair is not None]
        if not any(done):
            break
    if repairs and guard.accepts(work):
        return Repaired(work, tuple(repairs))
    return _repair_in_unions(coercion, guard, work, repairs)


def _repair_in_unions(coercion: Coercion, guard: Guard, work: dict[str, Any], before: list[Repair]) -> Repaired | None:
    """Which branch of a union was meant is open, so the fewest changes that make the call valid are sought;
    two different ways with equally few changes are a guess, and refused."""
    found_in_unions = (p for p in islice(guard.problems(work), _MAX_PROBLEMS) if p.in_union)
    problems = {(p.keyword, tuple(p.where), str(p.detail)): p for p in found_in_unions}
    if len(problems) > _MAX_PLACES:
        return None
    for together in range(1, min(_MAX_TOGETHER, len(problems)) + 1):
        found: dict[bytes, Repaired] = {}
        for chosen in combinations(problems.values(), together):
            trial = copy.deepcopy(work)
            done = [_apply(coercion, guard, trial, problem) for problem in chosen]
            if all(done) and guard.accepts(trial):
                repairs = (*before, *(repair for repair in done if repair is not None))
                found[json.canonical(trial)] = Repaired(trial, repairs)
        if found:
            return next(iter(found.values())) if len(found) == 1 else None
    return None


def _apply(coercion: Coercion, guard: Guard, work: dict[str, Any], problem: GuardProblem) -> Repair | None:
    if problem.keyword in ("required", "dependentRequired"):
        return coercion.key(work, list(problem.where), str(problem.detail))
    if guard.is_path(problem.where):
        return None
    return coercion.value(work, list(problem.where))


def _nothing_lost(guard: Guard, reading: JsonReading, complete: bool | None) -> bool:
    """Text without its closing brackets may have lost arguments too. It has not when the provider said that
    the message was complete, or when every declared argument is there."""
    if complete or not reading.closed_at:
        return True
    coercion = Coercion(guard.schema)
    for pointer in reading.closed_at:
        place, where = _walk(reading.value, pointer)
        declared = coercion.declared(where)
        if not isinstance(place, dict) or not declared or not declared <= set(place):
            return False
    return True


def _walk(value: Any, pointer: str) -> tuple[Any, list[str | int]]:
    where: list[str | int] = []
    for text in pointer.split("/")[1:]:
        step = text.replace("~1", "/").replace("~0", "~")
        where.append(int(step) if isinstance(value, list) else step)
        value = value[where[-1]]
    return value, where
