"""How well a model calls tools, and what the guard makes of its mistakes. No tool is executed: each only takes note.

Two parts. Natural calls: the model is asked each case once, and what it called goes through the gate with repair off
and on. Injected faults: every kind of mistake is put into the expected calls, so that the guard is measured whatever
the model does right. Leaves to the command line: how it is shown.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.clock import SystemClock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.settings import Settings
from app.core.value import contract_value, mutable
from app.events.catalog import Payload
from app.models.completion import CompletionRequest, Message, ToolDef
from app.models.plans import ModelPlans
from app.models.router import ModelRouter
from app.tools.contract import (
    NO_REPAIR,
    CallScope,
    JsonResult,
    Ports,
    Result,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
    ToolRequest,
)
from app.tools.gateway import Gateway
from app.tools.guard import Guard
from app.tools.registry import Registry
from app.wiring.kinds import ToolMakers, http_client, model_router
from app.workspace.compiled import CompiledWorkspace
from app.workspace.specs.agent import ModelPlan

CASES_FILE: Final = "tool-bench.json"
DEFAULT_CASES: Final = 50
_SYSTEM: Final = "Call the tool that does what the user asks for. Answer in words only if no tool does."
Progress = Callable[[int, int], None]


@contract_value(frozen=True, slots=True)
class ToolCase:
    prompt: str
    tool: str
    args: JsonObject
    broken: JsonObject | None = None
    """Arguments that satisfy the schema and break a rule of the tool."""


@mutable(slots=True)
class Fates:
    """What became of calls, by the gate with repair off or on."""

    counts: Counter[str] = field(default_factory=Counter)

    def note(self, outcome: ToolOutcome, reached: list[tuple[str, JsonObject]], wanted: tuple[str, JsonObject]) -> str:
        if not reached:
            fate = "refused"
        elif reached[0] != wanted:
            fate = "accepted"
        else:
            fate = "repaired" if outcome.repairs else "exact"
        self.counts[fate] += 1
        return fate

    def as_json(self) -> JsonObject:
        return {fate: self.counts[fate] for fate in ("exact", "repaired", "accepted", "refused")}


class _NotingTool:
    def __init__(self, definition: ToolDefinition, seen: list[tuple[str, JsonObject]]) -> None:
        self.definition, self._seen = definition, seen

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result:
        self._seen.append((ctx.tool, arguments))
        return JsonResult(None)


class GateBench:
    """The same tools behind two gates: one that repairs and one that does not."""

    def __init__(self, definitions: Sequence[ToolDefinition]) -> None:
        free = [replace(tool, approval="never", output=None) for tool in definitions]
        self._seen: list[tuple[str, JsonObject]] = []
        self._guards = {tool.name: Guard(replace(tool, repair=NO_REPAIR)) for tool in free}
        self._strict = self._gateway([replace(tool, repair=NO_REPAIR) for tool in free])
        self._repairing = self._gateway(free)
        self.off, self.on = Fates(), Fates()
        self.bad_without_guard = self.bad_with_guard = 0

    def _gateway(self, definitions: Sequence[ToolDefinition]) -> Gateway:
        return Gateway(Registry([_NotingTool(definition, self._seen) for definition in definitions]))

    async def send(self, call: ToolRequest, wanted: tuple[str, JsonObject]) -> None:
        if call.name in self._guards and call.arguments is not None and not self._valid(call.name, call.arguments):
            self.bad_without_guard += 1  # whoever checks nothing would have executed this
        for gateway, fates in ((self._strict, self.off), (self._repairing, self.on)):
            self._seen.clear()
            ports = Ports(record=_nothing, put_blob=_no_blob)
            outcome = await gateway.call(call, CallScope("run_bench", frozenset(gateway.registry)), ports)
            fates.note(outcome, self._seen, wanted)
            self.bad_with_guard += sum(not self._valid(name, arguments) for name, arguments in self._seen)

    def _valid(self, name: str, arguments: JsonObject) -> bool:
        return bool(self._guards[name].accepts(arguments))

    def as_json(self) -> JsonObject:
        return {
            "repairOff": self.off.as_json(),
            "repairOn": self.on.as_json(),
            "badExecutions": {"withoutGuard": self.bad_without_guard, "withGuard": self.bad_with_guard},
        }


def read_cases(file: Path, most: int) -> list[ToolCase] | Failure:
    try:
        given = json.loads_strict(file.read_bytes())["cases"][:most]
        return [ToolCase(case["prompt"], case["tool"], case["args"], case.get("broken")) for case in given]
    except FileNotFoundError:
        return Failure("INVALID_REQUEST", f"There is no file {file}.")
    except (json.JsonError, KeyError, TypeError) as error:
        return Failure("INVALID_REQUEST", f"{file} is not a list of cases: {type(error).__name__}: {error}.")


async def bench_tools(
    workspace: CompiledWorkspace, settings: Settings, model: str, cases: Sequence[ToolCase], progress: Progress
) -> JsonObject | Failure:
    clock, client = SystemClock(), http_client(settings)
    makers = ToolMakers(settings, clock, client)
    try:
        registry = await makers.build(workspace)
        if not isinstance(registry, Registry):
            return registry[0]
        found = {name: registry.find(name) for name in registry}
        definitions = {name: tool.definition for name, tool in found.items() if tool is not None}
        unknown = sorted({case.tool for case in cases} - definitions.keys())
        if unknown:
            return Failure("TOOL_UNKNOWN", f"The cases name tools that the workspace does not have: {unknown}.")
        router = model_router(settings, clock, client)
        natural = await _natural(workspace, router, model, list(definitions.values()), cases, progress)
        if isinstance(natural, Failure):
            return natural
        faults = await _faults(definitions, cases)
        return {"model": model, "cases": len(cases), "natural": natural, "faults": faults}
    finally:
        await makers.close()
        await client.close()


async def _natural(
    workspace: CompiledWorkspace,
    router: ModelRouter,
    model: str,
    definitions: list[ToolDefinition],
    cases: Sequence[ToolCase],
    progress: Progress,
) -> JsonObject | Failure:
    gates, silent, failed = GateBench(definitions), 0, 0
    plan = ModelPlans(workspace.models).plan(ModelPlan(primary=model))
    offered = tuple(ToolDef(tool.name, tool.description, dict(tool.input)) for tool in definitions)
    for number, case in enumerate(cases):
        progress(number, len(cases))
        request = CompletionRequest((Message("system", _SYSTEM), Message("user", case.prompt)), offered)
        answer = await router.complete(plan, request, record=_nothing, message_id=new_id("message"))
        if isinstance(answer, Failure):
            failed += 1
            if failed == len(cases):
                return answer
            continue
        if not answer.tool_calls:
            silent += 1
            continue
        called = answer.tool_calls[0]
        arguments = None if called.raw_args is not None else called.args
        sent = ToolRequest("call_bench", called.name, arguments, raw=called.raw_args, complete=True)
        await gates.send(sent, (case.tool, case.args))
    progress(len(cases), len(cases))
    return {"asked": len(cases), "withoutCall": silent, "modelFailed": failed, **gates.as_json()}


async def _faults(definitions: Mapping[str, ToolDefinition], cases: Sequence[ToolCase]) -> JsonObject:
    benches: dict[str, GateBench] = {}
    injected: Counter[str] = Counter()
    for case in cases:
        for kind, call in inject(definitions[case.tool], case):
            bench = benches.setdefault(kind, GateBench(list(definitions.values())))
            injected[kind] += 1
            await bench.send(call, (case.tool, case.args))
    return {kind: {"injected": injected[kind], **benches[kind].as_json()} for kind in sorted(benches)}


# -- faults --------------------------------------------------------------------------------------------


def inject(tool: ToolDefinition, case: ToolCase) -> Iterator[tuple[str, ToolRequest]]:
    """One call for each kind of mistake that can be made with the expected one."""
    name, args = case.tool, case.args
    text = json.dumps(args).decode()
    properties: Mapping[str, Any] = tool.input.get("properties", {})
    yield "unknown_tool", _request("look_into_crystal_ball", args)
    yield "near_miss_name", _request(_misspelt(name), args)
    yield "unparsable_arguments", _raw(name, f"{text[:-1]},}}" if args else "{,}")
    yield "unparsable_arguments", _raw(name, f"Sure! Here are the arguments: {text[:-1]}")
    yield "extra_argument", _request(name, args | {"because": "I was asked to"})
    for required in tool.input.get("required", ()):
        if required in args:
            yield "missing_required", _request(name, {key: value for key, value in args.items() if key != required})
    for key, value in args.items():
        schema = properties.get(key, {})
        if "enum" in schema and isinstance(value, str):
            yield "bad_enum", _request(name, args | {key: value.upper() if value.islower() else value.lower()})
            yield "bad_enum", _request(name, args | {key: "something else"})
        if schema.get("type") in ("integer", "number"):
            yield "wrong_type", _request(name, args | {key: str(value)})
            yield "wrong_type", _request(name, args | {key: [value, value]})
        elif schema.get("type") == "string":
            yield "wrong_type", _request(name, args | {key: {"value": value}})
        if schema.get("format") == "path" or key in tool.paths:
            yield "absolute_path", _request(name, args | {key: f"/etc/{value}"})
            yield "escaping_path", _request(name, args | {key: f"../../{value}"})
    if case.broken is not None:
        yield "broken_rule", _request(name, case.broken)


def _misspelt(name: str) -> str:
    return re.sub(r"_", "-", name) if "_" in name else name + "s"


def _request(name: str, arguments: JsonObject) -> ToolRequest:
    return ToolRequest("call_bench", name, arguments)


def _raw(name: str, text: str) -> ToolRequest:
    return ToolRequest("call_bench", name, None, raw=text, complete=True)


async def _nothing(_payload: Payload) -> None:
    return None


async def _no_blob(_data: bytes, _mime: str) -> Mapping[str, Any]:
    return {}
