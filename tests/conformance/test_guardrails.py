"""What every kind of guardrail must do: find what it is about, and block whenever it cannot be asked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog.adapter import OUTPUT_DELTA
from app.policy.contract import About
from app.policy.guardrails.contract import Action, GuardrailRule, Judgement, Match, Passed, Subject
from app.policy.guardrails.declared import RuleBook, build
from app.policy.guardrails.inspection import Inspected, Inspection
from app.policy.guardrails.kind import GuardrailDeps
from app.policy.guardrails.screen import StreamScanners, StreamScreen
from app.wiring.kinds import GUARDRAILS, guardrail_kinds, kind_catalog
from app.workspace.catalog import Kinds
from app.workspace.compile import compile
from app.workspace.compiled import Compiled, CompiledWorkspace
from tests.workspace.building import document, files

SPECS: dict[str, str] = {
    "pii": "config: {kinds: [email]}",
    "regex": "config: {patterns: ['bad [a-z]{1,9}']}",
    "topic": "config: {deny: [bad]}",
    "cel": "config: {when: 'text.contains(\"bad\")'}",
    "schema": "config: {schema: {type: object}}",
    "model": "model: main\nconfig: {rule: It is bad.}",
    "python": "entry: rules:bad",
    "presidio": "config: {entities: [EMAIL_ADDRESS]}",
}
WRONG: dict[str, str] = {
    "pii": "config: {kinds: [unicorn]}",
    "regex": "config: {patterns: ['a+']}",
    "topic": "config: {deny: []}",
    "cel": "config: {when: 'text +'}",
    "schema": "config: {schema: {type: 7}}",
    "model": "config: {rule: x}",
    "python": "entry: rules:missing",
    "presidio": "config: {language: English}",
}
RULES = "def bad(content):\n    return 'bad' in str(content)\n"
BAD, GOOD = "a bad idea of joe@example.com", '{"fine": true}'
SHIPPED = [kind for kind in SPECS if kind != "presidio"]
"""Presidio itself runs in the environment of the extras: tests/adapters/test_presidio.py."""


def _load(entry: str, _files: Any, own: bool) -> Any:
    scope: dict[str, Any] = {}
    exec(RULES, scope)
    return scope.get(entry.partition(":")[2]) or Failure("GUARDRAIL_INVALID", "cannot be loaded")


def _workspace(kind: str, spec: str, action: Action = "block") -> CompiledWorkspace | None:
    agent = document("Agent", "a", "model: main\nguardrails: {input: [g], output: [g]}")
    rule = document("Guardrail", "g", f"kind: {kind}\naction: {action}\n{spec}")
    made = compile(files({"g.yaml": rule, "a.yaml": agent, "rules.py": RULES}), kind_catalog())
    return made.workspace if isinstance(made, Compiled) else None


def _rule(kind: str, action: Action = "flag") -> GuardrailRule:
    workspace = _workspace(kind, SPECS[kind], action)
    assert workspace is not None
    book = build(workspace, guardrail_kinds(), GuardrailDeps(_load))
    assert isinstance(book, RuleBook), book
    rules = book.of("a")
    assert rules is not None
    inspection = rules.at("input")
    assert inspection is not None
    return inspection.rules[0]


async def _ask_model(_model: str, _instructions: str, content: str, _schema: JsonObject) -> JsonObject:
    return {"triggered": "bad" in content}


async def _inspected(rule: GuardrailRule, content: Any = BAD) -> Inspected:
    return await Inspection([rule]).inspect(Subject("input", content, About("run_x"), ask_model=_ask_model))


def _assert_blocks(inspected: Inspected, rule: GuardrailRule, failed: str) -> None:
    assert inspected.blocked is not None and inspected.blocked.name == rule.name
    (verdict,) = inspected.verdicts
    assert verdict.failed == failed and not verdict.positions


def test_every_kind_that_ships_is_in_this_suite() -> None:
    assert set(SPECS) == set(WRONG) == {kind.name for kind in GUARDRAILS}


@pytest.mark.requirement("HK-17")
@pytest.mark.parametrize("kind", SHIPPED)
async def test_kind_blocks_what_it_is_about_and_nothing_else(kind: str) -> None:
    rule = _rule(kind, "block")
    refused, passed = await _inspected(rule), await _inspected(rule, GOOD)
    assert refused.blocked is rule and [one.failed for one in refused.verdicts] == [None]
    assert passed == Inspected(GOOD)


# -- nothing passes that could not be asked ---------------------------------------------------------


@pytest.mark.requirement("OS-I3", "HK-17")
@pytest.mark.parametrize("kind", SHIPPED)
def test_bad_config_is_not_served(kind: str) -> None:
    workspace = _workspace(kind, WRONG[kind])
    # What only shows when it is loaded, such as a missing function, keeps the workspace from being served.
    if workspace is not None:
        assert isinstance(build(workspace, guardrail_kinds(), GuardrailDeps(_load)), list)


@pytest.mark.requirement("OS-I3", "HK-17")
@pytest.mark.parametrize("kind", SPECS)
def test_missing_dependency_is_not_served(kind: str) -> None:
    without = Kinds([replace(one, module="no_such_module", extra="rules") for one in GUARDRAILS])
    rule = document("Guardrail", "g", f"kind: {kind}\naction: flag\n{SPECS[kind]}")
    found = compile(files({"g.yaml": rule, "rules.py": RULES}), replace(kind_catalog(), guardrails=without))
    assert not isinstance(found, Compiled) and "KIND_NOT_INSTALLED" in {item.code for item in found.items}
    if kind != "presidio":
        # A server whose packages changed after a run was accepted does not serve the run without the rule.
        workspace = _workspace(kind, SPECS[kind])
        assert workspace is not None and isinstance(build(workspace, without, GuardrailDeps(_load)), list)


class _BrokenScanner:
    sources = ("a",)

    def search(self, text: str, start: int) -> Match | None:
        raise RuntimeError("sk-secret-0123456789abcdef")

    def opening(self, text: str, start: int) -> int:
        raise RuntimeError("sk-secret-0123456789abcdef")


class _BrokenJudge:
    async def judge(self, subject: Subject) -> Judgement:
        raise RuntimeError("sk-secret-0123456789abcdef")


class _LateJudge:
    async def judge(self, subject: Subject) -> Judgement:
        await asyncio.sleep(60)
        return Passed()


class _OddJudge:
    async def judge(self, subject: Subject) -> Judgement:
        return "fine"  # type: ignore[return-value]  # on purpose


def _with(rule: GuardrailRule, judge: Callable[[], Any]) -> GuardrailRule:
    return replace(rule, judge=judge(), timeout_seconds=0.01)


@pytest.mark.requirement("OS-I3", "HK-17")
@pytest.mark.parametrize("action", ["block", "redact", "ask", "flag"])
@pytest.mark.parametrize("kind", SHIPPED)
async def test_rule_that_raises_blocks_and_leaks_nothing(kind: str, action: Action) -> None:
    rule = replace(_rule(kind), action=action)
    rule = replace(rule, scanners=(_BrokenScanner(),)) if rule.scanners else _with(rule, _BrokenJudge)
    inspected = await _inspected(rule)
    _assert_blocks(inspected, rule, "it failed with RuntimeError")
    assert "secret" not in str(inspected.verdicts)


@pytest.mark.requirement("OS-I3", "HK-17")
@pytest.mark.parametrize("kind", SHIPPED)
async def test_rule_that_is_late_or_talks_nonsense_blocks(kind: str) -> None:
    rule = _rule(kind)
    if rule.scanners:
        late = replace(rule, timeout_seconds=-1.0)  # its time is over before it begins
        _assert_blocks(await _inspected(late), late, "it did not come to the end of the content in time")
        return
    _assert_blocks(await _inspected(_with(rule, _LateJudge)), rule, "it did not answer in time")
    _assert_blocks(await _inspected(replace(rule, judge=_OddJudge())), rule, "it gave no judgement")


@pytest.mark.requirement("OS-I3", "HK-17")
@pytest.mark.parametrize("kind", [kind for kind in SHIPPED if _rule(kind).scanners])
def test_scanner_that_raises_in_a_stream_lets_nothing_leave(kind: str) -> None:
    rule = replace(_rule(kind), scanners=(_BrokenScanner(),))
    screen = StreamScreen(StreamScanners([], [rule]))
    left = screen.text("a secret") + screen.take(OUTPUT_DELTA, 0, " and more") + str(screen.end())
    assert left == "[]" and screen.blocked is rule and screen.failed == "it failed with RuntimeError"


async def test_rule_of_a_model_without_a_model_blocks() -> None:
    rule = _rule("model")
    inspected = await Inspection([rule]).inspect(Subject("input", BAD, About("run_x")))
    _assert_blocks(inspected, rule, "it failed with RuntimeError")


async def test_rules_of_a_stage_can_be_asked_outside_of_a_run() -> None:
    workspace = _workspace("pii", SPECS["pii"], "redact")
    assert workspace is not None
    book = build(workspace, guardrail_kinds(), GuardrailDeps(_load))
    assert isinstance(book, RuleBook)
    rules = book.of("a")
    assert rules is not None
    left = await rules.inspect(Subject("output", BAD, About("run_x")))
    assert left.content == "a bad idea of [REDACTED:email]" and left.blocked is None
    untouched = await rules.inspect(Subject("toolResults", BAD, About("run_x")))
    assert untouched == Inspected(BAD)
