"""Compiles the Markdown of `workflows/`: cycles, phases, policies, personas and artifact templates.

Every id must be declared: what a file names and no file declares is an error, at its line. Adding a cycle is adding
one file. Leaves to `unit_fields`, `cycle_policies` and `artifact_templates`: what one file may say on its own.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from app.core.schemas import SchemaRegistry
from app.workspace.artifact_templates import compile_artifact, published_schema
from app.workspace.compiled import CompiledAgent, CompiledRole
from app.workspace.compiled_cycles import (
    CompiledCycle,
    CompiledPersona,
    CompiledPhase,
    InvokedAgent,
    LoopBounds,
    WorkflowUnits,
)
from app.workspace.cycle_policies import compile_policy
from app.workspace.index import Index
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedMarkdown
from app.workspace.report import Report
from app.workspace.tools import MakeValidator
from app.workspace.unit_fields import MAX_INVOKED, MAX_PHASES, MAX_POLICIES, UnitCheck

DEFAULT_GENERATIONS: Final = 10
MAX_GENERATIONS: Final = 100
_ROLE_SCHEMAS: Final = {
    "lead": "lead_directive_v1",
    "planner": "plan_v1",
    "worker": "worker_report_v1",
    "reviewer": "review_result_v1",
    "advisor": "worker_report_v1",
    "scaffolder": "worker_report_v1",
}
_ROLES_WITH_TOOLS: Final = frozenset({"worker", "scaffolder"})
MadeT = TypeVar("MadeT")


class CycleCompiler:
    def __init__(
        self,
        index: Index,
        report: Report,
        agents: Mapping[str, CompiledAgent],
        roles: Mapping[str, CompiledRole],
        default_agent: str | None,
        schemas: SchemaRegistry,
        validator: MakeValidator,
    ) -> None:
        self._index, self._report, self._agents, self._roles = index, report, agents, roles
        self._default, self._schemas, self._validator = default_agent, schemas, validator
        self._personas: Mapping[str, CompiledPersona] = {}

    def compile(self) -> WorkflowUnits:
        self._personas = self._all("personas", self._persona)
        artifacts = self._all("artifacts", lambda check: compile_artifact(check, self._schemas, self._validator))
        return WorkflowUnits(
            policies=self._all("policies", compile_policy),
            personas=self._personas,
            artifacts=artifacts,
            phases=self._all("phases", self._phase),
            cycles=self._all("cycles", self._cycle),
        )

    def _all(self, category: str, make: Callable[[UnitCheck], MadeT | None]) -> Mapping[str, MadeT]:
        made = {unit.id: make(UnitCheck(unit, self._index, self._report)) for unit in self._good(category)}
        return MappingProxyType({name: one for name, one in made.items() if one is not None})

    def _good(self, category: str) -> Iterator[ParsedMarkdown]:
        return (unit for unit in self._index.units.get(category, {}).values() if unit.ok)

    # -- personas --------------------------------------------------------------------------------------

    def _persona(self, check: UnitCheck) -> CompiledPersona | None:
        unit, values = check.unit, check.unit.values
        check.fields()
        if unit.id in self._roles or unit.id in self._index.documents["Agent"]:
            what = "role" if unit.id in self._roles else "agent"
            message = f"there is a {what} of this name, so nothing would say which is meant"
            check.error("NAME_CLASH", ("name",), message, hint="rename the persona")
        if not unit.body.strip():
            check.error("PROMPT_EMPTY", (), "the persona has no instructions", hint="write them after the frontmatter")
        tools = check.at_most("allowed-tools", 200)
        for number, tool in enumerate(tools):
            self._index.refers("Tool", tool, unit.place, ("allowed-tools", number), self._report)
        named = values.get("agent")
        if named is not None and not isinstance(named, str):
            check.error("VALUE_INVALID", ("agent",), "this is not a name", expected="the name of an Agent")
            return None
        if named is not None and not self._index.refers("Agent", named, unit.place, ("agent",), self._report):
            return None
        agent = named or self._base(check, f"the persona {unit.id!r}")
        if agent is None:
            return None
        parts = unit.place.source.file.split("/")
        return CompiledPersona(
            id=unit.id,
            role=parts[2] if len(parts) > 3 else "",
            description=str(values["description"]),
            agent=agent,
            instructions=unit.body,
            allowed_tools=frozenset(tools),
            file=unit.place.source.file,
        )

    def _base(self, check: UnitCheck, who: str) -> str | None:
        """The agent that somebody without one runs as."""
        if self._default is None:
            message = f"{who} runs as an agent, and the workspace has no default agent"
            check.error("DEFAULT_AGENT_MISSING", (), message, hint="set the Runtime's `defaultAgent`")
        return self._default

    # -- phases ----------------------------------------------------------------------------------------

    def _phase(self, check: UnitCheck) -> CompiledPhase | None:
        values = check.unit.values
        check.fields()
        advance = check.expression(("advance_signal",), values["advance_signal"])
        halt = check.expression(("halt_signal",), values["halt_signal"]) if "halt_signal" in values else None
        for field in ("input_schema", "output_schema"):
            if field in values:
                published_schema(check, (field,), values[field], self._schemas)
        policies = check.references("policies", "policies", "POLICY_UNKNOWN", MAX_POLICIES)
        invoked = tuple(self._invoked(check))
        artifact = self._artifact(check, invoked)
        if advance is None:
            return None
        return CompiledPhase(
            id=check.unit.id,
            advance=advance,
            halt=halt,
            invoked=invoked,
            input_schema=values.get("input_schema"),
            output_schema=values.get("output_schema"),
            policies=policies,
            artifact=artifact,
            instructions=check.unit.body,
            file=check.unit.place.source.file,
        )

    def _artifact(self, check: UnitCheck, invoked: tuple[InvokedAgent, ...]) -> str | None:
        name: Any = check.unit.values.get("artifact")
        if name is None:
            return None
        known = self._index.units.get("artifacts", {})
        if not isinstance(name, str) or (name not in known and not self._index.may_be_unread(name)):
            hint = did_you_mean(self._report.suggest.nearest(str(name), known)) or ""
            check.error("ARTIFACT_UNKNOWN", ("artifact",), f"there is no artifact template {name!r}", hint=hint)
            return None
        delivering = [agent.id for agent in invoked if not agent.reviews]
        if len(delivering) > 1:
            message = f"the artifact is what one agent delivers, and the phase asks {', '.join(delivering)}"
            check.error("FIELD_CONFLICT", ("artifact",), message, hint="give each its own phase")
        return name

    def _invoked(self, check: UnitCheck) -> Iterator[InvokedAgent]:
        names = check.at_most("agents_invoked", MAX_INVOKED)
        personas = self._index.units.get("personas", {})
        known = {*personas, *self._index.documents["Agent"], *self._roles}
        for number, name in enumerate(names):
            path = ("agents_invoked", number)
            if name in names[:number]:
                check.error("REFERENCE_DUPLICATE", path, f"{name!r} is listed twice")
            elif name in self._personas:
                persona = self._personas[name]
                yield InvokedAgent(
                    name, "persona", persona.role, persona.agent, persona.instructions, persona.allowed_tools
                )
            elif name in self._agents:
                yield InvokedAgent(name, "agent", "agent", name)
            elif name in self._roles:
                yield from self._role(check, name)
            elif name not in known and not self._index.may_be_unread(name):
                hint = did_you_mean(self._report.suggest.nearest(name, known)) or ""
                check.error("PERSONA_UNKNOWN", path, f"there is no persona, agent or role {name!r}", hint=hint)

    def _role(self, check: UnitCheck, name: str) -> Iterator[InvokedAgent]:
        agent = self._base(check, f"the role {name!r}")
        if agent is None:
            return
        base = self._agents.get(agent)
        own = frozenset(base.tools) if base is not None and name in _ROLES_WITH_TOOLS else frozenset()
        yield InvokedAgent(name, "role", name, agent, self._roles[name].prompt, own, _ROLE_SCHEMAS[name])

    # -- cycles ----------------------------------------------------------------------------------------

    def _cycle(self, check: UnitCheck) -> CompiledCycle:
        unit, values = check.unit, check.unit.values
        check.fields()
        phases = check.references("phases", "phases", "PHASE_UNKNOWN", MAX_PHASES)
        policies = check.references("policies", "policies", "POLICY_UNKNOWN", MAX_POLICIES)
        entry = values["entry_phase"]
        if phases and entry not in phases:
            hint = did_you_mean(self._report.suggest.nearest(entry, phases)) or ""
            message = f"the entry phase {entry!r} is not one of the cycle's phases"
            check.error("PHASE_UNKNOWN", ("entry_phase",), message, hint=hint)
        clash = self._index.documents["Workflow"].get(unit.id)
        if clash is not None:
            message = f"a cycle's id is a workflow's name, and {clash.place.source.file} has a Workflow of this name"
            check.error("NAME_CLASH", ("id",), message, hint="rename one of them")
        conditions = check.section("exit_conditions", ("done", "abort"))
        found = {name: check.expression(("exit_conditions", name), text) for name, text in conditions.items()}
        return CompiledCycle(
            id=unit.id,
            description=str(values.get("description", "")),
            phases=phases,
            entry=entry,
            done=found.get("done"),
            abort=found.get("abort"),
            bounds=self._bounds(check),
            policies=policies,
            instructions=unit.body,
            file=unit.place.source.file,
        )

    def _bounds(self, check: UnitCheck) -> LoopBounds:
        bounds = check.section("loop_bounds", ("max_generations", "grade"))
        most = bounds.get("max_generations", DEFAULT_GENERATIONS)
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MAX_GENERATIONS:
            expected = f"a whole number from 1 to {MAX_GENERATIONS}"
            path = ("loop_bounds", "max_generations")
            check.error("VALUE_INVALID", path, "the number of generations is not valid", expected=expected)
            most = DEFAULT_GENERATIONS
        grade = check.number(("loop_bounds", "grade"), bounds["grade"]) if "grade" in bounds else None
        return LoopBounds(most, grade)
