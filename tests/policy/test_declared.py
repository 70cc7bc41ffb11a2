"""From Hook documents to the runner: shipped hooks, workspace modules, entry points, and who is asked for whom."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from app.core.decisions import Allow, Decision, Deny, Transform
from app.core.schemas import SchemaRegistry
from app.policy.contract import About, Point
from app.policy.declared import build
from app.policy.hooks import HookRunner
from app.policy.kind import BuiltinHook, HookDeps
from app.wiring import kinds
from app.wiring.kinds import HOOKS, builtin_hooks
from app.workspace.catalog import AnyConfig
from app.workspace.compiled import Compiled, CompiledWorkspace
from app.workspace.diagnostics import Diagnostics
from app.workspace.entry_loader import load_entry
from tests.workspace.building import AGENT, RUNTIME, document, good
from tests.workspace.building import build as compiled

SCHEMAS = SchemaRegistry()
CARD = "4111 1111 1111 1111"


def load(entry: str, files: Any, own: bool) -> Any:
    return load_entry(entry, files, own=own)


DEPS = HookDeps(Path(), lambda _: None, load, builtin_hooks())


def workspace(spec: str, changes: Mapping[str, str] | None = None, *, everybody: bool = True) -> CompiledWorkspace:
    runtime = RUNTIME + ("  hooks: [h]\n" if everybody else "")
    return good({"runtime.yaml": runtime, "hook.yaml": document("Hook", "h", spec), **(changes or {})})


def built(made: CompiledWorkspace) -> HookRunner:
    result = build(made, HOOKS, DEPS, schemas=SCHEMAS)
    assert isinstance(result, HookRunner), result
    return result


async def ask(made: CompiledWorkspace, point: Point, subject: Mapping[str, Any], agent: str = "helper") -> Decision:
    return (await built(made).fire(point, dict(subject), About("run_1", agent=agent))).decision


# -- the hooks that ship ---------------------------------------------------------------------------

DENY = "on: [PreToolUse]\nkind: builtin\nentry: deny_tools\nconfig: {tools: [delete, 'admin_*']}"
CARDS = "on: [UserPromptSubmit, PreToolUse, PostToolUse]\nkind: builtin\nentry: redact_cards"
TURNS = "on: [Stop]\nkind: builtin\nentry: max_turns\nconfig: {turns: 3}"


@pytest.mark.requirement("OS-L6", "SH-24")
@pytest.mark.parametrize(("tool", "denied"), [("delete", True), ("admin_reset", True), ("undelete", False)])
async def test_deny_tools_denies_what_its_list_names(tool: str, denied: bool) -> None:
    decision = await ask(workspace(DENY), Point.PRE_TOOL_USE, {"tool": tool, "callId": "c", "arguments": {}})
    assert isinstance(decision, Deny) is denied


@pytest.mark.requirement("OS-E", "OS-L6")
async def test_redact_cards_takes_a_card_out_of_a_prompt() -> None:
    decision = await ask(workspace(CARDS), Point.USER_PROMPT_SUBMIT, {"prompt": f"my card is {CARD}, thanks"})
    assert decision == Transform({"prompt": "my card is [REDACTED:card], thanks"}, "h", "a card number was redacted")


async def test_redact_cards_takes_cards_out_of_parts_arguments_and_outputs() -> None:
    made = workspace(CARDS)
    parts = [{"type": "text", "text": CARD}]
    prompt = await ask(made, Point.USER_PROMPT_SUBMIT, {"prompt": CARD, "input": parts})
    before = await ask(made, Point.PRE_TOOL_USE, {"tool": "t", "arguments": {"a": [CARD]}})
    after = await ask(made, Point.POST_TOOL_USE, {"tool": "t", "output": {"b": CARD}})
    clean = "[REDACTED:card]"
    changes = [decision.changes for decision in (prompt, before, after) if isinstance(decision, Transform)]
    assert changes == [
        {"input": [{"type": "text", "text": clean}]}, {"arguments": {"a": [clean]}}, {"output": {"b": clean}},
    ]  # fmt: skip


async def test_redact_cards_leaves_other_numbers_and_can_be_set_to_take_them() -> None:
    subject = {"prompt": "1234567812345678"}
    assert isinstance(await ask(workspace(CARDS), Point.USER_PROMPT_SUBMIT, subject), Allow)
    any_run = workspace(CARDS + "\nconfig: {checksum: false}")
    assert isinstance(await ask(any_run, Point.USER_PROMPT_SUBMIT, subject), Transform)


async def test_redact_cards_goes_through_a_large_prompt_too() -> None:
    decision = await ask(workspace(CARDS), Point.USER_PROMPT_SUBMIT, {"prompt": "x" * 100_000 + " " + CARD})
    assert isinstance(decision, Transform) and decision.changes["prompt"].endswith(" [REDACTED:card]")


@pytest.mark.parametrize(("turn", "goes_on"), [(1, True), (2, True), (3, False), (4, False)])
async def test_max_turns_lets_the_loop_go_on_until_it_had_them(turn: int, goes_on: bool) -> None:
    decision = await ask(workspace(TURNS), Point.STOP, {"turn": turn, "maxTurns": 20, "output": ""})
    assert isinstance(decision, Allow) is goes_on


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize(
    "spec",
    [
        "on: [Stop]\nkind: builtin\nentry: deny_tools\nconfig: {tools: [a]}",
        "on: [Stop]\nkind: python\nentry: broken:decide",
        "on: [Stop]\nkind: python\nentry: rules:LIMIT",
    ],
)
def test_a_hook_that_cannot_work_keeps_its_workspace_from_being_served(spec: str) -> None:
    modules = {"broken.py": "raise RuntimeError\ndef decide(input): ...\n", "rules.py": "LIMIT = 3\n"}
    result = build(workspace(spec, modules), HOOKS, DEPS, schemas=SCHEMAS)
    assert isinstance(result, list)
    assert [failure.code for failure in result] == ["HOOK_INVALID"]


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize(
    ("spec", "code", "path"),
    [
        ("on: [PreToolUse]\nkind: builtin\nentry: deny_tools", "FIELD_MISSING", "spec.config.tools"),
        (
            "on: [PreToolUse]\nkind: builtin\nentry: deny_tools\nconfig: {tools: []}",
            "VALUE_INVALID",
            "spec.config.tools",
        ),
        (
            "on: [PreToolUse]\nkind: builtin\nentry: deny_tools\nconfig: {tools: [a], tool: [a]}",
            "NOT_SERVED",
            "spec.config.tool",
        ),
        ("on: [Stop]\nkind: builtin\nentry: max_turns\nconfig: {turns: 0}", "VALUE_INVALID", "spec.config.turns"),
    ],
)
def test_config_of_a_built_in_hook_is_checked_when_the_workspace_is_compiled(spec: str, code: str, path: str) -> None:
    result = compiled({"runtime.yaml": RUNTIME + "  hooks: [h]\n", "hook.yaml": document("Hook", "h", spec)})
    assert isinstance(result, Diagnostics)
    assert [(found.code, found.path) for found in result] == [(code, path)]


# -- functions -------------------------------------------------------------------------------------


async def test_a_function_of_the_workspace_gets_its_input_context_and_config() -> None:
    source = (
        "def decide(input, ctx, config):\n"
        "    return {'decision': 'deny', 'reason': f\"{input['prompt']} {ctx.about.agent} {config['level']}\"}\n"
    )
    spec = "on: [UserPromptSubmit]\nkind: python\nentry: rules:decide\nconfig: {level: 3}"
    decision = await ask(workspace(spec, {"rules.py": source}), Point.USER_PROMPT_SUBMIT, {"prompt": "hi"})
    assert decision == Deny("hi helper 3", "h")


async def test_two_versions_of_a_workspace_keep_their_own_functions() -> None:
    spec = "on: [UserPromptSubmit]\nkind: python\nentry: rules:decide"
    source = "from app.core.decisions import Deny\ndef decide(input): return Deny('{}')\n"
    old = workspace(spec, {"rules.py": source.format("old")})
    new = workspace(spec, {"rules.py": source.format("new")})
    assert await ask(new, Point.USER_PROMPT_SUBMIT, {"prompt": "hi"}) == Deny("new", "h")
    assert await ask(old, Point.USER_PROMPT_SUBMIT, {"prompt": "hi"}) == Deny("old", "h")


def installed_hook(config: Any) -> Any:
    """What a package would offer: made with its config, asked like any function."""

    async def decide(subject: Mapping[str, Any]) -> Decision:
        return Deny(f"{config.name} {config.config['level']}")

    return decide


COMPANY_RULES = BuiltinHook(name="company_rules", make=installed_hook, config=AnyConfig)


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> HookDeps:
    offered = EntryPoint("company_rules", value, "holdfast.hooks")
    monkeypatch.setattr(kinds, "installed_points", lambda: EntryPoints([offered]))
    builtin_hooks.cache_clear()
    return replace(DEPS, builtins=builtin_hooks())


@pytest.fixture(autouse=True)
def _forget_installed() -> Iterator[None]:
    yield
    builtin_hooks.cache_clear()


async def test_a_package_offers_a_hook_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    deps = installed(monkeypatch, f"{__name__}:COMPANY_RULES")
    made = workspace("on: [UserPromptSubmit]\nkind: builtin\nentry: company_rules\nconfig: {level: 7}")
    runner = build(made, HOOKS, deps, schemas=SCHEMAS)
    assert isinstance(runner, HookRunner)
    fired = await runner.fire(Point.USER_PROMPT_SUBMIT, {"prompt": "hi"}, About("run_1", agent="helper"))
    assert fired.decision == Deny("h 7", "h")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_package:HOOK", "ModuleNotFoundError: No module named 'no_such_package'"),
        (f"{__name__}:installed_hook", f"{__name__}:installed_hook is not a BuiltinHook"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named_to_whoever_uses_its_hook(
    monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    installed(monkeypatch, value)
    assert isinstance(compiled({}), Compiled)
    spec = "on: [UserPromptSubmit]\nkind: builtin\nentry: company_rules"
    result = compiled({"runtime.yaml": RUNTIME + "  hooks: [h]\n", "hook.yaml": document("Hook", "h", spec)})
    assert isinstance(result, Diagnostics)
    (found,) = result
    assert (found.code, found.path) == ("KIND_BROKEN", "spec.entry")
    package = value.partition(":")[0]
    assert found.message == f"the built-in hook 'company_rules' of the package {package!r} cannot be used: {reason}"


# -- for whom --------------------------------------------------------------------------------------

OTHER = AGENT.replace("name: helper", "name: other")


@pytest.mark.requirement("OS-L6")
@pytest.mark.parametrize(
    ("everybody", "own", "match", "asked"),
    [
        (True, "", "", {"helper", "other"}),
        (True, "", "match: {agents: [other]}", {"other"}),
        (False, "  hooks: [h]\n", "", {"helper"}),
        (False, "  hooks: [h]\n", "match: {agents: [other]}", set()),
    ],
)
async def test_a_hook_is_asked_for_the_agents_that_list_it(
    everybody: bool, own: str, match: str, asked: set[str]
) -> None:
    agents = {"agents/helper.yaml": AGENT + own, "agents/other.yaml": OTHER}
    made = workspace(f"{DENY}\n{match}", agents, everybody=everybody)
    subject = {"tool": "delete", "callId": "c", "arguments": {}}
    found = {
        agent for agent in ("helper", "other") if isinstance(await ask(made, Point.PRE_TOOL_USE, subject, agent), Deny)
    }
    assert found == asked


def test_patience_is_the_time_of_all_the_hooks_of_a_point() -> None:
    runner = built(workspace(DENY + "\ntimeoutSeconds: 7"))
    assert runner.patience(Point.PRE_TOOL_USE, Point.POST_TOOL_USE) == 7
    assert runner.patience(Point.STOP) == 0
