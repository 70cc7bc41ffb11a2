"""Asks the rules of a stage about a whole content: first those that look for pieces of text, then the others, in order.

Scanners see the content as it came; each judge sees what the rules before it left. The first rule that blocks ends it.
A rule that raises, is late, or answers something else blocks, whatever its action. Leaves to others: recording the
verdicts, and performing them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from app.core.suspend import Suspended
from app.core.value import value
from app.outside.threads import in_thread
from app.policy.guardrails.contract import Found, GuardrailRule, GuardrailVerdict, Judgement, Passed, Position, Subject
from app.policy.guardrails.texts import replaced, texts_of
from app.policy.guardrails.window import CHUNK, GOES_ON, Released, ScannerSet, StreamWindow

LARGE: Final = 64 * 1024  # characters; what takes the loop longer than a moment is left to a thread
MAX_FINDS: Final = 10_000
"""Of one rule in one content. More are not redacted one by one: the rule blocks."""

log = structlog.get_logger("holdfast.guardrails")

Recall = Callable[[GuardrailRule, Subject, Callable[[], Awaitable[Judgement]]], Awaitable[Judgement]]
"""Asks a rule that may answer differently the next time: gives the recorded answer, or records the new one."""


@value(frozen=True, slots=True)
class Inspected:
    content: Any
    """As the rules left it."""
    verdicts: tuple[GuardrailVerdict, ...] = ()
    blocked: GuardrailRule | None = None
    asks: tuple[GuardrailRule, ...] = ()
    """Rules that want a person to decide, in order."""


class Inspection:
    """The rules of one stage."""

    def __init__(self, rules: Sequence[GuardrailRule]) -> None:
        self.rules = tuple(rules)
        self._scanned = tuple(rule for rule in rules if rule.scanners)
        self._judged = tuple(rule for rule in rules if not rule.scanners)
        self._set = ScannerSet([scanner for rule in self._scanned for scanner in rule.scanners])
        self._owners = [number for number, rule in enumerate(self._scanned) for _ in rule.scanners]

    @property
    def patience(self) -> float:
        """Seconds that an inspection may take in all."""
        return sum(rule.timeout_seconds for rule in self.rules)

    async def inspect(self, subject: Subject, recall: Recall | None = None) -> Inspected:
        inspected = await self._scan(subject) if self._scanned else Inspected(subject.content)
        for rule in self._judged:
            if inspected.blocked is not None:
                return inspected
            judgement = await _judged(rule, replace(subject, content=inspected.content), recall)
            inspected = _after(inspected, rule, judgement)
        return inspected

    async def _scan(self, subject: Subject) -> Inspected:
        texts = list(texts_of(subject.content))
        look = partial(self._look, texts, time.monotonic() + min(rule.timeout_seconds for rule in self._scanned))
        try:
            found = await in_thread(look, "guardrails") if sum(len(t) for _, t in texts) > LARGE else look()
        except TimeoutError:
            return _unscanned(subject, self._scanned[0], "it did not come to the end of the content in time")
        except Exception as error:
            # A kind may come from another package. They look together, so the first of them speaks for all.
            log.warning("guardrail.failed", rule=self._scanned[0].name, error=type(error).__name__)
            return _unscanned(subject, self._scanned[0], f"it failed with {type(error).__name__}")
        inspected = Inspected(subject.content)
        for rule, positions in zip(self._scanned, found, strict=True):
            if len(positions) > MAX_FINDS:
                verdict = GuardrailVerdict(rule.name, rule.action, failed=f"it found more than {MAX_FINDS} pieces")
                return replace(inspected, verdicts=(*inspected.verdicts, verdict), blocked=rule)
            if positions and inspected.blocked is None:
                verdict = GuardrailVerdict(rule.name, rule.action, tuple(positions))
                inspected = replace(
                    inspected,
                    verdicts=(*inspected.verdicts, verdict),
                    blocked=rule if rule.action == "block" else None,
                    asks=(*inspected.asks, rule) if rule.action == "ask" else inspected.asks,
                )
        redacted = [
            position
            for rule, positions in zip(self._scanned, found, strict=True)
            if rule.action == "redact"
            for position in positions
        ]
        return replace(inspected, content=replaced(subject.content, redacted))

    def _look(self, texts: Sequence[tuple[str, str]], until: float) -> list[list[Position]]:
        found: list[list[Position]] = [[] for _ in self._scanned]
        for path, text in texts:
            if not self._set.suspects(text):
                continue
            window = StreamWindow(self._set)
            for at in range(0, len(text), CHUNK):
                if time.monotonic() > until:
                    raise TimeoutError
                self._note(window.take(text[at : at + CHUNK]), path, found)
            self._note(window.end(), path, found)
        return found

    def _note(self, released: Released, path: str, found: list[list[Position]]) -> None:
        for number, match in released.finds:
            if number == GOES_ON:
                last = _last_of(found, path, match.start)
                if last is not None:
                    found[last][-1] = found[last][-1]._replace(end=match.end)
            elif len(found[self._owners[number]]) <= MAX_FINDS:
                found[self._owners[number]].append(Position(path, *match))


def _unscanned(subject: Subject, rule: GuardrailRule, failed: str) -> Inspected:
    return Inspected(subject.content, (GuardrailVerdict(rule.name, rule.action, failed=failed),), rule)


def _last_of(found: list[list[Position]], path: str, end: int) -> int | None:
    """Whose newest find ends there, so that it is this one that goes on."""
    for number, positions in enumerate(found):
        if positions and positions[-1].path == path and positions[-1].end == end:
            return number
    return None


async def _judged(rule: GuardrailRule, subject: Subject, recall: Recall | None) -> Judgement | str:
    """The rule's answer, or why there is none."""

    async def ask() -> Judgement:
        assert rule.judge is not None, "a rule has scanners or a judge"
        async with asyncio.timeout(rule.timeout_seconds):
            return await rule.judge.judge(subject)

    try:
        judgement: object = await (ask() if recall is None or rule.repeatable else recall(rule, subject, ask))
    except TimeoutError:
        return "it did not answer in time"
    except (asyncio.CancelledError, Suspended):
        raise
    except Exception as error:
        # Its message may hold anything, the content too; the type is enough to find the place.
        log.warning("guardrail.failed", rule=rule.name, error=type(error).__name__)
        return f"it failed with {type(error).__name__}"
    if isinstance(judgement, Passed | Found):
        return judgement
    return "it gave no judgement"


