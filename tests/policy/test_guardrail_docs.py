"""The page about guardrails: its documents compile without a warning, and its rules decide as it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from app.policy.contract import About
from app.policy.guardrails.contract import Stage, Subject
from app.policy.guardrails.declared import RuleBook, build
from app.policy.guardrails.inspection import Inspected
from app.policy.guardrails.kind import GuardrailDeps
from app.policy.guardrails.national_ids import NATIONAL_IDS
from app.policy.guardrails.pii import PII
from app.wiring.kinds import GUARDRAILS, guardrail_kinds
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.entry_loader import load_entry
from app.workspace.files import WorkspaceFiles
from tests.workspace.building import MODEL, catalog

PAGE = (Path(__file__).parents[2] / "docs" / "guardrails.md").read_text()
DOCUMENTS, RUNTIME = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
[FUNCTIONS] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def rules() -> RuleBook:
    texts = {"rules.yaml": DOCUMENTS, "runtime.yaml": RUNTIME, "model.yaml": MODEL, "rules.py": FUNCTIONS}
    files = WorkspaceFiles.from_contents({path: text.encode() for path, text in texts.items()})
    compiled = compile(files, catalog())
    assert isinstance(compiled, Compiled), compiled.as_text()
    assert compiled.diagnostics.as_text() == ""

    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    built = build(compiled.workspace, guardrail_kinds(), GuardrailDeps(load))
    assert isinstance(built, RuleBook)
    return built


async def inspected(rules: RuleBook, agent: str, stage: Stage, content: Any) -> Inspected:
    found = rules.agents[agent].at(stage)
    assert found is not None
    return await found.inspect(Subject(stage, content, About("run_1")))


@pytest.mark.parametrize(
    ("stage", "content", "left", "found"),
    [
        ("input", "Card 4111 1111 1111 1111.", "Card [REDACTED:card].", ["personal-data"]),
        ("input", "I WANT MY MONEY BACK RIGHT NOW", "I WANT MY MONEY BACK RIGHT NOW", ["shouting"]),
        ("output", "Ask Project Apollo", "Ask [REDACTED:code_name]", ["code-names"]),
        ("output", "the board election", "the board election", []),
        ("toolResults", {"mail": "a@b.com"}, {"mail": "[REDACTED:email]"}, ["personal-data"]),
        ("toolArguments", {"amount": 20}, {"amount": 20}, []),
    ],
)
async def test_the_rules_of_the_page_do_as_it_says(
    rules: RuleBook, stage: Stage, content: Any, left: Any, found: list[str]
) -> None:
    result = await inspected(rules, "clerk", stage, content)
    assert (result.content, [verdict.rule for verdict in result.verdicts]) == (left, found)
    assert result.blocked is None


@pytest.mark.parametrize(
    ("agent", "stage", "content", "rule"),
    [
        ("clerk", "output", "The election is near", "politics"),
        ("clerk", "output", "今年选举很近", "politics"),
        ("clerk", "toolArguments", {"amount": 700}, "refund-form"),
        ("lawyer", "output", "x" * 5000, "short-answers"),
    ],
)
async def test_the_rules_of_the_page_block_what_it_says(
    rules: RuleBook, agent: str, stage: Stage, content: Any, rule: str
) -> None:
    result = await inspected(rules, agent, stage, content)
    assert result.blocked is not None and result.blocked.name == rule


def test_messages_are_held_where_the_page_says_so(rules: RuleBook) -> None:
    assert not rules.agents["clerk"].holds_messages and rules.agents["lawyer"].holds_messages


def test_the_page_names_every_kind() -> None:
    assert all(f"| `{kind.name}` |" in PAGE for kind in GUARDRAILS)
    assert all(f"`{kind}`" in PAGE for kind in PII)
    assert ", ".join(one.country for one in NATIONAL_IDS) in PAGE and f"of {len(NATIONAL_IDS)} countries" in PAGE
