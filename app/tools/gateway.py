"""The gate: every tool call goes through these stages, in this order, and through nothing else.

    account        every call ends in exactly one result event; a direct request is bracketed
    repair         a refused call is repaired (deterministically, then by one model round) and sent in again
    find           TOOL_NOT_FOUND
    scope          TOOL_NOT_ALLOWED
    validate       INVALID_ARGUMENTS: form, schema, paths, then the tool's own rules
    pre_hook       PreToolUse: GATE_DENIED; what it changes is validated again
    guard          GUARDRAIL_DENIED: rules about the arguments; what they redact is validated again
    approve        APPROVAL_DENIED; an open approval raises `Suspended`, which passes through
    check_output   OUTPUT_INVALID (on the way back)
    post_hook      PostToolUse: GATE_DENIED (on the way back)
    release        GUARDRAIL_DENIED: a person does not want the model to have the result (on the way back)
    perform        record intent, invoke, record result: TOOL_TIMEOUT, TOOL_FAILED, OUTPUT_TOO_LARGE, ...

Each stage wraps the rest. The stages themselves stand in `stages`; here they are put in order.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from app.core.clock import Clock, SystemClock
from app.core.errors import Failure
from app.core.suspend import Suspended
from app.tools import content, repair_stage, stages
from app.tools.attempt import GatewayServices, Next, Returned, ToolAttempt, Turn
from app.tools.contract import CallScope, Ports, ToolOutcome, ToolRequest
from app.tools.invocation import CANCEL_GRACE
from app.tools.outputs import stored
from app.tools.registry import Registry

ORDER: Final = (
    stages.account,
    repair_stage.repair,
    stages.find,
    stages.scope,
    stages.validate,
    stages.pre_hook,
    content.guard,
    stages.approve,
    stages.check_output,
    stages.post_hook,
    content.release,
)
HOOK_TIMEOUT: Final = 10.0  # seconds; a hook that takes longer denies


class Gateway:
    def __init__(
        self,
        registry: Registry,
        *,
        clock: Clock | None = None,
        hook_timeout: float = HOOK_TIMEOUT,
        cancel_grace: float = CANCEL_GRACE,
    ) -> None:
        self.registry = registry
        self._gate = GatewayServices(registry, clock or SystemClock(), hook_timeout, cancel_grace)
        chain: Next = partial(stages.perform, self._gate)
        for stage in reversed(ORDER):
            chain = partial(stage, self._gate, proceed=chain)
        self._chain = chain

    async def call(self, call: ToolRequest, scope: CallScope, ports: Ports) -> ToolOutcome:
        return await self._call(call, scope, ports, Turn.free())

    async def call_all(
        self, calls: Sequence[ToolRequest], scope: CallScope, ports: Ports, *, parallel: bool = True
    ) -> list[ToolOutcome]:
        """Several calls of one message. In parallel they act at once; results are recorded in
        call order. When some wait for a person, the others finish first, then `Suspended` is raised."""
        if not parallel or len(calls) == 1:
            return [await self.call(call, scope, ports) for call in calls]
        turns = Turn.line(len(calls))
        tasks = [
            asyncio.create_task(self._call(call, scope, ports, turn)) for call, turn in zip(calls, turns, strict=True)
        ]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        errors = [task.exception() for task in tasks if task.exception() is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, Suspended)):  # a failure says more than a pause
            assert error is not None
            raise error
        return [task.result() for task in tasks]

    async def finish(self, call: ToolRequest, scope: CallScope, ports: Ports, recorded: ToolOutcome) -> ToolOutcome:
        """The way back for a result that was recorded before a crash: PostToolUse and the output schema,
        without acting again. `recorded` has `output` and `truncated` as the result event holds them; what the
        schema is to judge is read back from its blob."""
        tool = self.registry.find(recorded.tool)
        attempt = ToolAttempt(call, scope, ports, Turn.free(), tool=tool)
        has_schema = tool is not None and tool.definition.output is not None
        whole = await stored(recorded, ports.load_blob) if recorded.ok and has_schema else recorded.output

        async def done(_attempt: ToolAttempt) -> Returned:
            if isinstance(whole, Failure):
                return Returned(replace(recorded, output=None, error=whole))
            return Returned(recorded, whole)

        released: Next = partial(content.release, self._gate, proceed=done)
        back: Next = partial(stages.post_hook, self._gate, proceed=released)
        return (await stages.check_output(self._gate, attempt, proceed=back)).outcome

    async def _call(self, call: ToolRequest, scope: CallScope, ports: Ports, turn: Turn) -> ToolOutcome:
        try:
            return (await self._chain(ToolAttempt(call, scope, ports, turn))).outcome
        finally:
            turn.leave()