def _after(inspected: Inspected, rule: GuardrailRule, judgement: Judgement | str) -> Inspected:
    if isinstance(judgement, Passed):
        return inspected
    positions: list[Position] = []
    if isinstance(judgement, Found) and rule.action == "redact":
        positions = _within(inspected.content, judgement)
        if not positions or len(positions) != len(judgement.positions) or len(positions) > MAX_FINDS:
            judgement = "it did not say which texts of the content are to be redacted"
    if isinstance(judgement, str):
        verdict = GuardrailVerdict(rule.name, rule.action, failed=judgement)
        return replace(inspected, verdicts=(*inspected.verdicts, verdict), blocked=rule)
    verdict = GuardrailVerdict(rule.name, rule.action, judgement.positions, judgement.reason)
    inspected = replace(inspected, verdicts=(*inspected.verdicts, verdict))
    match rule.action:
        case "block":
            return replace(inspected, blocked=rule)
        case "ask":
            return replace(inspected, asks=(*inspected.asks, rule))
        case "redact":
            return replace(inspected, content=replaced(inspected.content, positions))
        case "flag":
            return inspected


def _within(content: Any, judgement: Found) -> list[Position]:
    """Positions of texts that are there; one outside of its text takes the whole of it."""
    lengths: Mapping[str, int] = {path: len(text) for path, text in texts_of(content)}
    made = []
    for path, start, end, label in judgement.positions:
        if path in lengths:
            inside = 0 <= start < end <= lengths[path]
            made.append(Position(path, start, end, label) if inside else Position(path, 0, lengths[path], label))
    return made
