"""DeepAgents: the upstream `create_deep_agent`, with its options passed through. Imported on first use.

Its file tools are recorded steps under the agent's permissions, before which come our own. Files, todos and messages
are the thread's state unless the agent has a file backend of its own. Leaves to `langgraph`: running the graph.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from app.backends.bridge import Bridge, bridging
from app.backends.contract import Backend, BackendKind, Context, Result, Resume, StepFailed
from app.core.errors import Failure
from app.core.json import JsonObject
from app.workspace.entry_loader import load_nearest
from app.workspace.specs.base import Entry, JsonMap, Name, Spec, Text

SKILLS: Final = "/skills/"
"""Where the agent's skills are among its files. They are the workspace's, so nothing may be written there."""
_ALWAYS: Final[tuple[JsonObject, ...]] = (
    {"operations": ["write"], "paths": [f"{SKILLS}**"], "mode": "deny"},
    {"operations": ["read", "write"], "paths": ["/.env*", "/**/.env*"], "mode": "deny"},
)
"""Rules before the agent's own, whatever file backend it has: skills are the workspace's, and keys are nobody's."""
_EPOCH: Final = "1970-01-01T00:00:00+00:00"


class DeepSubagent(Spec):
    """A subagent that DeepAgents runs itself, by its tool `task`."""

    name: Text
    description: Text
    system_prompt: str
    tools: tuple[Name, ...] | None = Field(None, description="Of the agent's tools only these. Default: all of them.")
    interrupt_on: JsonMap | None = None


class DeepPermission(Spec):
    operations: tuple[Text, ...] = Field(description="`read`, `write`.")
    paths: tuple[Text, ...]
    mode: Text = "allow"


class DeepAgentsConfig(Spec):
    """`config.deepagents` of an agent: options of `create_deep_agent`."""

    subagents: tuple[DeepSubagent, ...] = ()
    memory: tuple[Text, ...] = Field((), description="Paths of files that are shown to the model in every turn.")
    permissions: tuple[DeepPermission, ...] = Field((), description="Rules for its file tools; the first match wins.")
    interrupt_on: JsonMap | None = Field(None, description="Tools whose calls a person must confirm.")
    backend: Entry | None = Field(
        None, description="A file backend as `module:attribute`: a backend, or a function that makes one."
    )
    middleware: tuple[Entry, ...] = Field((), description="Middleware as `module:attribute`, each a value or a class.")
    recursion_limit: int = Field(1000, ge=1, le=10_000, description="The most steps that the graph may take in a turn.")


class DeepAgentsBackend:
    kind = "deepagents"
    resume: Resume = "replay"

    def __init__(self) -> None:
        from app.backends.kinds.langgraph.built_graphs import BuiltGraphs

        self._built = BuiltGraphs()

    async def run(self, ctx: Context) -> Result:
        from app.backends.kinds.langgraph.session import GraphSession

        bridge = Bridge(ctx)
        with bridging(bridge):
            graph = self._built.of(bridge, lambda: self._graph(bridge), ctx.instructions)
            session = GraphSession(bridge, graph, ctx.config, keeps_state=True)
            session.first = {"files": _skill_files(ctx)}
            return await bridge.converse(session.turn)

    def _graph(self, bridge: Bridge) -> Any:
        from deepagents import FilesystemPermission, create_deep_agent
        from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT

        from app.backends.kinds.langgraph.chat import GateModel, agent_tools
        from app.backends.kinds.langgraph.own_tools import RecordedTools

        ctx, config = bridge.ctx, bridge.ctx.config
        backend = _made(ctx, config["backend"]) if config.get("backend") else None
        tools = {tool.name: tool for tool in agent_tools(bridge.tools.values())}
        recorder = RecordedTools(outside=backend is not None)
        rules = [*_ALWAYS, *config.get("permissions", ())]
        general: JsonObject = {**GENERAL_PURPOSE_SUBAGENT}
        specs = [*config.get("subagents", ()), general]
        if any(spec["name"] == general["name"] for spec in config.get("subagents", ())):
            specs.pop()
        return create_deep_agent(
            model=GateModel(),
            tools=list(tools.values()),
            system_prompt=ctx.instructions or None,
            middleware=[*(_made(ctx, entry) for entry in config.get("middleware", ())), recorder],
            subagents=[_subagent(spec, tools, recorder) for spec in specs],
            skills=[SKILLS] if ctx.definition.skills else None,
            memory=list(config["memory"]) if config.get("memory") else None,
            permissions=[FilesystemPermission(**{k: _plain(v) for k, v in rule.items()}) for rule in rules],
            backend=backend,
            interrupt_on=dict(config["interruptOn"]) if config.get("interruptOn") else None,
            name=ctx.agent,
        )


def _made(ctx: Context, entry: str) -> Any:
    """A value of the workspace's own code; a class or a function is called for it."""
    found = load_nearest(entry, ctx.workspace.files)
    if isinstance(found, Failure):
        raise StepFailed(found)
    return found() if isinstance(found, type) or (callable(found) and hasattr(found, "__code__")) else found


def _subagent(spec: Mapping[str, Any], tools: Mapping[str, Any], recorder: Any) -> Any:
    named = spec.get("tools")
    made: JsonObject = {
        "name": spec["name"],
        "description": spec["description"],
        "system_prompt": spec.get("systemPrompt") or spec.get("system_prompt"),
        "tools": list(tools.values()) if named is None else [tools[name] for name in named if name in tools],
        "middleware": [recorder],
    }
    return made | {"interrupt_on": dict(spec["interruptOn"])} if spec.get("interruptOn") else made


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _skill_files(ctx: Context) -> dict[str, JsonObject]:
    """The agent's skills as files; the times are fixed, so that a run that is entered again sees the same."""
    return {
        f"{SKILLS}{name}/SKILL.md": {
            "content": ctx.workspace.files.files[ctx.workspace.skills[name].file].content.decode(),
            "encoding": "utf-8",
            "created_at": _EPOCH,
            "modified_at": _EPOCH,
        }
        for name in ctx.definition.skills
    }


def _make() -> Backend:
    import deepagents  # noqa: F401  # a package that is there and cannot be imported is found now, not in a run

    import app.backends.kinds.langgraph.session  # noqa: F401  # the same

    return DeepAgentsBackend()


KIND: Final = BackendKind(
    name="deepagents",
    make=_make,
    config=DeepAgentsConfig,
    entry_fields=("backend", "middleware"),
    extra="deepagents",
    module="deepagents",
)
