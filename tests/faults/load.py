"""Producers that write what runs write: creations, claims, deltas, calls, results, blobs, ends.

Each event that was acknowledged is passed to `acknowledge`, after the await returned and never before.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT
from app.events.catalog import Payload, adapter, artifact, execution, interrupt, model, request, thread, tool
from app.events.catalog.values import ArtifactValue, ErrorValue, Usage
from app.events.envelope import Event
from app.events.ports import Appended, ClaimRun, Condition, Fence, ThreadIsNew
from app.events.recorder import Recorder, Scope

Acknowledge = Callable[[Event], None]

LARGE: Final = 20_000
"""Characters; over the limit at which a value leaves its payload and becomes a blob."""


class Producer:
    """One run after the other. `shared` names a thread that several producers write to; None makes one a run."""

    def __init__(self, recorder: Recorder, acknowledge: Acknowledge, shared: str | None = None) -> None:
        self._recorder = recorder
        self._acknowledge = acknowledge
        self._shared = shared

    async def produce(self, runs: int | None = None) -> None:
        for number in itertools.count() if runs is None else range(runs):
            await self._one_run(number)

    async def _one_run(self, number: int) -> None:
        if self._shared is None:
            scope = await self.begin(number)
        else:
            # The runs of a shared thread overlap here, which an executor would not let them: more to put in order.
            scope = Scope(DEFAULT_TENANT, self._shared, new_id("run"), "backend:load")
            await self._record(scope, request.RequestQueued(agent="load", input=f"run {number}"))
        await self._work(scope, number)
        endings: tuple[Payload, ...] = (
            request.RequestCompleted(output="done"),
            request.RequestFailed(error=ErrorValue(code="BACKEND_FAILED", message="as ordered")),
            request.RequestCancelled(reason="as ordered"),
        )
        await self._record(scope, endings[number % len(endings)])

    async def begin(self, number: int = 0) -> Scope:
        """A run in a thread of its own, claimed; the scope in which its executor writes."""
        run_id = new_id("run")
        scope = Scope(DEFAULT_TENANT, new_id("thread"), run_id, "backend:load")
        queued = request.RequestQueued(agent="load", input=f"run {number}")
        await self._record(scope, thread.ThreadCreated(title="load"), queued, conditions=[ThreadIsNew()])
        started = request.RequestStarted(executor="loader", epoch=1)
        await self._record(scope, started, conditions=[ClaimRun(run_id, "loader", 1, 15.0)])
        return Scope(scope.tenant, scope.thread_id, run_id, scope.actor, Fence(run_id, 1))

    async def _work(self, scope: Scope, number: int) -> None:
        message, call = new_id("message"), new_id("call")
        words = [self._say(scope, message, f"<{number}.{word}>") for word in range(8)]
        await asyncio.gather(*words)
        usage = Usage(input_tokens=3, output_tokens=8, cost_usd=0.001)
        await self._record(
            scope,
            model.ModelCompleted(message_id=message, model="m", provider="p", text="hello", tool_calls=[],
                                 finish_reason="tool_use", usage=usage),
            tool.ToolInvoked(call_id=call, tool="t", arguments={"n": number}, argument_hash="h", effect="readonly"),
        )  # fmt: skip
        output = "x" * LARGE + str(number) if number % 5 == 0 else number
        await self._record(scope, tool.ToolResulted(call_id=call, tool="t", ok=True, output=output))
        await self._record(scope, execution.StepCompleted(step="s", key=f"k{number}", result=number))
        if number % 3 == 0:
            key = new_id("interrupt")
            await self._record(
                scope,
                interrupt.InterruptRaised(
                    interrupt_id=key, kind="question", title="?", expires_at="2999-01-01T00:00:00.000Z"
                ),
            )
            await self._record(
                scope, interrupt.InterruptResolved(interrupt_id=key, answer={"ok": True}, answered_by="user:u")
            )
        made = ArtifactValue(id=new_id("artifact"), name=f"{number}.txt")
        await self._record(scope, artifact.ArtifactCreated(artifact=made))

    async def _say(self, scope: Scope, message: str, text: str) -> None:
        answer = await self._recorder.record_delta(scope, adapter.OUTPUT_DELTA, message, 0, text)
        assert isinstance(answer, Appended), answer
        (event,) = answer.events
        # Deltas that waited together share one event: it is acknowledged to each of them with all their texts.
        assert text in event.payload["event"]["text"]
        self._acknowledge(event)

    async def _record(self, scope: Scope, *payloads: Payload, conditions: list[Condition] | None = None) -> None:
        answer = await self._recorder.record(scope, *payloads, conditions=conditions or [])
        assert isinstance(answer, Appended), answer
        for event in answer.events:
            self._acknowledge(event)


async def create_thread(recorder: Recorder, thread_id: str, acknowledge: Acknowledge) -> None:
    """A thread for producers to share; nothing if it is there already."""
    scope = Scope(DEFAULT_TENANT, thread_id)
    answer = await recorder.record(scope, thread.ThreadCreated(), conditions=[ThreadIsNew()])
    if isinstance(answer, Appended):
        acknowledge(answer.events[0])
