"""The page about hooks: its documents compile, its functions and its program decide as it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from app.core.decisions import Allow, Decision, Deny, Transform
from app.core.schemas import SchemaRegistry
from app.policy.contract import About, Point
from app.policy.declared import build
from app.policy.hooks import HookRunner
from app.policy.kind import HookDeps
from app.policy.points import RULES
from app.wiring.kinds import HOOKS, builtin_hooks
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.entry_loader import load_entry
from app.workspace.files import WorkspaceFiles
from tests.workspace.building import MODEL, catalog, document

PAGE = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text()
[DOCUMENTS] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
FUNCTIONS, PROGRAM = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TOOL = document("Tool", "refund", "kind: python\nentry: policy:refunds\ninput: {type: object}\noutput: {type: object}")


@pytest.fixture
def hooks(tmp_path: Path) -> HookRunner:
    program = tmp_path / "no_links.py"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    texts = {"shop.yaml": DOCUMENTS, "model.yaml": MODEL, "tool.yaml": TOOL, "policy.py": FUNCTIONS}
    files = WorkspaceFiles.from_contents({path: text.encode() for path, text in texts.items()})
    compiled = compile(files, catalog())
    assert isinstance(compiled, Compiled), compiled.as_text()
    assert compiled.diagnostics.as_text() == ""

    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    deps = HookDeps(tmp_path, lambda _: None, load, builtin_hooks())
    built = build(compiled.workspace, HOOKS, deps, schemas=SchemaRegistry())
    assert isinstance(built, HookRunner), built
    return built


async def ask(hooks: HookRunner, point: Point, **subject: Any) -> Decision:
    return (await hooks.fire(point, subject, About("run_1", agent="clerk"))).decision


async def test_refunds_are_bounded_and_mended(hooks: HookRunner) -> None:
    refund = {"tool": "refund", "callId": "c"}
    denied = await ask(hooks, Point.PRE_TOOL_USE, **refund, arguments={"amount": 101})
    assert denied == Deny("refunds over 100 need a person", "refunds")
    assert isinstance(await ask(hooks, Point.PRE_TOOL_USE, **refund, arguments={"amount": 100}), Allow)
    mended = await ask(hooks, Point.PRE_TOOL_USE, **refund, arguments={"amount": -5})
    assert isinstance(mended, Transform) and mended.changes == {"arguments": {"amount": 5}}


async def test_what_is_never_called_and_what_is_taken_out(hooks: HookRunner) -> None:
    for tool in ("delete", "admin_reset"):
        assert isinstance(await ask(hooks, Point.PRE_TOOL_USE, tool=tool, callId="c", arguments={}), Deny)
    decision = await ask(hooks, Point.POST_TOOL_USE, tool="x", callId="c", output="4111 1111 1111 1111")
    assert isinstance(decision, Transform) and decision.changes == {"output": "[REDACTED:card]"}


async def test_the_program_denies_plain_links(hooks: HookRunner) -> None:
    denied = await ask(hooks, Point.USER_PROMPT_SUBMIT, prompt="see http://example.com")
    assert denied == Deny("no links over plain http", "links")
    assert isinstance(await ask(hooks, Point.USER_PROMPT_SUBMIT, prompt="see you"), Allow)


async def test_the_loop_goes_on_until_it_is_done(hooks: HookRunner) -> None:
    assert isinstance(await ask(hooks, Point.STOP, turn=1, maxTurns=9, output="working"), Transform)
    assert isinstance(await ask(hooks, Point.STOP, turn=2, maxTurns=9, output="DONE"), Deny)
    assert isinstance(await ask(hooks, Point.STOP, turn=3, maxTurns=9, output="working"), Deny)


def test_the_page_names_every_point_and_what_may_be_put_in_place() -> None:
    schemas = SchemaRegistry()
    rows = {found[0]: found[1] for found in re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", PAGE, re.MULTILINE)}
    for point, rules in RULES.items():
        assert f"`{point}`" in PAGE
        if rules.schema is not None:
            changes = schemas.document(rules.schema)["properties"]
            assert all(f"`{name}`" in rows[point] for name in changes)
