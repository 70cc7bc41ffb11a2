"""The compiler: files in, a frozen workspace or the complete list of diagnostics out.

Knows nothing of folders, watching or servers. What it learned of a file it keeps in a `CompileCache`, so
that compiling again after a change costs little more than the changed file.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

from cachetools import LRUCache
from pydantic import ValidationError

from app.core import json
from app.core.schemas import SchemaRegistry, Validator
from app.workspace.agents import AgentCompiler
from app.workspace.catalog import KindCatalog
from app.workspace.compiled import Compiled, CompiledTool, CompiledWorkflow, CompiledWorkspace, Named
from app.workspace.cycle_workflows import with_cycles
from app.workspace.cycles import CycleCompiler
from app.workspace.diagnostics import SYNTAX, Diagnostic, Diagnostics
from app.workspace.entries import ModuleNames, module_file, read_module, split_entry
from app.workspace.files import SourceFile, WorkspaceFiles
from app.workspace.index import Index, build_index
from app.workspace.kind_checks import check_config
from app.workspace.memories import compile_memories
from app.workspace.names import did_you_mean
from app.workspace.parse import ParsedDocument, ParsedFile, parse_file
from app.workspace.plain_models import check_plain_models, plain_models
from app.workspace.report import FoundPlaces, Report
from app.workspace.resolve import Resolver, spec_of
from app.workspace.specs.base import Spec
from app.workspace.specs.model import ModelSpec
from app.workspace.specs.others import (
    EvaluatorSpec,
    GuardrailSpec,
    HookSpec,
    ScheduleSpec,
    WebhookSpec,
)
from app.workspace.specs.runtime import ProfileSpec, RuntimeSpec
from app.workspace.specs.tool import McpServerSpec
from app.workspace.triggers import TriggerMatcher
from app.workspace.units import compile_roles, compile_skills
from app.workspace.workflows import WorkflowCompiler

SpecT = TypeVar("SpecT", bound=Spec)

TOLERATED: Final = frozenset(
    {
        "NOT_SERVED",
        "ARGUMENT_UNKNOWN",
        "SIGNATURE_DIFFERS",
        "TEMPLATE_BRACES",
        "SKILL_WITHOUT_TOOLS",
        "HOOK_NOT_LISTED",
        "GUARDRAIL_NOT_LISTED",
    }
)
_MAX_VALIDATORS: Final = 20_000  # some kilobytes each; begun anew when full


class CompileCache:
    """What is known of files and schemas by their content. One compiler uses it at a time."""

    def __init__(self, schemas: SchemaRegistry | None = None) -> None:
        self.schemas = schemas or SchemaRegistry()
        self._files: dict[tuple[str, str], ParsedFile] = {}
        self._modules: LRUCache[tuple[str, str], ModuleNames] = LRUCache(_MAX_VALIDATORS)
        self._validators: LRUCache[bytes, Validator] = LRUCache(_MAX_VALIDATORS)
        self.found_places = FoundPlaces()

    def parse_all(self, files: WorkspaceFiles) -> list[ParsedFile]:
        """What is not asked for this time is forgotten, so that the cache is bounded by the workspace."""
        known, self._files = self._files, {}
        for path, file in files.files.items():
            key = (path, file.sha256)
            parsed = known.get(key)
            self._files[key] = parsed if parsed is not None else parse_file(file, self.schemas, self.validator)
        self.found_places.keep_only(files.files)
        return list(self._files.values())

    def module(self, file: SourceFile) -> ModuleNames:
        key = (file.path, file.sha256)
        if key not in self._modules:
            self._modules[key] = read_module(file)
        return self._modules[key]

    def validator(self, schema: Mapping[str, Any]) -> Validator:
        key = json.canonical(schema)
        found = self._validators.get(key)
        if found is None:
            found = self._validators[key] = Validator(schema)
        return found


def compile(
    files: WorkspaceFiles,
    catalog: KindCatalog,
    *,
    profile: str | None = None,
    cache: CompileCache | None = None,
    stored: bool = False,
) -> Compiled | Diagnostics:
    """Every mistake is collected; any error means no workspace.

    `stored` is for the files of a run that was accepted earlier: what an older version accepted without effect stays
    without effect, so that the run can end as it began.
    """
    cache = cache or CompileCache()
    parsed = cache.parse_all(files)
    report = Report(TOLERATED if stored else frozenset(), cache.found_places)
    report.add(files.problems)
    for file in parsed:
        report.add(file.diagnostics)
    index = build_index(parsed, report, _unread(report.items, files))
    _check_presence(index, parsed, report)
    _check_strict(index, report)
    resolver = Resolver(index, files, catalog, report, cache.module)
    resolver.check()
    models = _models(index, catalog, profile, resolver)
    workspace = _assemble(index, files, models, profile, resolver, cache)
    diagnostics = Diagnostics.of(report.items)
    return diagnostics if report.failed or workspace is None else Compiled(workspace, diagnostics)


def _unread(items: Iterable[Diagnostic], files: WorkspaceFiles) -> Iterator[str]:
    """The texts of files that could not be read, and their names."""
    for path in sorted({item.file for item in items if item.code in SYNTAX}):
        file = files.files.get(path)
        yield path + "\n" + (file.content.decode(errors="replace") if file is not None else "")


def _check_presence(index: Index, parsed: list[ParsedFile], report: Report) -> None:
    if not report.items and not any(file.documents or file.markdown for file in parsed):
        message = "the folder is empty or holds no YAML document; a workspace has at least a Runtime and an Agent"
        report.at("WORKSPACE_EMPTY", "", message)
    elif not index.documents["Runtime"] and not index.may_be_unread("Runtime"):
        report.at("RUNTIME_MISSING", "runtime.yaml", "the workspace has no Runtime document")


def _check_strict(index: Index, report: Report) -> None:
    """In a strict workspace a tool's results must be checked."""
    if any(spec_of(runtime, RuntimeSpec).strict for runtime in index.good("Runtime")):
        report.items = [
            replace(item, severity="error") if item.code == "OUTPUT_SCHEMA_MISSING" else item for item in report.items
        ]


