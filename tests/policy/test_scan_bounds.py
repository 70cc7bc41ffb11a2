"""Hostile text costs as much for each character as it does in a short text, and not much: counted, not timed."""

from collections import Counter
from typing import Any

import pytest

from app.policy.guardrails.patterns import BoundedPattern
from app.policy.guardrails.pii import PII, NumberScanner, pii_scanners
from app.policy.guardrails.window import ScannerSet
from app.policy.redaction import without

SCANNERS = ScannerSet(pii_scanners(PII))
HOSTILE = [
    "1 ", "1-", "01 ", "11-", "111 ", "1111 ", "1", "1.", "a:", ":", "+1 ", "(01) ", "DE12 ", "AA11 ", "a@", "a@b.",
    "x-x-x-x@b-b-b.b-b-b." + "b" * 40 + " ", "é1 ", "sk-a-", "10.0.0.1 ", "10.0.0.256 ", "0171/2345 ",
]  # fmt: skip
PER_CHARACTER = 160
"""Characters that patterns are given for each character of the text, by all scanners together."""
TRIED_PER_CHARACTER = 8
"""Ends of a number that are checked for each character: those of a card number are the most."""


def work(text: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What one look through the text takes: characters given to patterns, and ends that were tried."""
    done: Counter[str] = Counter()

    def counted(name: str, what: str) -> None:
        plain = getattr(BoundedPattern, name)

        def call(self: BoundedPattern, piece: str, start: int = 0) -> Any:
            done[what] += len(piece) - start
            return plain(self, piece, start) if name != "matches" else plain(self, piece)

        patch.setattr(BoundedPattern, name, call)

    fits = NumberScanner._fits

    def tried(self: NumberScanner, piece: str) -> bool:
        done["tried"] += 1
        return fits(self, piece)

    with monkeypatch.context() as patch:
        counted("search", "characters")
        counted("matches", "characters")
        patch.setattr(NumberScanner, "_fits", tried)
        without(text, SCANNERS)
    return done


@pytest.mark.requirement("HK-18")
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_work_in_proportion_to_its_length(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (4_000, 20_000):
        done = work((piece * size)[:size], monkeypatch)
        assert done["characters"] <= PER_CHARACTER * size, f"{done['characters'] / size:.0f} per character"
        assert done["tried"] <= TRIED_PER_CHARACTER * size
