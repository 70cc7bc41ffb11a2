"""A part that is compared with an earlier one gives exactly the text that parsing it gives."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.models.contract import TextDelta
from app.models.kinds.openai import OpenAiDecoder
from app.models.sse import SseParser
from app.models.text_template import NO_TEMPLATE, TextTemplate, joined_text, template_of
from app.models.transport import _Answer

READ = OpenAiDecoder().text


def part(text: str, *, ascii_only: bool = False, **more: Any) -> bytes:
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return json.dumps({"id": "c", "choices": [delta], **more}, ensure_ascii=ascii_only).encode()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['"', "\\", '"}', '","x":"', "c", "0", "choices", "\\u0041", "\n"]
)


def read(template: TextTemplate, payload: bytes) -> str | None:
    written = template.alike([payload], 0)
    return joined_text(written) if written else None


@given(TEXTS, st.lists(TEXTS), st.booleans())
def test_what_is_like_an_earlier_part_gives_the_text_that_parsing_gives(
    first: str, texts: list[str], ascii_only: bool
) -> None:
    template = template_of(part(first, ascii_only=ascii_only), first, READ)
    for text in texts:
        found = read(template, part(text, ascii_only=ascii_only))
        assert found in ((text, None) if text else (None,))
        assert template.alike([part(text, ascii_only=ascii_only, model="m")], 0) == []
    if template is not NO_TEMPLATE:
        assert read(template, part("again", ascii_only=ascii_only)) == "again"


@given(TEXTS, st.binary(max_size=40))
def test_a_part_with_anything_else_in_place_of_its_text_is_left_to_the_parser(text: str, middle: bytes) -> None:
    template = template_of(part("first"), "first", READ)
    before, after = part("first").split(b'"first"')
    payload = before + middle + after
    found = read(template, payload)
    if found is not None:
        assert READ(json.loads(payload)) == found


@given(st.lists(TEXTS, max_size=8), st.integers(0, 3))
def test_parts_that_arrive_together_give_the_texts_of_each(texts: list[str], at: int) -> None:
    template = template_of(part("first"), "first", READ)
    payloads = [part(text) for text in texts]
    alike = template.alike(payloads, at)
    wanted = texts[at : at + len(alike)]
    assert joined_text(alike) in ("".join(wanted), None)
    assert "" in texts[at:] or len(alike) == len(texts[at:])
    if not any("\\" in text or '"' in text for text in wanted):
        assert joined_text(alike) == "".join(wanted)


MIDDLES = st.lists(st.sampled_from(['"', "\\", ",", "a", "[", "]", " ", "1"]), max_size=6).map("".join)


@given(st.lists(MIDDLES, min_size=1, max_size=4))
def test_texts_are_joined_only_if_each_of_them_is_one(middles: list[str]) -> None:
    written = [middle.encode() for middle in middles]
    found = joined_text(written)
    if found is not None:
        assert found == "".join(json.loads(f'"{middle}"') for middle in middles)


def test_a_text_that_occurs_elsewhere_or_is_written_otherwise_makes_no_template() -> None:
    assert template_of(part("m", model="m"), "m", READ) is NO_TEMPLATE
    other = part("A").replace(b'"A"', b'"\\u0041"')
    assert READ(json.loads(other)) == "A"
    assert template_of(other, "A", READ) is NO_TEMPLATE
    # The text is written otherwise, and the same words are elsewhere.
    moved = part("A", model="A").replace(b'"content": "A"', b'"content": "\\u0041"')
    assert template_of(moved, "A", READ) is NO_TEMPLATE


class Counted(list[bytes]):
    """How many of its items were asked for, or copied."""

    asked = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.asked += len(found) if isinstance(place, slice) else 1
        return found


def test_parts_that_all_differ_are_each_looked_at_once() -> None:
    template = template_of(part("first"), "first", READ)
    payloads = Counted([part("more", model="m")] * 500)
    assert all(template.alike(payloads, at) == [] for at in range(500))
    assert payloads.asked <= 500


def answered(reads: list[bytes]) -> str:
    answer = _Answer(OpenAiDecoder(), SseParser())
    events = [event for read in reads for event in answer.feed(read)]
    assert answer.fault is None
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@given(
    st.lists(TEXTS, max_size=8),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "event: part\n", ": a comment\n", "\n"]),
    st.lists(st.integers(0, 2000), max_size=3),
)
def test_parts_that_arrive_one_by_one_give_the_texts_of_any_other_cut(
    texts: list[str], end: str, before: str, cuts: list[int]
) -> None:
    lines = [f"{before}data: {part(text).decode()}\n\n" for text in texts]
    parts = [line.replace("\n", end).encode() for line in lines]
    wire = b"".join(parts)
    places = sorted({0, len(wire), *(min(cut, len(wire)) for cut in cuts)})
    reads = [wire[start:stop] for start, stop in pairwise(places)]
    assert answered([*parts, b"\n"]) == answered([*reads, b"\n"]) == "".join(texts)


def test_a_part_that_comes_while_another_is_incomplete_is_left_to_the_parser() -> None:
    whole = [b"data: " + part(text) + b"\n\n" for text in ("one ", "two ", "three ", "four ")]
    cut = whole[1][:-1]  # its last line's end comes with the next read
    assert answered([whole[0], cut, b"\n" + whole[2], whole[3]]) == "one two three four "
    assert answered([whole[0], whole[0][:5], whole[1][5:], whole[2]]) == "one two three "


def test_framing_that_says_the_same_as_the_part_makes_no_template() -> None:
    template = template_of(part("first"), "first", READ)
    plain = b"data: " + part("first") + b"\n\n"
    assert template.framed(plain, part("first")).text(plain) == "first"
    assert template.framed(b": " + part("first") + b"\n" + plain, part("first")) is NO_TEMPLATE
    assert template.framed(plain, part("first", model="m")) is NO_TEMPLATE
    folded = part("first").replace(b"{", b"{\n", 1)
    assert template_of(folded, "first", READ).framed(b"data: " + folded + b"\n\n", folded) is NO_TEMPLATE
    framed = template.framed(plain, part("first"))
    for middle in (b"a\nb", b'a","b', b'a"\n\ndata: "b', b"a\r"):
        assert framed.text(plain.replace(b"first", middle)) is None
