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
