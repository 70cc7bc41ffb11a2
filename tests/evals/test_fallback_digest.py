"""A gate that falls back to a former workspace: its agent answers, and today's rules and gates still decide."""

from pathlib import Path

import pytest

from app.backends.contract import Context
from app.core.settings import Settings
from app.events.catalog import request
from app.events.envelope import Event
from tests.cut_runs import left_behind, seen_through
from tests.evals.judged import agent, write
from tests.runs import ended, opened, payloads, submit
from tests.runtime.run.probing import Probe, with_native

MAIL = """---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: %s}
spec: {kind: %s, action: redact, config: %s}
"""
NO_SPARE = MAIL % ("no-spare", "regex", "{patterns: [spare], label: model}")
NO_SAYS = MAIL % ("no-says", "regex", "{patterns: [says], label: verb}")
RULE = "  guardrails: {output: [%s]}\n"


async def former_digest(settings: Settings, folder: Path, text: str = "hello") -> str:
    """Of a workspace whose clerk uses the spare model and has rules of its own."""
    more = "  model: spare\n  tools: [look]\n" + RULE % "no-spare"
    async with opened(settings, write(folder, NO_SPARE, agent("clerk", "[{evaluator: polite}]", more))) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "clerk", text))
        assert run.output == "The [REDACTED:model] model says please."
        assert run.workspace_digest is not None
        return run.workspace_digest


def today(digest: str) -> str:
    gates = f"[{{evaluator: polite, mode: blocking, onFail: fallback, fallbackDigest: {digest}}}]"
    return NO_SAYS + agent("clerk", gates, "  model: main\n  tools: [look]\n" + RULE % "no-says")


def _assert_answered_as_before(events: list[Event], where: str = "") -> None:
    assert events[-1].payload["output"] == "The [REDACTED:model] model [REDACTED:verb] please.", where
    assert [one["model"] for one in payloads(events, "model.requested")] == ["main", "spare"], where
    judged = [(one["attempt"], one["passed"]) for one in payloads(events, "gate.evaluated")]
    assert judged == [(1, False), (2, True)], where
    found = sorted(one["guardrail"] for one in payloads(events, "guardrail.triggered"))
    assert found == ["no-says", "no-spare"], where


@pytest.mark.requirement("HK-23", "G5")
async def test_the_former_agent_answers_wherever_the_server_dies(settings: Settings, tmp_path: Path) -> None:
    digest = await former_digest(settings, tmp_path)
    root = write(tmp_path, today(digest))
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "clerk", "be rude")
        events = await seen_through(holdfast, run)
        _assert_answered_as_before(events)
        now = run.workspace_digest
        assert now is not None and now != digest
        await holdfast.executor.drain(0)
        started = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
        stride = 3 if settings.is_postgres else 1
        cut_off = [(cut, await left_behind(holdfast, events[:cut])) for cut in range(started, len(events), stride)]
    async with opened(settings, root) as holdfast:
        for cut, again in cut_off:
            resumed = await seen_through(holdfast, again)
            # A model that was asked and had not answered is asked again.
            answered = payloads(resumed, "model.completed")
            assert [one["model"] for one in answered] == ["main", "spare"], f"killed after event {cut}"
            assert resumed[-1].payload == events[-1].payload, f"killed after event {cut}"
            verdicts = [(one["guardrail"], one["key"]) for one in payloads(resumed, "guardrail.triggered")]
            # Each once, though a message that was cut off is another one than the message that takes its place.
            assert len(set(verdicts)) == len(verdicts), f"killed after event {cut}"
            assert {name for name, _ in verdicts} == {"no-says", "no-spare"}, f"killed after event {cut}"
            assert len(payloads(resumed, "gate.evaluated")) == 2, f"killed after event {cut}"


@pytest.mark.requirement("HK-23", "OS-I3")
async def test_a_former_workspace_that_nobody_has_lets_nothing_pass(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, write(tmp_path, today("ab" * 32))) as holdfast:
        passed = await ended(holdfast, await submit(holdfast, "clerk", "hello"))
        refused = await ended(holdfast, await submit(holdfast, "clerk", "be rude"))
    assert passed.output == "Yes, please: hello"
    assert (refused.status, refused.error["code"] if refused.error else None) == ("failed", "WORKSPACE_GONE")
    assert refused.output is None


async def test_a_former_agent_that_does_not_pass_either_fails_the_run(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, agent("clerk", "[{evaluator: polite}]"))
    async with opened(settings, root) as holdfast:
        digest = (await ended(holdfast, await submit(holdfast, "clerk", "be rude"))).workspace_digest
    async with opened(settings, write(tmp_path, today(str(digest)))) as holdfast:
        events = await seen_through(holdfast, await submit(holdfast, "clerk", "be rude"))
    assert events[-1].payload["error"]["code"] == "GATE_NOT_PASSED"
    assert [one["passed"] for one in payloads(events, "gate.evaluated")] == [False, False]


async def test_a_former_agent_of_another_backend_has_the_config_of_its_own(settings: Settings, tmp_path: Path) -> None:
    async def act(ctx: Context) -> str:
        return f"{ctx.config.get('word')}: please"

    backends = with_native(Probe(act))
    former = "  backend: probe\n  config: {probe: {word: mine}}\n"
    async with opened(
        settings, write(tmp_path, agent("clerk", "[{evaluator: polite}]", former)), backends=backends
    ) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "clerk", "be rude"))
        assert first.output == "mine: please", first.error
    gates = f"[{{evaluator: polite, mode: blocking, onFail: fallback, fallbackDigest: {first.workspace_digest}}}]"
    async with opened(settings, write(tmp_path, agent("clerk", gates)), backends=backends) as holdfast:
        again = await ended(holdfast, await submit(holdfast, "clerk", "be rude"))
        assert again.output == "mine: please", again.error
