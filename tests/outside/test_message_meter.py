"""Messages are measured before they are parsed, in whatever pieces they come."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import json
from app.core.json import MAX_VALUES
from app.outside import message_meter
from app.outside.message_meter import MAX_MESSAGE_BYTES, MessageMeter, fits

LIST = b"[" + b"0," * MAX_VALUES + b"0]"
TEXT = json.dumps({"rows": "a,b\n" * MAX_VALUES})


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return (data[start:end] for start, end in pairwise(borders))


def event(data: bytes, end: bytes = b"\n") -> bytes:
    return b"event: message" + end + b"data: " + data + end + end


@given(st.lists(st.integers(0, 10**6), max_size=5), st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_a_message_is_refused_for_its_values_and_not_for_the_commas_in_its_texts(places: list[int], end: bytes) -> None:
    for data, small in ((LIST, False), (TEXT, True)):
        assert fits(data) is small
        body = MessageMeter(events=False)
        assert all(map(body.feed, cut(data, places))) is small
        stream = MessageMeter(events=True)
        assert all(map(stream.feed, cut(event(data, end), places))) is small


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_event_of_a_stream_counts_by_itself(end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_meter, "MAX_MESSAGE_BYTES", 10_000)
    monkeypatch.setattr(message_meter, "MAX_VALUES", 100)
    meter = MessageMeter(events=True)
    for data in [json.dumps(list(range(90))), b'"' + b"x" * 9_000 + b'"'] * 5:
        assert meter.feed(event(data, end))
    assert not meter.feed(event(b'"' + b"x" * 10_000 + b'"', end))


@given(st.integers(0, 2000), st.integers(0, 2000))
@pytest.mark.parametrize(
    "attack",
    [
        b': "\ndata: [%s]\n\n',  # an open quote in a comment
        b': "\rdata: [%s]\r\r',
        b"data: [%s]\r\n\r\n",  # a value a line
    ],
)
def test_what_a_parser_would_not_take_for_a_string_or_an_end_is_none(attack: bytes, first: int, second: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_meter, "MAX_VALUES", 100)
        values = (b"\r\ndata: " if attack.startswith(b"data") else b"").join([b"0,"] * 150) + b"0"
        meter = MessageMeter(events=True)
        assert not all(map(meter.feed, cut(attack % values, [first, second])))


def test_a_body_over_the_limit_is_too_large_whatever_it_says() -> None:
    meter, piece = MessageMeter(events=False), b"x" * 65_536
    fed = sum(meter.feed(piece) for _ in range(300))
    assert fed == MAX_MESSAGE_BYTES // len(piece)
    assert not fits(b"x" * (MAX_MESSAGE_BYTES + 1))
