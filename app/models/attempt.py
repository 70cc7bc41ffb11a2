"""One attempt at one model: admitted, reserved, requested, streamed, recorded, settled, in this order.

Leaves to `router`: whether another attempt follows. Whatever happens, the slot and the reservation are
given back, the connection is closed, and a request that was recorded gets its completed or failed event
(unless the task itself is cancelled: then the process is going away and recovery speaks for it).
"""

import asyncio
from dataclasses import field, replace
from functools import cache
from typing import Final

from pydantic.alias_generators import to_camel

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.json import JsonObject, present
from app.core.tracing import step
from app.core.value import value
from app.events.catalog import values
from app.events.catalog.builders import BuiltModelCompleted, BuiltModelRequested
from app.events.catalog.model import ModelCompleted, ModelFailed
from app.events.placed import PlacedEvent
from app.models.breaker import Admission
from app.models.collect import Collector
from app.models.completion import CompletionRequest, CompletionResponse, Thought, TokenUsage, ToolCall
from app.models.config import ModelConfig
from app.models.contract import (
    Budget,
    CancelSignal,
    ContentPolicy,
    DeltaScreen,
    MakeScreen,
    MessageContent,
    Outside,
    Provider,
    Record,
    Reservation,
)
from app.models.deadline import Alarm, Deadline, Ended
from app.models.limits import Limiter, Slot
from app.models.media import hashed, stored_media
from app.models.prepare import Prepared
from app.models.reliability import Health
from app.models.shared_limits import SharedLimits, SharedSlot
from app.views.history import is_memory

_camel = cache(to_camel)
_ABANDONED: Final = Failure("MODEL_CANCELLED", "The call was abandoned.")
_RECALLED = "[recalled memory]"


@value(frozen=True, slots=True)
class AttemptServices:
    """What all calls share."""

    clock: Clock
    limiter: Limiter
    health: Health
    shared: SharedLimits | None = None
    """Where several servers call the same models."""
    alarm: Alarm = field(default_factory=Alarm)


@value(frozen=True, slots=True)
class CompletionCall:
    """What stays the same over the attempts of one call."""

    request: CompletionRequest
    document: JsonObject
    request_hash: str
    record: Record
    budget: Budget | None
    cancelled: CancelSignal | None
    tenant: str
    adapter: str
    contents: ContentPolicy
    outside: Outside
    screen: MakeScreen | None = None


@value(frozen=True, slots=True)
class AttemptFailed:
    """An attempt that gave no answer."""

    failure: Failure
    published: bool = False
    """Whether a delta was published, so that the message had to be closed as abandoned."""
    retry_after: float | None = None


