"""A provider that fails by chance, and what becomes of many calls to it, in virtual time.

`python -m tests.models.flaky` prints the figures: how many of 40 calls in sequence and of 200 calls, ten at once, fail
at a given error rate. Every call is one model call of a run that has no fallback. The same seed gives the same figures.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.events.catalog.base import Payload
from app.models.completion import CompletionRequest, Message
from app.models.contract import (
    Batch,
    Completed,
    ProviderCall,
    ProviderDeps,
    ProviderKind,
    Started,
    StreamError,
    TextDelta,
)
from app.models.negotiate import ModelChoice
from app.models.registry import Providers
from app.models.router import ModelRouter
from app.outside.http import HttpClient
from app.workspace.catalog import Kinds
from app.workspace.specs.model import Breaker, Retry
from tests.models.provider_setup import a_model
from tests.virtual_time import VirtualClock, VirtualTimeLoop, run_in_virtual_time

ANSWER_SECONDS = 0.2
ASK = CompletionRequest((Message("user", "Hi"),))
Down = Callable[[float], bool]
"""Whether a call at this time fails."""


class FlakyProvider:
    capabilities = frozenset({"streaming", "systemMessages"})

    def __init__(self, down: Down, clock: VirtualClock) -> None:
        self._down, self._clock = down, clock
        self.calls = 0

    def notes(self, call: ProviderCall) -> list[str]:
        return []

    async def stream(self, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        self.calls += 1
        await asyncio.sleep(ANSWER_SECONDS)
        if self._down(self._clock.monotonic()):
            yield [StreamError(Failure("PROVIDER_UNAVAILABLE", "the provider answered 503", True))]
        else:
            yield [Started(), TextDelta("Hello"), Completed("stop")]


@dataclass
class Figures:
    failed: int = 0
    seconds: float = 0.0
    asked: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    """The last cause of each failed call."""
    durations: list[float] = field(default_factory=list)
    waits: Counter[str] = field(default_factory=Counter)
    """Recorded waits by their reason."""


def failing_by_chance(rate: float, seed: int) -> Down:
    chance = random.Random(seed)
    return lambda now: chance.random() < rate


def failing_between(begin: float, end: float) -> Down:
    return lambda now: begin <= now < end


def figures(
    calls: int,
    at_once: int,
    down: Down,
    *,
    retry: Retry = Retry(),
    breaker: Breaker = Breaker(),
    seed: int = 1,
) -> Figures:
    loop = VirtualTimeLoop()
    clock = VirtualClock(loop)

    async def work() -> Figures:
        made, found = FlakyProvider(down, clock), Figures()
        deps = ProviderDeps(HttpClient(), lambda text: text, clock, asyncio.sleep)
        jitter = random.Random(seed).random
        router = ModelRouter(
            Providers(Kinds([ProviderKind(name="flaky", make=lambda _: made)]), deps),
            schemas=SchemaRegistry(),
            clock=clock,
            random=jitter,
            sleep=asyncio.sleep,
        )
        plan = ModelChoice(a_model("flaky", "flaky", "test-model", retry=retry, breaker=breaker))
        places = asyncio.Semaphore(at_once)

        async def record(payload: Payload) -> None:
            if payload.type == "runtime.model.retry.scheduled":
                found.waits[payload.to_json()["reason"]] += 1

        async def call(number: int) -> None:
            async with places:
                began = clock.monotonic()
                outcome = await router.complete(plan, ASK, record=record, message_id=f"msg_{number}")
                found.durations.append(clock.monotonic() - began)
            if isinstance(outcome, Failure):
                found.failed += 1
                found.codes[outcome.detail["causes"][-1]["code"]] += 1

        await asyncio.gather(*(call(number) for number in range(calls)))
        found.seconds, found.asked = clock.monotonic(), made.calls
        return found

    return run_in_virtual_time(loop, work())


def main(rate: float = 0.5) -> None:
    for calls, at_once in ((40, 1), (200, 10)):
        several = [figures(calls, at_once, failing_by_chance(rate, seed), seed=seed) for seed in range(20)]
        failed = sorted(one.failed for one in several)
        mean = sum(failed) / len(failed)
        slowest = sorted(duration for one in several for duration in one.durations)
        print(
            f"{calls} calls, {at_once} at once, {rate:.0%} errors, 20 seeds: failed {mean:.1f} of {calls} on average "
            f"({mean / calls:.1%}), worst seed {failed[-1]}; "
            f"{sum(one.asked for one in several) / len(several):.0f} requests; "
            f"call p50 {slowest[len(slowest) // 2]:.1f} s, p99 {slowest[len(slowest) * 99 // 100]:.1f} s, "
            f"longest {slowest[-1]:.1f} s; whole {sum(one.seconds for one in several) / len(several):.0f} s"
        )


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:2]))
