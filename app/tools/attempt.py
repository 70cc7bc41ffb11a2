"""One call on its way through the gateway, and what comes back from there. Values; the stages move them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeAlias

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.json import Json, JsonObject
from app.core.value import value
from app.events.catalog.tool import Finding, Repair
from app.tools.contract import CallScope, Ports, ToolOutcome, ToolRequest
from app.tools.registry import Registered, Registry


@value(frozen=True, slots=True)
class GatewayServices:
    """What all calls share."""

    registry: Registry
    clock: Clock
    hook_timeout: float
    cancel_grace: float


class Turn:
    """A place in the line of parallel calls: they act at once, their results are recorded in call order.

    Whoever leaves the line, by whatever way, lets the next one through."""

    def __init__(self, before: "Turn | None" = None) -> None:
        self._before = before
        self._left = asyncio.Event()

    @classmethod
    def free(cls) -> Self:
        return cls()

    @classmethod
    def line(cls, length: int) -> list[Self]:
        turns: list[Self] = []
        for _ in range(length):
            turns.append(cls(turns[-1] if turns else None))
        return turns

    async def come(self) -> None:
        if self._before is not None:
            await self._before._left.wait()

    def leave(self) -> None:
        self._left.set()


@value(frozen=True, slots=True)
class ToolAttempt:
    call: ToolRequest
    scope: CallScope
    ports: Ports
    turn: Turn
    tool: Registered | None = None
    approval_id: str | None = None
    """The question whose answer allows the call, where it needed one."""
    must_ask: bool = False
    """A rule about its arguments wants a person to decide."""
    repairs: tuple[Repair, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def found(self) -> Registered:
        assert self.tool is not None, "a stage after `find`"
        return self.tool

    @property
    def arguments(self) -> JsonObject:
        assert self.call.arguments is not None, "a stage after `validate`"
        return self.call.arguments

    def ended(self, error: Failure | None, **fields: Any) -> ToolOutcome:
        return ToolOutcome(
            self.call.id,
            self.call.name,
            error=error,
            arguments=self.call.arguments,
            findings=self.findings,
            repairs=self.repairs,
            **fields,
        )


@value(frozen=True, slots=True)
class Returned:
    outcome: ToolOutcome
    whole: Json = None
    """The unbounded output, for the output schema."""
    refused: bool = False
    """By the guard, that is: a better call may still be made of it."""


Next: TypeAlias = Callable[[ToolAttempt], Awaitable[Returned]]
