"""Skills that runs suggest: found in repeated tool sequences, valid as files, never installed by themselves."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.memory.skill_candidates import CompletedRun, skill_candidates, skill_file
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.files import read_folder
from tests.memory.workspaces import agent, memory, model, rule, write
from tests.runs import ended, opened, submit


def run(number: int, text: str, *tools: str) -> CompletedRun:
    return CompletedRun(f"run_{number}", "clerk", text, tools)


REFUNDS = [run(n, f"Please refund the order {n} of a customer", "find", "refund") for n in range(5)]
OTHERS = [run(10 + n, f"What is the weather like in town {n}?", "weather") for n in range(5)]


def test_the_same_tools_for_the_same_words_make_a_candidate() -> None:
    (found,) = skill_candidates([*REFUNDS, *OTHERS])
    assert found.tools == ("find", "refund") and len(found.runs) == 5 and found.confidence > 0.8
    assert set(found.triggers) <= {"customer", "order", "please", "refund"}
    assert skill_candidates(REFUNDS[:2]) == []
    assert skill_candidates([run(n, f"word{'abcdefgh'[n] * 4}", "find", "refund") for n in range(5)]) == []


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.permutations([*REFUNDS, *OTHERS]))
def test_the_order_of_the_runs_changes_no_candidate_but_its_list_of_evidence(runs: list[CompletedRun]) -> None:
    (found,) = skill_candidates(runs)
    (usual,) = skill_candidates([*REFUNDS, *OTHERS])
    assert (found.id, found.triggers, found.confidence) == (usual.id, usual.triggers, usual.confidence)
    assert sorted(found.runs) == sorted(usual.runs)


def _tool(name: str) -> str:
    spec = "{kind: builtin, entry: echo, effect: readonly}"
    return f"---\napiVersion: holdfast/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec: {spec}\n"


@pytest.mark.requirement("SH-19")
async def test_runs_suggest_a_skill_that_compiles_once_somebody_accepts_it(settings: Settings, tmp_path: Path) -> None:
    call = "{{toolCalls: [{{name: {}, args: {{text: x}}}}]}}"
    rules = rule("{contains: refund, turn: 1}", call.format("find")) + rule(
        "{contains: refund, turn: 2}", call.format("pay")
    )
    folder = write(
        tmp_path / "ws",
        model(rules),
        memory("facts", "{write: off}"),
        agent("clerk", "{model: script, memory: [facts], tools: [find, pay]}"),
        _tool("find"),
        _tool("pay"),
    )
    async with opened(settings, folder) as holdfast:
        for number in range(3):
            done = await ended(holdfast, await submit(holdfast, "clerk", f"Please refund the order {number}"))
            assert (done.status, done.error) == ("completed", None)
        assert await holdfast.skills.record_new("default") == 1
        assert await holdfast.skills.record_new("default") == 0
        (shown,) = await holdfast.skills.shown(LOCAL)
        assert (shown["status"], shown["evidenceCount"], shown["tools"]) == ("proposed", 3, ["find", "pay"])
        assert not (folder / "skills").exists()
        accepted = await holdfast.skills.accept(LOCAL, shown["id"])
        assert isinstance(accepted, dict) and all(one in accepted["content"] for one in shown["runs"])
        assert (await holdfast.skills.shown(LOCAL))[0]["status"] == "accepted"
    (target := folder / shown["proposedPath"]).parent.mkdir(parents=True)
    target.write_text(accepted["content"])
    documents = folder / "all.yaml"
    documents.write_text(
        documents.read_text().replace("tools: [find, pay]}", f"tools: [find, pay], skills: [{shown['name']}]}}")
    )
    compiled = compile(read_folder(folder), kind_catalog())
    assert isinstance(compiled, Compiled), compiled.as_text()
    assert compiled.workspace.skills[shown["name"]].allowed_tools == ("find", "pay")


def test_a_file_of_a_candidate_cites_its_evidence() -> None:
    (found,) = skill_candidates(REFUNDS)
    assert all(f"`{one}`" in skill_file(found) for one in found.runs)
