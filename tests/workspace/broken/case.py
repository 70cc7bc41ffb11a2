"""One broken workspace, and short ways to write one."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.workspace.building import document

A = "agents/a.yaml"
T = "tools/t.yaml"
M = "models/m.yaml"
R = "runtime.yaml"


@dataclass(frozen=True)
class Case:
    name: str
    code: str
    file: str
    line: int
    changes: Mapping[str, str | bytes | None]
    warning: bool = False
    profile: str | None = None


def agent(spec: str) -> dict[str, str]:
    return {A: document("Agent", "a", spec)}


def tool(spec: str) -> dict[str, str]:
    return {T: document("Tool", "t", spec)}


def model(spec: str) -> dict[str, str]:
    return {M: document("Model", "m", spec)}


OBJECT = "{type: object, properties: {x: {type: string}}}"
SKILL = "---\nname: {name}\ndescription: d\n{more}---\nDo it.\n"
