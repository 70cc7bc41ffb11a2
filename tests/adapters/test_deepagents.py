"""DeepAgents on the real runtime: its file tools are recorded steps, and its files are the thread's."""

from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from tests.adapters.space import effects, write
from tests.adapters.test_langgraph import signals
from tests.runs import ended, events_until, opened, payloads, submit, waiting

RULES = (
    "{match: {afterTool: publish}, reply: {toolCalls: [{name: read_file, args: {file_path: /plan.md}}]}}",
    "{match: {afterTool: write_file}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}",
    "{match: {afterTool: read_file}, reply: {text: 'it says {{ toolResult }}'}}",
    "{match: {afterTool: edit_file}, reply: {text: '{{ toolResult }}'}}",
    "{match: {afterTool: task}, reply: {text: 'the helper said {{ toolResult }}'}}",
    "{match: {contains: plan it}, reply: {toolCalls: [{name: write_file, "
    "args: {file_path: /plan.md, content: first this}}]}}",
    "{match: {contains: read the plan}, reply: {toolCalls: [{name: read_file, args: {file_path: /plan.md}}]}}",
    "{match: {contains: change the skill}, reply: {toolCalls: [{name: edit_file, "
    "args: {file_path: /skills/polish/SKILL.md, old_string: Polish, new_string: Ruin}}]}}",
    "{match: {contains: read the skill}, reply: {toolCalls: [{name: read_file, "
    "args: {file_path: /skills/polish/SKILL.md}}]}}",
    "{match: {contains: delegate}, reply: {toolCalls: [{name: task, "
    "args: {description: read the plan, subagent_type: general-purpose}}]}}",
)
SKILL = "---\nname: polish\ndescription: Polishes.\nallowed-tools: [note]\n---\nPolish it.\n"


def stored(events: list[Any]) -> list[str]:
    return [signal["toolId"] for signal in signals(events, "agent.tool.result")]


@pytest.mark.requirement("SH-8")
async def test_files_are_steps_survive_a_restart_and_belong_to_the_thread(settings: Settings, tmp_path: Path) -> None:
    agents = {"deep": ("deepagents", "  skills: [polish]\n")}
    root = write(tmp_path, agents, RULES, {"skills/polish/SKILL.md": SKILL})
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "deep", "plan it")
        asked = await waiting(holdfast, run)
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed", over.error
        assert "first this" in over.output, "the file is there although its step was not run again"
        assert stored(events) == ["write_file", "read_file"]
        assert effects(tmp_path) == ["publish home"]
    async with opened(settings, root) as holdfast:
        later = await ended(holdfast, await submit(holdfast, "deep", "read the plan", run.thread_id))
        assert "first this" in later.output, "the next run of the thread has the files"
        helped = await submit(holdfast, "deep", "delegate", run.thread_id)
        over, events = await ended(holdfast, helped), await events_until(holdfast, helped)
        assert over.status == "completed" and "first this" in over.output, over.error
        assert stored(events) == ["read_file"], "the subagent's tools are steps as well"
        other = await ended(holdfast, await submit(holdfast, "deep", "read the plan"))
        assert "first this" not in other.output, "another thread has files of its own"


@pytest.mark.requirement("SH-8", "S16")
async def test_the_workspaces_skills_are_files_that_nobody_may_change(settings: Settings, tmp_path: Path) -> None:
    agents = {"deep": ("deepagents", "  skills: [polish]\n")}
    root = write(tmp_path, agents, RULES, {"skills/polish/SKILL.md": SKILL})
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "deep", "change the skill")
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed", over.error
        assert "denied" in over.output.lower() or "permission" in over.output.lower(), over.output
        asked = payloads(events, "model.requested")[0]
        assert "polish" in asked["messages"][0]["content"], "DeepAgents lists the skill itself"
        over = await ended(holdfast, await submit(holdfast, "deep", "read the skill", run.thread_id))
        assert "Polish it." in over.output


DISK = """
from pathlib import Path
from deepagents.backends import FilesystemBackend

def files():
    return FilesystemBackend(root_dir=Path(ROOT), virtual_mode=True)
"""
ON_DISK = (
    "{match: {afterTool: read_file}, reply: {text: 'it says {{ toolResult }}'}}",
    "{match: {afterTool: write_file}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}",
    "{match: {afterTool: publish}, reply: {text: published}}",
    "{match: {contains: write}, reply: {toolCalls: [{name: write_file, args: {file_path: /a.md, content: x}}]}}",
    "{match: {contains: key}, reply: {toolCalls: [{name: read_file, args: {file_path: /deep/.env}}]}}",
    "{match: {contains: linked}, reply: {toolCalls: [{name: read_file, args: {file_path: /innocent.txt}}]}}",
    "{match: {contains: outside}, reply: {toolCalls: [{name: read_file, args: {file_path: /way-out.txt}}]}}",
    "{match: {contains: above}, reply: {toolCalls: [{name: read_file, args: {file_path: /../secret.txt}}]}}",
)