class ModelAttempt:
    def __init__(
        self,
        services: AttemptServices,
        talk: CompletionCall,
        prepared: Prepared,
        provider: Provider,
        message_id: str,
        number: int,
    ) -> None:
        self._services = services
        self._talk = talk
        self._prepared = prepared
        self._provider = provider
        self._message_id = message_id
        self._number = number
        self._config: ModelConfig = prepared.call.config
        self._screen = None if talk.screen is None else talk.screen(message_id)
        self._shows_reasoning = talk.contents.shows_reasoning
        self._got = Collector(talk.adapter, message_id, publish_reasoning=self._shows_reasoning, screen=self._screen)
        self._admission: Admission | None = None
        self._slot: Slot | None = None
        self._shared_slot: SharedSlot | None = None
        self._reservation: Reservation | None = None
        self._admitted = self._requested = self._published = False
        self._began = 0.0
        self._first_token_ms: int | None = None

    async def run(self) -> CompletionResponse | AttemptFailed:
        if self._talk.cancelled is not None and self._talk.cancelled.is_set:
            return AttemptFailed(Failure("MODEL_CANCELLED", "The run was cancelled."))
        breaker, policy = self._services.health.breaker(self._config), self._config.breaker
        admission = self._admission = breaker.admit(policy)
        if admission is None:
            message = f"Model {self._config.name!r} failed too often and is left alone for a while."
            return AttemptFailed(Failure("PROVIDER_CIRCUIT_OPEN", message, True))
        failure: Failure | None = _ABANDONED
        timeouts = self._config.timeouts
        try:
            with Deadline(self._services.alarm, self._talk.cancelled, timeouts.total_seconds) as deadline:
                refused = await self._admit()
                if refused is None:
                    self._requested = True
                    await self._talk.record(self._asked())
                    deadline.bound(timeouts.total_seconds, "first token", timeouts.first_token_seconds)
                    with step(self._message_id):
                        await self._stream(deadline)
            failure = self._fault() if refused is None else refused
        except Ended as ended:
            failure = self._ended(ended.failure)
        finally:
            # First of all, without awaiting: others wait for the slot, and a probe must not stay out.
            breaker.settle(admission, failure, policy)
            usage = self._usage()
            if self._slot is not None:
                self._slot.release(usage.input_tokens + usage.output_tokens)
            if self._shared_slot is not None and self._services.shared is not None:
                self._services.shared.release(self._shared_slot, usage.input_tokens + usage.output_tokens)
            if self._reservation is not None and self._talk.budget is not None:
                await self._talk.budget.settle(self._reservation, usage)
        if failure is None and self._screen is not None and self._screen.has_rules:
            failure = await self._judged(self._screen)
        return await self._failed(failure, usage) if failure is not None else await self._completed(usage)

    async def _judged(self, screen: DeltaScreen) -> Failure | None:
        """The message is complete and nobody else waits for its place: now rules may take their time."""
        got = self._got
        judged = await screen.judge(MessageContent(got.text, got.reasoning, tuple(got.calls)))
        if isinstance(judged, Failure):
            return judged
        got.replace(judged)
        return None

    def _ended(self, failure: Failure) -> Failure:
        if self._admitted or failure.code != "PROVIDER_TIMEOUT":
            return failure
        # Nobody was asked yet, so this is no fault of the provider.
        message = f"No place among the model calls was free for {self._config.timeouts.total_seconds:g} s."
        return Failure("MODEL_QUEUE_FULL", message, True)

    def _fault(self) -> Failure | None:
        """What is wrong with an answer that came to its end."""
        if self._screen is not None and self._screen.refused is not None:
            return self._screen.refused
        if self._got.error is not None:
            return self._got.error.failure
        if self._got.completed is None:
            return Failure("PROVIDER_CUT_OFF", "The provider ended without completing its answer.", True)
        return None

    async def _admit(self) -> Failure | None:
        estimate = self._prepared.estimate
        tokens = estimate.input_tokens + estimate.output_tokens
        limiter = self._services.limiter
        self._slot = limiter.at_once(self._config, tokens)
        if self._slot is None:
            admitted = await limiter.acquire(self._config, self._talk.tenant, tokens)
            if isinstance(admitted, Failure):
                return admitted
            self._slot = admitted
        shared = self._services.shared
        if shared is not None and shared.apply_to(self._config.limits):
            self._shared_slot = await shared.acquire(self._config, self._talk.tenant, tokens)
        self._admitted = True
        if self._talk.budget is not None:
            reserved = await self._talk.budget.reserve(estimate)
            if isinstance(reserved, Failure):
                return reserved
            self._reservation = reserved
        return None

    async def _stream(self, deadline: Deadline) -> None:
        record, got, seen = self._talk.record, self._got, 0
        placed: PlacedEvent | None = None
        """The newest piece, if it is not known yet whether it is stored: the next one is read meanwhile."""
        self._began = self._services.clock.monotonic()
        batches = self._provider.stream(self._prepared.call)
        try:
            async for batch in batches:
                deltas, came = got.take(batch), got.seen != seen
                if came and seen == 0:
                    self._first_token_ms = self._duration_ms()
                    if self._admission == "probe":
                        self._services.health.breaker(self._config).answered(self._admission)
                    deadline.expect("idle", self._config.timeouts.idle_seconds)
                seen = got.seen
                if came or deltas:
                    deadline.hold()  # our own log being slow is not the provider being idle
                closing = got.completed is not None and got.error is None
                for delta in deltas:
                    self._published = True
                    delta.closing = closing
                    if placed is not None:
                        before, placed = placed, None
                        await before
                    stored = record(delta)
                    if isinstance(stored, PlacedEvent):
                        placed = stored
                    else:
                        await stored
                if got.error is not None or got.completed is not None or got.refused:
                    break
                if came:  # else they were held back until it was certain that nothing follows
                    deadline.beat()
            if placed is not None:
                deadline.hold()
                before, placed = placed, None
                await before
        finally:
            if placed is not None:
                placed.leave()
            await batches.aclose()

    def _usage(self) -> TokenUsage:
        return self._got.spent(self._prepared.estimate.input_tokens, self._config.prices)

    def _duration_ms(self) -> int:
        return round((self._services.clock.monotonic() - self._began) * 1000)

    def _asked(self) -> BuiltModelRequested:
        talk, call = self._talk, self._prepared.call
        parameters: JsonObject = {"stream": call.stream}
        for name, knob in call.request.parameters().items():
            parameters[_camel(name)] = knob
        if call.max_tokens is not None:
            parameters["maxTokens"] = call.max_tokens
        notes = [*self._prepared.notes, *self._provider.notes(call)]
        # Names, numbers and what `to_json` made of the request, which was held against its own schema.
        return BuiltModelRequested(
            message_id=self._message_id,
            model=self._config.name,
            provider=self._config.provider,
            provider_model=self._config.model,
            attempt=self._number,
            request_hash=talk.request_hash,
            parameters=parameters,
            message_count=len(talk.request.messages),
            messages=self._loggable(talk.document["messages"]) if talk.contents.messages == "full" else None,
            tools=[tool.name for tool in talk.request.tools] if talk.request.tools else None,
            notes=notes or None,
        )

    def _loggable_thoughts(self, thoughts: tuple[Thought, ...]) -> list[JsonObject] | None:
        return [thought.to_json() for thought in thoughts if self._may_log(thought)] or None

    def _may_log(self, thought: Thought) -> bool:
        """A bare signature is not shown; the words behind it are reasoning like any other.

        What may not be logged lives only as long as the run does: a resumed run goes on without it.
        """
        if not thought.text:
            return True
        # What rules have looked at is the reasoning as it was published, and not what the provider wants back of it.
        return self._shows_reasoning and not (self._screen is not None and self._screen.has_rules)

    def _loggable(self, messages: list[JsonObject]) -> list[JsonObject]:
        hidden = not self._shows_reasoning or (self._screen is not None and self._screen.has_rules)
        made: list[JsonObject] = []
        for message in messages:
            if "name" in message and is_memory(message):
                # It is in the run's recall, from where it can be forgotten.
                message = message | {"content": _RECALLED}
            if hidden and "thoughts" in message:
                message = {key: value for key, value in message.items() if key != "thoughts"}
            made.append(message)
        return made

    def _loggable_usage(self, usage: TokenUsage) -> JsonObject:
        made: JsonObject = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
        if usage.reasoning_tokens is not None and self._talk.contents.reasoning != "full":
            made["reasoningTokens"] = usage.reasoning_tokens
        if usage.cached_tokens is not None:
            made["cachedTokens"] = usage.cached_tokens
        if usage.cost_usd is not None:
            made["costUsd"] = usage.cost_usd
        return made

    async def _completed(self, usage: TokenUsage) -> CompletionResponse:
        got, config = self._got, self._config
        assert got.completed is not None
        reasoning = got.reasoning if self._shows_reasoning else ""
        parts = got.completed.parts
        if parts:  # hashing an hour of sound takes its time
            parts = await asyncio.to_thread(lambda: tuple(map(hashed, got.completed.parts if got.completed else ())))
        response = CompletionResponse(
            text=got.text,
            tool_calls=tuple(got.calls),
            finish_reason=got.completed.finish_reason,
            usage=usage,
            model=config.name,
            message_id=self._message_id,
            parts=parts,
            thoughts=got.thoughts,
            reasoning=got.reasoning,
        )
        # A text, numbers and what `to_json` made of the rest; what a call's arguments are is for the gate to see.
        completed = BuiltModelCompleted(
            message_id=self._message_id,
            model=config.name,
            provider=config.provider,
            text=response.text,
            tool_calls=[_call_json(call) for call in got.calls] if got.calls else [],
            finish_reason=response.finish_reason,
            usage=self._loggable_usage(usage),
            request_hash=self._talk.request_hash,
            attempt=self._number,
            duration_ms=self._duration_ms(),
            first_token_ms=self._first_token_ms,
            parts=[part.to_json() for part in parts] if parts else None,
            thoughts=self._loggable_thoughts(response.thoughts) if response.thoughts else None,
            reasoning=reasoning or None,
            provider_request_id=got.provider_request_id,
            media=stored_media(parts) if parts else (),
        )
        if self._screen is not None and self._screen.has_rules:
            await self._screen.approve(completed)
            await self._screen.report()
            for delta in got.held_back():
                await self._talk.record(delta)
        stored = await self._talk.record(completed)
        return _as_stored(response, stored) if isinstance(stored, ModelCompleted) else response

    async def _failed(self, failure: Failure, usage: TokenUsage) -> AttemptFailed:
        error = self._got.error
        if self._screen is not None and self._screen.has_rules:
            await self._screen.report()
        if self._requested:
            await self._talk.record(
                ModelFailed(
                    message_id=self._message_id,
                    model=self._config.name,
                    provider=self._config.provider,
                    error=values.ErrorValue(code=failure.code, message=failure.message, retryable=failure.retryable),
                    abandoned=self._published,
                    attempt=self._number,
                    usage=values.Usage.model_validate(self._loggable_usage(usage)) if self._published else None,
                    duration_ms=self._duration_ms(),
                    provider_request_id=self._got.provider_request_id,
                )
            )
        return AttemptFailed(failure, self._published, None if error is None else error.retry_after)


def _as_stored(response: CompletionResponse, stored: ModelCompleted) -> CompletionResponse:
    calls = tuple(ToolCall(c.id, c.name, c.args, c.raw_args, c.upstream_id) for c in stored.tool_calls)
    reasoning = response.reasoning if stored.reasoning is None else stored.reasoning
    return replace(response, text=stored.text, tool_calls=calls, reasoning=reasoning)


def _call_json(call: ToolCall) -> JsonObject:
    return present(
        {
            "id": call.id,
            "name": call.name,
            "args": call.args,
            "rawArgs": call.raw_args,
            "upstreamId": call.upstream_id,
        }
    )
