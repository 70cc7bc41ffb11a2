"""The event's payload: as it was recorded, or parsed from its bytes when somebody first looks."""

import pytest

from app.core.ids import new_id
from app.events.envelope import GENESIS, Event
from app.events.ports import Draft


def _event(payload: dict[str, object] | None = None) -> Event:
    at, data = 1, b'{"key":"k"}'
    return Event("evt_1", "default", "thr_1", None, 1, None, "t", "system", at, data, None, GENESIS, "", payload)


def test_a_stored_event_parses_its_payload_once() -> None:
    event = _event()
    assert event.payload == {"key": "k"}
    assert event.payload is event.payload


def test_a_recorded_event_has_the_payload_that_was_encoded() -> None:
    payload: dict[str, object] = {"key": "k"}
    assert _event(payload).payload is payload


def test_an_event_has_no_other_attribute() -> None:
    with pytest.raises(AttributeError, match="'Event' object has no attribute 'nothing'"):
        assert _event().nothing  # type: ignore[attr-defined]  # that is the test


def test_the_id_of_a_draft_is_that_of_an_event_and_rises() -> None:
    before, made, after = new_id("event"), [Draft("t", {}).id for _ in range(1000)], new_id("event")
    assert [before, *made, after] == sorted({before, *made, after})
    assert {(len(id), id[:4]) for id in made} == {(len(before), before[:4])}
