"""Checks what documents say about each other and about the kinds that exist.

Everything a document names must be there, be possible, and not lead back to itself.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar, cast
from zoneinfo import ZoneInfo

from app.core.clock import is_spelled, ms_of
from app.core.value import value
from app.events.webhook_types import WEBHOOK_EVENTS, WEBHOOK_TYPES, matches_nothing
from app.outside.addresses import AddressPolicy, url_refusal
from app.workspace.arguments import Arguments, check_signature, check_uses
from app.workspace.catalog import KindCatalog
from app.workspace.diagnostics import DocPath, dotted
from app.workspace.entries import ModuleNames, Signature, module_file, split_entry
from app.workspace.files import SourceFile, WorkspaceFiles
from app.workspace.guardrails import check_guardrail
from app.workspace.index import Index
from app.workspace.kind_checks import check_config, check_kind
from app.workspace.names import did_you_mean, is_pattern
from app.workspace.parse import ParsedDocument
from app.workspace.providers import PROVIDER_ADVICE
from app.workspace.report import DocumentPlace, Report
from app.workspace.served import check_document
from app.workspace.specs.agent import AgentSpec
from app.workspace.specs.model import ModelSpec
from app.workspace.specs.others import EvaluatorSpec, GuardrailSpec, HookSpec, ScheduleSpec, WebhookSpec
from app.workspace.specs.runtime import RuntimeSpec
from app.workspace.specs.tool import CompensationSpec, McpServerSpec, ToolSpec
from app.workspace.specs.workflow import WorkflowSpec
from app.workspace.trace_fields import traceable_fields

SpecT = TypeVar("SpecT")

_NEEDS_HOSTS = "http_fetch"
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_CRON_FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _WEEKDAYS))
"""The lowest and the highest number of each field, and the names of its numbers from the lowest on."""


def spec_of(document: ParsedDocument, kind: type[SpecT]) -> SpecT:
    return cast(SpecT, document.model.spec)  # type: ignore[union-attr]  # asked of good documents only


@value(frozen=True, slots=True)
class Resolver:
    index: Index
    files: WorkspaceFiles
    catalog: KindCatalog
    report: Report
    read_module: Callable[[SourceFile], ModuleNames]

    def check(self) -> None:
        self._served()
        for document in self.index.good("Runtime"):
            self._runtime(document)
        for document in self.index.good("Model"):
            self._model(document)
        for document in self.index.good("Tool"):
            self._tool(document)
        for document in self.index.good("Hook"):
            self._hook(document)
        for document in self.index.good("Guardrail"):
            guardrail = spec_of(document, GuardrailSpec)
            self._model_and_entry(document, guardrail.model, guardrail.entry)
            check_guardrail(document, guardrail, self.index, self.catalog.guardrails, self.report)
        for document in self.index.good("Evaluator"):
            self._evaluator(document)
        for document in self.index.good("Schedule"):
            self._schedule(document)
        for document in self.index.good("Webhook"):
            self._webhook(document)
        self._environment()
        self._fallback_cycles()

    def _served(self) -> None:
        for documents in self.index.documents.values():
            for document in documents.values():
                check_document(document, self.catalog.unserved, self.report)

    # -- functions -----------------------------------------------------------------------------------

    def entry(self, entry: str, place: DocumentPlace, path: DocPath) -> Signature | None:
        """Check `module:function`; what the function takes, where it is one of the workspace's own."""
        parts = split_entry(entry)
        if parts is None:
            message = "the entry is not `module:function`"
            self.report.error("ENTRY_MALFORMED", place, path, message, expected="module:function")
            return None
        module, function = parts
        file = module_file(module, self.files)
        if file is None:
            if not self.catalog.has_module(module.partition(".")[0]):
                if self.index.may_be_unread(f"{module.replace('.', '/')}.py"):
                    return None
                modules = [
                    name.removesuffix(".py").replace("/", ".") for name in self.files.files if name.endswith(".py")
                ]
                hint = did_you_mean(self.report.suggest.nearest(module, modules))
                message = f"there is no module {module!r} in the workspace or installed"
                self.report.error("ENTRY_NOT_FOUND", place, path, message, hint=hint)
            return None
        names = self.read_module(file)
        top = function.partition(".")[0]
        if names.error is not None:
            self.report.at("PYTHON_SYNTAX", file.path, names.error, line=names.line, column=names.column)
        elif top not in names.names and not names.has_star:
            hint = did_you_mean(self.report.suggest.nearest(top, names.names))
            self.report.error("ENTRY_NOT_FOUND", place, path, f"{file.path} does not define {top!r}", hint=hint)
        return names.functions.get(function)

    # -- documents -----------------------------------------------------------------------------------

    def _runtime(self, document: ParsedDocument) -> None:
        spec, place = spec_of(document, RuntimeSpec), document.place
        if spec.default_agent is not None:
            self.index.refers("Agent", spec.default_agent, place, ("spec", "defaultAgent"), self.report)
        elif spec.default_workflow is None:
            self._default_agent(place)
        if spec.default_workflow is not None:
            self.index.refers("Workflow", spec.default_workflow, place, ("spec", "defaultWorkflow"), self.report)
        for route, target in spec.routes.items():
            if target.agent is not None:
                self.index.refers("Agent", target.agent, place, ("spec", "routes", route, "agent"), self.report)
            if target.workflow is not None:
                path = ("spec", "routes", route, "workflow")
                self.index.refers("Workflow", target.workflow, place, path, self.report)
        self.index.refers_all("Hook", spec.hooks, place, ("spec", "hooks"), self.report)
        for kind, field, names in (
            ("Agent", "agents", spec.mcp.agents),
            ("Workflow", "workflows", spec.mcp.workflows),
            ("Tool", "tools", spec.mcp.tools),
        ):
            for number, name in enumerate(names):
                if not is_pattern(name):
                    self.index.refers(kind, name, place, ("spec", "mcp", field, number), self.report)
        narrator = spec.progress.narration.provider
        self._one_of(self.catalog.narrators, narrator, place, ("spec", "progress", "narration", "provider"))
        for number, sink in enumerate(spec.telemetry.sinks):
            self._one_of(self.catalog.sinks, sink.kind, place, ("spec", "telemetry", "sinks", number, "kind"))
        for number, kind in enumerate(spec.redaction.kinds):
            self._one_of(self.catalog.redaction_kinds, kind, place, ("spec", "redaction", "kinds", number))
        for number, name in enumerate(spec.redaction.trace_fields):
            self._one_of(traceable_fields(), name, place, ("spec", "redaction", "traceFields", number))

    def _default_agent(self, place: DocumentPlace) -> None:
        """A single agent answers without being named."""
        agents = sorted(self.index.documents["Agent"])
        if len(agents) == 1 or self.index.may_be_unread("Agent"):
            return
        if not agents:
            message, hint = "the workspace has no Agent", "write an Agent document, such as agents/assistant.yaml"
        else:
            message = f"the Runtime does not say which of the {len(agents)} agents answers a request that names none"
            hint = f"write `defaultAgent: ` with one of: {', '.join(agents[:5])}"
        self.report.error("DEFAULT_AGENT_MISSING", place, ("spec",), message, hint=hint, key=True)

    def _one_of(self, known: frozenset[str], given: str, place: DocumentPlace, path: DocPath) -> None:
        if given not in known:
            hint = did_you_mean(self.report.suggest.nearest(given, known))
            message = f"`{dotted(path)}` has a value that has no effect"
            expected = f"one of: {', '.join(sorted(known))}"
            self.report.error("VALUE_NOT_ALLOWED", place, path, message, expected=expected, hint=hint)

    def provider(self, name: str, place: DocumentPlace, path: DocPath) -> None:
        advice = PROVIDER_ADVICE.get(name)
        if advice is None or name in self.catalog.providers:
            check_kind("PROVIDER_UNKNOWN", self.catalog.providers, name, place, path, "provider", self.report)
            return
        expected = f"one of: {', '.join(sorted(self.catalog.providers))}"
        message = f"there is no provider {name!r}"
        self.report.error("PROVIDER_UNKNOWN", place, path, message, expected=expected, hint=advice)

    def _model(self, document: ParsedDocument) -> None:
        spec, place = spec_of(document, ModelSpec), document.place
        self.provider(spec.provider, place, ("spec", "provider"))
        self.index.refers_all("Model", spec.fallbacks, place, ("spec", "fallbacks"), self.report)
        path = ("spec", "config")
        check_config(self.catalog.providers, spec.provider, spec.config, place, path, "provider", self.report)

    def _tool(self, document: ParsedDocument) -> None:
        spec, place, kinds = spec_of(document, ToolSpec), document.place, self.catalog.tools
        check_kind("TOOL_KIND_UNKNOWN", kinds, spec.kind, place, ("spec", "kind"), "kind of tool", self.report)
        check_config(kinds, spec.kind, spec.config, place, ("spec", "config"), "kind of tool", self.report)
        signature = None
        if spec.kind == "python" and spec.entry is not None:
            signature = self.entry(spec.entry, place, ("spec", "entry"))
            if signature is not None:
                check_signature(spec.input, spec.entry.partition(":")[2], signature, place, self.report)
        elif spec.kind == "builtin":
            self._builtin(spec.entry or document.name, spec.entry is not None, place)
        if document.tool is not None:
            check_uses(document.tool, Arguments(spec.input, signature), place, self.report)
        if spec.mcp is not None:
            self._mcp_tool(spec.mcp.server, spec.mcp.tool, document)
        if spec.compensation is not None:
            self._compensation(spec.compensation, place)

    def _builtin(self, name: str, explicit: bool, place: DocumentPlace) -> None:
        known = self.catalog.builtin_tools
        if name not in known:
            path: DocPath = ("spec", "entry") if explicit else ("metadata", "name")
            hint = did_you_mean(self.report.suggest.nearest(name, known))
            expected = f"one of: {', '.join(sorted(known))}"
            message = f"there is no built-in tool {name!r}"
            self.report.error("BUILTIN_UNKNOWN", place, path, message, expected=expected, hint=hint)
        elif name == _NEEDS_HOSTS and not any(
            spec_of(runtime, RuntimeSpec).outgoing.hosts for runtime in self.index.good("Runtime")
        ):
            message = (
                f"the built-in tool {name!r} reaches the hosts of the Runtime's `outgoing.hosts`, which lists none"
            )
            hint = "write `outgoing: {hosts: [docs.example.com]}` into the Runtime's spec"
            self.report.error("FIELD_MISSING", place, ("spec", "kind"), message, expected="`outgoing.hosts`", hint=hint)

    def _mcp_tool(self, server: str, tool: str | None, document: ParsedDocument) -> None:
        path: DocPath = ("spec", "mcp", "server")
        if not self.index.refers("McpServer", server, document.place, path, self.report):
            return
        owner = self.index.documents["McpServer"][server]
        allowed = spec_of(owner, McpServerSpec).tools.allow if owner.model is not None else ()
        wanted = tool or document.name
        if allowed and wanted not in allowed:
            hint = did_you_mean(self.report.suggest.nearest(wanted, allowed))
            message = f"the server {server!r} does not allow the tool {wanted!r}"
            self.report.error("MCP_TOOL_NOT_ALLOWED", document.place, ("spec", "mcp", "tool"), message, hint=hint)

    def _compensation(self, undo: CompensationSpec, place: DocumentPlace) -> None:
        if undo.entry is not None:
            self.entry(undo.entry, place, ("spec", "compensation", "entry"))
        path = ("spec", "compensation", "tool")
        if undo.tool is not None and self.index.refers("Tool", undo.tool, place, path, self.report):
            self._undo_arguments(undo.tool, undo.arguments, place)

    def _undo_arguments(self, tool: str, arguments: Mapping[str, object], place: DocumentPlace) -> None:
        undo = self.index.documents["Tool"][tool]
        schema = spec_of(undo, ToolSpec).input if undo.model is not None else None
        properties = schema.get("properties") if schema is not None else None
        for name in arguments:
            if isinstance(properties, dict) and name not in properties:
                path = ("spec", "compensation", "arguments", name)
                hint = did_you_mean(self.report.suggest.nearest(name, properties))
                message = f"the tool {tool!r} has no argument `{name}`"
                self.report.error("ARGUMENT_UNKNOWN", place, path, message, hint=hint, key=True)

    def _hook(self, document: ParsedDocument) -> None:
        spec, place = spec_of(document, HookSpec), document.place
        if spec.kind == "python" and spec.entry is not None:
            self.entry(spec.entry, place, ("spec", "entry"))
        if spec.kind == "builtin":
            known, entry, path = self.catalog.builtin_hooks, spec.entry or "", ("spec", "entry")
            if not check_kind("HANDLER_UNKNOWN", known, entry, place, path, "built-in hook", self.report):
                return
            check_config(known, entry, spec.config, place, ("spec", "config"), "built-in hook", self.report)
        self.index.refers_all("Agent", spec.match.agents, place, ("spec", "match", "agents"), self.report)
        self.index.refers_all("Tool", spec.match.tools, place, ("spec", "match", "tools"), self.report)
        if not self._is_listed(document.name):
            message = "no Runtime, Agent or Workflow lists this hook, so it is never asked"
            self.report.error("HOOK_NOT_LISTED", place, ("metadata", "name"), message)

    def _is_listed(self, hook: str) -> bool:
        """Whether somebody asks the hook; a lister with mistakes may yet turn out to be one."""
        runtimes, agents = self.index.documents["Runtime"].values(), self.index.documents["Agent"].values()
        flows = self.index.documents["Workflow"].values()
        if any(one.model is None for one in (*runtimes, *agents, *flows)) or self.index.may_be_unread(hook):
            return True
        if any(hook in spec_of(flow, WorkflowSpec).hooks for flow in flows):
            return True
        if any(hook in spec_of(runtime, RuntimeSpec).hooks for runtime in runtimes):
            return True
        return any(hook in spec_of(agent, AgentSpec).hooks for agent in agents)

    def _evaluator(self, document: ParsedDocument) -> None:
        spec, place, kinds = spec_of(document, EvaluatorSpec), document.place, self.catalog.evaluators
        path: DocPath = ("spec", "kind")
        self._model_and_entry(document, spec.model, spec.entry)
        if not check_kind("EVALUATOR_KIND_UNKNOWN", kinds, spec.kind, place, path, "kind of evaluator", self.report):
            return
        check_config(kinds, spec.kind, spec.config, place, ("spec", "config"), "kind of evaluator", self.report)
        kind = kinds.usable(spec.kind)
        assert kind is not None
        for field, needed, given in (("model", kind.needs_model, spec.model), ("entry", kind.needs_entry, spec.entry)):
            if needed and given is None:
                message = f"an evaluator of the kind {spec.kind!r} needs `{field}`"
                self.report.error("FIELD_MISSING", place, ("spec", field), message, expected=f"`spec.{field}`")
            elif given is not None and not needed:
                message = f"the kind of evaluator {spec.kind!r} does not read `{field}`; it would have no effect"
                self.report.error("NOT_SERVED", place, ("spec", field), message, hint="remove it", key=True)

    def _model_and_entry(self, document: ParsedDocument, model: str | None, entry: str | None) -> None:
        if model is not None:
            self.index.refers("Model", model, document.place, ("spec", "model"), self.report)
        if entry is not None:
            self.entry(entry, document.place, ("spec", "entry"))

    def _webhook(self, document: ParsedDocument) -> None:
        spec, place = spec_of(document, WebhookSpec), document.place
        for agent in spec.agents:
            self.index.refers("Agent", agent, place, ("spec", "agents"), self.report)
        hosts = [h for runtime in self.index.good("Runtime") for h in spec_of(runtime, RuntimeSpec).outgoing.webhooks]
        if not hosts:
            message = "webhooks are sent only to the hosts of the Runtime's `outgoing.webhooks`, which lists none"
            hint = "write `outgoing: {webhooks: [hooks.example.com]}` into the Runtime's spec"
            expected = "`outgoing.webhooks`"
            self.report.error("FIELD_MISSING", place, ("spec", "url"), message, expected=expected, hint=hint)
        elif (refused := url_refusal(spec.url, AddressPolicy(only=frozenset(hosts)))) is not None:
            expected = "a URL on one of the hosts that the Runtime's `outgoing.webhooks` lists"
            self.report.error("VALUE_NOT_ALLOWED", place, ("spec", "url"), refused, expected=expected)
        for number, pattern in enumerate(spec.events):
            if matches_nothing(pattern):
                nearest = did_you_mean(self.report.suggest.nearest(pattern, WEBHOOK_TYPES))
                message = f"webhooks are not sent events of the type {pattern!r}"
                path = ("spec", "events", number)
                self.report.error("VALUE_NOT_ALLOWED", place, path, message, expected=WEBHOOK_EVENTS, hint=nearest)

    def _schedule(self, document: ParsedDocument) -> None:
        spec, place = spec_of(document, ScheduleSpec), document.place
        for kind, name in (
            ("Agent", spec.run.agent),
            ("Workflow", spec.run.workflow),
            ("Tool", spec.run.tool),
        ):
            if name is not None:
                self.index.refers(kind, name, place, ("spec", "run", kind.lower()), self.report)
        for field, message, expected in schedule_issues(spec):
            self.report.error("SCHEDULE_INVALID", place, ("spec", field), message, expected=expected)

    # -- the whole -----------------------------------------------------------------------------------

    def _environment(self) -> None:
        runtime = next(self.index.good("Runtime"), None)
        if runtime is None:
            return
        listed = spec_of(runtime, RuntimeSpec).env
        for documents in self.index.documents.values():
            for document in documents.values():
                for path, name in document.env:
                    if name not in listed:
                        hint = did_you_mean(self.report.suggest.nearest(name, listed)) or f"add {name} to spec.env"
                        message = f"the Runtime does not list the environment variable {name}"
                        self.report.error("ENV_NOT_LISTED", document.place, path, message, hint=hint)

    def _fallback_cycles(self) -> None:
        edges = {d.name: spec_of(d, ModelSpec).fallbacks for d in self.index.good("Model")}
        for name, chain in find_cycles(edges):
            at = self.index.documents["Model"][name]
            path = ("spec", "fallbacks", edges[name].index(chain[1]))
            self.report.error("FALLBACK_CYCLE", at.place, path, f"fallbacks lead in a circle: {' -> '.join(chain)}")


