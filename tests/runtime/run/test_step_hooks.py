"""Hooks on steps that an upstream runs itself: asked before and after, once, and their word holds."""

from pathlib import Path

import pytest

from app.backends.contract import Context, StepFailed
from app.core.settings import Settings
from tests.runs import ended, events_until, opened, payloads, submit
from tests.runtime.run.probing import Probe, answer, open_interrupts, signals, with_native, write

HOOKS = """\
---
apiVersion: holdfast/v1
kind: Hook
metadata: {name: judge}
spec: {on: [PreToolUse, PostToolUse], kind: python, entry: "judging:judge"}
"""
JUDGING = """
from pathlib import Path

def judge(input, ctx):
    with Path({path!r}).open("a") as lines:
        lines.write(ctx.point + " " + input["tool"] + "\\n")
    said = input.get("arguments", {{}}).get("say")
    if ctx.point == "PreToolUse" and said == "deny":
        return {{"decision": "deny", "reason": "not today"}}
    if ctx.point == "PreToolUse" and said == "change":
        return {{"decision": "transform", "output": {{"arguments": {{"say": "other"}}}}}}
    if ctx.point == "PreToolUse" and said == "break":
        raise RuntimeError("the hook is broken")
    if ctx.point == "PostToolUse" and input.get("output") == "withhold":
        return {{"decision": "deny", "reason": "not to be seen"}}
    if ctx.point == "PostToolUse" and input.get("output") == "replace":
        return {{"decision": "transform", "output": {{"output": "replaced"}}}}
    return {{"decision": "allow"}}
"""


GIVES = {
    "hello": "hello",
    "deny": "GATE_DENIED: not today",
    "change": "GATE_DENIED: a hook changed the arguments of a step that the upstream runs itself",
    "break": "GATE_DENIED: ",
    "withhold": "GATE_DENIED: not to be seen",
    "replace": "replaced",
}
RUN = ["hello", "withhold", "replace"]


@pytest.mark.requirement("OS-L6", "OS-I3", "SH-8", "S16")
async def test_a_hook_decides_about_a_step_of_the_upstream_and_is_asked_once(
    settings: Settings, tmp_path: Path
) -> None:
    worked: list[str] = []

    async def step(ctx: Context, say: str) -> str:
        async def work() -> str:
            worked.append(say)
            return say

        try:
            return str(await ctx.step(say, "unsafe", work, tool="theirs", args={"say": say}))
        except StepFailed as failed:
            return f"{failed.failure.code}: {failed.failure.message}"

    async def act(ctx: Context) -> str:
        made = [await step(ctx, say) for say in GIVES]
        await ctx.ask("Go on?", [{"id": "a", "question": "Really?"}])
        return "\n".join(made)

    root = write(tmp_path, HOOKS)
    text = (root / "workspace.yaml").read_text().replace("Agent: probe}", "Agent: probe, hooks: [judge]}")
    (root / "workspace.yaml").write_text(text)
    (root / "judging.py").write_text(JUDGING.format(path=str(tmp_path / "asked")))
    async with opened(settings, root, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        (asked,) = await open_interrupts(holdfast, run)
    async with opened(settings, root, backends=with_native(Probe(act))) as holdfast:
        await answer(holdfast, asked.id, {"answers": {"a": "yes"}})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.output is not None
        for made, expected in zip(over.output.splitlines(), GIVES.values(), strict=True):
            assert made.startswith(expected)
        assert worked == RUN, "a step that a hook refuses is not run, and none is run again"
        points = [point for say in GIVES for point in ("PreToolUse", "PostToolUse")[: 1 + (say in RUN)]]
        assert (tmp_path / "asked").read_text().splitlines() == [f"{point} theirs" for point in points]
        assert [it["hook"] for it in payloads(events, "hook.fired")] == points
        assert len(signals(events, "agent.tool.start")) == len(signals(events, "agent.tool.result")) == len(RUN)
