"""A workspace of cycles for tests: the example, and a small cycle for everything that must fail closed.

Every cycle here is one Markdown file. Personas are known to the scripted model by the first words of their
instructions, hooks know what to do by the id of the cycle.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.scenarios import specs

EXAMPLE: Final = Path(__file__).parents[2] / "workspaces" / "brainstorm-cycle"

_IDEA: Final = '{{"topic": "{0}", "ideas": [{{"id": "a", "title": "A"}}], "schema_version": "v1"}}'
_FINDING: Final = '"severity": "{0}", "autofix_class": "{1}", "confidence": {2}, "title": "{3}", "schema_version": "v1"'


def finding(severity: str = "P1", fix: str = "gated_auto", confidence: int = 75, title: str = "Gap") -> str:
    return '{"id": "f", ' + _FINDING.format(severity, fix, confidence, title) + "}"


def review(*findings: str, verdict: str = "allow") -> str:
    return '{"findings": [' + ", ".join(findings) + '], "verdict": "' + verdict + '"}'


REPLIES: Final[dict[str, list[tuple[str | None, str]]]] = {
    "maker": [(None, _IDEA.format("Made"))],
    "praiser": [(None, review())],
    "blocker": [(None, review(finding("P0", "manual"), verdict="deny"))],
    "gater": [(None, review(finding("critical", "advisory", 100, "Old"), finding()))],
    "worsening": [
        ('"generation":1', review(finding(title="One"))),
        (None, review(finding(title="One"), finding(title="Two"))),
    ],
    "restless": [(f'"generation":{n}', _IDEA.format(f"Try {n}")) for n in range(1, 9)],
    "prose": [(None, "I would rather talk.")],
    "mended": [("MALFORMED_AGENT_MESSAGE", _IDEA.format("Mended")), (None, "Let me think aloud.")],
    "forger": [(None, review(finding(severity="P7")))],
}
"""What each persona answers: the first entry whose text its request contains."""

_TOOLS: Final[dict[str, str]] = {
    "stranger": "{name: teleport, args: {to: home}}",
    "thief": "{name: read_file, args: {path: secrets.txt}}",
    "scribe": "{name: write_file, args: {path: docs/note.md, content: Hi, claim: {who: s, why: w, expected_hash: '',"
    " schema_version: v1}}}",
    "stale": "{name: write_file, args: {path: docs/other.md, content: Hi, claim: {who: s, why: w, expected_hash:"
    " '0000000000000000000000000000000000000000000000000000000000000000', schema_version: v1}}}",
    "vandal": "{name: write_file, args: {path: src/main.py, content: Hi, claim: {who: s, why: w, expected_hash: '',"
    " schema_version: v1}}}",
}
"""What each persona does before it answers."""

_PHASES: Final[dict[str, str]] = {
    "make": "agents_invoked: [maker]\nadvance_signal: output.ideas.size() > 0",
    "close": "advance_signal: generation >= 1",
    "praise": "agents_invoked: [praiser]\nadvance_signal: review_aggregate.p0_unresolved == 0",
    "block": "agents_invoked: [praiser, blocker]\nadvance_signal: review_aggregate.verdict == 'allow'",
    "gate": "agents_invoked: [gater]\nadvance_signal: review_aggregate.coverage.reported.size() == 1",
    "worsen": "agents_invoked: [worsening]\nadvance_signal: review_aggregate.findings.size() == 0",
    "restless": "agents_invoked: [restless]\nadvance_signal: output.topic == 'never'",
    "halt": "agents_invoked: [maker]\nadvance_signal: 'true'\nhalt_signal: output.topic == 'Made'",
    "unreadable": "agents_invoked: [maker]\nadvance_signal: output.nothing.here == 1",
    "unfed": "agents_invoked: [maker]\ninput_schema: plan_v1\nadvance_signal: 'true'",
    "plan": "agents_invoked: [planner]\noutput_schema: plan_v1\nadvance_signal: plan.steps.size() > 0",
    "down": "agents_invoked: [broken]\nadvance_signal: 'true'",
    **{
        name: f"agents_invoked: [{name}]\noutput_schema: brainstorm_v1\nadvance_signal: 'true'"
        for name in ("prose", "mended", *_TOOLS)
    },
    "forge": "agents_invoked: [forger]\nadvance_signal: 'true'",
}

_POLICIES: Final[dict[str, str]] = {
    "nobody": "kind: role-permissions\nrules: []",
    "docs-only": "kind: role-permissions\nrules:\n"
    "  - {when: agent.kind == 'persona', then: allow, reason: may write docs, paths: ['docs/**']}",
    "skip-blocker": "kind: role-permissions\nrules:\n"
    "  - {when: agent.id == 'blocker', then: skip, reason: not today}\n"
    "  - {when: 'true', then: allow, reason: the others}",
    "undecided": "kind: confidence-gating\nrules: []",
    "unreadable-rule": "kind: severity-routing\nrules:\n"
    "  - {when: finding.nothing > 1, then: apply, reason: never}\ndefault: allow",
    "closed": "kind: mode-dispatch\nrules:\n  - {when: mode == 'interactive', then: ask, reason: somebody looks}",
    "no-loops": "kind: loop-halt\nrules: []",
    "certain": "kind: confidence-gating\nrules:\n  - {when: 'true', then: actionable, reason: all of them}",
    "route": "kind: severity-routing\nrules:\n  - {when: 'true', then: gated, reason: everything is asked about}",
}

_CYCLES: Final[dict[str, str]] = {
    "plain": "phases: [make, close]",
    "later": "phases: [close, make]\nentry_phase: make",
    "reviewed": "phases: [praise]",
    "rework": "phases: [block]\nloop_bounds: {max_generations: 2}",
    "skips": "phases: [block]\npolicies: [skip-blocker]",
    "oscillates": "phases: [block]\nloop_bounds: {max_generations: 9}",
    "regresses": "phases: [worsen]\nloop_bounds: {max_generations: 9, grade: 0 - review_aggregate.findings.size()}",
    "spins": "phases: [restless]\nloop_bounds: {max_generations: 3}",
    "stopped": "phases: [restless]\npolicies: [no-loops]",
    "ends": "phases: [make, close]\nexit_conditions: {done: make.topic == 'Made'}",
    "aborts": "phases: [make, close]\nexit_conditions: {abort: output.topic == 'Made'}",
    "halts": "phases: [halt]",
    "unreadable": "phases: [unreadable]",
    "unfed": "phases: [make, unfed]",
    "denied": "phases: [make]\npolicies: [nobody]",
    "undecided": "phases: [gate]\npolicies: [undecided]\nloop_bounds: {max_generations: 2}",
    "unreadable-rule": "phases: [gate]\npolicies: [unreadable-rule]",
    "closed": "phases: [make]\npolicies: [closed]",
    "gated": "phases: [gate]\npolicies: [certain, route]",
    "planned": "phases: [plan]",
    "down": "phases: [down]",
    "prose": "phases: [prose]",
    "mended": "phases: [mended]",
    "forge": "phases: [forge]",
    "writes": "phases: [scribe, vandal, stale]\npolicies: [docs-only]",
    "tools": "phases: [stranger, thief]",
    **{
        f"{action}-{point}": "phases: [make, close]"
        for action in ("deny", "throw")
        for point in ("workflowstart", "phaseadvance", "workflowcomplete")
    },
    "late-workflowstart": "phases: [make]",
    "change-workflowstart": "phases: [make]",
    "odd-phaseadvance": "phases: [make, close]",
    "move-phaseadvance": "phases: [make, block, close]",
}

_HOOK: Final = """
import asyncio


