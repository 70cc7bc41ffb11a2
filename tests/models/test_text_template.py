"""A part that is compared with an earlier one gives exactly the text that parsing it gives."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.models.kinds.openai import OpenAiDecoder
from app.models.text_template import NO_TEMPLATE, TextTemplate, joined_text, template_of

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
    written = [f'"{middle}"'.encode() for middle in middles]
    found = joined_text(written)
    if found is not None:
        assert found == "".join(json.loads(one) for one in written)


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
