"""What a good workspace compiles to."""

from pathlib import Path

import pytest

from app.core.expressions import Expression
from app.core.resources import shipped
from app.wiring.kinds import kind_catalog
from app.workspace.compile import CompileCache, compile
from app.workspace.compiled import Compiled
from app.workspace.files import WorkspaceFiles, read_folder
from app.workspace.templates import Template
from app.workspace.units import ROLES
from tests.workspace.building import AGENT, RUNTIME, build, document, files, findings, good

SKILL = "---\nname: greet\ndescription: Greets.\ntriggers: [hello]\nallowed-tools: [echo]\n---\nSay hello.\n"


@pytest.mark.requirement("CARD-3", "SH-1")
@pytest.mark.parametrize("name", ["demo", "openai", "local"])
def test_shipped_workspace_compiles_without_a_single_diagnostic(name: str) -> None:
    result = compile(read_folder(shipped("workspaces") / name), kind_catalog())
    assert isinstance(result, Compiled)
    assert result.diagnostics.as_text() == ""


def test_demo_has_what_it_promises() -> None:
    result = compile(read_folder(shipped("workspaces") / "demo"), kind_catalog())
    assert isinstance(result, Compiled)
    demo = result.workspace
    assert demo.default_agent == "echo"
    assert demo.agents["echo"].spec.backend == "echo"
    assert demo.agents["assistant"].subagents == ("researcher",)
    assert demo.tools["publish"].approval == "always"
    assert demo.tools["publish"].module_file == "publishing.py"
    assert demo.skills["greet"].allowed_tools == ("echo",)
    assert demo.models["demo"].spec.script is not None
    assert "Holdfast" in demo.agents["assistant"].instructions


@pytest.mark.requirement("OS-I2")
def test_profile_switches_the_provider_with_one_word() -> None:
    folder = read_folder(shipped("workspaces") / "demo")
    plain = compile(folder, kind_catalog())
    switched = compile(folder, kind_catalog(), profile="openai")
    assert isinstance(plain, Compiled) and isinstance(switched, Compiled)
    assert plain.workspace.models["demo"].spec.provider == "scripted"
    assert switched.workspace.models["demo"].spec.provider == "openai"
    assert plain.workspace.digest == switched.workspace.digest


@pytest.mark.requirement("G21")
def test_compiled_model_keeps_the_reference_and_never_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sk-real-secret")
    space = good({"m.yaml": document("Model", "m", "provider: openai\nmodel: x\napiKey: ${env:API_KEY}")})
    assert space.models["m"].spec.api_key == "${env:API_KEY}"
    assert "sk-real-secret" not in repr(space)


def test_diagnostic_about_a_literal_secret_does_not_repeat_it() -> None:
    result = build({"m.yaml": document("Model", "m", "provider: openai\nmodel: x\napiKey: sk-topsecret")})
    assert not isinstance(result, Compiled)
    assert "topsecret" not in result.as_text() + str(result.as_json())


def test_misspelt_reference_is_answered_with_the_nearest_name() -> None:
    result = build({"a.yaml": document("Agent", "a", "model: mian")})
    assert not isinstance(result, Compiled)
    (found,) = result
    assert found.remedy == 'did you mean "main"?'
    assert (found.path, found.document, found.column) == ("spec.model", "Agent/a", 10)


@pytest.mark.requirement("SH-24")
def test_missing_extra_is_answered_with_its_install_command() -> None:
    result = build({"a.yaml": document("Agent", "a", "backend: langgraph\nmodel: main")})
    assert not isinstance(result, Compiled)
    assert result.items[0].remedy == "run: pip install 'holdfast[langgraph]'"


@pytest.mark.requirement("SH-7")
def test_unknown_workflow_adapter_does_not_block() -> None:
    spec = "adapter: ours\nnodes: [{id: n, ref: agents.helper}]"
    assert good({"w.yaml": document("Workflow", "w", spec)}).workflows["w"].spec.adapter == "ours"


@pytest.mark.requirement("OS-L5")
@pytest.mark.parametrize(
    "skill",
    [
        "---\nname: bad\n---\n",
        "---\nname: bad\ndescription: d\nallowed-tools: [ecko]\n---\n",
        "---\nname: bad\ndescription: d\ntriggers: ['']\n---\n",
        "no frontmatter",
        "---\nname: [\n---\n",
    ],
    ids=["no-description", "misspelt-tool", "empty-trigger", "no-frontmatter", "no-yaml"],
)
def test_invalid_skill_that_an_agent_names_is_an_error_of_that_agent(skill: str) -> None:
    changes = {"agents/helper.yaml": AGENT + "  skills: [bad]\n", "skills/bad/SKILL.md": skill}
    result = build(changes)
    assert not isinstance(result, Compiled)
    (error,) = result.errors
    assert (error.code, error.file, error.line) == ("SKILL_BROKEN", "agents/helper.yaml", 8)
    assert "skills/bad/SKILL.md" in error.message
    assert [item.file for item in result.warnings] == ["skills/bad/SKILL.md"]


