"""Every kind of backend, provider, tool, memory, evaluator, hook and guardrail: shipped or of an installed package.

The compiler's catalog and the makers both come from here, so that nothing can be declared which nothing serves.
"""

import asyncio
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

import structlog

from app.backends.contract import Backend, BackendKind
from app.backends.kinds import (
    agent_framework,
    deepagents,
    echo,
    google_adk,
    langgraph,
    native,
    openai_agents,
    plan_work_review,
    pydantic_ai,
)
from app.backends.workflow_contract import WorkflowAdapter, WorkflowAdapterKind
from app.bus.contract import Bus, BusDeps, BusKind, OpenChannel
from app.bus.kinds import local as local_bus
from app.bus.kinds import nats as nats_bus
from app.bus.kinds import postgres as postgres_bus
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings, SettingsError
from app.evals.declared import Gates
from app.evals.kind import EvaluatorDeps, EvaluatorKind
from app.events.recorder import Narrator
from app.memory.contract import MemoryKind
from app.memory.kinds import store as memory_store
from app.memory.kinds import vector as memory_vector
from app.models.call_places import CallPlaces
from app.models.contract import ProviderDeps, ProviderKind
from app.models.embeddings import Embedder
from app.models.kinds import anthropic, gemini, ollama, openai, scripted
from app.models.limits import Limiter
from app.models.registry import Providers
from app.models.router import ModelRouter
from app.models.shared_limits import SharedLimits
from app.outside.http import HttpClient
from app.outside.proxies import OutgoingProxies
from app.policy import declared as hooks
from app.policy.guardrails import declared as guardrails
from app.policy.guardrails.declared import RuleBook
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind
from app.policy.guardrails.kinds import cel, pii, presidio, regex, schema, topic
from app.policy.guardrails.kinds import model as model_rule
from app.policy.guardrails.kinds import python as python_rule
from app.policy.hooks import HookRunner
from app.policy.kind import BuiltinHook, HookDeps
from app.policy.kinds import builtin as builtin_hook
from app.policy.kinds import command as command_hook
from app.policy.kinds import python as python_hook
from app.policy.redaction import PERSONAL
from app.protocols.telemetry.sinks import OTLP, STDOUT, SinkKind
from app.runtime.narration_queue import NarratorKind, PackageNarrator
from app.runtime.workflows.graph_executor import KIND as native_adapter
from app.tools.declared import build
from app.tools.grants import GrantVault
from app.tools.kind import ToolDeps, ToolKind
from app.tools.kinds import builtin, http, mcp, python, subprocess
from app.tools.memory_tools import MemoryActions
from app.tools.registry import Registry
from app.views.narration import TemplateNarrator
from app.wiring.evaluator_kinds import EVALUATORS
from app.workspace.catalog import AnyConfig, BrokenKind, Kind, KindCatalog, Kinds
from app.workspace.compiled import CompiledWorkspace
from app.workspace.entry_loader import load_entry
from app.workspace.files import WorkspaceFiles
from app.workspace.secrets import resolve_env
from app.workspace.served import UNSERVED
from app.workspace.specs.runtime import Narration

log = structlog.get_logger("holdfast.kinds")
K = TypeVar("K", bound=Kind)

BACKENDS: Final = (
    echo.KIND,
    native.KIND,
    plan_work_review.KIND,
    langgraph.KIND,
    deepagents.KIND,
    openai_agents.KIND,
    google_adk.KIND,
    agent_framework.KIND,
    pydantic_ai.KIND,
)
PROVIDERS: Final = (openai.KIND, anthropic.KIND, gemini.KIND, ollama.KIND, scripted.KIND)
TOOLS: Final = (python.KIND, http.KIND, mcp.KIND, builtin.KIND, subprocess.KIND)
MEMORIES: Final = (memory_store.KIND, memory_vector.KIND)
HOOKS: Final = Kinds((builtin_hook.KIND, python_hook.KIND, command_hook.KIND))
GUARDRAILS: Final = (
    pii.KIND,
    regex.KIND,
    topic.KIND,
    cel.KIND,
    schema.KIND,
    model_rule.KIND,
    python_rule.KIND,
    presidio.KIND,
)
ADAPTERS: Final = (native_adapter, langgraph.WORKFLOWS)
BUSES: Final = (local_bus.KIND, postgres_bus.KIND, nats_bus.KIND)
NARRATORS: Final = {"template": TemplateNarrator}


