"""Card numbers are found by their checksum, however they are grouped and whatever is next to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.policy.cards import passes_checksum, redact, redact_all

VISA = "4111111111111111"


def luhn(digits: str) -> bool:
    """The checksum as it is usually written down."""
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(d - 9 if d > 9 else d for d in doubled)) % 10 == 0


def with_check_digit(body: str) -> str:
    return next(body + str(digit) for digit in range(10) if passes_checksum(body + str(digit)))


@pytest.mark.requirement("OS-E")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (VISA, "[REDACTED:card]"),
        (f"pay with {VISA}.", "pay with [REDACTED:card]."),
        ("4111 1111 1111 1111", "[REDACTED:card]"),
        ("4111-1111-1111-1111", "[REDACTED:card]"),
        ("4111 1111 1111 1111 12/27", "[REDACTED:card] 12/27"),
        ("2 4111 1111 1111 1111 12", "2 [REDACTED:card] 12"),
        ("378282246310005 and 30569309025904", "[REDACTED:card] and [REDACTED:card]"),
        (f"card{VISA}x", "card[REDACTED:card]x"),
        ("4111111111111112", "4111111111111112"),
        (f"{VISA}0000", f"{VISA}0000"),
        ("order 12345", "order 12345"),
        ("", ""),
    ],
)
def test_cards_are_replaced_and_other_numbers_stay(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_without_the_checksum_any_run_of_that_length_goes() -> None:
    assert redact("1234567812345678 and 42", checksum=False) == "[REDACTED:card] and 42"


def test_every_text_of_a_value_is_cleaned_and_numbers_are_left() -> None:
    assert redact_all({"a": [VISA, 7, None], VISA: {"b": f"x {VISA}"}}) == {
        "a": ["[REDACTED:card]", 7, None],
        "[REDACTED:card]": {"b": "x [REDACTED:card]"},
    }


@given(
    st.text(alphabet=st.characters(exclude_categories=["Nd", "Cs"]), max_size=20),
    st.text(alphabet="0123456789", min_size=12, max_size=18),
    st.text(alphabet=st.characters(exclude_categories=["Nd", "Cs"]), max_size=20),
)
def test_a_number_with_its_check_digit_never_stays(before: str, body: str, after: str) -> None:
    number = with_check_digit(body)
    assert number not in redact(f"{before}{number}{after}")


@given(st.text(alphabet="0123456789", min_size=1, max_size=25))
def test_the_checksum_is_the_usual_one(digits: str) -> None:
    assert passes_checksum(digits) == luhn(digits)


@pytest.mark.parametrize("unit", ["1 ", "1-", "1", "4111 1111 1111 1112 ", "123456789012 3 "])
def test_a_long_run_of_digits_is_gone_through_once(unit: str) -> None:
    """A hundred thousand characters that are made to be slow take no noticeable time."""
    assert len(redact(unit * (100_000 // len(unit)))) > 0


@given(st.text(alphabet="0123456789 -x", max_size=60))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)