@pytest.mark.requirement("OS-L5")
def test_invalid_skill_that_no_agent_names_is_left_out_with_a_warning() -> None:
    result = build({"skills/bad/SKILL.md": "---\nname: bad\ndescription: d\nallowed-tools: [ecko]\n---\n"})
    assert isinstance(result, Compiled)
    assert findings(result) == [("SKILL_INVALID", "skills/bad/SKILL.md", 4)]
    assert "bad" not in result.workspace.skills


def test_agent_cannot_name_a_skill_that_exists_twice() -> None:
    """Which of the two is meant would decide which tools the agent has."""
    free = "---\nname: greet\ndescription: d\ntriggers: [hello]\nallowed-tools: [echo]\n---\n"
    changes = {
        "agents/helper.yaml": AGENT + "  skills: [greet]\n",
        "skills/a/SKILL.md": free,
        "skills/greet/SKILL.md": SKILL,
    }
    result = build(changes)
    assert not isinstance(result, Compiled)
    assert [item.code for item in result.errors] == ["SKILL_BROKEN"]


@pytest.mark.requirement("OS-L5")
def test_skill_is_found_by_its_trigger() -> None:
    space = good({"agents/helper.yaml": AGENT + "  skills: [greet]\n", "skills/greet/SKILL.md": SKILL})
    hit = space.triggers.best("well, HELLO there", {"greet"})
    assert hit is not None and hit.skill == "greet"
    assert space.skills["greet"].body == "Say hello."


@pytest.mark.requirement("OS-I4")
def test_six_roles_ship_and_a_workspace_overrides_one() -> None:
    space = good({"roles/planner.md": "Plan as we do here.\n"})
    assert set(space.roles) == set(ROLES)
    assert space.roles["planner"].prompt == "Plan as we do here.\n"
    assert space.roles["lead"].file is None and "lead_directive_v1" in space.roles["lead"].prompt


CYCLE = {
    "workflows/cycles/ship.md": "---\nid: ship\nphases: [build, check]\nentry_phase: build\n"
    "policies: [halt]\nexit_conditions: {done: review_aggregate.p0_unresolved == 0}\n"
    "loop_bounds: {max_generations: 4, grade: 100 - review_aggregate.p0_unresolved}\n"
    "schema_version: v1\n---\nShip it.\n",
    "workflows/phases/build.md": "---\nid: build\nadvance_signal: output.ok == true\n"
    "agents_invoked: [worker]\nartifact: report\nschema_version: v1\n---\nBuild.\n",
    "workflows/phases/check.md": "---\nid: check\nadvance_signal: build.ok && review_aggregate.p0_unresolved == 0\n"
    "halt_signal: visits > 3\nagents_invoked: [critic]\noutput_schema: review_aggregate_v1\n"
    "schema_version: v1\n---\nCheck.\n",
    "workflows/policies/halt.md": "---\nid: halt\nkind: loop-halt\nrules:\n"
    "  - {when: next_generation > 3, then: halt, reason: enough}\nschema_version: v1\n---\n",
    "workflows/personas/reviewer/critic.md": "---\nname: critic\ndescription: d\n---\nBe strict.\n",
    "workflows/artifacts/report-template.md": "---\nnaming: 'report-{{ date }}.md'\nschema: {type: object}\n"
    "---\n# Report {{ output.title }}\n",
}


@pytest.mark.requirement("OS-L8", "OS-I4")
def test_a_cycle_compiles_with_its_phases_policies_personas_and_templates() -> None:
    units = good(CYCLE).units
    cycle, check = units.cycles["ship"], units.phases["check"]
    assert cycle.done is not None and cycle.done.evaluate({"review_aggregate": {"p0_unresolved": 0}}) is True
    assert cycle.bounds.max_generations == 4 and cycle.bounds.grade is not None
    assert (cycle.entry, cycle.after("build"), cycle.after("check")) == ("build", "check", None)
    (critic,) = check.invoked
    assert (critic.kind, critic.role, critic.agent, critic.reviews) == ("persona", "reviewer", "helper", True)
    assert critic.tools == frozenset() and critic.instructions == "Be strict."
    (worker,) = units.phases["build"].invoked
    assert (worker.kind, worker.schema, worker.agent) == ("role", "worker_report_v1", "helper")
    assert units.policies["halt"].default == "deny"
    assert units.artifacts["report"].naming.places == (("date",),)


@pytest.mark.requirement("OS-L8")
def test_adding_a_cycle_is_adding_one_file() -> None:
    second = CYCLE["workflows/cycles/ship.md"].replace("id: ship", "id: second")
    assert set(good(CYCLE | {"workflows/cycles/second.md": second}).units.cycles) == {"ship", "second"}