@cache
def installed_backends() -> Kinds[BackendKind]:
    return with_installed("holdfast.backends", BackendKind, BACKENDS)


@cache
def workflow_adapters() -> Kinds[WorkflowAdapterKind]:
    return with_installed("holdfast.workflow_adapters", WorkflowAdapterKind, ADAPTERS)


@cache
def providers() -> Kinds[ProviderKind]:
    return with_installed("holdfast.providers", ProviderKind, PROVIDERS)


@cache
def tools() -> Kinds[ToolKind]:
    return with_installed("holdfast.tools", ToolKind, TOOLS)


@cache
def memories() -> Kinds[MemoryKind]:
    return with_installed("holdfast.memories", MemoryKind, MEMORIES)


@cache
def buses() -> Kinds[BusKind]:
    return with_installed("holdfast.buses", BusKind, BUSES)


def make_bus(setting: str, open_channel: OpenChannel) -> tuple[str, Bus]:
    """The kind that HOLDFAST_BUS names, and a bus of it."""
    scheme = setting.partition("://")[0]
    kind = buses().get("nats" if scheme == "tls" else scheme)
    if isinstance(kind, BrokenKind):
        raise SettingsError([f"HOLDFAST_BUS: {kind.name} of the package {kind.package} cannot be used: {kind.reason}"])
    if kind is None:
        raise SettingsError([f"HOLDFAST_BUS: there is no bus {scheme!r}; there are {', '.join(sorted(buses()))}"])
    if not kind.installed:
        raise SettingsError([f"HOLDFAST_BUS: {kind.name} is not installed; {kind.remedy}"])
    return kind.name, kind.make(BusDeps(setting, open_channel))


@cache
def builtin_hooks() -> Kinds[BuiltinHook]:
    return with_installed("holdfast.hooks", BuiltinHook, builtin_hook.BUILTINS)


@cache
def guardrail_kinds() -> Kinds[GuardrailKind]:
    return with_installed("holdfast.guardrails", GuardrailKind, GUARDRAILS)


@cache
def evaluators() -> Kinds[EvaluatorKind]:
    return with_installed("holdfast.evaluators", EvaluatorKind, EVALUATORS)


@cache
def narrators() -> Kinds[NarratorKind]:
    return with_installed("holdfast.narrators", NarratorKind, ())


@cache
def sinks() -> Kinds[SinkKind]:
    return with_installed("holdfast.sinks", SinkKind, (STDOUT, OTLP))


def with_installed(group: str, kind: type[K], shipped: Iterable[K]) -> Kinds[K]:
    """The kinds that ship, and those that installed packages offer as entry points of the group."""
    known = {one.name for one in shipped}
    offered: dict[str, Callable[[], K | BrokenKind]] = {}
    for point in sorted(installed_points().select(group=group), key=_package):
        if point.name in known:
            log.warning("kind of a package is not used: its name is taken", name=point.name, package=_package(point))
            continue
        known.add(point.name)
        offered[point.name] = partial(_load_point, point, kind)
    return Kinds(shipped, offered)


@cache
def installed_points() -> Any:
    """All of them at once, because finding them reads a file of every installed package.

    Python 3.11 gives them another type than later versions; both can `select`.
    """
    return entry_points()


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]


def _load_point(point: EntryPoint, kind: type[K]) -> K | BrokenKind:
    try:
        loaded = point.load()
    except Exception as error:
        # Loading runs the package's code; whatever it raises says that the kind cannot be used.
        return BrokenKind(point.name, _package(point), f"{type(error).__name__}: {error}")
    if not isinstance(loaded, kind):
        return BrokenKind(point.name, _package(point), f"{point.value} is not a {kind.__name__}")
    if loaded.name != point.name:
        return BrokenKind(point.name, _package(point), f"the {kind.__name__} is named {loaded.name!r}")
    return loaded


