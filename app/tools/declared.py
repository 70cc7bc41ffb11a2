"""From a workspace's Tool documents to tools: what they say in common; each kind reads its own section.

`build` is given one maker per kind by wiring and answers a registry, or every reason why there is none.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from app.core import json
from app.core.errors import Failure
from app.tools.contract import NO_REPAIR, RepairSwitches, Rule, Tool, ToolDefinition
from app.tools.guard import Guard, ToolInvalid
from app.tools.registry import Registry
from app.workspace.compiled import CompiledRule, CompiledTool, CompiledWorkspace

_ELSEWHERE: Final = frozenset({"mcp"})
"""Kinds whose tools are at a server of their own."""

Maker: TypeAlias = Callable[[CompiledTool, CompiledWorkspace], Awaitable[Tool | Failure]]


async def build(
    workspace: CompiledWorkspace, makers: Mapping[str, Maker], *, root: Path | None = None
) -> Registry | list[Failure]:
    """All tools, or all failures: a workspace with a tool that cannot work is not served (OS-I3).

    A tool of an MCP server is another matter: what is wrong with that server is no reason to refuse runs that do not
    need it. Such a tool is left out, and a call of it is answered with the reason.
    """
    tools: list[Tool] = []
    failures: list[Failure] = []
    unavailable: dict[str, Failure] = {}
    for declared in workspace.tools.values():
        maker = makers.get(declared.spec.kind)
        try:
            made = await maker(declared, workspace) if maker is not None else _unknown(declared)
            if not isinstance(made, Failure):
                Guard(made.definition, root)
        except ToolInvalid as error:
            made = error.failure
        if not isinstance(made, Failure):
            tools.append(made)
        elif declared.spec.kind in _ELSEWHERE:
            unavailable[declared.name] = made
        else:
            failures.append(made)
    return failures or Registry(tools, root=root, unavailable=unavailable)


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
    )


def _with_examples(schema: Any, examples: Sequence[Any]) -> Any:
    """The examples are part of the schema, so that the model sees them, and the guard when it explains a mistake."""
    return schema | {"examples": plain(examples)} if examples and isinstance(schema, dict) else schema


def plain(value: Any) -> Any:
    """A frozen JSON value as dicts and lists, which is what validators and templates work on."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _rule(rule: CompiledRule) -> Rule:
    example = f" Example: {json.dumps(plain(rule.example)).decode()}" if rule.example is not None else ""
    return Rule(rule.check, rule.message + example)


def _switches(declared: CompiledTool) -> RepairSwitches:
    said = declared.spec.repair
    if not said.enabled:
        return NO_REPAIR
    return RepairSwitches(said.json_, said.names, said.types, said.enums, said.model_round)


def _unknown(declared: CompiledTool) -> Failure:
    return Failure("TOOL_INVALID", f"{declared.name}: there is no tool kind {declared.spec.kind!r} here")
