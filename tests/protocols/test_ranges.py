"""What a Range header asks for: any text gives a part that exists, nothing, or a refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocols.http.content import Unsatisfiable, parse_range


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=2-", (2, 10)),
        ("bytes=2-99", (2, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("Bytes=9-9", (9, 10)),
        ("bytes=10-", Unsatisfiable()),
        ("bytes=-0", Unsatisfiable()),
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
        ("bytes=٣-", None),
        ("bytes=" + "9" * 30 + "-", None),
    ],
)
def test_a_range_of_ten_bytes(text: str, wanted: object) -> None:
    assert parse_range(text, 10) == wanted


@given(st.text("bytes=0123456789-, ", max_size=30), st.integers(0, 100))
def test_a_part_lies_within_the_content(text: str, size: int) -> None:
    found = parse_range("bytes=" + text, size)
    if isinstance(found, tuple):
        assert 0 <= found[0] < found[1] <= size