def _models(index: Index, catalog: KindCatalog, profile: str | None, resolver: Resolver) -> dict[str, Named[ModelSpec]]:
    """The models as the profile has them. Every profile is tried, so that switching never fails later."""
    report = resolver.report
    models = {document.name: _named(document, ModelSpec) for document in index.good("Model")}
    chosen = dict(models)
    for document in index.good("Profile"):
        for name, override in spec_of(document, ProfileSpec).models.items():
            path = ("spec", "models", name)
            if not index.refers("Model", name, document.place, path, report) or name not in models:
                continue
            merged = _override(models[name].spec, override, document, report)
            if merged is None:
                continue
            where = (*path, "provider")
            resolver.provider(merged.provider, document.place, where)
            config = (*path, "config")
            check_config(catalog.providers, merged.provider, merged.config, document.place, config, "provider", report)
            index.refers_all("Model", merged.fallbacks, document.place, (*path, "fallbacks"), report)
            if document.name == profile:
                chosen[name] = replace(models[name], spec=merged)
    if profile is not None and profile not in index.documents["Profile"]:
        near = report.suggest.nearest(profile, index.documents["Profile"])
        runtime = next(iter(index.documents["Runtime"].values()), None)
        message = f"there is no Profile named {profile!r}"
        if runtime is not None:
            report.error("PROFILE_UNKNOWN", runtime.place, (), message, hint=did_you_mean(near))
    return chosen


def _override(spec: ModelSpec, override: Any, document: ParsedDocument, report: Report) -> ModelSpec | None:
    given = override.model_dump(mode="json", by_alias=True, exclude_unset=True)
    base = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if given.get("provider", spec.provider) != "scripted":
        base.pop("script", None)
    merged = {key: value for key, value in {**base, **given}.items() if value is not None}
    try:
        return ModelSpec.model_validate_json(json.dumps(merged))
    except ValidationError as error:
        for found in error.errors(include_url=False, include_input=False):
            message = f"the overridden model is not valid: {'.'.join(map(str, found['loc']))}: {found['msg']}"
            report.error("VALUE_INVALID", document.place, ("spec", "models"), message)
        return None