def kind_catalog(brought: Iterable[str] = (), adapters: Iterable[str] = ()) -> KindCatalog:
    """What the compiler may accept; `brought` and `adapters` are those of a program that embeds the server."""
    return KindCatalog(
        backends=_with_embedded(installed_backends(), brought),
        providers=providers(),
        tools=tools(),
        builtin_tools=builtin.NAMES,
        builtin_hooks=builtin_hooks(),
        guardrails=guardrail_kinds(),
        evaluators=evaluators(),
        memories=memories(),
        adapters=_with_embedded(workflow_adapters(), adapters),
        narrators=frozenset({*NARRATORS, *narrators()}),
        sinks=frozenset(sinks()),
        redaction_kinds=frozenset({"secret", *PERSONAL}),
        unserved=UNSERVED,
    )


def _with_embedded(known: Kinds[K], names: Iterable[str]) -> Kinds[Kind]:
    embedded = [Kind(name=name, config=AnyConfig) for name in names if name not in known]
    return known if not embedded else Kinds(embedded, {name: partial(known.__getitem__, name) for name in known})


class Backends(Mapping[str, Backend]):
    """Backends by the name of their kind, each made when first used."""

    def __init__(self, kinds: Kinds[BackendKind]) -> None:
        self._kinds = kinds
        self._made: dict[str, Backend] = {}

    def __getitem__(self, name: str) -> Backend:
        if name not in self._made:
            kind = self._kinds.usable(name)
            if kind is None:
                raise KeyError(name)
            try:
                self._made[name] = kind.make()
            except Exception as error:
                # A kind may come from another package; whatever it raises says that it cannot be used.
                log.warning("backend cannot be made", kind=name, reason=f"{type(error).__name__}: {error}")
                raise KeyError(name) from error
        return self._made[name]

    def not_made(self, names: Iterable[str]) -> set[str]:
        """Of these the ones that import an optional extra and are not made yet."""
        found = ((name, self._kinds.usable(name)) for name in set(names) - self._made.keys())
        return {name for name, kind in found if kind is not None and kind.extra is not None}

    def prepare(self, names: Iterable[str]) -> None:
        """Makes them now. An agent framework takes seconds to import: in a thread that delays no run."""
        for name in names:
            self.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds


class WorkflowAdapters(Mapping[str, WorkflowAdapter]):
    """Workflow adapters by the name of their kind, each made when first used; those a program brought come first."""

    def __init__(self, kinds: Kinds[WorkflowAdapterKind], brought: Mapping[str, WorkflowAdapter] | None = None) -> None:
        self._kinds, self._made = kinds, dict(brought or {})

    def __getitem__(self, name: str) -> WorkflowAdapter:
        if name not in self._made:
            kind = self._kinds.usable(name)
            if kind is None:
                raise KeyError(name)
            try:
                self._made[name] = kind.make()
            except Exception as error:
                # A kind may come from another package; whatever it raises says that it cannot be used.
                log.warning("workflow adapter cannot be made", kind=name, reason=f"{type(error).__name__}: {error}")
                raise KeyError(name) from error
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        """Whether it can be used, without importing what it needs."""
        return name in self._made or (isinstance(name, str) and self._kinds.usable(name) is not None)

    def __iter__(self) -> Iterator[str]:
        yield from {**dict.fromkeys(self._kinds), **self._made}

    def __len__(self) -> int:
        return len({*self._kinds, *self._made})


def narrator(chosen: Narration) -> Narrator | None:
    return NARRATORS[chosen.provider](chosen.style) if chosen.enabled and chosen.provider in NARRATORS else None


