"""What a hook is: a handler with its place, asked at named points of a run. Values and Protocols only.

Above stands `hooks`, which asks the handlers of a point in their order and is the only caller of `decide`; below
stand the kinds. Nothing here knows what a decision means for the run: whoever asked performs it.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, Protocol

from app.core.json import JsonObject
from app.core.value import contract_value
from app.events.catalog.artifact import UNDO_TOOL

DEFAULT_PRIORITY: Final = 100
DEFAULT_TIMEOUT: Final = 5.0  # seconds


class Point(StrEnum):
    """The places in a run's life at which hooks are asked; a closed list."""

    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    SKILL_START = "SkillStart"
    STOP = "Stop"
    PRE_COMPACT = "PreCompact"
    # Of the workflow plane: the names are taken, and nothing asks at them yet.
    WORKFLOW_START = "WorkflowStart"
    PHASE_ADVANCE = "PhaseAdvance"
    WORKFLOW_COMPLETE = "WorkflowComplete"


@contract_value(frozen=True, slots=True)
class About:
    """On whose behalf a point is reached. `agent` is None for a tool that was asked for directly."""

    run_id: str
    thread_id: str = ""
    tenant: str = "default"
    agent: str | None = None


@contract_value(frozen=True, slots=True)
class HookContext:
    """What a handler may know besides its input. A function gets it by declaring a parameter `ctx`."""

    hook: str
    point: Point
    about: About
    timeout_seconds: float = DEFAULT_TIMEOUT


class Handler(Protocol):
    """Answers a decision, or the JSON of one. Whatever else it does is a denial."""

    async def decide(self, subject: JsonObject, ctx: HookContext) -> object: ...


@contract_value(frozen=True, slots=True)
class Hook:
    """A handler in its place. `agents` None means everybody's; `tools` matters at the points of a tool call."""

    name: str
    points: frozenset[Point]
    handler: Handler
    priority: int = DEFAULT_PRIORITY
    timeout_seconds: float = DEFAULT_TIMEOUT
    tools: frozenset[str] = frozenset()
    agents: frozenset[str] | None = None

    def applies(self, subject: Mapping[str, Any], about: About) -> bool:
        if self.agents is not None and about.agent not in self.agents:
            return False
        if not self.tools or "tool" not in subject:
            return True
        # Whoever guards a tool also guards that its calls are taken back.
        return subject["tool"].removeprefix(UNDO_TOOL) in self.tools or subject["tool"] in self.tools


@contract_value(frozen=True, slots=True)
class HookConfig:
    """What a Hook document says to the handler it names."""

    name: str
    points: frozenset[Point]
    config: Mapping[str, Any] = field(default_factory=dict)
