"""The stream parsers: the same payloads however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models.sse import LineParser, PayloadTooLarge, SseParser


def fed(parser: SseParser | LineParser, wire: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(wire)) for cut in cuts} | {0, len(wire)})
    found = [p for a, b in pairwise(places) for p in parser.feed(wire[a:b])]
    return found + parser.finish()


@pytest.mark.parametrize(
    ("wire", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"event: x\nid: 1\ndata: a\nretry: 5\n\n", [b"a"]),
        (b": comment\n\ndata: a\n\n", [b"a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\ndata: left without its blank line\n", [b"a", b"left without its blank line"]),
        (b"data: a\n\ndata: cut in the mid", [b"a"]),
        (b"", []),
    ],
)
def test_events_are_found_whatever_their_line_ends(wire: bytes, payloads: list[bytes]) -> None:
    assert fed(SseParser(), wire, []) == payloads
    assert fed(SseParser(), wire, list(range(len(wire)))) == payloads


TEXT = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1)


@given(st.lists(TEXT), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 500)))
def test_any_cut_of_an_event_stream_gives_the_same_payloads(texts: list[str], end: str, cuts: list[int]) -> None:
    wire = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    assert fed(SseParser(), wire, cuts) == [text.encode() for text in texts]


@given(st.lists(TEXT.filter(lambda t: bool(t.encode().strip()))), st.lists(st.integers(0, 500)))
def test_any_cut_of_json_lines_gives_the_same_lines(texts: list[str], cuts: list[int]) -> None:
    wire = "".join(f"{text}\n" for text in texts).encode()
    assert fed(LineParser(), wire, cuts) == [text.encode() for text in texts]


def test_the_last_line_needs_no_line_end() -> None:
    assert fed(LineParser(), b'{"a":1}\n{"b":2}', []) == [b'{"a":1}', b'{"b":2}']


@pytest.mark.requirement("G13")
@pytest.mark.parametrize("parser", [SseParser(limit=1000), LineParser(limit=1000)])
def test_a_payload_without_end_is_refused(parser: SseParser | LineParser) -> None:
    for _ in range(100):
        parser.feed(b"0123456789")
    with pytest.raises(PayloadTooLarge):
        parser.feed(b"x")
