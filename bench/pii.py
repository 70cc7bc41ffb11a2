"""Recall and precision of each kind of personal data that guardrails find, on generated examples, with the misses.

    python -m bench.pii [--count 20] [--seed 17] [--json]

A find counts for an example if it has the kind and covers the whole of it; a find of any kind in something that is
none counts as wrong for the kind that was found, and so does a find of another kind.
"""

import argparse
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache

from app.policy.guardrails.contract import Match
from app.policy.guardrails.pii import PII, pii_scanners
from app.policy.guardrails.window import ScannerSet, StreamWindow
from bench.pii_examples import FORMS, SENTENCES, Example, examples


@dataclass
class Figures:
    examples: int = 0
    found: int = 0
    right: int = 0
    wrong: int = 0
    of_none: int = 0
    """Finds in what is no personal data at all."""
    missed: Counter[str] = field(default_factory=Counter)
    mistaken: Counter[str] = field(default_factory=Counter)

    @property
    def recall(self) -> float:
        return self.found / self.examples

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0


@cache
def _scanners(kind: str) -> ScannerSet:
    return ScannerSet(pii_scanners([kind]))


def finds(kind: str, text: str) -> list[Match]:
    window = StreamWindow(_scanners(kind))
    return [match for released in (window.take(text), window.end()) for _, match in released.finds]


def measured(given: list[Example]) -> dict[str, Figures]:
    figures: dict[str, Figures] = defaultdict(Figures)
    for example in given:
        start = example.text.index(example.value)
        end = start + len(example.value)
        for kind in PII:
            found, own = finds(kind, example.text), figures[kind]
            if kind == example.kind:
                own.examples += 1
                covered = any(_covers(match, start, end, example) for match in found)
                own.found += covered
                own.right += covered
                own.missed[example.form] += not covered
            elif found:
                own.wrong += 1
                own.of_none += example.kind is None
                own.mistaken[f"{example.kind or 'none'}: {example.form}"] += 1
    return {kind: figures[kind] for kind in PII}


def _covers(match: Match, start: int, end: int, example: Example) -> bool:
    if example.form in ("v4 with port", "v4 in a URL"):  # the address is only a part of what is written
        return start <= match.start and match.end <= end
    return match.start <= start and end <= match.end


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pii")
    parser.add_argument("--count", type=int, default=20, help="examples of each form")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    given = examples(options.seed, options.count)
    figures = measured(given)
    if options.json:
        print(json.dumps({k: {"recall": f.recall, "precision": f.precision} for k, f in figures.items()}))
        return
    negatives = sum(example.kind is None for example in given)
    forms = sum(map(len, FORMS.values()))
    print(f"{len(given)} examples, {negatives} of them none; {forms} forms, {len(SENTENCES)} languages\n")
    print(f"| kind | forms | examples | recall | precision | found in {negatives} that are none |")
    print("|---|---|---|---|---|---|")
    for kind, own in figures.items():
        shares = f"{own.recall:.1%} | {own.precision:.1%}"
        print(f"| `{kind}` | {len(FORMS[kind])} | {own.examples} | {shares} | {own.of_none} |")
    for kind, own in figures.items():
        for form, count in (+own.missed).most_common():
            print(f"missed {kind} ({form}): {count} of {options.count}")
        for form, count in own.mistaken.most_common():
            print(f"mistaken for {kind} ({form}): {count} of {options.count}")


if __name__ == "__main__":
    main()
