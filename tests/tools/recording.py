"""What a run lends the gateway, kept in memory so that a test can look at it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog import Payload
from app.outside.files import hash_of
from app.tools.contract import CallScope, JsonResult, Ports, Result, ToolContext, ToolDefinition, ToolOutcome


@dataclass
class Recording:
    events: list[Payload] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)

    async def record(self, payload: Payload) -> JsonObject | None:
        self.events.append(payload)
        return None

    async def put_blob(self, data: bytes, mime: str) -> Mapping[str, Any]:
        self.blobs[hash_of(data)] = data
        return {"sha256": hash_of(data), "size": len(data), "mime": mime}

    async def load_blob(self, reference: Mapping[str, Any]) -> bytes | None:
        return self.blobs.get(str(reference["sha256"]))

    def ports(self, **ports: Any) -> Ports:
        return Ports(record=self.record, put_blob=self.put_blob, **ports)

    def types(self) -> list[str]:
        return [event.type.removeprefix("runtime.") for event in self.events]

    def payloads(self, suffix: str) -> list[dict[str, Any]]:
        return [event.to_json() for event in self.events if event.type == f"runtime.{suffix}"]


@dataclass
class Spy:
    """A tool that notes each call and answers what it was given to answer."""

    definition: ToolDefinition
    answer: Result | Failure = field(default_factory=lambda: JsonResult({"done": True}))
    calls: list[tuple[JsonObject, ToolContext]] = field(default_factory=list)

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        self.calls.append((arguments, ctx))
        return self.answer


def scope(*allowed: str, **fields: Any) -> CallScope:
    return CallScope("run_1", frozenset(allowed), **fields)


def code(outcome: ToolOutcome) -> str:
    assert outcome.error is not None, outcome
    return outcome.error.code
