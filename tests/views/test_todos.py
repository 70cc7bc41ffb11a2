"""The list of things to do, folded from calls of the tool."""

from dataclasses import asdict
from typing import Any

import pytest

from app.core import json
from app.events.envelope import Event
from app.views.todos import AGENT, Todo, Todos, fold

WRITE = {"id": "a", "title": "Write", "status": "pending"}
SEND = {"id": "b", "title": "Send", "status": "blocked"}
BEGUN = WRITE | {"status": "in_progress"}
FILE = {"id": "c", "title": "File", "status": "pending"}


def event(kind: str, call: str, run: str = "run_1", name: str = "todos", **payload: Any) -> Event:
    body = {"callId": call, "tool": name} | payload
    return Event(
        "evt", "default", "thr_1", run, 1, 1, f"runtime.tool.{kind}", "agent", 0, json.dumps(body), None, "", "", body
    )  # fmt: skip


def asked(call: str, *items: dict[str, str], **fields: Any) -> Event:
    mode = {"mode": fields.pop("mode")} if "mode" in fields else {}
    return event("invoked", call, arguments={"items": list(items), **mode}, **fields)


def done(call: str, ok: bool = True, **fields: Any) -> Event:
    return event("resulted", call, ok=ok, **fields)


def _without_owner(item: Todo) -> dict[str, Any]:
    """None of these names an owner, so all are the agent's."""
    shown = asdict(item)
    assert shown.pop("owner") == AGENT
    return shown


def listed(*events: Event) -> list[dict[str, Any]]:
    state = Todos()
    for happened in events:
        state = fold(state, happened)
    return [_without_owner(item) for item in state.items]


@pytest.mark.requirement("HK-24")
def test_a_call_replaces_the_list_and_an_update_changes_items_where_they_stand() -> None:
    first = [asked("1", WRITE, SEND), done("1")]
    assert listed(*first) == [WRITE, SEND]
    update = [asked("2", FILE, BEGUN, mode="update"), done("2")]
    assert listed(*first, *update) == [BEGUN, SEND, FILE]
    assert listed(*first, *update, asked("3", FILE, mode="replace"), done("3")) == [FILE]
    assert listed(*first, asked("4"), done("4")) == []


@pytest.mark.requirement("HK-24")
def test_a_call_counts_only_once_it_has_succeeded_and_only_in_its_own_run() -> None:
    assert listed(asked("1", WRITE)) == []
    assert listed(asked("1", WRITE), done("1", ok=False)) == []
    assert listed(asked("1", WRITE), done("1", applied=False)) == []
    assert listed(asked("1", WRITE), done("1", run="run_2")) == []
    assert listed(asked("1", WRITE), asked("1", SEND, run="run_2"), done("1")) == [WRITE]


def test_parallel_calls_count_in_the_order_of_their_results() -> None:
    assert listed(asked("1", WRITE), asked("2", SEND), done("2"), done("1")) == [WRITE]


def test_a_repeated_attempt_and_other_tools_change_nothing() -> None:
    again = asked("1", WRITE)
    assert listed(again, again, done("1"), done("1")) == [WRITE]
    other = asked("2", SEND, name="notes")
    assert listed(again, done("1"), other, done("2", name="notes")) == [WRITE]


@pytest.mark.parametrize("arguments", [{}, {"items": 3}, {"items": [{"id": "a"}]}, {"items": [3]}, [], {"$blob": {}}])
def test_a_tool_of_that_name_with_other_arguments_is_passed_over(arguments: Any) -> None:
    other = event("invoked", "2", arguments=arguments)
    assert listed(asked("1", WRITE), done("1"), other, done("2")) == [WRITE]


def test_a_workspace_may_have_given_the_tool_another_name() -> None:
    state = Todos()
    for happened in (asked("1", WRITE, name="plan"), done("1", name="plan")):
        state = fold(state, happened, frozenset({"plan"}))
    assert [_without_owner(item) for item in state.items] == [WRITE]