def test_tool_compiles_validators_rules_templates_and_undo() -> None:
    spec = """
    kind: http
    http:
      url: https://example.com/items/{{ args.id }}
      headers: {Authorization: "Bearer ${env:API_KEY}"}
    input: {type: object, properties: {id: {type: integer}}, required: [id]}
    output: {type: object}
    approval: args.id > 100
    rules: [{check: args.id > 0, message: ids are positive}]
    compensation: {tool: echo, arguments: {text: "undo {{ result.id }}", n: 1}}
    """
    tool = good({"t.yaml": document("Tool", "t", spec)}).tools["t"]
    assert tool.input_validator is not None and tool.output_validator is not None
    assert tool.input_validator.accepts({"id": 3}) and not tool.input_validator.accepts({})
    assert isinstance(tool.approval, Expression)
    assert tool.approval.evaluate({"args": {"id": 101}}) is True
    assert tool.rules[0].check.evaluate({"args": {"id": 0}}) is False
    assert tool.templates["http.url"].render({"args": {"id": 7}}) == "https://example.com/items/7"
    assert isinstance(tool.compensation["text"], Template) and tool.compensation["n"] == 1


def test_backend_config_is_passed_through_untouched() -> None:
    space = good(
        {"a.yaml": document("Agent", "a", "backend: own\nmodel: main\nconfig: {own: {anyThing: [1, {x: y}]}}")}
    )
    assert space.agents["a"].spec.config == {"own": {"anyThing": [1, {"x": "y"}]}}


def test_entry_may_name_an_installed_module() -> None:
    space = good({"t.yaml": document("Tool", "t", "kind: python\nentry: json:dumps")})
    assert space.tools["t"].module_file is None


def test_compiled_values_cannot_be_changed() -> None:
    space = good({})
    with pytest.raises(TypeError):
        space.agents["x"] = space.agents["helper"]  # type: ignore[index]  # the point of the test
    with pytest.raises(ValueError):
        space.runtime.default_agent = "x"  # type: ignore[misc]  # the point of the test
    with pytest.raises(AttributeError):
        space.digest = "x"  # type: ignore[misc]  # the point of the test


def test_same_files_give_the_same_digest_whatever_their_order_and_origin(tmp_path: Path) -> None:
    contents = files({}).contents()
    backwards = WorkspaceFiles.from_contents(dict(reversed(contents.items())))
    for path, data in contents.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert files({}).digest == backwards.digest == read_folder(tmp_path).digest == good({}).digest


def test_digest_is_a_known_value_on_every_machine() -> None:
    digest = WorkspaceFiles.from_contents({"b.yaml": b"b", "a.yaml": b"a"}).digest
    assert digest == "9cb87695c3a90f8d6b042d7554fd0ce365cee655abd3d3ef193d7191a152d8d7"


@pytest.mark.parametrize("change", [{"x.py": "a = 1\n"}, {"runtime.yaml": RUNTIME + "\n"}, {"notes/README.md": "hi"}])
def test_any_change_of_content_changes_the_digest(change: dict[str, str]) -> None:
    assert files(change).digest != files({}).digest


def test_stored_files_compile_to_the_same_workspace_again() -> None:
    first = good({"work.py": "def run(): ...\n", "t.yaml": document("Tool", "t", "kind: python\nentry: work:run")})
    again = WorkspaceFiles.from_contents(first.files.contents())
    assert again.digest == first.digest


def test_cached_compile_gives_what_a_fresh_one_gives() -> None:
    cache = CompileCache()
    build({}, cache=cache)
    changed = {"agents/helper.yaml": AGENT.replace("echo", "ecko")}
    assert (
        findings(build(changed, cache=cache)) == findings(build(changed)) == [("TOOL_UNKNOWN", "agents/helper.yaml", 7)]
    )
    restored = build({}, cache=cache)
    assert isinstance(restored, Compiled) and restored.workspace.digest == good({}).digest


def test_a_repeated_diagnostic_moves_with_its_line() -> None:
    """Where something is in a file is looked up once for as long as the file stays the same."""
    cache = CompileCache()
    bad = AGENT.replace("echo", "ecko")
    for above in (0, 3, 0):
        result = build({"agents/helper.yaml": "# a comment\n" * above + bad}, cache=cache)
        assert findings(result) == [("TOOL_UNKNOWN", "agents/helper.yaml", 7 + above)]


@pytest.mark.requirement("PX-8")
def test_budgets_are_declared_for_runs_tenants_and_agents() -> None:
    runtime = RUNTIME + "  budgets: {run: {tokens: 1000, costUsd: 0.5}, tenant: {costUsdPerDay: 10}}\n"
    space = good({"runtime.yaml": runtime, "agents/helper.yaml": AGENT + "  limits: {toolCalls: 3, wallSeconds: 60}\n"})
    assert space.runtime.budgets.run.tokens == 1000 and space.runtime.budgets.run.cost_usd == 0.5
    assert space.runtime.budgets.tenant.cost_usd_per_day == 10
    assert space.agents["helper"].spec.limits.tool_calls == 3
