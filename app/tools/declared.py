"""From a workspace's Tool documents to tools: what they say in common; each kind reads its own section.

`build` is given the kinds by wiring and answers a registry, or every reason why there is none.
"""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core import json
from app.core.errors import Failure
from app.tools.compensation import FunctionCompensation, ToolCompensation
from app.tools.contract import NO_REPAIR, ArgumentRule, RepairSwitches, Tool, ToolDefinition
from app.tools.guard import Guard, ToolInvalid
from app.tools.kind import Discovered, ToolDeps, ToolKind
from app.tools.registry import Registered, Registry
from app.workspace.catalog import Kinds
from app.workspace.compiled import CompiledRule, CompiledTool, CompiledWorkspace
from app.workspace.entry_loader import load_nearest


async def build(workspace: CompiledWorkspace, kinds: Kinds[ToolKind], deps: ToolDeps) -> Registry | list[Failure]:
    """All tools, or all failures: a workspace with a tool that cannot work is not served.

    A tool of a remote kind (MCP) is an exception: a fault of its server is no reason to refuse runs that do not need
    it. Such a tool is left out, and a call of it is answered with the reason.
    """
    tools: list[Registered] = []
    failures: list[Failure] = []
    unavailable: dict[str, Failure] = {}
    found = await _discovered(workspace, kinds, deps)
    unavailable |= found.unavailable
    for declared in (*workspace.tools.values(), *found.tools.values()):
        await asyncio.sleep(0)  # the schemas of a foreign server may take a while, and others wait for the loop
        kind = kinds.usable(declared.spec.kind)
        made = _unknown(declared) if kind is None else await _make(kind, declared, workspace, deps)
        if not isinstance(made, Failure):
            tools.append(made)
        elif kind is not None and kind.remote:
            unavailable[declared.name] = made
        else:
            failures.append(made)
    return failures or Registry(tools, unavailable=unavailable, selected=found.selected)


async def _discovered(workspace: CompiledWorkspace, kinds: Kinds[ToolKind], deps: ToolDeps) -> Discovered:
    """Nothing is asked, and no client imported, where no agent names a server."""
    kind = kinds.usable("mcp")
    if kind is None or kind.discover is None or not any(one.mcp_selections for one in workspace.agents.values()):
        return Discovered()
    return await kind.discover(workspace, deps)


async def _make(
    kind: ToolKind, declared: CompiledTool, workspace: CompiledWorkspace, deps: ToolDeps
) -> Registered | Failure:
    try:
        made = kind.make(declared, workspace, deps)
        tool: Tool | Failure = await made if inspect.isawaitable(made) else made
        if isinstance(tool, Failure):
            return tool
        definition = _with_function(tool.definition, declared, workspace)
        return definition if isinstance(definition, Failure) else Registered(tool, Guard(definition, deps.files))
    except ToolInvalid as error:
        return error.failure
    except Exception as error:
        # A kind may come from another package; whatever it raises says that this tool cannot be used.
        reason = f"a tool of kind {kind.name} cannot be made: {type(error).__name__}"
        return Failure("TOOL_INVALID", f"{declared.name}: {reason}")


def define(declared: CompiledTool, derived: ToolDefinition | None = None) -> ToolDefinition:
    """What the document says; `derived` is what the kind knows by itself (a function's hints, a server's offer)
    and holds where the document is silent."""
    spec = declared.spec
    base = derived or ToolDefinition(declared.name)
    return replace(
        base,
        name=declared.name,
        description=declared.description or base.description,
        input=_with_examples(plain(spec.input) if spec.input is not None else base.input, spec.examples),
        output=plain(spec.output) if spec.output is not None else base.output,
        effect=spec.effect,
        timeout_seconds=float(spec.timeout_seconds),
        max_output_bytes=spec.max_output_bytes,
        excerpt_bytes=spec.excerpt_bytes,
        approval=declared.approval,
        approver=spec.approver,
        rules=tuple(_rule(rule) for rule in declared.rules),
        paths=spec.paths,
        repair=_switches(declared),
        closed=base.closed or spec.input is not None,
        compensation=_by_tool(declared) or base.compensation,
    )


def _by_tool(declared: CompiledTool) -> ToolCompensation | None:
    said = declared.spec.compensation
    return None if said is None or said.tool is None else ToolCompensation(said.tool, declared.compensation)


def _with_function(
    definition: ToolDefinition, declared: CompiledTool, workspace: CompiledWorkspace
) -> ToolDefinition | Failure:
    """The definition with the Python function that takes its calls back, where the document names one."""
    said = declared.spec.compensation
    if said is None or said.entry is None:
        return definition
    function = load_nearest(said.entry, workspace.files)
    if isinstance(function, Failure):
        return function
    if not callable(function):
        return Failure("TOOL_INVALID", f"{declared.name}: {said.entry} is not a function")
    return replace(definition, compensation=FunctionCompensation(function))


def _with_examples(schema: Any, examples: Sequence[Any]) -> Any:
    """The examples are part of the schema, so that the model sees them, and the guard when it explains a mistake."""
    return schema | {"examples": plain(examples)} if examples and isinstance(schema, dict) else schema


def plain(value: Any) -> Any:
    """A frozen JSON value as dicts and lists, which is what validators and templates work on."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _rule(rule: CompiledRule) -> ArgumentRule:
    example = f" Example: {json.dumps(plain(rule.example)).decode()}" if rule.example is not None else ""
    return ArgumentRule(rule.check, rule.message + example)


def _switches(declared: CompiledTool) -> RepairSwitches:
    said = declared.spec.repair
    if not said.enabled:
        return NO_REPAIR
    return RepairSwitches(said.json_, said.names, said.types, said.enums, said.model_round)


def _unknown(declared: CompiledTool) -> Failure:
    return Failure("TOOL_INVALID", f"{declared.name}: there is no tool kind {declared.spec.kind!r} here")
