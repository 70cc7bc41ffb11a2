"""The state that UI events fold to: what it shows, and what holds for every list of events, ours and foreign ones."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import json
from app.views.ui.projection import LANES, Projection, project
from app.views.ui.sequence import sequence_violations
from app.views.ui.validation import list_issues
from tests.examples import examples
from tests.views.ui.test_validation import event

pytestmark = pytest.mark.requirement("LC-4")

CLASSES = [
    "turn.submitted",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "model.delta",
    "model.completed",
    "model.failed",
    "reasoning.delta",
    "tool.started",
    "tool.result",
    "tool.failed",
    "permission.resolved",
    "action.required",
    "action.resolved",
    "artifact.changed",
    "evidence.changed",
    "task.created",
    "subagent.started",
    "subagent.completed",
    "handoff.requested",
    "review.verdict",
    "runtime.error",
    "run.status",
    "plan.final",
]
ids = st.sampled_from(["a", "b", "c"])


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for number in range(1, draw(st.integers(1, 25)) + 1):
        scope = draw(ids)
        made.append(
            event(
                id=f"e{number}",
                sequence=number,
                eventClass=draw(st.sampled_from(CLASSES)),
                kind=draw(st.sampled_from(["state", "model", "tool", "action", "note", "draft", "evidence", "source"])),
                status=draw(st.sampled_from(["pending", "running", "completed", "blocked", "failed"])),
                turnId="t",
                runId=draw(ids),
                toolCallId=scope,
                actionId=scope,
                artifactRefs=draw(st.lists(ids, max_size=2)),
                payload={"messageId": draw(ids), "delta": draw(st.text(max_size=5)), "toolName": "search"},
            )
        )
    return made


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["id", "sequence", "eventClass", "kind", "status", "title", "payload", "toolCallId", "actionId", "artifactRefs"]
)
foreign = st.lists(
    json_values | st.dictionaries(fields, json_values | st.sampled_from(CLASSES), max_size=8), max_size=12
)


@given(foreign)
@settings(max_examples=examples(150), deadline=None)
def test_foreign_events_of_any_shape_are_checked_and_projected(events: list[Any]) -> None:
    list_issues(events)
    sequence_violations(events)
    state = project(events)
    assert set(LANES) <= set(state)
    json.dumps(state)


@given(streams(), st.integers(0, 25))
@settings(max_examples=examples(150), deadline=None)
def test_projecting_in_two_parts_equals_projecting_at_once(events: list[dict[str, Any]], cut: int) -> None:
    whole = project(events)
    first = Projection()
    for one in events[:cut]:
        first.apply(one)
    taken_up = Projection(json.loads(json.dumps(first.state())))
    for one in events[cut:]:
        taken_up.apply(one)
    assert taken_up.state() == whole


@given(streams(), st.randoms(use_true_random=False))
@settings(max_examples=examples(100), deadline=None)
def test_order_of_arrival_and_repeats_do_not_matter(events: list[dict[str, Any]], random: Any) -> None:
    shuffled = [*events, *copy.deepcopy(events)]
    random.shuffle(shuffled)
    assert project(shuffled) == project(events)


@given(streams(), st.integers(1, 23))
@settings(max_examples=examples(100), deadline=None)
@pytest.mark.requirement("LC-5")
def test_a_lost_event_makes_the_state_stale_until_a_snapshot_restores_the_whole(
    events: list[dict[str, Any]], lost: int
) -> None:
    lost = min(lost, len(events) - 1)
    if lost in (0, len(events) - 1):
        return
    reader = Projection()
    for one in (*events[:lost], *events[lost + 1 :]):
        reader.apply(one)
    assert reader.state()["runtime"]["status"] == "stale"
    snapshot = json.loads(json.dumps(project(events)))
    assert Projection(snapshot).state() == project(events)


@pytest.mark.requirement("LC-5")
def test_a_snapshot_repairs_a_gap_and_completes_nothing() -> None:
    begun = [
        event(id="1", sequence=1, eventClass="turn.started", turnId="t", runId="r"),
        event(id="2", sequence=2, eventClass="tool.started", kind="tool", toolCallId="c", turnId="t"),
        event(
            id="3", sequence=3, eventClass="action.required", kind="action", status="blocked", actionId="a", turnId="t"
        ),
    ]
    gone = event(id="6", sequence=6, eventClass="run.status", turnId="t")
    repaired = event(id="7", sequence=7, eventClass="snapshot.updated", payload={"repairs": [{"from": 4, "to": 5}]})
    assert project([*begun, gone])["hydration"] | {"tasks": 0} == {
        "status": "stale",
        "eventCount": 4,
        "gaps": [[4, 5]],
        "turnStatus": "running",
        "tasks": 0,
    }
    state = project([*begun, gone, repaired])
    assert state["hydration"]["gaps"] == [] and state["runtime"]["status"] == "waiting"
    assert state["toolCalls"]["activeCallIds"] == ["c"]
    assert [action["actionId"] for action in state["readModel"]["pendingActions"]] == ["a"]


def test_deltas_are_put_together_as_they_are_and_the_completion_replaces_them() -> None:
    def piece(number: int, name: str, **payload: Any) -> dict[str, Any]:
        return event(
            id=str(number), sequence=number, eventClass=name, kind="model", payload={"messageId": "m", **payload}
        )

    deltas = [piece(1, "model.delta", delta="Hel"), piece(2, "model.delta", delta="lo")]
    (part,) = project(deltas)["messages"]
    assert (part["text"], part["state"]) == ("Hello", "streaming")
    (part,) = project([*deltas, piece(3, "model.completed", text="Hello there")])["messages"]
    assert (part["text"], part["state"], part["partId"]) == ("Hello there", "final", "text:::m")
    (kept,) = project([*deltas, piece(3, "model.completed")])["messages"]
    assert (kept["text"], kept["state"]) == ("Hello", "final")


def test_missing_lineage_is_a_diagnostic_and_never_guessed() -> None:
    lonely = event(eventClass="subagent.started", subagentId="s", title="for task_1")
    state = project([lonely])
    assert [(one["status"], one["detail"]) for one in state["diagnostics"]] == [
        ("unavailable", "subagent.started does not say its taskId.")
    ]
    assert "parentId" not in state["graph"][0]


def test_a_team_has_its_roster_its_work_and_its_lane() -> None:
    events = [
        event(id="1", sequence=1, eventClass="task.created", taskId="task"),
        event(id="2", sequence=2, eventClass="subagent.started", taskId="task", subagentId="s"),
        event(id="3", sequence=3, eventClass="handoff.requested", kind="handoff", payload={"handoffId": "h"}),
        event(
            id="4",
            sequence=4,
            eventClass="review.verdict",
            kind="evidence",
            evidenceRefs=["e"],
            payload={"reviewId": "r"},
        ),
    ]
    team = project(events)["teamWorkbench"]
    assert team["hasTeamSurface"]
    assert [node["nodeId"] for node in team["rosterNodes"]] == ["s"]
    assert [node["nodeId"] for node in team["workItems"]] == ["task"]
    assert [lane["id"] for lane in team["laneEvents"]] == ["3", "4"]
    assert project(events)["subagents"]["activeThreadIds"] == ["s"]


def test_only_the_end_of_a_turn_with_nothing_to_decide_is_an_end() -> None:
    events = [
        event(id="1", sequence=1, eventClass="turn.started", turnId="t"),
        event(id="2", sequence=2, eventClass="tool.result", toolCallId="c", status="completed", turnId="t"),
    ]
    assert project(events)["runtime"]["status"] == "running"
    asked = event(id="3", sequence=3, eventClass="action.required", actionId="a", status="blocked", turnId="t")
    ended = event(id="4", sequence=4, eventClass="turn.completed", status="completed", turnId="t")
    assert project([*events, asked, ended])["runtime"]["status"] == "waiting"
    resolved = event(id="5", sequence=5, eventClass="action.resolved", actionId="a", status="completed")
    assert project([*events, asked, ended, resolved])["runtime"]["status"] == "completed"
