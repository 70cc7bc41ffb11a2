"""What guardrails cost: CPU per KB of whole text and per delta of a stream, with 0, 1, 10 and 100 rules. Prints JSON.

    python -m bench.guardrails [--quick]

All are measured in turns, so that a busy machine hits them alike, by CPU time of the process; the median of the turns
counts. The rules are `regex` rules of one pattern each. `pii` is one rule with all kinds, `numbers` the same on text
that is full of digits.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable

from app.policy.contract import About
from app.policy.guardrails.contract import GuardrailRule, Subject
from app.policy.guardrails.inspection import Inspection
from app.policy.guardrails.kinds.regex import PatternScanner
from app.policy.guardrails.patterns import BoundedPattern
from app.policy.guardrails.pii import PII, pii_scanners
from app.policy.guardrails.screen import StreamScanners, StreamScreen
from app.policy.guardrails.secret_patterns import SECRETS, SecretPattern

COUNTS = (0, 1, 10, 100)
KB = 1024
DELTA = "the order ships "
PROSE = "The order ships on Monday and the customer gets a message with the link to follow it on its way. "
NUMBERS = "Item 1042 of 12 costs 19.99, order 2024-11-17, 3 boxes of 400 g at 10:30, room 12 of 7. "


def regex_rules(count: int) -> list[GuardrailRule]:
    scanners = [PatternScanner("code", BoundedPattern(rf"\bcode{number} [a-z]{{3,20}}\b")) for number in range(count)]
    return [GuardrailRule(f"rule{number}", "regex", "redact", scanners=(s,)) for number, s in enumerate(scanners)]


def pii_rule() -> list[GuardrailRule]:
    return [GuardrailRule("pii", "pii", "redact", scanners=tuple(pii_scanners(PII)))]


def whole(runner: asyncio.Runner, rules: list[GuardrailRule], text: str) -> Callable[[int], None]:
    inspection, subject = Inspection(rules), Subject("input", text, About("run_bench"))

    async def look(times: int) -> None:
        for _ in range(times):
            await inspection.inspect(subject)

    return lambda times: runner.run(look(times))


def stream(rules: list[GuardrailRule], delta: str) -> Callable[[int], None]:
    scanners = StreamScanners([SecretPattern(kind) for kind in SECRETS], rules)

    def look(times: int) -> None:
        screen = StreamScreen(scanners)
        for _ in range(times):
            screen.text(delta)
        screen.end()

    return look


def in_turns(subjects: dict[str, Callable[[int], None]], turns: int, times: int) -> dict[str, float]:
    """Microseconds of CPU for each time."""
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for look in subjects.values():
        look(2)
    for _ in range(turns):
        for name, look in subjects.items():
            began = time.process_time()
            look(times)
            taken[name].append((time.process_time() - began) / times * 1e6)
    return {name: round(statistics.median(values), 2) for name, values in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.guardrails")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    turns = 3 if options.quick else 9
    prose, numbers = (PROSE * 100)[: 4 * KB], (NUMBERS * 100)[: 4 * KB]
    rules = {str(count): regex_rules(count) for count in COUNTS} | {"pii": pii_rule()}
    deltas = {name: stream(own, DELTA) for name, own in rules.items()}
    with asyncio.Runner() as runner:
        texts = {name: whole(runner, own, prose) for name, own in rules.items()}
        texts["numbers"] = whole(runner, rules["pii"], numbers)
        per_kb = {name: round(taken / 4, 2) for name, taken in in_turns(texts, turns, 40).items()}
    per_delta = in_turns(deltas, turns, 2000)
    print(json.dumps({"microsecondsPerKb": per_kb, "microsecondsPerDelta": per_delta}, indent=1))


if __name__ == "__main__":
    main()