def package_narrator(chosen: Narration) -> PackageNarrator | None:
    """The narrator of an installed package, if the workspace chose one. A broken one narrates nothing."""
    if not chosen.enabled or chosen.provider in NARRATORS:
        return None
    kind = narrators().usable(chosen.provider)
    if kind is None:
        log.warning("narrator cannot be used", kind=chosen.provider)
        return None
    try:
        return kind.make()
    except Exception as error:
        log.warning("narrator cannot be made", kind=chosen.provider, reason=f"{type(error).__name__}: {error}")
        return None


def http_client(settings: Settings, environ: Mapping[str, str] = os.environ) -> HttpClient:
    return HttpClient(proxies=OutgoingProxies.from_environment(environ), ca_file=settings.ca_file)


def embedder(clock: Clock, client: HttpClient, places: CallPlaces) -> Embedder:
    return Embedder(ProviderDeps(client, _resolved_secret, clock, asyncio.sleep), places)


def _resolved_secret(text: str) -> str | None:
    resolved = resolve_env(text, os.environ)
    return resolved if isinstance(resolved, str) else None


def model_router(
    settings: Settings, clock: Clock, client: HttpClient, shared: SharedLimits | None = None
) -> ModelRouter:
    deps = ProviderDeps(client, _resolved_secret, clock, asyncio.sleep)
    limiter = Limiter(clock, concurrency=settings.model_calls)
    return ModelRouter(
        Providers(providers(), deps),
        schemas=SchemaRegistry(),
        clock=clock,
        random=random.random,
        sleep=asyncio.sleep,
        limiter=limiter,
        shared=shared,
    )


def make_hooks(settings: Settings, clock: Clock, workspace: CompiledWorkspace) -> HookRunner | list[Failure]:
    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    deps = HookDeps(settings.workspace, _secrets_of(workspace), load, builtin_hooks(), settings.data_dir)
    return hooks.build(workspace, HOOKS, deps, schemas=SchemaRegistry(), clock=clock)


def make_guardrails(workspace: CompiledWorkspace) -> RuleBook | list[Failure]:
    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    return guardrails.build(workspace, guardrail_kinds(), GuardrailDeps(load))


def make_gates() -> Gates:
    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    return Gates(evaluators(), EvaluatorDeps(load))


def _secrets_of(workspace: CompiledWorkspace) -> Callable[[str], str | None]:
    """The environment as far as the Runtime lists it."""
    allowed = frozenset(workspace.runtime.env)
    return lambda name: os.environ.get(name) if name in allowed else None


class ToolMakers:
    """Makes the tools of a compiled workspace, each by its kind."""

    def __init__(self, settings: Settings, clock: Clock, client: HttpClient) -> None:
        self._settings, self._clock, self._client = settings, clock, client
        self._kinds = tools()
        self.memory: MemoryActions | None = None
        self.grants: GrantVault | None = None
        self._kept: dict[str, Any] = {}

    async def build(self, workspace: CompiledWorkspace) -> Registry | list[Failure]:
        settings = self._settings
        files = settings.data_dir / "files"
        files.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = _secrets_of(workspace)
        deps = ToolDeps(
            self._client,
            secret,
            self._clock,
            settings.workspace,
            files,
            settings.data_dir,
            self._kept,
            self.memory,
            self.grants,
        )
        return await build(workspace, self._kinds, deps)

    async def close(self) -> None:
        await asyncio.gather(*(kept.close() for kept in self._kept.values() if hasattr(kept, "close")))


async def mcp_tools(
    workspace: CompiledWorkspace, name: str, client: HttpClient, grants: GrantVault | None = None
) -> list[str] | Failure:
    """The tools that an MCP server offers now, for whoever checks a workspace without serving it."""
    return await mcp.list_tools(workspace, name, client, _secrets_of(workspace), grants)


def mcp_login(client: HttpClient, clock: Clock, workspace: CompiledWorkspace, name: str) -> mcp.McpLogin:
    """The steps of a login to an MCP server."""
    return mcp.McpLogin(workspace, name, client, _secrets_of(workspace), clock)
