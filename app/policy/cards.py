"""Card numbers in text: runs of 13 to 19 digits, in groups or not, that pass the checksum cards carry.

A number is also found beside other digits that are set apart from it, such as the date that follows it. Linear in the
length of the text, whoever wrote it: clean text costs one scan, and a run of digits a few steps for each.
"""

from bisect import bisect_left
from itertools import accumulate
from typing import Any, Final

import re2

REPLACEMENT: Final = "[REDACTED:card]"

_MIN, _MAX = 13, 19  # digits, as ISO/IEC 7812 has them
_RUN: Final = re2.compile(r"[0-9](?:[ -]?[0-9]){12,}")
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # twice a digit, its own digits added up


def redact(text: str, *, checksum: bool = True) -> str:
    """`checksum` False takes any run of that length: some would rather lose an order number than keep a card."""
    return str(_RUN.sub(lambda found: _redact_run(found.group(), checksum), text))


def redact_all(value: Any, *, checksum: bool = True) -> Any:
    """A JSON value with every text redacted, keys included; numbers are left as they are."""
    if isinstance(value, str):
        return redact(value, checksum=checksum)
    if isinstance(value, dict):
        return {redact(k, checksum=checksum): redact_all(v, checksum=checksum) for k, v in value.items()}
    return [redact_all(item, checksum=checksum) for item in value] if isinstance(value, list) else value


def passes_checksum(digits: str) -> bool:
    return _Sums(digits).pass_between(0, len(digits))


class _Sums:
    """Luhn's sum of any stretch of digits in one step. Counted from the end of the stretch every second digit is
    doubled, so there are two running sums: doubled at the even places, and at the odd ones."""

    def __init__(self, digits: str) -> None:
        numbers = [int(digit) for digit in digits]
        self._even = [0, *accumulate(n if place % 2 else _DOUBLED[n] for place, n in enumerate(numbers))]
        self._odd = [0, *accumulate(_DOUBLED[n] if place % 2 else n for place, n in enumerate(numbers))]

    def pass_between(self, start: int, end: int) -> bool:
        sums = self._even if end % 2 == 0 else self._odd
        return (sums[end] - sums[start]) % 10 == 0


def _redact_run(run: str, checksum: bool) -> str:
    """A run is groups of digits; a card is some neighbours among them, from the left, the longest first."""
    groups = run.replace("-", " ").split(" ")
    sums = _Sums("".join(groups)) if checksum else None
    ends = list(accumulate(map(len, groups)))
    parts: list[str] = []
    done = first = 0
    while first < len(groups):
        last = _card_from(ends, first, sums)
        if last is None:
            first += 1
            continue
        # One separator stands between two groups, so a place in the run is one among the digits and its group's number.
        parts += [run[done : ends[first] - len(groups[first]) + first], REPLACEMENT]
        done, first = ends[last] + last, last + 1
    return "".join([*parts, run[done:]])


def _card_from(ends: list[int], first: int, sums: _Sums | None) -> int | None:
    """The last group of the longest card that begins with this one."""
    start = ends[first - 1] if first else 0
    shortest, longest = bisect_left(ends, start + _MIN, first), bisect_left(ends, start + _MAX + 1, first) - 1
    for last in range(longest, shortest - 1, -1):
        if sums is None or sums.pass_between(start, ends[last]):
            return last
    return None