@pytest.mark.requirement("SH-8", "S16", "G4")
async def test_files_on_the_disk_are_written_once_and_what_is_protected_stays_so(
    settings: Settings, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    (disk / "deep").mkdir(parents=True)
    (disk / "deep" / ".env").write_text("KEY=hunter2")
    (disk / "innocent.txt").symlink_to(disk / "deep" / ".env")
    (tmp_path / "secret.txt").write_text("KEY=hunter2")
    (disk / "way-out.txt").symlink_to(tmp_path / "secret.txt")
    agents = {"deep": ("deepagents", "  config: {deepagents: {backend: 'disk:files'}}\n")}
    root = write(tmp_path, agents, ON_DISK, {"disk.py": DISK.replace("ROOT", repr(str(disk)))})
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "deep", "write")
        asked = await waiting(holdfast, run)
        assert (disk / "a.md").read_text() == "x"
        (disk / "a.md").write_text("changed since")
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        over = await ended(holdfast, run)
        assert (over.status, over.output) == ("completed", "published"), over.error
        assert (disk / "a.md").read_text() == "changed since", "the step was not run again"
        for text in ("the key", "the linked one", "the one outside", "the one above"):
            over = await ended(holdfast, await submit(holdfast, "deep", text))
            assert over.status == "completed" and "hunter2" not in over.output, over.output


NARROW = """\
  config:
    deepagents:
      subagents: [{name: noter, description: Takes notes., systemPrompt: Take notes., tools: [note]}]
"""
NARROW_RULES = (
    "{match: {afterTool: task}, reply: {text: '{{ toolResult }}'}}",
    "{match: {afterTool: publish}, reply: {text: 'tried: {{ toolResult }}'}}",
    "{match: {contains: try it}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}",
    "{match: {contains: delegate}, reply: {toolCalls: [{name: task, "
    "args: {description: try it, subagent_type: noter}}]}}",
)


@pytest.mark.requirement("SH-8", "S17")
async def test_a_subagent_of_deepagents_has_only_the_tools_it_names(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, {"deep": ("deepagents", NARROW)}, NARROW_RULES)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "deep", "delegate")
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed" and over.output.startswith("tried:"), (over.error, over.output)
        first, inside, *_ = payloads(events, "model.requested")
        assert {"note", "publish", "task"} <= set(first["tools"])
        assert "note" in inside["tools"] and not {"publish", "task"} & set(inside["tools"])
        assert effects(tmp_path) == [] and payloads(events, "tool.invoked") == []


OPTIONS = """\
  config:
    deepagents:
      backend: "disk:files"
      memory: [/AGENTS.md]
      permissions: [{operations: [write], paths: [/secrets/**], mode: deny}]
      interruptOn: {note: true}
      middleware: ["ware:Counting"]
"""
WARE = """
from pathlib import Path
from langchain.agents.middleware import AgentMiddleware

class Counting(AgentMiddleware):
    async def abefore_model(self, state, runtime):
        with Path(FILE).open("a") as lines:
            lines.write("model\\n")
"""
OPTION_RULES = (
    "{match: {afterTool: write_file}, reply: {text: '{{ toolResult }}'}}",
    "{match: {afterTool: note}, reply: {text: noted}}",
    "{match: {contains: secret}, reply: {toolCalls: [{name: write_file, "
    "args: {file_path: /secrets/a.md, content: x}}]}}",
    "{match: {contains: note it}, reply: {toolCalls: [{name: note, args: {what: that}}]}}",
)


@pytest.mark.requirement("SH-8", "G9")
async def test_memory_permissions_middleware_and_confirmations_are_those_of_deepagents(
    settings: Settings, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "AGENTS.md").write_text("Bees dance.")
    files = {
        "disk.py": DISK.replace("ROOT", repr(str(disk))),
        "ware.py": WARE.replace("FILE", repr(str(tmp_path / "ware"))),
    }
    root = write(tmp_path, {"deep": ("deepagents", OPTIONS)}, OPTION_RULES, files)
    async with opened(settings, root) as holdfast:
        refused = await submit(holdfast, "deep", "secret")
        over, events = await ended(holdfast, refused), await events_until(holdfast, refused)
        assert "denied" in over.output.lower(), over.output
        assert "Bees dance." in payloads(events, "model.requested")[0]["messages"][0]["content"]
        assert not (disk / "secrets").exists()
        assert (tmp_path / "ware").read_text().splitlines() == ["model"] * 2
        run = await submit(holdfast, "deep", "note it")
        asked = await waiting(holdfast, run)
        assert (asked.kind, effects(tmp_path)) == ("question", [])
    async with opened(settings, root) as holdfast:
        answer = {"answers": {"answer": {"decisions": [{"type": "approve"}]}}}
        await holdfast.interrupts.answer(LOCAL, asked.id, answer)
        over = await ended(holdfast, run)
        assert (over.status, over.output, effects(tmp_path)) == ("completed", "noted", ["note that"]), over.error
