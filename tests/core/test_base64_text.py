"""Base64 in slices means the same as at once."""

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import base64_text
from app.core.base64_text import decode_base64


def _outcome(decode: Callable[[str], bytes], text: str) -> bytes | None:
    try:
        return decode(text)
    except ValueError:
        return None


@given(st.text("AQgw+/=!é", max_size=40))
def test_any_text_is_accepted_or_refused_as_if_it_were_decoded_at_once(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base64_text, "_SLICE", 8)
        assert _outcome(decode_base64, text) == _outcome(lambda whole: base64.b64decode(whole, validate=True), text)


@given(st.binary(max_size=100))
def test_what_was_encoded_comes_back(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base64_text, "_SLICE", 8)
        assert decode_base64(base64.b64encode(data).decode()) == data


@given(st.text("data:,;", max_size=20), st.text("AQgw+/=!é", max_size=40), st.integers(0, 3))
def test_base64_that_starts_later_in_a_text_is_decoded_as_if_it_stood_alone(head: str, text: str, beyond: int) -> None:
    start = len(head) if text else len(head) + beyond
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base64_text, "_SLICE", 8)
        assert _outcome(lambda whole: decode_base64(whole, start), head + text) == _outcome(decode_base64, text)
