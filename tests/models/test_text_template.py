"""A part that is compared with an earlier one gives exactly the text that parsing it gives."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.models.kinds.openai import OpenAiDecoder
from app.models.text_template import NO_TEMPLATE, template_of

READ = OpenAiDecoder().text


def part(text: str, *, ascii_only: bool = False, **more: Any) -> bytes:
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return json.dumps({"id": "c", "choices": [delta], **more}, ensure_ascii=ascii_only).encode()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['"', "\\", '"}', '","x":"', "c", "0", "choices", "\\u0041", "\n"]
)


@given(TEXTS, st.lists(TEXTS), st.booleans())
def test_what_is_like_an_earlier_part_gives_the_text_that_parsing_gives(
    first: str, texts: list[str], ascii_only: bool
) -> None:
    template = template_of(part(first, ascii_only=ascii_only), first, READ)
    for text in texts:
        found = template.text(part(text, ascii_only=ascii_only))
        assert found in ((text, None) if text else (None,))
        assert template.text(part(text, ascii_only=ascii_only, model="m")) is None
    if template is not NO_TEMPLATE:
        assert template.text(part("again", ascii_only=ascii_only)) == "again"


@given(TEXTS, st.binary(max_size=40))
def test_a_part_with_anything_else_in_place_of_its_text_is_left_to_the_parser(text: str, middle: bytes) -> None:
    template = template_of(part("first"), "first", READ)
    before, after = part("first").split(b'"first"')
    payload = before + middle + after
    found = template.text(payload)
    if found is not None:
        assert READ(json.loads(payload)) == found


def test_a_text_that_occurs_elsewhere_or_is_written_otherwise_makes_no_template() -> None:
    assert template_of(part("m", model="m"), "m", READ) is NO_TEMPLATE
    other = part("A").replace(b'"A"', b'"\\u0041"')
    assert READ(json.loads(other)) == "A"
    assert template_of(other, "A", READ) is NO_TEMPLATE
    # The text is written otherwise, and the same words are elsewhere.
    moved = part("A", model="A").replace(b'"content": "A"', b'"content": "\\u0041"')
    assert template_of(moved, "A", READ) is NO_TEMPLATE