def _named(document: ParsedDocument, kind: type[SpecT]) -> Named[SpecT]:
    metadata = document.model.metadata  # type: ignore[union-attr]  # asked of good documents only
    labels = MappingProxyType(dict(metadata.labels))
    return Named(document.name, metadata.description or "", labels, spec_of(document, kind))


def _named_all(index: Index, kind: str, spec: type[SpecT]) -> Mapping[str, Named[SpecT]]:
    return MappingProxyType({document.name: _named(document, spec) for document in index.good(kind)})


def _tools(index: Index, files: WorkspaceFiles) -> Mapping[str, CompiledTool]:
    tools: dict[str, CompiledTool] = {}
    for document in index.good("Tool"):
        assert document.tool is not None, "a good Tool document was compiled when it was parsed"
        tool = document.tool
        parts = split_entry(tool.spec.entry) if tool.spec.kind == "python" and tool.spec.entry else None
        source = module_file(parts[0], files) if parts is not None else None
        tools[document.name] = replace(tool, module_file=source.path) if source is not None else tool
    return MappingProxyType(tools)


def _check_schedule_inputs(
    index: Index, tools: Mapping[str, CompiledTool], workflows: Mapping[str, CompiledWorkflow], report: Report
) -> None:
    """A run that its workflow or tool would refuse each time it is due is refused here, once."""
    for document in index.good("Schedule"):
        target = spec_of(document, ScheduleSpec).run
        named: CompiledTool | CompiledWorkflow | None = tools.get(target.tool or "") or workflows.get(
            target.workflow or ""
        )
        validator = None if named is None else named.input_validator
        for issue in () if validator is None else validator.issues(target.input, show_keys=True)[:1]:
            what = "tool" if target.tool is not None else "workflow"
            message = f"the input breaks the schema of the {what}: {issue.path or '/'}: {issue.message}"
            path = ("spec", "run", "input")
            report.error("VALUE_INVALID", document.place, path, message, expected=f"the `input` of the {what}")


def _default_agent(runtime: ParsedDocument | None, agents: Mapping[str, Any]) -> str | None:
    """As `CompiledWorkspace.default_agent` has it, before there is one."""
    named = None if runtime is None else spec_of(runtime, RuntimeSpec).default_agent
    return next(iter(agents)) if named is None and len(agents) == 1 else named


def _assemble(
    index: Index,
    files: WorkspaceFiles,
    models: dict[str, Named[ModelSpec]],
    profile: str | None,
    resolver: Resolver,
    cache: CompileCache,
) -> CompiledWorkspace | None:
    report = resolver.report
    skills, invalid = compile_skills(index, report)
    specs = {name: model.spec for name, model in models.items()}
    agents = AgentCompiler(resolver, specs, skills, invalid, cache.validator).compile()
    roles = compile_roles(index, report)
    memories = compile_memories(resolver)
    check_plain_models(index, models, report)
    workflows = WorkflowCompiler(resolver, agents, skills, cache.schemas, cache.validator).compile()
    runtime = next(index.good("Runtime"), None)
    default = _default_agent(runtime, agents)
    units = CycleCompiler(index, report, agents, roles, default, cache.schemas, cache.validator).compile()
    tools = _tools(index, files)
    _check_schedule_inputs(index, tools, workflows, report)
    if report.failed or runtime is None:
        return None
    return CompiledWorkspace(
        digest=files.digest,
        profile=profile,
        runtime=spec_of(runtime, RuntimeSpec),
        agents=agents,
        models=MappingProxyType(models),
        tools=tools,
        mcp_servers=_named_all(index, "McpServer", McpServerSpec),
        memories=memories,
        workflows=with_cycles(workflows, units),
        hooks=_named_all(index, "Hook", HookSpec),
        guardrails=_named_all(index, "Guardrail", GuardrailSpec),
        evaluators=_named_all(index, "Evaluator", EvaluatorSpec),
        schedules=_named_all(index, "Schedule", ScheduleSpec),
        webhooks=_named_all(index, "Webhook", WebhookSpec),
        profiles=tuple(sorted(index.documents["Profile"])),
        skills=skills,
        roles=roles,
        units=units,
        triggers=TriggerMatcher({name: skill.triggers for name, skill in skills.items()}),
        files=files,
        plain_models=plain_models(models),
    )
