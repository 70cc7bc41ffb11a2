"""Card numbers in text: runs of 13 to 19 digits, in groups or not, that pass the checksum cards carry.

A number is also found beside other digits that are set apart from it, such as the date that follows it.
"""

import re
from collections.abc import Callable
from typing import Any, Final

REPLACEMENT: Final = "[REDACTED:card]"

_MIN, _MAX = 13, 19  # digits, as ISO/IEC 7812 has them
_DIGITS: Final = re.compile(r"(?<![0-9])[0-9]+(?:[ -][0-9]+)*(?![0-9])")
_GROUP: Final = re.compile(r"[0-9]+")


def passes_checksum(digits: str) -> bool:
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(d - 9 if d > 9 else d for d in doubled)) % 10 == 0


def any_number(digits: str) -> bool:
    """For those who would rather lose an order number than keep a card."""
    return True


def redact(text: str, is_card: Callable[[str], bool] = passes_checksum) -> str:
    return _DIGITS.sub(lambda found: _redact_run(found[0], is_card), text)


def redact_all(value: Any, is_card: Callable[[str], bool] = passes_checksum) -> Any:
    """A JSON value with every text redacted, keys included; numbers are left as they are."""
    if isinstance(value, str):
        return redact(value, is_card)
    if isinstance(value, dict):
        return {redact(key, is_card): redact_all(item, is_card) for key, item in value.items()}
    return [redact_all(item, is_card) for item in value] if isinstance(value, list) else value


def _redact_run(run: str, is_card: Callable[[str], bool]) -> str:
    """A run is groups of digits; a card is some neighbours among them, the longest first."""
    groups = list(_GROUP.finditer(run))
    parts: list[str] = []
    done = first = 0
    while first < len(groups):
        last = _card_from(groups, first, is_card)
        if last is None:
            first += 1
            continue
        parts += [run[done : groups[first].start()], REPLACEMENT]
        done, first = groups[last].end(), last + 1
    return "".join([*parts, run[done:]])


def _card_from(groups: list[re.Match[str]], first: int, is_card: Callable[[str], bool]) -> int | None:
    found, digits = None, ""
    for number in range(first, len(groups)):
        digits += groups[number][0]
        if len(digits) > _MAX:
            break
        if len(digits) >= _MIN and is_card(digits):
            found = number
    return found
