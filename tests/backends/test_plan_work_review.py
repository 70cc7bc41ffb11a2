"""The states of Plan-Work-Review on a context of the test's own: who speaks when, and what each is given.

That it runs on the real runtime, survives restarts and keeps to its tools is shown by the scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from app.backends.contract import (
    CallOptions,
    CallRequest,
    CallResult,
    Context,
    ModelAnswer,
    Output,
    Skill,
    StepFailed,
)
from app.backends.kinds.plan_work_review import PlanWorkReviewBackend
from app.core import json
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry
from app.workspace.specs.agent import ContextPolicy

DIRECTIVE = {"intent": "greet", "constraints": [], "schema_version": "v1"}
PLAN = {"steps": [{"id": "s1", "description": "say it"}], "risks": [], "needs_advisor": False, "schema_version": "v1"}
REPORT = {"output": "Hello", "steps_completed": ["s1"], "tool_calls_made": ["rm:c0"], "schema_version": "v1"}
PASS = {"verdict": "pass", "feedback": "fine", "schema_version": "v1"}
NO = {"verdict": "fail", "feedback": "say it louder", "schema_version": "v1"}
ROLES = {name: f"You are {name}." for name in ("lead", "planner", "worker", "reviewer", "advisor", "scaffolder")}
SCHEMAS = SchemaRegistry()
Answer = JsonObject | str | list[CallRequest]


@dataclass
class Stage:
    """A context that plays given answers per role and keeps what it was asked."""

    answers: Mapping[str, Sequence[Answer]]
    input: Any = "hello you"
    skill: Skill | None = None
    tools: frozenset[str] = frozenset({"echo", "clock"})
    max_turns: int = 3
    max_reworks: int = 1
    config: JsonObject = field(default_factory=dict)
    context_policy: ContextPolicy = field(default_factory=ContextPolicy)
    context_tokens: int | None = None
    history: Sequence[JsonObject] = ()
    instructions: str = "Be kind."
    memory: str = ""
    roles: Mapping[str, str] = field(default_factory=lambda: ROLES)
    decision: str = "fail"
    said: list[JsonObject] = field(default_factory=list)
    heard: list[tuple[str, list[JsonObject], CallOptions]] = field(default_factory=list)
    path: list[str] = field(default_factory=lambda: ["INTAKE"])
    reasons: dict[str, str] = field(default_factory=dict)
    reports: list[tuple[str, str, JsonObject]] = field(default_factory=list)
    violated: list[str] = field(default_factory=list)
    scopes: list[frozenset[str] | None] = field(default_factory=list)
    shortened: list[str] = field(default_factory=list)
    cycles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = {role: list(answers) for role, answers in self.answers.items()}

    async def steering(self) -> list[JsonObject]:
        said, self.said = self.said, []
        return said

    async def call_model(self, messages: Sequence[JsonObject], options: CallOptions = CallOptions()) -> ModelAnswer:
        assert options.role is not None
        self.heard.append((options.role, list(messages), options))
        answer = self._left[options.role].pop(0)
        calls = tuple(answer) if isinstance(answer, list) else ()
        text = "" if calls else answer if isinstance(answer, str) else json.dumps(answer).decode()
        return ModelAnswer(text, calls, {"role": "assistant", "content": text}, f"msg_{len(self.heard)}")

    async def call_tools(self, calls: Sequence[CallRequest], tools: frozenset[str] | None = None) -> list[CallResult]:
        self.scopes.append(tools)
        return [CallResult(call.id, call.name, True, "said") for call in calls]

    async def transition(self, to: str, from_: str | None = None, reason: str | None = None) -> None:
        assert from_ == self.path[-1]
        self.path.append(to)
        if reason is not None:
            self.reasons[to] = reason

    async def report(self, role: str, schema_name: str, report: JsonObject, message_id: str | None = None) -> None:
        assert SCHEMAS.validate(schema_name, report) == []
        self.reports.append((role, schema_name, report))

    async def run_cycle(self, name: str) -> Output:
        self.cycles.append(name)
        return Output(f"the cycle {name} is done")

    async def violations(self, schema_name: str, value: Any, boundary: str) -> list[str]:
        found = [f"{issue.path or '/'}: {issue.message}" for issue in SCHEMAS.validate(schema_name, value)]
        self.violated += [boundary] if found else []
        return found

    async def compacted(
        self, strategy: str, before: tuple[int, int], after: tuple[int, int], summary: str | None = None
    ) -> None:
        self.shortened.append(strategy)

    async def ask(self, title: str, questions: Sequence[JsonObject]) -> JsonObject:
        return {question["id"]: self.decision for question in questions}

    def given_to(self, role: str, number: int = 0) -> JsonObject:
        """The JSON that a role was handed at its nth call."""
        messages = [messages for name, messages, _ in self.heard if name == role][number]
        given: JsonObject = json.loads(messages[1]["content"])
        return given


def stage(**more: Any) -> Stage:
    answers = {
        "lead": [DIRECTIVE],
        "planner": [PLAN],
        "worker": [REPORT],
        "reviewer": [PASS],
        **more.pop("answers", {}),
    }
    return Stage(answers=answers, **more)


async def play(on: Stage) -> Output:
    made = await PlanWorkReviewBackend().run(cast(Context, on))
    assert isinstance(made, Output)
    return made


async def failure(on: Stage) -> str:
    with pytest.raises(StepFailed) as failed:
        await play(on)
    return failed.value.failure.code


GREET = Skill("greet", "Greet.", frozenset({"echo", "rm"}))


async def test_a_lead_may_hand_the_work_to_a_cycle() -> None:
    on = stage(answers={"lead": [DIRECTIVE | {"cycle_id": "brainstorm"}]})
    made = await play(on)
    assert (made.text, on.cycles) == ("the cycle brainstorm is done", ["brainstorm"])
    assert [role for role, _, _ in on.heard] == ["lead"]


@pytest.mark.requirement("OS-L3", "OS-I5")
async def test_lead_planner_worker_and_reviewer_speak_in_turn_and_the_report_is_the_output() -> None:
    on = stage()
    made = await play(on)
    assert made.text == "Hello"
    assert made.metadata["review"] == PASS
    assert on.path == ["INTAKE", "LEAD", "PLAN", "WORK", "REVIEW", "DONE"]
    assert [(role, schema) for role, schema, _ in on.reports] == [
        ("lead", "lead_directive_v1"), ("planner", "plan_v1"), ("worker", "worker_report_v1"),
        ("reviewer", "review_result_v1"),
    ]  # fmt: skip


@pytest.mark.requirement("OS-L3", "OS-I4")
async def test_a_role_knows_its_own_prompt_and_what_was_handed_over_and_nothing_else() -> None:
    on = stage(skill=GREET)
    await play(on)
    for role, messages, _ in on.heard:
        assert messages[0] == {"role": "system", "content": f"Be kind.\n\nYou are {role}."}
        assert len(messages) == 2
    assert on.given_to("planner") == {"request": "hello you", "directive": DIRECTIVE, "tools": ["echo"]}
    assert on.given_to("worker") == {"request": "hello you", "directive": DIRECTIVE, "plan": PLAN}
    given = on.given_to("reviewer")
    assert given["plan"] == PLAN and given["report"]["output"] == "Hello" and given["tool_calls"] == []


@pytest.mark.requirement("OS-L3", "OS-F")
async def test_a_failed_review_leads_to_rework_with_its_feedback() -> None:
    on = stage(answers={"worker": [REPORT, REPORT], "reviewer": [NO, PASS]})
    made = await play(on)
    assert on.path[4:] == ["REVIEW", "FAIL", "REWORK", "WORK", "REVIEW", "DONE"]
    assert on.reasons == {"FAIL": "verdict fail"}
    assert "feedback" not in on.given_to("worker", 0)
    assert on.given_to("worker", 1)["feedback"] == "say it louder"
    assert made.metadata["reworks"] == 1


@pytest.mark.requirement("OS-L3", "OS-F")
async def test_reworks_are_bounded_and_then_the_run_fails() -> None:
    on = stage(answers={"worker": [REPORT] * 9, "reviewer": [NO] * 9}, max_reworks=2)
    assert await failure(on) == "REVIEW_FAILED"
    assert on.path.count("WORK") == 3
    assert on.path[-2:] == ["REVIEW", "FAIL"]


@pytest.mark.requirement("OS-F", "HK-25")
@pytest.mark.parametrize(
    ("decision", "path"), [("accept", ["FAIL", "DONE"]), ("rework", ["REWORK", "WORK", "REVIEW", "DONE"])]
)
async def test_a_person_may_accept_what_the_reviewer_refuses_or_send_it_back(decision: str, path: list[str]) -> None:
    answers = {"worker": [REPORT] * 2, "reviewer": [NO, PASS]}
    on = stage(answers=answers, max_reworks=0, config={"escalate": True}, decision=decision)
    assert (await play(on)).text == "Hello"
    assert on.path[-len(path) :] == path


@pytest.mark.requirement("OS-F")
async def test_a_person_who_decides_otherwise_fails_the_run() -> None:
    on = stage(answers={"reviewer": [NO]}, max_reworks=0, config={"escalate": True}, decision="who knows")
    assert await failure(on) == "REVIEW_FAILED"


@pytest.mark.requirement("OS-F", "OS-I3", "OS-I5")
async def test_a_malformed_answer_is_sent_back_once_with_what_is_wrong() -> None:
    on = stage(answers={"lead": ["I would greet them.", DIRECTIVE]})
    await play(on)
    assert on.violated == ["role.lead"]
    said, again = on.heard[1][1][-2:]
    assert said == {"role": "assistant", "content": "I would greet them."}
    assert again["content"].startswith("MALFORMED_AGENT_MESSAGE:\n- /: ")
    assert "lead_directive_v1" in again["content"]


@pytest.mark.requirement("OS-F", "OS-I3")
@pytest.mark.parametrize("role", ["lead", "planner", "worker", "reviewer"])
@pytest.mark.parametrize("answer", ["no JSON", "[]", "{}", '{"verdict":"pass","verdict":"fail"}', ""])
async def test_a_second_malformed_answer_of_any_role_fails_the_run(role: str, answer: str) -> None:
    on = stage(answers={role: [answer, answer]})
    assert await failure(on) == "MALFORMED_AGENT_MESSAGE"
    assert on.violated == [f"role.{role}"] * 2
    assert (on.path[-1], on.reasons["FAIL"]) == ("FAIL", "MALFORMED_AGENT_MESSAGE")


async def test_an_answer_in_a_code_fence_is_read() -> None:
    fenced = f"```json\n{json.dumps(DIRECTIVE).decode()}\n```"
    on = stage(answers={"lead": [fenced]})
    await play(on)
    assert on.violated == []


@pytest.mark.requirement("OS-L5", "S17")
async def test_only_the_worker_acts_and_only_with_the_tools_of_the_skill_that_the_agent_has() -> None:
    call = CallRequest("c1", "echo", {"text": "Hello"})
    on = stage(answers={"worker": [[call], REPORT]}, skill=GREET)
    await play(on)
    offered = {role: sorted(options.tools or ()) for role, _, options in on.heard}
    assert offered == {"lead": [], "planner": [], "worker": ["echo"], "reviewer": []}
    assert all(options.tools is not None for _, _, options in on.heard)
    assert on.scopes == [frozenset({"echo"})]
    assert on.given_to("reviewer")["tool_calls"] == [{"id": "c1", "name": "echo", "ok": True}]


@pytest.mark.requirement("OS-L5", "OS-I3")
async def test_without_a_skill_there_are_no_tools_and_a_call_is_still_put_to_the_gate() -> None:
    on = stage(answers={"worker": [[CallRequest("c1", "echo", {})], REPORT]})
    await play(on)
    assert on.scopes == [frozenset()]


@pytest.mark.requirement("OS-L3")
async def test_a_report_lists_the_calls_that_were_made_and_none_that_were_made_up() -> None:
    on = stage(answers={"worker": [[CallRequest("c1", "echo", {})], REPORT]}, skill=GREET)
    await play(on)
    (report,) = [report for role, _, report in on.reports if role == "worker"]
    assert report["tool_calls_made"] == ["echo:c1"]


@pytest.mark.requirement("OS-L3", "OS-I3")
async def test_a_role_without_tools_that_calls_one_is_malformed() -> None:
    on = stage(answers={"reviewer": [[CallRequest("c1", "echo", {})], PASS]}, skill=GREET)
    await play(on)
    assert (on.scopes, on.violated) == ([], ["role.reviewer"])
    assert [message["role"] for message in on.heard[-1][1]] == ["system", "user", "user"]


async def test_a_worker_that_only_ever_calls_tools_runs_out_of_turns() -> None:
    on = stage(answers={"worker": [[CallRequest(f"c{n}", "echo", {})] for n in range(9)]}, skill=GREET, max_turns=2)
    assert await failure(on) == "MAX_TURNS"
    assert on.path[-1] == "FAIL" and len(on.scopes) == 2


@pytest.mark.requirement("OS-L3")
async def test_the_advisor_speaks_when_the_lead_asks_and_the_planner_gets_the_advice() -> None:
    on = stage(answers={"lead": [DIRECTIVE | {"needs_advisor": True}], "advisor": ["Mind the name."]})
    await play(on)
    assert on.given_to("planner")["advice"] == "Mind the name."
    assert ("advisor", "worker_report_v1") in [(role, schema) for role, schema, _ in on.reports]


@pytest.mark.requirement("OS-L3")
async def test_a_plan_that_wants_advice_is_made_again_with_it_once() -> None:
    wants = PLAN | {"needs_advisor": True}
    on = stage(answers={"planner": [wants, wants], "advisor": ["Ask for the name."]})
    await play(on)
    assert on.given_to("planner", 1)["advice"] == "Ask for the name."
    assert on.given_to("planner", 1)["plan"] == wants


@pytest.mark.requirement("OS-L3")
async def test_the_scaffolder_prepares_the_ground_when_the_plan_asks_for_it_and_only_once() -> None:
    answers = {
        "planner": [PLAN | {"needs_scaffolder": True}],
        "scaffolder": [[CallRequest("c1", "echo", {})], "A stub for s1."],
        "worker": [REPORT, REPORT],
        "reviewer": [NO, PASS],
    }
    on = stage(answers=answers, skill=GREET)
    await play(on)
    assert [role for role, _, _ in on.heard].count("scaffolder") == 2
    assert on.given_to("worker", 0)["scaffold"]["output"] == "A stub for s1."
    assert on.given_to("worker", 0)["scaffold"]["tool_calls_made"] == ["echo:c1"]
    assert on.path[:4] == ["INTAKE", "LEAD", "PLAN", "WORK"]


@pytest.mark.requirement("HK-26")
async def test_what_a_person_says_on_the_way_is_heard_by_every_role_after_that() -> None:
    hint: JsonObject = {"role": "user", "content": "in French, please"}
    on = stage(said=[hint])
    await play(on)
    assert all(hint in messages for _, messages, _ in on.heard)


async def test_the_lead_knows_the_conversation_so_far_and_the_others_do_not() -> None:
    before: JsonObject = {"role": "user", "content": "I am Ada."}
    on = stage(history=[before])
    await play(on)
    assert [role for role, messages, _ in on.heard if before in messages] == ["lead"]


@pytest.mark.requirement("HK-7")
async def test_of_a_long_thread_the_lead_is_given_what_fits() -> None:
    long: list[JsonObject] = [
        {"role": role, "content": f"{role} {number}"} for number in range(30) for role in ("user", "assistant")
    ]
    on = stage(history=long, context_policy=ContextPolicy(maxMessages=10))
    await play(on)
    (messages,) = [messages for role, messages, _ in on.heard if role == "lead"]
    assert len(messages) <= 12 and messages[-1] == {"role": "user", "content": "hello you"}
    assert on.shortened == ["window"]
