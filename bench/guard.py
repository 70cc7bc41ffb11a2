"""The guard under fault injection: what is stopped, what is repaired, what a check costs. Prints JSON.

    python -m bench.guard [--tools 200] [--seed 11] [--held-out 777001]

Every fault kind is put into valid calls of generated tools. With repair off, each faulty call must end before
execution; with repair on, a call that is executed must be the intended one. Valid calls must never be refused.
"""

import argparse
import asyncio
import json as stdlib_json
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from app.core import json
from app.core.json import JsonObject
from app.events.catalog import Payload
from app.tools.contract import (
    NO_REPAIR,
    CallScope,
    JsonResult,
    Ports,
    Result,
    ToolContext,
    ToolDefinition,
    ToolRequest,
)
from app.tools.gateway import Gateway
from app.tools.guard import Guard
from app.tools.registry import Registry
from bench.generated_tools import Generated, faults, generate

CALLS_PER_TOOL = 2
REPAIRABLE = ("near_miss_name", "unparsable_arguments", "wrong_type", "bad_enum")
# Variants that cannot be read at all, or in more than one way: they are there to be refused. The share of restored
# calls is reported both without and with them.
NO_READING = {"cut_off", "prose", "words", "list", "number", "object", "other"}


@dataclass
class Tally:
    injected: int = 0
    stopped: int = 0
    readable: int = 0
    restored: int = 0
    different: int = 0


class Witness:
    """A tool that only remembers what reached it."""

    def __init__(self, definition: ToolDefinition, seen: list[tuple[str, bytes]]) -> None:
        self.definition, self._seen = definition, seen

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result:
        self._seen.append((ctx.tool, json.canonical(arguments)))
        return JsonResult(None)


async def measure(seed: int, count: int, calls_per_tool: int = CALLS_PER_TOOL) -> dict[str, Any]:
    tools = generate(seed, count)
    rng = Random(seed + 1)
    seen: list[tuple[str, bytes]] = []
    guarded = _gateway([replace(t.definition, repair=NO_REPAIR) for t in tools], seen)
    repairing = _gateway([t.definition for t in tools], seen)
    tallies: dict[str, Tally] = defaultdict(Tally)
    variants: dict[str, Tally] = defaultdict(Tally)
    refused = valid = 0
    for tool in tools:
        for _ in range(calls_per_tool):
            good = tool.root.make(rng)
            assert tool.oracle.is_valid(good), f"the generator made an invalid call of {tool.definition.name}"
            valid += 1
            refused += not await _executed(guarded, ToolRequest("c", tool.definition.name, good), seen)
            for fault in faults(tool, good, set(guarded.registry), rng):
                call = ToolRequest("c", fault.name, fault.arguments, fault.raw, fault.complete)
                intended = (tool.definition.name, json.canonical(good))
                stopped = not await _executed(guarded, call, seen)
                reached = await _executed(repairing, call, seen)
                for tally in (tallies[fault.kind], variants[f"{fault.kind}.{fault.variant}"]):
                    tally.injected += 1
                    tally.stopped += stopped
                    tally.readable += fault.kind in REPAIRABLE and fault.variant not in NO_READING
                    tally.restored += bool(reached) and reached[0] == intended
                    tally.different += bool(reached) and reached[0] != intended
    return {
        "seed": seed,
        "tools": len(tools),
        "validCalls": valid,
        "validRefused": refused,
        "kinds": {kind: _figures(kind, tally) for kind, tally in sorted(tallies.items())},
        "variants": {name: _counts(tally) for name, tally in sorted(variants.items())},
    }


def _gateway(definitions: list[ToolDefinition], seen: list[tuple[str, bytes]]) -> Gateway:
    return Gateway(Registry([Witness(definition, seen) for definition in definitions]))


async def _executed(gateway: Gateway, call: ToolRequest, seen: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    seen.clear()
    scope = CallScope("run", frozenset(gateway.registry))
    await gateway.call(call, scope, Ports(record=_nothing, put_blob=_no_blob))
    return list(seen)


async def _nothing(_payload: Payload) -> None:
    return None


async def _no_blob(_data: bytes, _mime: str) -> Mapping[str, Any]:
    return {}


def _figures(kind: str, tally: Tally) -> dict[str, Any]:
    figures = _counts(tally) | {"stoppedShare": tally.stopped / tally.injected}
    if kind in REPAIRABLE:
        figures["restoredShare"] = round(tally.restored / tally.readable, 4)
        figures["restoredOfAllInjected"] = round(tally.restored / tally.injected, 4)
    return figures


def _counts(tally: Tally) -> dict[str, Any]:
    return {
        "injected": tally.injected,
        "stopped": tally.stopped,
        "withOneReading": tally.readable,
        "restored": tally.restored,
        "different": tally.different,
    }


TYPICAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 100},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}},
        "save_as": {"type": "string", "format": "path"},
    },
    "required": ["city", "days"],
}
TYPICAL_CALL: dict[str, Any] = {
    "city": "Oslo", "unit": "kelvin", "days": 3, "tags": ["a", "b"], "place": {"lat": 59.9, "lon": 10.7},
    "save_as": "weather/oslo.json",
}  # fmt: skip


def cost(rounds: int = 2_000) -> dict[str, float]:
    """Microseconds that guarding a valid call takes."""
    guard = Guard(ToolDefinition("weather", input=TYPICAL))
    samples = _timed(guard, TYPICAL_CALL, rounds)
    generated = [_timed(Guard(t.definition), _valid(t), 50) for t in generate(5, 100)]
    medians = [statistics.median(times) for times in generated]
    return {
        "typicalMedian": round(statistics.median(samples), 2),
        "typicalP99": round(sorted(samples)[int(len(samples) * 0.99)], 2),
        "generatedMedianOfMedians": round(statistics.median(medians), 2),
        "generatedWorstMedian": round(max(medians), 2),
    }


def _valid(tool: Generated) -> dict[str, Any]:
    made: dict[str, Any] = tool.root.make(Random(3))
    return made


def _timed(guard: Guard, arguments: dict[str, Any], rounds: int) -> list[float]:
    samples = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        accepted = guard.accepts(arguments)
        samples.append((time.perf_counter_ns() - start) / 1000)
        assert accepted
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=int, default=200)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--held-out", type=int, default=777001)
    options = parser.parse_args()
    report = {
        "working": asyncio.run(measure(options.seed, options.tools)),
        "heldOut": asyncio.run(measure(options.held_out, options.tools)),
        "microseconds": cost(),
    }
    print(stdlib_json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