def check_edges(edges: Iterable[tuple[int, str, str]], nodes: set[str], place: DocumentPlace, report: Report) -> None:
    for number, start, end in edges:
        for field, name in (("from", start), ("to", end)):
            if name not in nodes:
                hint = did_you_mean(report.suggest.nearest(name, nodes))
                path = ("spec", "edges", number, field)
                report.error("NODE_UNKNOWN", place, path, f"there is no node {name!r}", hint=hint)


def find_cycles(edges: Mapping[str, Iterable[str]]) -> list[tuple[str, list[str]]]:
    """Each circle once: the name it was found at, and the way round. Iterative, chains may be long."""
    cycles: list[tuple[str, list[str]]] = []
    done: set[str] = set()
    for start in sorted(edges):
        if start in done:
            continue
        path: list[str] = [start]
        on_path = {start}
        waiting = [iter(edges[start])]
        while waiting:
            following = next(waiting[-1], None)
            if following is None:
                waiting.pop()
                done.add(path[-1])
                on_path.discard(path.pop())
            elif following in on_path:
                way = [*path[path.index(following) :], following]
                cycles.append((way[0], way))
            elif following in edges and following not in done:
                path.append(following)
                on_path.add(following)
                waiting.append(iter(edges[following]))
    return cycles


def schedule_issues(spec: ScheduleSpec) -> list[tuple[str, str, str]]:
    """(field, what is wrong, what is expected) of a schedule whose times cannot be found."""
    found: list[tuple[str, str, str]] = []
    if spec.cron is not None and not (is_cron(spec.cron) and _has_times(spec.cron)):
        found.append(("cron", "the cron line cannot be read, or is never due", "minute hour day month weekday"))
    try:
        ZoneInfo(spec.timezone)
    except (ValueError, OSError, KeyError):
        found.append(("timezone", f"there is no time zone {spec.timezone!r}", "such as Europe/Berlin"))
    if spec.at is not None and not _is_moment(spec.at):
        found.append(("at", "the time cannot be read, or has no offset", "such as 2026-01-31T09:00:00+01:00"))
    return found


def _has_times(cron: str) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        return next(CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC)), None) is not None
    except CronSimError:
        return False


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None and is_spelled(ms_of(text))
    except (ValueError, OverflowError):
        return False


def is_cron(text: str) -> bool:
    fields = text.split()
    return len(fields) == 5 and all(
        _is_cron_field(_numbered(field, names, low), low, high)
        for field, (low, high, names) in zip(fields, _CRON_FIELDS, strict=True)
    )


def _numbered(field: str, names: Sequence[str], low: int) -> str:
    """The field with numbers in place of names, which may be in either case."""
    numbers = {name: str(number) for number, name in enumerate(names, low)}
    return re.sub("[A-Za-z]+", lambda name: numbers.get(name[0].upper(), name[0]), field)


def _is_cron_field(field: str, low: int, high: int) -> bool:
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if slash and not (step.isdecimal() and len(step) < 4 and int(step) > 0):
            return False
        ends = span.split("-") if span != "*" else []
        if len(ends) > 2 or not all(end.isdecimal() and len(end) < 4 and low <= int(end) <= high for end in ends):
            return False
        if len(ends) == 2 and int(ends[0]) > int(ends[1]):
            return False
    return True