async def gate(subject, ctx):
    action, _, point = (subject.get("cycle") or "").partition("-")
    if point != str(ctx.point).lower():
        return {"decision": "allow"}
    if action == "deny":
        return {"decision": "deny", "reason": "not today"}
    if action == "throw":
        raise RuntimeError("the hook is broken")
    if action == "late":
        await asyncio.sleep(60)
    if action == "change":
        return {"decision": "transform", "output": {"input": "changed"}}
    to = {"odd": "nowhere", "move": "close"}.get(action)
    return {"decision": "transform", "output": {"toPhase": to}} if to else {"decision": "allow"}
"""


def make_workspace(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder)
    (folder / "hooks.py").write_text(_HOOK)
    runtime = folder / "runtime.yaml"
    runtime.write_text(runtime.read_text() + "  hooks: [gate]\n")
    (folder / "more.yaml").write_text("\n---\n".join(_documents()))
    agents = folder / "agents.yaml"
    agents.write_text(agents.read_text() + "  tools: [read_file, write_file]\n  subagents: [team]\n")
    models = folder / "models.yaml"
    quick = "  retry: {attempts: 2, initialDelaySeconds: 0.01, maxDelaySeconds: 0.05, totalSeconds: 0}\n  script:\n"
    script = models.read_text().replace("streaming: true,", "streaming: true, tools: true,", 1)
    script = script.replace("  script:\n", quick, 1)
    models.write_text(script.replace("    rules:\n", "    rules:\n" + specs.DELIVERING + "".join(_rules()), 1))
    for name in ("agents", "models", "feature"):
        text = (EXAMPLE.parent / "spec-driven" / f"{name}.yaml").read_text()
        text = text.replace("model: main", "model: spec").replace("{name: main", "{name: spec")
        text = text.replace("    rules:\n", "    rules:\n" + specs.RULES)
        (folder / f"spec-{name}.yaml").write_text(text)
    specs.add_documents(folder)
    for name in (*REPLIES, *_TOOLS, "broken"):
        role = "researcher" if name in ("maker", "restless", "prose", "mended", "broken", *_TOOLS) else "reviewer"
        tools = "allowed-tools: [write_file]\n" if name in _TOOLS else ""
        text = f"---\nname: {name}\ndescription: A persona.\n{tools}---\nI am the persona {name}.\n"
        _write(folder, f"personas/{role}/{name}.md", text)
    for name, more in _PHASES.items():
        _write(folder, f"phases/{name}.md", f"---\nid: {name}\n{more}\nschema_version: v1\n---\nDo {name}.\n")
    for name, more in _POLICIES.items():
        _write(folder, f"policies/{name}.md", f"---\nid: {name}\n{more}\nschema_version: v1\n---\n")
    for name, more in _CYCLES.items():
        first = more.split("[", 1)[1].split("]", 1)[0].split(",")[0]
        entry = "" if "entry_phase" in more else f"entry_phase: {first}\n"
        _write(folder, f"cycles/{name}.md", f"---\nid: {name}\n{entry}{more}\nschema_version: v1\n---\nThe cycle.\n")
    return folder


def _write(folder: Path, name: str, text: str) -> None:
    path = folder / "workflows" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _rules() -> Iterator[str]:
    for name, replies in REPLIES.items():
        for contains, text in replies:
            also = f", contains: '{contains}'" if contains else ""
            yield f"      - {{match: {{system: 'persona {name}.'{also}}}, reply: {{text: '{text}'}}}}\n"
    for name, call in _TOOLS.items():
        said = _IDEA.format("Wrote")
        yield f"      - {{match: {{system: 'persona {name}.', turn: 1}}, reply: {{toolCalls: [{call}]}}}}\n"
        yield f"      - {{match: {{system: 'persona {name}.'}}, reply: {{text: '{said}'}}}}\n"
    yield "      - {match: {system: 'persona broken.'}, fail: {status: 503}}\n"
    plan = (
        '{"steps": [{"id": "s1", "description": "do it"}], "risks": [], "needs_advisor": false, "schema_version": "v1"}'
    )
    yield f"      - {{match: {{system: plan_v1}}, reply: {{text: '{plan}'}}}}\n"
    lead = '{"intent": "ideas", "constraints": [], "cycle_id": "%s", "schema_version": "v1"}'
    for asked, cycle in (("please plan", "plain"), ("please vanish", "no-such-cycle")):
        match = f"{{system: lead_directive_v1, contains: {asked}}}"
        yield f"      - {{match: {match}, reply: {{text: '{lead % cycle}'}}}}\n"


def _documents() -> Iterator[str]:
    for tool, effect in (("read_file", "readonly"), ("write_file", "unsafe")):
        yield (
            f"apiVersion: holdfast/v1\nkind: Tool\nmetadata: {{name: {tool}, description: Files.}}\n"
            f"spec: {{kind: builtin, entry: {tool}, effect: {effect}}}"
        )
    yield (
        "apiVersion: holdfast/v1\nkind: Hook\nmetadata: {name: gate}\nspec: {on: [WorkflowStart, PhaseAdvance, "
        "WorkflowComplete], kind: python, entry: 'hooks:gate', timeoutSeconds: 4}"
    )
    yield (
        "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: team, description: A team.}\n"
        "spec: {backend: plan_work_review, model: main}"
    )
