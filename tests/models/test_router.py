"""Negotiation, fallback, breaker, budgets, limits, structured output: what the router adds to a provider."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from app.core.clock import ManualClock
from app.core.errors import Failure
from app.core.signal import CancelSignal
from app.events.catalog.base import Payload
from app.events.catalog.model import ModelCompleted
from app.models.budget import LocalBudget
from app.models.completion import CompletionRequest, Media, Message, ReasoningLevel, Text, ToolDef
from app.models.contract import ContentPolicy, Estimate, Reservation
from app.models.limits import Limiter
from app.models.negotiate import ModelChoice, ProtocolConstraints
from app.models.router import error_value
from app.workspace.specs.base import Parameters
from app.workspace.specs.model import (
    Breaker,
    ModelLimits,
    Prices,
    Script,
    ScriptFailure,
    ScriptReply,
    ScriptRule,
    Timeouts,
)
from tests.models.provider_setup import ASK, SECRET, Answer, Hang, Status, open_provider_setup, quick
from tests.waiting import until

FAILING = Script(rules=(ScriptRule(fail=ScriptFailure(status=500)),))
SAYING_B = Script(default=ScriptReply(text="from b"))


@pytest.mark.requirement("HK-34", "HK-5")
async def test_the_fallback_answers_when_the_primary_is_exhausted() -> None:
    async with open_provider_setup("scripted") as setup:
        plan = ModelChoice(setup.config("a", script=FAILING), (setup.config("b", script=SAYING_B),))
        answer = await setup.answer(plan=plan)
        assert (answer.text, answer.model) == ("from b", "b")
        facts = ["requested", "failed", "retry.scheduled"]
        assert setup.recorder.types == ["negotiated", *facts * 3, "requested", "completed"]
        assert setup.recorder.of("retry.scheduled")[-1].next_model == "b"
        assert setup.recorder.deltas() == "from b"


async def test_without_any_answer_the_failure_names_every_cause() -> None:
    async with open_provider_setup("scripted") as setup:
        refusing = Script(rules=(ScriptRule(fail=ScriptFailure(status=400)),))
        plan = ModelChoice(
            setup.config("a", script=FAILING, retry=quick(attempts=2)), (setup.config("b", script=refusing),)
        )
        failure = await setup.failure(plan=plan)
        assert failure.code == "PROVIDER_ERROR" and failure.retryable
        causes = [(cause["model"], cause["code"]) for cause in failure.detail["causes"]]
        assert causes == [("a", "PROVIDER_UNAVAILABLE")] * 2 + [("b", "PROVIDER_REJECTED")]


@pytest.mark.requirement("HK-28", "HK-15")
async def test_when_nobody_qualifies_each_candidate_says_what_it_lacks() -> None:
    async with open_provider_setup("scripted") as setup:
        plan = ModelChoice(
            setup.config("a", declared=frozenset({"streaming", "tools"})),
            (
                setup.config("b", declared=frozenset({"input.image"})),
                setup.config("c", provider="nobody"),
            ),
            required=frozenset({"input.image", "tools"}),
            constraints=ProtocolConstraints(min_api_version="2024-01-01"),
        )
        failure = await setup.failure(plan=plan)
        assert failure.code == "NEGOTIATION_FAILED"
        assert failure.detail["candidates"] == [
            {"model": "a", "lacks": ["input.image", "apiVersion>=2024-01-01"]},
            {"model": "b", "lacks": ["tools", "apiVersion>=2024-01-01"]},
            {"model": "c", "lacks": ["provider:nobody"]},
        ]
        assert setup.recorder.types == ["negotiated"] and setup.recorder.of("negotiated")[0].model is None


@pytest.mark.requirement("HK-28")
async def test_strict_negotiation_lets_nothing_degrade() -> None:
    plain = frozenset({"output.text", "input.text"})
    asked = replace(ASK, reasoning=ReasoningLevel(effort="low"), response_schema={"type": "object"})
    async with open_provider_setup("scripted") as setup:
        less = setup.config("less", declared=plain)
        lenient = setup.router.negotiate(ModelChoice(less), asked)
        assert lenient.qualified == (less,)
        strict = ProtocolConstraints(strict=True)
        failure = await setup.failure(asked, ModelChoice(less, constraints=strict))
        assert failure.detail["candidates"] == [
            {"model": "less", "lacks": ["reasoning", "streaming", "structuredOutput"]}
        ]
        more = setup.config("more", declared=plain | {"streaming", "reasoning", "structuredOutput"})
        assert setup.router.negotiate(ModelChoice(less, (more,), constraints=strict), asked).qualified == (more,)


@pytest.mark.requirement("HK-28")
@pytest.mark.parametrize(
    ("declared", "wanted", "enough"),
    [
        ("2024-10-21", "2024-10-21", True),
        ("2024-10-22", "2024-10-21", True),
        ("2023-12-31", "2024-10-21", False),
        ("2024-10-21-preview", "2024-10-21", False),
        ("2024-10-21", "2024-10-21-preview", True),
        ("v1", "v1beta", True),
        ("v1beta", "v1", False),
        ("v1alpha", "v1beta", False),
        ("v1beta10", "v1beta9", True),
        ("v10", "v9", True),
        ("v1", "2024-10-21", False),
        ("2024-10-21", "v1", False),
        ("newest", "v1", False),
        (None, "v1", False),
    ],
)
async def test_versions_are_compared_by_what_they_mean(declared: str | None, wanted: str, enough: bool) -> None:
    async with open_provider_setup("scripted") as setup:
        model = setup.config(config={} if declared is None else {"apiVersion": declared})
        plan = ModelChoice(model, constraints=ProtocolConstraints(min_api_version=wanted))
        assert bool(setup.router.negotiate(plan, ASK).qualified) is enough


async def test_a_request_with_a_picture_skips_models_that_cannot_see() -> None:
    async with open_provider_setup("scripted") as setup:
        blind = setup.config("blind", declared=frozenset({"streaming"}))
        plan = ModelChoice(blind, (setup.config("seeing", script=SAYING_B),))
        picture = Media("image", "image/png", b"png")
        answer = await setup.answer(CompletionRequest((Message("user", "", (Text("look"), picture)),)), plan)
        assert answer.model == "seeing"
        [negotiated] = setup.recorder.of("negotiated")
        assert (negotiated.required, negotiated.model) == (["input.image"], "seeing")


async def test_an_outcome_that_is_known_is_not_recorded_again() -> None:
    async with open_provider_setup("scripted") as setup:
        plan = ModelChoice(setup.config())
        await setup.answer(plan=plan, negotiated=setup.router.negotiate(plan, ASK))
        assert setup.recorder.types == ["requested", "completed"]


@pytest.mark.requirement("HK-14")
async def test_the_breaker_opens_probes_and_closes_again() -> None:
    async with open_provider_setup("openai") as setup:
        policy = Breaker(failures=2, windowSeconds=60, openSeconds=30)
        plan = ModelChoice(setup.config(breaker=policy, retry=quick(attempts=1)))
        setup.plays(Status(500))
        await setup.failure(plan=plan)
        await setup.failure(plan=plan)
        failure = await setup.failure(plan=plan)
        assert failure.detail["causes"][0]["code"] == "PROVIDER_CIRCUIT_OPEN"
        assert len(setup.server.seen) == 2, "an open breaker asks nobody"
        setup.clock.advance(31)
        await setup.failure(plan=plan)
        assert len(setup.server.seen) == 3, "one probe"
        assert (await setup.failure(plan=plan)).detail["causes"][0]["code"] == "PROVIDER_CIRCUIT_OPEN"
        setup.clock.advance(31)
        setup.plays(Answer())
        await setup.answer(plan=plan)
        await setup.answer(plan=plan)


async def test_only_one_probe_goes_out_at_a_time() -> None:
    async with open_provider_setup("openai") as setup:
        policy = Breaker(failures=1, openSeconds=30)
        plan = ModelChoice(setup.config(breaker=policy, retry=quick(attempts=1)))
        setup.plays(Status(500), Hang())
        await setup.failure(plan=plan)
        setup.clock.advance(31)
        cancelled = CancelSignal()
        probe = asyncio.create_task(setup.complete(plan=plan, cancelled=cancelled))
        await asyncio.wait_for(setup.server.hanging.wait(), 30)
        assert (await setup.failure(plan=plan)).detail["causes"][0]["code"] == "PROVIDER_CIRCUIT_OPEN"
        cancelled.set()
        await probe
        setup.plays(Answer())
        assert (await setup.answer(plan=plan)).text == "Hello, world", "a cancelled probe frees its place"


async def test_beyond_the_retry_budget_of_a_minute_a_call_goes_to_the_fallback() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(503))
        retry = quick(attempts=3, budget_per_minute=3, initial_delay_seconds=0.01)
        failing = setup.config("a", retry=retry, breaker=Breaker(failures=1000))
        plan = ModelChoice(failing, (setup.config("b", provider="scripted", script=SAYING_B),))

        def repeated() -> int:
            return sum(event.next_model is None for event in setup.recorder.of("retry.scheduled"))

        for _ in range(3):
            assert (await setup.answer(plan=plan)).model == "b"
        assert repeated() == 3
        setup.clock.advance(61)
        await setup.answer(plan=plan)
        assert repeated() == 5


async def test_beyond_the_retry_budget_a_call_without_a_fallback_waits_for_its_turn() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(503), Status(503), Status(503), Answer())
        retry = quick(attempts=4, budget_per_minute=2, initial_delay_seconds=0.01)
        assert (await setup.answer(plan=ModelChoice(setup.config(retry=retry)))).text == "Hello, world"
        waits = [(event.waits_for, event.reason) for event in setup.recorder.of("retry.scheduled")]
        assert [waited for waited, _ in waits] == ["backoff", "backoff", "retry_budget"]
        assert 59 < setup.slept[-1] <= 60


async def test_a_cancelled_wait_gives_its_turn_to_retry_back() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(503))
        retry = quick(attempts=2, budget_per_minute=1, initial_delay_seconds=0.01)
        plan, cancelled = ModelChoice(setup.config(retry=retry)), CancelSignal()
        budget = setup.router.health.retries(plan.primary)
        assert budget.turn(1, 0) == 0.0
        setup.router._sleep = asyncio.sleep  # a wait that really waits

        async def record(payload: Payload) -> None:
            if payload.type == "runtime.model.retry.scheduled":
                cancelled.set()

        outcome = await setup.router.complete(plan, ASK, record=record, message_id="msg_1", cancelled=cancelled)
        assert isinstance(outcome, Failure) and outcome.code == "MODEL_CANCELLED"
        assert budget.turn(1, 60) == 60.0, "the next turn is free"


@pytest.mark.requirement("HK-14")
async def test_a_call_without_a_fallback_waits_for_an_open_breaker_and_says_so() -> None:
    async with open_provider_setup("openai") as setup:
        policy = Breaker(failures=1, openSeconds=30)
        plan = ModelChoice(setup.config(breaker=policy, retry=quick(attempts=1, total_seconds=0)))
        setup.plays(Status(500), Answer())
        await setup.failure(plan=plan)
        patient = ModelChoice(setup.config(breaker=policy, retry=quick(attempts=1, total_seconds=60)))
        assert (await setup.answer(plan=patient)).text == "Hello, world"
        [wait] = setup.recorder.of("retry.scheduled")
        assert (wait.reason, wait.waits_for, wait.delay_ms, wait.attempt) == (
            "PROVIDER_CIRCUIT_OPEN", "breaker", 30_000, 1,
        )  # fmt: skip
        assert sum(setup.slept) == 30 and len(setup.server.seen) == 2


async def test_a_breaker_that_stays_open_for_longer_than_the_call_may_wait_ends_it_at_once() -> None:
    async with open_provider_setup("openai") as setup:
        policy = Breaker(failures=1, openSeconds=30)
        plan = ModelChoice(setup.config(breaker=policy, retry=quick(attempts=1, total_seconds=20)))
        setup.plays(Status(500))
        failure = await setup.failure(plan=plan)
        assert [cause["code"] for cause in failure.detail["causes"]] == ["PROVIDER_CIRCUIT_OPEN"]
        assert sum(setup.slept) < 20


async def test_a_cancel_ends_the_wait_for_a_breaker() -> None:
    async with open_provider_setup("openai") as setup:
        policy = Breaker(failures=1, openSeconds=30)
        setup.plays(Status(500))
        await setup.failure(plan=ModelChoice(setup.config(breaker=policy, retry=quick(attempts=1))))
        setup.router._sleep = asyncio.sleep  # a wait that really waits
        cancelled, waiting = CancelSignal(), asyncio.Event()

        async def record(payload: Payload) -> None:
            if payload.type == "runtime.model.retry.scheduled":
                waiting.set()

        plan = ModelChoice(setup.config(breaker=policy, retry=quick(total_seconds=60)))
        call = asyncio.create_task(
            setup.router.complete(plan, ASK, record=record, message_id="msg_2", cancelled=cancelled)
        )
        await asyncio.wait_for(waiting.wait(), 30)
        cancelled.set()
        outcome = await asyncio.wait_for(call, 30)
        assert isinstance(outcome, Failure) and outcome.code == "MODEL_CANCELLED"


async def test_with_a_fallback_an_open_breaker_is_not_waited_for() -> None:
    async with open_provider_setup("openai") as setup:
        failing = setup.config("a", breaker=Breaker(failures=1), retry=quick(attempts=1, total_seconds=60))
        plan = ModelChoice(failing, (setup.config("b", provider="scripted", script=SAYING_B),))
        setup.plays(Status(500))
        assert [(await setup.answer(plan=plan)).model for _ in range(2)] == ["b", "b"]
        assert setup.slept == [] and len(setup.server.seen) == 1


async def test_an_outage_is_retried_beyond_the_attempts_for_as_long_as_the_model_says() -> None:
    async with open_provider_setup("openai") as setup:
        retry = quick(attempts=2, total_seconds=40)
        plan = ModelChoice(setup.config(retry=retry, breaker=Breaker(failures=1000)))
        setup.plays(*[Status(503)] * 6, Answer())
        assert (await setup.answer(plan=plan)).text == "Hello, world"
        setup.plays(Status(503))
        began = setup.clock.monotonic()
        failure = await setup.failure(plan=plan)
        assert setup.clock.monotonic() - began == pytest.approx(40, abs=0.1), "and not longer"
        assert len(failure.detail["causes"]) == 2, "a long outage is not a long list"


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_what_no_repetition_can_mend_fails_at_once(status: int) -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(status))
        await setup.failure(plan=ModelChoice(setup.config(retry=quick(attempts=3, total_seconds=120))))
        assert len(setup.server.seen) == 1 and setup.slept == []


async def test_a_provider_that_is_gone_is_retried_until_it_is_back() -> None:
    async with open_provider_setup("openai") as setup:
        await setup.server.stop()
        retry = quick(attempts=1, total_seconds=60)
        plan = ModelChoice(setup.config(retry=retry, breaker=Breaker(failures=1000)))
        sleep = setup.router._sleep

        async def sleeping(seconds: float) -> None:
            await sleep(seconds)
            if len(setup.slept) == 4:
                await setup.server.start_again()

        setup.router._sleep = sleeping
        assert (await setup.answer(plan=plan)).text == "Hello, world"
        assert {event.reason for event in setup.recorder.of("retry.scheduled")} == {"PROVIDER_UNREACHABLE"}


async def test_without_a_fallback_a_longer_wait_that_the_provider_asks_for_is_kept() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(429, {"Retry-After": "45"}), Answer())
        plan = ModelChoice(setup.config(retry=quick(max_delay_seconds=20, total_seconds=60)))
        assert (await setup.answer(plan=plan)).text == "Hello, world" and setup.slept == [45.0]
        setup.plays(Status(429, {"Retry-After": "61"}), Answer())
        await setup.failure(plan=plan)


async def test_a_wait_longer_than_the_model_allows_goes_to_the_fallback_at_once() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(429, {"Retry-After": "600"}))
        plan = ModelChoice(setup.config("a"), (setup.config("b", provider="scripted", script=SAYING_B),))
        assert (await setup.answer(plan=plan)).model == "b"
        assert setup.slept == []


@pytest.mark.requirement("PX-8")
async def test_a_budget_that_is_too_small_refuses_before_the_call() -> None:
    async with open_provider_setup("openai") as setup:
        failure = await setup.failure(budget=LocalBudget(tokens=100))
        assert failure.code == "BUDGET_EXCEEDED" and setup.server.seen == []
        assert setup.recorder.types == ["negotiated"]


@pytest.mark.requirement("PX-8")
async def test_a_budget_is_settled_with_what_was_really_used() -> None:
    async with open_provider_setup("openai") as setup:
        budget = LocalBudget(tokens=10_000, cost_usd=1.0)
        plan = ModelChoice(setup.config(prices=Prices(input=1000, output=2000)))
        answer = await setup.answer(replace(ASK, max_tokens=50), plan, budget=budget)
        assert answer.usage.cost_usd == pytest.approx(0.013)
        assert (budget.used_tokens, budget.used_calls) == (10, 1)
        assert budget.used_cost_usd == pytest.approx(0.013)


async def test_concurrent_calls_cannot_reserve_the_same_tokens() -> None:
    budget = LocalBudget(tokens=100)
    estimate = Estimate("m", 30, 30, 0.0)
    first, second = await budget.reserve(estimate), await budget.reserve(estimate)
    assert isinstance(first, Reservation) and isinstance(second, Failure)


async def test_every_reservation_is_settled_whatever_happens() -> None:
    for behaviour in (Answer(), Status(500), Answer(close_after=1)):
        async with open_provider_setup("openai") as setup:
            setup.plays(behaviour)
            budget = LocalBudget(tokens=1_000_000)
            await setup.complete(budget=budget)
            assert not budget._open


async def test_a_task_that_is_cancelled_settles_and_closes_too() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Hang())
        budget = LocalBudget(tokens=1_000_000)
        task = asyncio.create_task(setup.complete(budget=budget))
        await asyncio.wait_for(setup.server.hanging.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(setup.server.disconnected.wait(), 30)
        assert not budget._open and setup.recorder.types == ["negotiated", "requested"]


@pytest.mark.requirement("HK-6")
async def test_an_input_that_is_too_long_is_refused_before_the_call_and_tried_elsewhere() -> None:
    async with open_provider_setup("openai") as setup:
        small = setup.config("small", limits=ModelLimits(maxInputTokens=10))
        long = CompletionRequest((Message("user", "word " * 100),))
        failure = await setup.failure(long, ModelChoice(small))
        assert failure.detail["causes"][0]["code"] == "INPUT_TOO_LONG" and setup.server.seen == []
        large = setup.config("large", limits=ModelLimits(contextTokens=1000))
        assert (await setup.answer(long, ModelChoice(small, (large,)))).model == "large"


async def test_output_tokens_are_bounded_by_the_model() -> None:
    async with open_provider_setup("openai") as setup:
        plan = ModelChoice(setup.config(limits=ModelLimits(maxOutputTokens=64)))
        await setup.answer(replace(ASK, max_tokens=1000), plan)
        assert setup.server.seen[0].body["max_tokens"] == 64
        assert setup.recorder.of("requested")[0].parameters["maxTokens"] == 64


@pytest.mark.requirement("HK-8")
async def test_the_models_parameters_fill_in_what_the_request_leaves_open() -> None:
    async with open_provider_setup("openai") as setup:
        plan = ModelChoice(setup.config(parameters=Parameters(temperature=0.2, topP=0.9, seed=7)))
        await setup.answer(replace(ASK, temperature=0.9), plan)
        body = setup.server.seen[0].body
        assert (body["temperature"], body["top_p"], body["seed"]) == (0.9, 0.9, 7)


@pytest.mark.requirement("HK-9")
async def test_reasoning_that_a_model_does_not_have_is_left_out_with_a_note() -> None:
    async with open_provider_setup("openai") as setup:
        plan = ModelChoice(setup.config(declared=frozenset({"streaming"})))
        await setup.answer(replace(ASK, reasoning=ReasoningLevel("high")), plan)
        assert "reasoning_effort" not in setup.server.seen[0].body
        assert "reasoning is not supported" in setup.recorder.of("requested")[0].notes[0]


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("capabilities", [None, frozenset({"streaming"})])
async def test_structured_output_is_parsed_and_checked_by_us_in_any_case(capabilities: Any) -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Answer(chunks=('{"n"', ": 3}")))
        plan = ModelChoice(setup.config(declared=capabilities))
        answer = await setup.answer(replace(ASK, response_schema=SCHEMA), plan)
        assert answer.value == {"n": 3}
        assert ("response_format" in setup.server.seen[0].body) == (capabilities is None)


@pytest.mark.parametrize("text", ['{"n": "three"}', "three", '{"n": 3'])
async def test_an_answer_that_breaks_the_requested_schema_is_a_failure(text: str) -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Answer(chunks=(text,)))
        failure = await setup.failure(replace(ASK, response_schema=SCHEMA))
        assert failure.code == "MODEL_OUTPUT_INVALID" and failure.detail["issues"] and failure.detail["text"] == text
        assert setup.recorder.types[-1] == "completed"


async def test_a_request_that_breaks_its_schema_reaches_nobody() -> None:
    async with open_provider_setup("openai") as setup:
        wrong = CompletionRequest((Message("user", 5),))  # type: ignore[arg-type]  # on purpose
        failure = await setup.failure(wrong)
        assert failure.code == "MODEL_REQUEST_INVALID" and failure.detail["issues"][0]["path"] == "/messages/0/content"
        assert setup.server.seen == [] and setup.recorder.events == []


async def test_the_log_has_parameters_usage_latency_and_the_providers_id() -> None:
    async with open_provider_setup("openai") as setup:
        await setup.answer(replace(ASK, temperature=0.5, tools=(ToolDef("t"),)))
        [requested], [completed] = setup.recorder.of("requested"), setup.recorder.of("completed")
        assert requested.parameters == {"temperature": 0.5, "stream": True} and requested.tools == ["t"]
        assert requested.messages[1] == {"role": "user", "content": "Hi"} and requested.message_count == 2
        assert requested.request_hash == completed.request_hash and len(requested.request_hash) == 64
        assert completed.provider_request_id == "req_fake" and completed.first_token_ms is not None
        assert completed.usage.input_tokens == 7


async def test_contents_stay_out_of_the_log_when_the_workspace_says_so() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Answer(reasoning=("secretly",)))
        policy = ContentPolicy(messages="count", reasoning="metadata")
        answer = await setup.answer(contents=policy)
        assert answer.reasoning == "secretly" and "secretly" not in setup.recorder.as_text()
        assert setup.recorder.of("requested")[0].messages is None


@pytest.mark.requirement("HK-9", "HK-32")
async def test_signed_reasoning_goes_back_to_its_provider_but_not_into_a_log_that_may_not_have_it() -> None:
    async with open_provider_setup("anthropic") as setup:
        setup.plays(Answer(reasoning=("secretly",)), Answer())
        policy = ContentPolicy(reasoning="metadata")
        first = await setup.answer(contents=policy)
        assert first.thoughts[0].text == "secretly"
        following = replace(ASK, messages=(*ASK.messages, first.as_message(), Message("user", "go on")))
        await setup.answer(following, contents=policy)
        assert "secretly" in str(setup.server.seen[1].body)
        assert "secretly" not in setup.recorder.as_text()


@pytest.mark.requirement("G21")
async def test_the_key_is_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(401, message=SECRET), Answer())
        await setup.failure()
        setup.plays(Hang())
        setup.server.arrived.clear()
        task = asyncio.create_task(setup.complete())
        await asyncio.wait_for(setup.server.arrived.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert SECRET not in caplog.text


async def test_calls_beyond_the_models_concurrency_wait_for_their_turn() -> None:
    limiter = Limiter(ManualClock())
    async with open_provider_setup("openai", limiter=limiter) as setup:
        setup.plays(Answer(gate_after=1))
        plan = ModelChoice(setup.config(limits=ModelLimits(concurrency=2)))
        calls = [asyncio.create_task(setup.complete(plan=plan)) for _ in range(5)]
        await asyncio.wait_for(setup.server.hanging.wait(), 30)
        await until(lambda: limiter.waiting == 3 and len(setup.server.seen) == 2)
        setup.server.gate.set()
        outcomes = await asyncio.gather(*calls)
        assert len(setup.server.seen) == 5 and not any(isinstance(o, Failure) for o in outcomes)


async def test_a_cancel_while_waiting_leaves_the_queue() -> None:
    limiter = Limiter(ManualClock(), concurrency=1)
    async with open_provider_setup("openai", limiter=limiter) as setup:
        setup.plays(Hang())
        cancelled = CancelSignal()
        first = asyncio.create_task(setup.complete(cancelled=cancelled))
        await asyncio.wait_for(setup.server.hanging.wait(), 30)
        other = CancelSignal()
        second = asyncio.create_task(setup.complete(cancelled=other))
        await until(lambda: limiter.waiting == 1)
        other.set()
        outcome = await asyncio.wait_for(second, 30)
        assert isinstance(outcome, Failure) and outcome.code == "MODEL_CANCELLED" and limiter.waiting == 0
        cancelled.set()
        await first
        assert limiter.running == 0


@pytest.mark.requirement("G8")
async def test_a_run_that_is_cancelled_already_asks_nobody() -> None:
    async with open_provider_setup("openai") as setup:
        cancelled = CancelSignal()
        cancelled.set()
        failure = await setup.failure(cancelled=cancelled)
        assert failure.code == "MODEL_CANCELLED" and setup.server.seen == []
        assert setup.recorder.types == ["negotiated"]


@pytest.mark.requirement("G8")
async def test_a_cancel_between_two_attempts_starts_no_other() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Status(500))
        cancelled = CancelSignal()

        async def record(payload: Payload) -> None:
            await setup.recorder(payload)
            if payload.type == "runtime.model.retry.scheduled":
                cancelled.set()

        outcome = await setup.router.complete(
            ModelChoice(setup.config()), ASK, record=record, message_id="msg_1", cancelled=cancelled
        )
        assert isinstance(outcome, Failure) and outcome.code == "MODEL_CANCELLED"
        assert len(setup.server.seen) == 1


async def test_reasoning_that_is_not_logged_still_counts_as_a_sign_of_life() -> None:
    async with open_provider_setup("scripted", in_turn=False) as setup:
        reply = ScriptReply(text="done", reasoning="x" * 8, chunkSize=1, chunkDelaySeconds=0.1)
        soon = Timeouts(firstTokenSeconds=0.6, idleSeconds=0.6)
        config = setup.config(script=Script(default=reply), timeouts=soon)
        setup.router._providers._deps = replace(setup.router._providers._deps, sleep=asyncio.sleep)
        answer = await setup.answer(plan=ModelChoice(config), contents=ContentPolicy(reasoning="metadata"))
        assert answer.text == "done" and setup.recorder.deltas("agent.reasoning.delta") == ""


async def test_a_slow_log_is_not_mistaken_for_an_idle_provider() -> None:
    async with open_provider_setup("openai") as setup:
        soon = Timeouts(firstTokenSeconds=30, idleSeconds=1)
        slow = iter([1.2])

        async def record(payload: Payload) -> None:
            if payload.type == "runtime.adapter.event":
                await asyncio.sleep(next(slow, 0))
            await setup.recorder(payload)

        plan = ModelChoice(setup.config(timeouts=soon))
        outcome = await setup.router.complete(plan, ASK, record=record, message_id="msg_1")
        assert not isinstance(outcome, Failure) and outcome.text == "Hello, world"


async def test_a_failure_becomes_an_error_value_with_its_causes() -> None:
    async with open_provider_setup("scripted") as setup:
        plan = ModelChoice(setup.config("a", script=FAILING, retry=quick(attempts=1)))
        error = error_value(await setup.failure(plan=plan))
        assert error.code == "PROVIDER_ERROR" and error.retryable
        assert error.causes is not None and error.causes[0].message.startswith("a: The provider answered 500")


@pytest.mark.requirement("OS-L2")
async def test_the_answer_is_what_was_stored_when_the_recorder_redacted_it() -> None:
    async with open_provider_setup("openai") as setup:
        setup.plays(Answer(chunks=("the password is hunter2",)))

        async def record(payload: Payload) -> Payload:
            await setup.recorder(payload)
            if payload.type == ModelCompleted.type:
                return ModelCompleted.model_validate(payload.to_json() | {"text": "the password is [REDACTED:secret]"})
            return payload

        outcome = await setup.router.complete(ModelChoice(setup.config()), ASK, record=record, message_id="msg_1")
        assert not isinstance(outcome, Failure) and outcome.text == "the password is [REDACTED:secret]"
