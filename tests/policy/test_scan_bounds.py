"""Hostile text costs as much for each character as it does in a short text, and not much: counted, where it can be."""

import time
from collections import Counter
from typing import Any, Final

import pytest

from app.policy.guardrails.patterns import BoundedPattern
from app.policy.guardrails.pii import PII, CardScanner, NumberScanner, pii_scanners
from app.policy.guardrails.window import ScannerSet
from app.policy.redaction import without

SCANNERS = ScannerSet(pii_scanners(PII))
HOSTILE = [
    "1 ", "1-", "01 ", "11-", "111 ", "1111 ", "1", "1.", "a:", ":", "+1 ", "(01) ", "DE12 ", "AA11 ", "a@", "a@b.",
    "x-x-x-x@b-b-b.b-b-b." + "b" * 40 + " ", "é1 ", "sk-a-", "10.0.0.1 ", "10.0.0.256 ", "0171/2345 ",
    "4 ", "41 ", "4-1 ", "411 ", "02 31 ", "+1(", "+123456789012345", "a.a.a.a@",
]  # fmt: skip
PER_CHARACTER: Final = {"candidates": 6, "tried": 8, "opening": 160}
"""For each character of the text, by all scanners together: places where a number may begin, ends of one that are
checked, and characters that patterns are given to see what the end of a piece may begin."""
SECONDS_PER_CHARACTER: Final = 0.0001
"""Of CPU: ten times what the slowest takes. Python's own patterns cannot be counted, so this is the net under them."""


def work(text: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    done: Counter[str] = Counter()

    def counted(patch: pytest.MonkeyPatch, owner: type, name: str, what: str, whole: bool) -> None:
        plain = getattr(owner, name)

        def call(self: Any, piece: str, *rest: int) -> Any:
            done[what] += len(piece) - (rest[0] if rest else 0) if whole else 1
            return plain(self, piece, *rest)

        patch.setattr(owner, name, call)

    with monkeypatch.context() as patch:
        counted(patch, BoundedPattern, "opening", "opening", True)
        counted(patch, NumberScanner, "_accepted", "candidates", False)
        counted(patch, CardScanner, "_accepted", "candidates", False)
        counted(patch, NumberScanner, "_fits", "tried", False)
        began = time.process_time()
        without(text, SCANNERS)
        done["microseconds"] = int((time.process_time() - began) * 1e6)
    return done


@pytest.mark.requirement("HK-18")
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_work_in_proportion_to_its_length(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (4_000, 20_000):
        done = work((piece * size)[:size], monkeypatch)
        for what, most in PER_CHARACTER.items():
            assert done[what] <= most * size, f"{what}: {done[what] / size:.1f} per character"
        assert done["microseconds"] < SECONDS_PER_CHARACTER * 1e6 * size
