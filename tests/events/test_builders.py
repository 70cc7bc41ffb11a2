"""A builder gives, byte for byte, the JSON that the model of its type gives."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from app.core import json
from app.events.catalog import EVENTS, builders
from app.events.catalog.base import BuiltPayload, UncheckedPayload

TEXT = st.text(max_size=20)
SMALL = st.integers(0, 10**9)
VALUE = st.recursive(TEXT | SMALL | st.booleans(), lambda inner: st.lists(inner, max_size=2), max_leaves=4)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=3)
NAMES = st.lists(TEXT, max_size=3)
WITH_NULLS = st.dictionaries(TEXT, st.none() | st.lists(st.none() | VALUE, max_size=2), max_size=3)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


USAGE = st.fixed_dictionaries({"inputTokens": SMALL, "outputTokens": SMALL}, optional={"costUsd": st.just(0.25)})
CALL = st.fixed_dictionaries({"id": TEXT, "name": TEXT, "args": OBJECT})
FIELDS: dict[type[BuiltPayload], dict[str, st.SearchStrategy[Any]]] = {
    builders.BuiltDelta: {
        "adapter": TEXT,
        "phase": TEXT,
        "message_id": TEXT,
        "part": SMALL,
        "text": TEXT,
        "tool_id": maybe(TEXT),
        "call_id": maybe(TEXT),
    },
    builders.BuiltHandoff: {
        "adapter": TEXT,
        "model_ref": maybe(TEXT),
        "tools": NAMES,
        "subagents": NAMES,
    },
    builders.BuiltModelNegotiated: {
        "required": NAMES,
        "candidates": st.lists(st.tuples(TEXT, NAMES), max_size=3),
        "model": maybe(TEXT),
        "provider": maybe(TEXT),
    },
    builders.BuiltModelRequested: {
        "message_id": TEXT,
        "model": TEXT,
        "provider": TEXT,
        "provider_model": TEXT,
        "attempt": SMALL,
        "request_hash": TEXT,
        "parameters": OBJECT,
        "message_count": SMALL,
        "messages": maybe(st.lists(OBJECT, max_size=2)),
        "tools": maybe(NAMES),
        "notes": maybe(NAMES),
    },
    builders.BuiltModelCompleted: {
        "message_id": TEXT,
        "model": TEXT,
        "provider": TEXT,
        "text": TEXT,
        "tool_calls": st.lists(CALL, max_size=2),
        "finish_reason": st.sampled_from(["stop", "tool_use", "max_tokens", "safety"]),
        "usage": USAGE,
        "request_hash": TEXT,
        "attempt": SMALL,
        "duration_ms": SMALL,
        "first_token_ms": maybe(SMALL),
        "parts": maybe(st.lists(OBJECT, max_size=2)),
        "thoughts": maybe(st.lists(OBJECT, max_size=2)),
        "reasoning": maybe(TEXT),
        "provider_request_id": maybe(TEXT),
    },
    builders.BuiltRequestStarted: {"executor": TEXT, "epoch": SMALL},
    builders.BuiltRequestCompleted: {"output": TEXT, "message_id": maybe(TEXT)},
    builders.BuiltThreadCreated: {},
    builders.BuiltStepCompleted: {"step": TEXT, "key": TEXT, "result": maybe(WITH_NULLS)},
}


def test_every_builder_is_tried_here() -> None:
    assert set(FIELDS) == set(BuiltPayload.__subclasses__()) - {UncheckedPayload}


@pytest.mark.parametrize("builder", FIELDS, ids=lambda builder: builder.__name__)
def test_a_builder_gives_the_bytes_of_its_model(builder: type[BuiltPayload]) -> None:
    @settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # models are built at their first use
    @given(st.fixed_dictionaries(FIELDS[builder]))
    def check(fields: dict[str, Any]) -> None:
        built = builder(**fields)
        model = EVENTS[built.type].model_validate(built.to_json())
        assert json.canonical(built.to_json()) == json.canonical(model.to_json())
        named = built.to_json().get("event", built.to_json())
        for name, value in fields.items():
            if name != "candidates":  # pairs, which become objects
                assert named.get(to_camel(name)) == value
        assert (built.of_thread, built.prevalidated) == (model.of_thread, True)

    check()


def test_a_completed_step_keeps_its_result_whoever_changes_it_later() -> None:
    result: dict[str, Any] = {"output": {"rows": [1, 2]}}
    built = builders.BuiltStepCompleted(step="node", key="a.1", result=result)
    result["output"]["rows"].append(3)
    assert built.to_json() == {"step": "node", "key": "a.1", "result": {"output": {"rows": [1, 2]}}}
    with pytest.raises(json.JsonError):
        json.canonical(builders.BuiltStepCompleted(step="node", key="a.1", result={"output": object()}).to_json())
