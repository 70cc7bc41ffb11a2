"""An event that is placed the short way is the one, with the row and the records, that the general way gives."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from app.core import json
from app.events.catalog.adapter import OUTPUT_DELTA, AdapterEvent
from app.events.catalog.execution import StepCompleted
from app.events.envelope import Event
from app.events.ports import Draft
from app.store.decide import ThreadHead, place
from app.store.engine import Row
from app.store.event_rows import add_rows
from app.store.plain_event import place_plain
from app.views.records import Records
from app.views.run import Run
from app.views.thread import Thread

_RUNS = ("run_1", "run_2")


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    text = draw(st.text(max_size=20))
    parent = draw(st.sampled_from([None, "evt_parent"]))
    run_id, at = draw(st.sampled_from(_RUNS)), draw(st.integers(0, 2**40))
    if draw(st.booleans()):
        signal = {"adapter": "native", "phase": OUTPUT_DELTA, "messageId": draw(st.sampled_from("ab")), "text": text}
        made = Draft(AdapterEvent.type, {"event": signal}, run_id, "backend:native", parent, at=at)
    else:
        made = Draft(StepCompleted.type, {"step": text, "key": "k"}, run_id, draw(st.text(max_size=5)), parent, at=at)
    made.encoded = json.canonical(made.payload)
    return made


def _head() -> ThreadHead:
    runs = {run_id: Run(run_id, "thr_1", first_seq=1, last_seq=4, run_seq=n) for n, run_id in enumerate(_RUNS, 1)}
    return ThreadHead("default", Records(Thread("thr_1", last_seq=4, head_hash="5" * 64), runs), key=7)


def _content(event: Event) -> tuple[object, ...]:
    return event.export_line(), event.payload, event.sealed() == event.hash


@given(st.lists(st.lists(drafts(), min_size=1, max_size=4), max_size=6))
def test_an_event_placed_the_short_way_is_the_one_of_the_general_way(batches: list[list[Draft]]) -> None:
    general, short = _head(), _head()
    for batch in batches:
        rows: tuple[list[Row], list[Row]] = ([], [])
        placed = [place(deepcopy(draft), general) for draft in batch]
        add_rows(general.key, placed, general.bases, *rows)
        short_rows: tuple[list[Row], list[Row]] = ([], [])
        short_placed = [place_plain(draft, short, *short_rows) for draft in batch]
        assert [_content(event) for event in short_placed] == [_content(event) for event in placed]
        assert short_rows == rows
        assert (short.records, short.bases) == (general.records, general.bases)
        assert short.touched_runs == general.touched_runs
