"""A life of some runs, one decision at a time: what a Hypothesis machine does to a real runtime on a real store.

Runs stop before each of their steps until they are let go, so that a crash, a cancel, an answer or a command meets
them anywhere. A crash leaves the store as a killed process does: leases held, nothing said.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.backends.contract import Context, Result, Resume
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.settings import Settings
from app.events.catalog import request, tool
from app.events.envelope import Event
from app.runtime.intake.submission import Submission
from app.runtime.schedule.suspects import MAX_DEATHS
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from tests.faults.witness import Witness
from tests.store_equals_replay import assert_tables_equal_replay, events_of

T = TypeVar("T")

TURNS: Final = 3
MAX_RUNS: Final = 6
SECONDS: Final = 60.0
"""For anything that is awaited here; far more than it takes."""


class Stepper:
    """A backend that is let go one turn at a time: it looks for commands, calls the model, calls what it asks for."""

    kind = "native"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self._permits: Counter[str] = Counter()
        self._news = asyncio.Condition()
        self.at_gate: set[str] = set()
        self.free = False

    async def permit(self, run_id: str) -> None:
        async with self._news:
            self._permits[run_id] += 1
            self._news.notify_all()

    async def let_everybody_go(self) -> None:
        async with self._news:
            self.free = True
            self._news.notify_all()

    async def _pass(self, run_id: str) -> None:
        self.at_gate.add(run_id)
        try:
            async with self._news:
                await self._news.wait_for(lambda: self.free or self._permits[run_id] > 0)
                self._permits[run_id] -= 1
        finally:
            self.at_gate.discard(run_id)

    async def run(self, ctx: Context) -> Result:
        messages: list[dict[str, Any]] = [{"role": "user", "content": str(ctx.input)}]
        for _ in range(TURNS):
            await self._pass(ctx.run_id)
            messages += await ctx.steering()
            answer = await ctx.call_model(messages)
            messages.append(answer.message)
            if not answer.calls:
                return answer.text
            await self._pass(ctx.run_id)
            for result in await ctx.call_tools(answer.calls):
                messages.append(
                    {"role": "tool", "content": result.content, "tool_call_id": result.call_id, "name": result.name}
                )
        return "enough"


class Lives(RuleBasedStateMachine):
    """`make` gives each example a store of its own."""

    def __init__(self, make: Callable[[], Awaitable[Settings]], folder: Path) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._witness = Witness(folder)
        settings = self._runner.run(self._made(make))
        self._settings = settings.model_copy(update={"workspace": self._witness.workspace})
        self._stack = AsyncExitStack()
        self._stepper = Stepper()
        self._holdfast: Holdfast | None = None
        self._runs: dict[str, str] = {}
        """Run to thread."""
        self._ended: dict[str, int] = {}
        """Run to its last `seq`: nothing may come after it."""
        self._deaths: Counter[str] = Counter()
        """Crashes while the run was at work: after three without a step it is not tried again."""

    async def _made(self, make: Callable[[], Awaitable[Settings]]) -> Settings:
        return await make()

    # -- what can happen -----------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self._open()

    @precondition(lambda self: self._holdfast is not None and len(self._runs) < MAX_RUNS)
    @rule(text=st.sampled_from(["hello", "keep", "read", "ask"]), follow=st.booleans())
    def submit(self, text: str, follow: bool) -> None:
        """On a thread of its own, or behind the last run."""
        thread_id = list(self._runs.values())[-1] if follow and self._runs else None
        run = self._do(lambda it: it.service.submit(LOCAL, Submission("worker", text, thread_id=thread_id)))
        assert isinstance(run, Run), run
        self._runs[run.id] = run.thread_id

    @precondition(lambda self: self._holdfast is not None and self._runs)
    @rule(number=st.integers(0, MAX_RUNS))
    def step(self, number: int) -> None:
        self._do(lambda _: self._stepper.permit(self._chosen(number)))

    @precondition(lambda self: self._holdfast is not None and self._runs)
    @rule(number=st.integers(0, MAX_RUNS))
    def cancel(self, number: int) -> None:
        run = self._do(lambda it: it.lifecycle.cancel(LOCAL, self._chosen(number)))
        assert isinstance(run, Run), run

    @precondition(lambda self: self._holdfast is not None and self._runs)
    @rule(decision=st.sampled_from(["approve", "deny"]))
    def answer(self, decision: str) -> None:
        """Whatever is asked first; nothing if nobody asks."""
        self._do(lambda it: self._answer_first(it, decision))

    @precondition(lambda self: self._holdfast is not None and self._runs)
    @rule(number=st.integers(0, MAX_RUNS), command=st.sampled_from(["steer", "pause", "resume", "checkpoint"]))
    def command(self, number: int, command: str) -> None:
        arguments = {"steer": {"message": "be brief"}, "checkpoint": {"label": "here"}}.get(command, {})
        outcome = self._do(lambda it: it.commands.inject(LOCAL, self._chosen(number), command, dict(arguments)))
        assert isinstance(outcome, Run) or outcome.failure.code in ("RUN_TERMINAL", "INTERRUPT_NOT_OPEN"), outcome

    @precondition(lambda self: self._holdfast is not None)
    @rule(finish=st.booleans())
    def crash(self, finish: bool) -> None:
        """At rest, or in the middle of whatever the runs that may go on are doing."""
        if not finish:
            for run_id in self._runs:
                self._runner.run(self._stepper.permit(run_id))
        self._runner.run(self._crash())

    @precondition(lambda self: self._holdfast is None)
    @rule()
    def resume(self) -> None:
        self._open()

    # -- what must hold ------------------------------------------------------------------------------

    @invariant()
    def the_fold_equals_the_tables(self) -> None:
        if self._holdfast is not None:
            self._do(self._assert_sound)

    def teardown(self) -> None:
        try:
            if self._holdfast is None:
                self._open()
            self._runner.run(self._stepper.let_everybody_go())
            self._do(self._finish)
            self._do(self._assert_sound)
            self._do(self._assert_ended)
            self._runner.run(self._stack.aclose())
        finally:
            self._runner.close()

    # -- how -----------------------------------------------------------------------------------------

    def _chosen(self, number: int) -> str:
        return list(self._runs)[number % len(self._runs)]

    def _do(self, work: Callable[[Holdfast], Awaitable[T]]) -> T:
        holdfast = self._holdfast
        assert holdfast is not None

        async def done() -> T:
            async with asyncio.timeout(SECONDS):
                result = await work(holdfast)
                await self._settled(holdfast)
                return result

        return self._runner.run(done())

    def _open(self) -> None:
        async def opening() -> Holdfast:
            holdfast = await self._stack.enter_async_context(
                open_holdfast(self._settings, backends={"native": self._stepper})
            )
            if self._settings.is_postgres:
                await holdfast.store.leases.expire_all()
                holdfast.executor.sweep_now()
            return holdfast

        self._holdfast = self._runner.run(opening())
        self._do(self._assert_sound)

    async def _crash(self) -> None:
        holdfast, self._holdfast = self._holdfast, None
        assert holdfast is not None
        executor = holdfast.executor
        executor.draining = True
        self._deaths.update(run_id for _, run_id in executor._held)
        held = [held.task for held in executor._held.values()]
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        await self._stack.aclose()

    async def _settled(self, holdfast: Holdfast) -> None:
        """Every run that is worked on waits to be let go, and nothing is left to claim or to write."""
        quiet = 0
        while quiet < 3:
            executor, log = holdfast.executor, holdfast.store.log
            still = executor.running == len(self._stepper.at_gate) and not executor.waiting and not log.pending
            quiet = quiet + 1 if still else 0
            await asyncio.sleep(0.001)

    async def _answer_first(self, holdfast: Holdfast, decision: str) -> None:
        asked = await holdfast.store.reader.interrupts(DEFAULT_TENANT, status="open")
        if asked:
            answers = {"approval": {"decision": decision}, "paused": {"decision": "resume"}}
            given = await holdfast.interrupts.answer(LOCAL, asked[0].id, answers[asked[0].kind])
            assert isinstance(given, Interrupt), given

    async def _assert_sound(self, holdfast: Holdfast) -> None:
        await assert_tables_equal_replay(holdfast.store)
        for run_id in self._runs:
            run = await holdfast.store.reader.run(DEFAULT_TENANT, run_id)
            assert run is not None, "an accepted run is gone"
            if run.error is not None:
                assert (run.error["code"], self._deaths[run_id] >= MAX_DEATHS) == ("RUN_KILLED_SERVER", True), run.error
            if run.terminal:
                assert self._ended.setdefault(run_id, run.last_seq) == run.last_seq, "a run went on after its end"

    async def _finish(self, holdfast: Holdfast) -> None:
        while True:
            runs = [await holdfast.store.reader.run(DEFAULT_TENANT, run_id) for run_id in self._runs]
            if all(run is not None and run.terminal for run in runs):
                return
            await self._answer_first(holdfast, "approve")
            await asyncio.sleep(0.005)

    async def _assert_ended(self, holdfast: Holdfast) -> None:
        by_run: dict[str, list[Event]] = {}
        for thread_id in set(self._runs.values()):
            for event in await events_of(holdfast.store.database, DEFAULT_TENANT, thread_id):
                by_run.setdefault(event.run_id or "", []).append(event)
        for run_id in self._runs:
            _assert_once(by_run[run_id], self._witness.of(run_id))
        self._witness.assert_one_effect_each()


def _assert_once(events: list[Event], executions: int) -> None:
    """One end, which is the last word; no step after its result; no action without an intent."""
    types = [event.type for event in events]
    assert [type for type in types if type in request.TERMINAL] == types[-1:], types
    finished: set[str] = set()
    attempts = 0
    for event in events:
        if event.type == tool.ToolInvoked.type:
            attempts += 1
            assert event.payload["callId"] not in finished, "a completed step was begun again"
        elif event.type == tool.ToolResulted.type:
            assert event.payload["callId"] not in finished, "a step has two results"
            finished.add(event.payload["callId"])
    assert executions <= attempts, "a tool acted without an intent"
