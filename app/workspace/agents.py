"""Compiles agents: everything an agent names is looked up, its instructions are read, its plan is checked."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from app.workspace.agent_graph import AgentGraph
from app.workspace.compiled import CompiledAgent, CompiledRoute, CompiledSkill
from app.workspace.diagnostics import DocPath
from app.workspace.index import check_repeats
from app.workspace.kind_checks import check_config, check_kind
from app.workspace.markdown import parse_markdown
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedDocument
from app.workspace.report import DocumentPlace
from app.workspace.resolve import Resolver, find_cycles, spec_of
from app.workspace.specs.agent import AgentSpec, McpSelection, ModelPlan, Subagent
from app.workspace.specs.model import Capabilities, ModelSpec
from app.workspace.tools import MakeValidator, compile_schema

RESERVED: Final = "extensions"
_CAPABILITIES: Final = Capabilities(
    streaming=True,
    tools=True,
    parallelTools=True,
    structuredOutput=True,
    reasoning=True,
    systemMessages=True,
    input=("text", "json", "image", "audio", "video", "file"),
    output=("text", "json", "image", "audio", "video", "file"),
).names()


class AgentCompiler:
    def __init__(
        self,
        resolver: Resolver,
        models: Mapping[str, ModelSpec],
        skills: Mapping[str, CompiledSkill],
        invalid_skills: Mapping[str, str],
        validator: MakeValidator,
    ) -> None:
        self._resolver = resolver
        self._index = resolver.index
        self._report = resolver.report
        self._models = models
        self._skills = skills
        self._invalid_skills = invalid_skills
        self._validator = validator

    def compile(self) -> Mapping[str, CompiledAgent]:
        agents = {document.name: self._agent(document) for document in self._index.good("Agent")}
        edges = {document.name: spec_of(document, AgentSpec).subagent_names for document in self._index.good("Agent")}
        if (reserved := self._index.documents["Agent"].get(RESERVED)) is not None:
            message = f"an agent cannot be called {RESERVED}: /api/agents/{RESERVED} lists the extensions"
            self._report.error("NAME_RESERVED", reserved.place, ("metadata", "name"), message)
        for name, chain in find_cycles(edges):
            at = self._index.documents["Agent"][name]
            path = ("spec", "subagents", edges[name].index(chain[1]))
            message = f"subagents call each other in a circle: {' -> '.join(chain)}"
            self._report.error("SUBAGENT_CYCLE", at.place, path, message)
        return MappingProxyType(agents)

    def _agent(self, document: ParsedDocument) -> CompiledAgent:
        spec, place = spec_of(document, AgentSpec), document.place
        self._references(spec, place)
        self._backend(spec, place)
        metadata = document.model.metadata  # type: ignore[union-attr]  # asked of good documents only
        return CompiledAgent(
            name=document.name,
            description=metadata.description or "",
            labels=MappingProxyType(dict(metadata.labels)),
            spec=spec,
            instructions=self._instructions(spec.instructions, place),
            model_plan=spec.plan,
            tools=spec.tool_names,
            mcp_selections=spec.mcp_selections,
            skills=self._checked_skills(spec, place),
            subagents=spec.subagent_names,
            routers=self._routers(spec, place),
            output_validator=compile_schema(
                spec.output_schema, ("spec", "outputSchema"), place, self._report, self._validator
            ),
        )

    def _references(self, spec: AgentSpec, place: DocumentPlace) -> None:
        for kind, field, names in (
            ("Tool", "tools", spec.tool_names),
            ("Agent", "subagents", spec.subagent_names),
            ("Memory", "memory", spec.memory),
            ("Hook", "hooks", spec.hooks),
            ("Tool", "evidence", spec.evidence),
        ):
            if names:
                self._index.refers_all(kind, names, place, ("spec", field), self._report)
        for stage, names in spec.guardrails.stages.items():
            self._index.refers_all("Guardrail", names, place, ("spec", "guardrails", stage), self._report)
        for number, entry in enumerate(spec.tools):
            if isinstance(entry, McpSelection):
                self._index.refers("McpServer", entry.mcp, place, ("spec", "tools", number, "mcp"), self._report)
        self._gates(spec, place)
        if spec.context_policy.summary_model is not None:
            path: DocPath = ("spec", "contextPolicy", "summaryModel")
            self._index.refers("Model", spec.context_policy.summary_model, place, path, self._report)
        for number, name in enumerate(spec.subagent_names):
            if name in spec.tool_names:
                message = f"{name!r} is a tool and a subagent of this agent; a model could not tell them apart"
                self._report.error("NAME_CLASH", place, ("spec", "subagents", number), message)
            self._passed_on(spec, name, number, place)

    def _gates(self, spec: AgentSpec, place: DocumentPlace) -> None:
        """A gate is known by its evaluator and mode, so each may be listed once in a mode."""
        seen: set[tuple[str, str]] = set()
        for number, gate in enumerate(spec.gates):
            path: DocPath = ("spec", "gates", number)
            self._index.refers("Evaluator", gate.evaluator, place, (*path, "evaluator"), self._report)
            if gate.fallback_model is not None:
                self._index.refers("Model", gate.fallback_model, place, (*path, "fallbackModel"), self._report)
            if (gate.evaluator, gate.mode) in seen:
                message = f"the evaluator {gate.evaluator!r} has a {gate.mode} gate here already"
                self._report.error(
                    "REFERENCE_DUPLICATE", place, (*path, "evaluator"), message, hint="remove one of them"
                )
            seen.add((gate.evaluator, gate.mode))

    def _passed_on(self, spec: AgentSpec, name: str, number: int, place: DocumentPlace) -> None:
        """A subagent uses what its parent has and what is passed on; whatever else it names it will not have here."""
        path: DocPath = ("spec", "subagents", number)
        passed, entry = spec.passed_on(name), spec.subagents[number]
        if isinstance(entry, Subagent):
            self._index.refers_all("Tool", entry.tools, place, (*path, "tools"), self._report)
        asked = self._index.good_one("Agent", name)
        if asked is None:
            return
        own = spec_of(asked, AgentSpec).tool_names
        for tool in sorted(passed - set(own)):
            message = f"the subagent {name!r} has no tool {tool!r}, so there is nothing to pass on"
            self._report.error("SUBAGENT_TOOLS", place, path, message, hint=f"add it to `tools` of {name}")
        withheld = [tool for tool in own if tool not in spec.tool_names and tool not in passed]
        if withheld:
            message = f"the subagent {name!r} cannot use {', '.join(withheld)} here, because this agent cannot either"
            hint = f"write `{{agent: {name}, tools: [{', '.join(withheld)}]}}` to pass them on"
            self._report.warning("SUBAGENT_TOOLS", place, path, message, hint=hint)

    def _backend(self, spec: AgentSpec, place: DocumentPlace) -> None:
        backends, path = self._resolver.catalog.backends, ("spec", "backend")
        check_kind("BACKEND_UNKNOWN", backends, spec.backend, place, path, "backend", self._report)
        kind, plan = backends.usable(spec.backend), spec.plan
        if plan is not None:
            self._plan(plan, spec.model is None, place)
        elif kind is not None and kind.needs_model:
            message = f"an agent of the backend {spec.backend!r} needs a model"
            models = ", ".join(sorted(self._index.documents["Model"])[:5])
            hint = f"write `model: ` with one of: {models}" if models else "write a Model document and name it here"
            self._report.error("FIELD_MISSING", place, ("spec", "model"), message, expected="`spec.model`", hint=hint)
        for name, section in spec.config.items():
            self._config(name, section, spec.backend, place)

    def _config(self, name: str, section: Mapping[str, object], backend: str, place: DocumentPlace) -> None:
        backends = self._resolver.catalog.backends
        path: DocPath = ("spec", "config", name)
        if name not in backends:
            hint = did_you_mean(self._report.suggest.nearest(name, backends))
            message = f"no backend is named {name!r}; the section would have no effect"
            self._report.error("CONFIG_BACKEND_UNKNOWN", place, path, message, hint=hint)
        elif name != backend:
            message = f"the agent's backend is {backend!r}, so the section of {name!r} has no effect"
            self._report.error(
                "NOT_SERVED", place, path, message, hint="remove the section, or set `backend`", key=True
            )
        else:
            check_config(backends, name, section, place, path, "backend", self._report)
            self._entries(name, section, place, path)

    def _entries(self, name: str, section: Mapping[str, object], place: DocumentPlace, path: DocPath) -> None:
        kind = self._resolver.catalog.backends.usable(name)
        for field in kind.entry_fields if kind is not None else ():
            named = section.get(field)
            entries = [((*path, field), named)] if isinstance(named, str) else []
            if isinstance(named, list | tuple):
                entries = [((*path, field, number), entry) for number, entry in enumerate(named)]
            for where, entry in entries:
                if isinstance(entry, str):
                    self._resolver.entry(entry, place, where)

    def _plan(self, plan: ModelPlan, long_form: bool, place: DocumentPlace) -> None:
        base: DocPath = ("spec", "modelPlan") if long_form else ("spec",)
        path = (*base, "primary" if long_form else "model")
        found = self._index.refers("Model", plan.primary, place, path, self._report)
        if plan.fallbacks:
            self._index.refers_all("Model", plan.fallbacks, place, (*base, "fallbacks"), self._report)
        candidates = [self._models[name] for name in (plan.primary, *plan.fallbacks) if name in self._models]
        for number, capability in enumerate(plan.required_capabilities):
            where = (*base, "requiredCapabilities", number)
            if capability not in _CAPABILITIES:
                hint = did_you_mean(self._report.suggest.nearest(capability, _CAPABILITIES))
                message = f"there is no capability {capability!r}"
                expected = f"one of: {', '.join(sorted(_CAPABILITIES))}"
                self._report.error("VALUE_NOT_ALLOWED", place, where, message, expected=expected, hint=hint)
            elif found and not any(capability in model.capabilities.names() for model in candidates):
                message = f"no model of the plan declares {capability!r}; every run will be refused"
                self._report.warning("CAPABILITY_UNMET", place, where, message)

    def _checked_skills(self, spec: AgentSpec, place: DocumentPlace) -> tuple[str, ...]:
        """An agent never does without a skill that it names: it would run with tools that the skill takes away."""
        for number, name in enumerate(spec.skills):
            path: DocPath = ("spec", "skills", number)
            if name in self._skills:
                self._skill_has_tools(self._skills[name], spec, place, path)
            elif name in self._invalid_skills:
                file = self._invalid_skills[name]
                message = f"the skill {name!r} is invalid, and without it the agent would have more tools; see {file}"
                self._report.error("SKILL_BROKEN", place, path, message)
            elif not self._index.may_be_unread(name):
                hint = did_you_mean(self._report.suggest.nearest(name, self._skills))
                message = f"there is no skill {name!r}"
                expected = "the name of a skill"
                self._report.error("SKILL_UNKNOWN", place, path, message, expected=expected, hint=hint)
        check_repeats(spec.skills, place, ("spec", "skills"), self._report)
        return spec.skills

    def _skill_has_tools(self, skill: CompiledSkill, spec: AgentSpec, place: DocumentPlace, path: DocPath) -> None:
        """A skill without `allowed-tools` needs none; one that lists some and gets none cannot do its work."""
        if spec.mcp_selections:
            return  # what a server offers is known when it is asked
        if skill.allowed_tools and not set(skill.allowed_tools) & set(spec.tool_names):
            message = f"the skill {skill.name!r} allows none of the agent's tools, so it would run without any"
            hint = f"add to `tools` one of: {', '.join(skill.allowed_tools[:5])}"
            self._report.error("SKILL_WITHOUT_TOOLS", place, path, message, hint=hint)

    def _routers(self, spec: AgentSpec, place: DocumentPlace) -> Mapping[str, tuple[CompiledRoute, ...]]:
        """`edges` and `routers` are for a backend that runs graphs; another one would not read them."""
        kind = self._resolver.catalog.backends.usable(spec.backend)
        if kind is not None and not kind.runs_edges:
            for field in [name for name in ("edges", "routers") if getattr(spec, name)]:
                message = f"the backend {spec.backend!r} does not read `{field}`; it would have no effect"
                hint = "remove it, or use a backend that runs graphs, such as `langgraph`"
                self._report.error("NOT_SERVED", place, ("spec", field), message, hint=hint, key=True)
            return {}
        cycles = "maxVisits" in spec.config.get(spec.backend, {})
        return AgentGraph(spec, place, self._report, cycles=cycles).compile()

    def _instructions(self, text: str, place: DocumentPlace) -> str:
        """A single word that ends in .md is a file of the workspace; anything else is the text itself."""
        name = text.strip()
        if not name.endswith(".md") or len(name.split()) != 1:
            return text
        path: DocPath = ("spec", "instructions")
        steps = [step for step in name.split("/") if step != "."]
        if name.startswith(("/", "~")) or ".." in steps or "\\" in name:
            self._report.error("PATH_LEAVES", place, path, "the path points out of the workspace")
            return ""
        files = self._resolver.files.files
        file = files.get("/".join(steps))
        if file is None and self._index.may_be_unread("/".join(steps)):
            return ""
        if file is None:
            markdown = [other for other in files if other.endswith(".md")]
            hint = did_you_mean(self._report.suggest.nearest(name, markdown))
            self._report.error("FILE_NOT_FOUND", place, path, f"there is no file {name!r} in the workspace", hint=hint)
            return ""
        parsed = parse_markdown(file.content)
        for problem in parsed.problems:
            self._report.yaml(file.path, problem)
        return parsed.body
