"""What guardrails cost: CPU per KB of whole text and per delta of a stream, with 0, 1, 10 and 100 rules. Prints JSON.

    python -m bench.guardrails [--quick]

All are measured in turns, so that a busy machine hits them alike, by CPU time of the process; the median of the turns
counts. The rules are `regex` rules of one pattern each. `pii` is one rule with all kinds, `numbers` the same on text
that is full of digits. `hostile` is the worst of texts that are made to be slow.

`streams` are whole runs of a scripted model that says 16 KB in pieces of 16 characters, by an agent without rules and
by one with a typical set (`pii`, three patterns, twenty topics): when its first token is stored, how many characters a
second, and the CPU of a run.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.core.logs import configure_logs
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request
from app.events.catalog.adapter import AdapterEvent
from app.events.follow import follow
from app.policy.contract import About
from app.policy.guardrails.contract import GuardrailRule, Subject
from app.policy.guardrails.inspection import Inspection
from app.policy.guardrails.kinds.regex import PatternScanner
from app.policy.guardrails.patterns import BoundedPattern
from app.policy.guardrails.pii import PII, pii_scanners
from app.policy.guardrails.screen import StreamScanners, StreamScreen
from app.policy.guardrails.secret_patterns import SECRETS, SecretPattern
from app.policy.guardrails.window import ScannerSet
from app.policy.redaction import without
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast

COUNTS = (0, 1, 10, 100)
KB = 1024
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


def stream(rules: list[GuardrailRule]) -> Callable[[int], None]:
    """Prose in pieces of 16 characters, most of which are cut within a word."""
    scanners = StreamScanners([SecretPattern(kind) for kind in SECRETS], rules)
    text = PROSE * 16
    pieces = [text[at : at + 16] for at in range(0, len(text), 16)]

    def look(times: int) -> None:
        screen = StreamScreen(scanners)
        for number in range(times):
            screen.text(pieces[number % len(pieces)])
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


HOSTILE = ("01 ", "111 ", "1111 ", "4 ", "411 ", "02 31 ", "11-", "DE12 ", "sk-a-")
TYPICAL = """\
---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: personal-data}
spec: {kind: pii, action: redact}
---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: code-names}
spec:
  kind: regex
  action: redact
  config: {patterns: ['\\bproject [a-z]{3,20}\\b', '\\bcase-[0-9]{4,8}\\b', '\\b[A-Z]{3}-[0-9]{3,6}\\b'], label: code}
---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: topics}
spec: {kind: topic, action: block, config: {deny: %s}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: guarded}
spec: {model: main, guardrails: {output: [personal-data, code-names, topics]}}
"""
PLAIN = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: bench}
spec: {defaultAgent: plain}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, model: main, script: {default: {text: "%s", chunkSize: 16}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: plain}
spec: {model: main}
"""


async def one_run(holdfast: Holdfast, agent: str) -> tuple[float, float]:
    """Seconds until the first token is stored, and until the run has ended."""
    began = time.perf_counter()
    run = await holdfast.service.submit(LOCAL, Submission(agent, "hello"))
    assert isinstance(run, Run)
    first: float | None = None
    store = holdfast.store
    async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, 0):
        if first is None and any(
            event.type == AdapterEvent.type and b"delta" in event.payload_bytes for event in batch
        ):
            first = time.perf_counter() - began
        if any(event.type in request.TERMINAL for event in batch):
            break
    assert first is not None
    return first, time.perf_counter() - began


async def streams(turns: int) -> dict[str, dict[str, float]]:
    text = (PROSE * 200)[: 16 * KB]
    topics = json.dumps([f"topic{number} matter" for number in range(20)])
    taken: dict[str, list[tuple[float, float, float]]] = {"plain": [], "guarded": []}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        root.mkdir()
        (root / "all.yaml").write_text(PLAIN % text + TYPICAL % topics)
        async with open_holdfast(Settings(data_dir=Path(folder) / "data", workspace=root)) as holdfast:
            for turn in range(turns + 2):
                for agent, found in taken.items():
                    began = time.process_time()
                    seconds = await one_run(holdfast, agent)
                    if turn >= 2:
                        found.append((*seconds, time.process_time() - began))
    made = {
        agent: {
            "firstTokenMs": round(statistics.median(first for first, _, _ in found) * 1e3, 3),
            "charactersPerSecond": round(len(text) / statistics.median(whole for _, whole, _ in found)),
            "cpuMs": round(statistics.median(cpu for _, _, cpu in found) * 1e3, 2),
        }
        for agent, found in taken.items()
    }
    ratio = {name: round(made["guarded"][name] / value, 3) for name, value in made["plain"].items()}
    return made | {"ratio": ratio}


def hostile(size: int) -> dict[str, float | str]:
    """Seconds of CPU for 100 KB of the worst text."""
    scanners, taken = ScannerSet(pii_scanners(PII)), dict[str, float]()
    for piece in HOSTILE:
        text = (piece * size)[:size]
        began = time.process_time()
        without(text, scanners)
        taken[piece] = (time.process_time() - began) / size * 100 * KB
    worst = max(taken, key=lambda piece: taken[piece])
    return {"text": worst, "secondsPer100Kb": round(taken[worst], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.guardrails")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    turns = 3 if options.quick else 9
    prose, numbers = (PROSE * 100)[: 4 * KB], (NUMBERS * 100)[: 4 * KB]
    rules = {str(count): regex_rules(count) for count in COUNTS} | {"pii": pii_rule()}
    deltas = {name: stream(own) for name, own in rules.items()}
    with asyncio.Runner() as runner:
        texts = {name: whole(runner, own, prose) for name, own in rules.items()}
        texts["numbers"] = whole(runner, rules["pii"], numbers)
        per_kb = {name: round(taken / 4, 2) for name, taken in in_turns(texts, turns, 40).items()}
        per_stream = runner.run(streams(5 if options.quick else 41))
    per_delta = in_turns(deltas, turns, 2000)
    worst = hostile(10 * KB if options.quick else 50 * KB)
    figures = {"microsecondsPerKb": per_kb, "microsecondsPerDelta": per_delta, "streams": per_stream, "hostile": worst}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    configure_logs("error", str)
    main()
