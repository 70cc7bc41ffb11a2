"""Replaces secrets, and on request personal data, by `[REDACTED:kind]` before anything is stored.

It replaces and never refuses. A linear-time prefilter looks at the encoded payload once; only a suspect payload is
walked string by string, where checksums drop false alarms. Leaves to others: which kinds a workspace wants, and
where the values of known secrets come from.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import ahocorasick_rs
import re2
from cachetools import LRUCache

from app.core import json
from app.policy.guardrails.contract import GuardrailRule
from app.policy.guardrails.pii import PII, pii_scanners
from app.policy.guardrails.screen import StreamScanners
from app.policy.guardrails.secret_patterns import LEAD, SECRETS, KnownSecrets, secret_pattern
from app.policy.guardrails.texts import replacement
from app.policy.guardrails.window import CHUNK, GOES_ON, ScannerSet, StreamWindow

J = TypeVar("J")
_MAX_RULE_SETS: Final = 64
_MAX_KIND_SETS: Final = 16

PERSONAL: Final = tuple(kind for kind in PII if kind != "token")
"""The kinds of personal data that can be replaced; secrets always are."""


_SECRET_NAME: Final = re2.compile(r"(?i)(?:^|_)(?:key|token|secret|passwd|password|credentials?|dsn)(?:_|$)")
_URL_PASSWORD: Final = re2.compile(r"://[^/\s:@]*:([^@/\s]+)@")


def secret_values(environ: Mapping[str, str], listed: Iterable[str]) -> list[str]:
    """The values of the environment that must appear nowhere: of the variables that a workspace may use, and of those
    whose names say that they hold a secret. A Python tool can read, and raise, any of them."""
    names = {*listed, *(name for name in environ if _SECRET_NAME.search(name))}
    in_urls = [found[1] for value in environ.values() for found in [_URL_PASSWORD.search(value)] if found]
    return [*(environ[name] for name in sorted(names) if name in environ), *in_urls]


class LogRedaction:
    """`kinds` are names of SECRETS and PERSONAL; `known` are values that must never appear, whatever they look like."""

    def __init__(self, kinds: Iterable[str] = tuple(SECRETS), known: Iterable[str] = ()) -> None:
        kinds = tuple(kinds)
        patterns = {kind: SECRETS[kind] for kind in kinds if kind in SECRETS}
        self._patterns = [(kind, re2.compile(_with_lead(pattern))) for kind, pattern in patterns.items()]
        self._matches = _prefilter(tuple(patterns.values()))
        # Short values would redact ordinary words; no credential worth the name is under eight characters.
        values = sorted({value for value in known if len(value) >= 8})
        # Longest first at each place: of two values where one begins the other, no tail may stay.
        self._known = _automaton(values)
        self._known_encoded = _automaton([json.dumps(value).decode()[1:-1] for value in values])
        self._personal, without_known = _scanners(tuple(patterns), tuple(kind for kind in PERSONAL if kind in kinds))
        self.streamed = StreamScanners([KnownSecrets(values), *without_known.set.scanners]) if values else without_known
        """The same for text that arrives in pieces."""

        # Where nothing else is looked for there is no method of ours in between: every append looks.
        self.suspects: Callable[[bytes], bool] = (
            self._matches if self._known_encoded is None and self._personal is None else self._suspects
        )
        """Whether an encoded payload may hold what is to be replaced: what is false is certainly clean."""

    def _suspects(self, encoded: bytes) -> bool:
        if self._matches(encoded):
            return True
        if self._personal is not None and self._personal.suspects_encoded(encoded):
            return True
        return self._known_encoded is not None and bool(self._known_encoded.find_matches_as_indexes(encoded.decode()))

    def clean(self, value: J) -> J:
        """The value with every finding replaced, keys included; containers are rebuilt, never changed in place."""
        return self._walk(value)  # type: ignore[no-any-return]  # same shape in, same shape out

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._walk(item) for item in value]
        return value

    def text(self, text: str) -> str:
        if self._known is not None:
            for start, end in reversed(_spans(self._known, text)):
                text = f"{text[:start]}[REDACTED:secret]{text[end:]}"
        if self._matches(text.encode("utf-8", "surrogatepass")):
            # One look instead of one for each pattern: nearly every text is clean.
            for kind, pattern in self._patterns:
                text = pattern.sub(lambda match, kind=kind: f"{match.group(1)}[REDACTED:{kind}]", text)
        return text if self._personal is None else without(text, self._personal)


class CurrentRedaction:
    """What is replaced now: secrets always, and what the loaded workspace adds."""

    def __init__(self) -> None:
        self._now = LogRedaction()
        self.suspects = self._now.suspects
        """As `LogRedaction` has it, and not called through another method: every append looks."""
        self._with_rules: LRUCache[int, tuple[Sequence[GuardrailRule], StreamScanners]] = LRUCache(_MAX_RULE_SETS)

    def follow(self, kinds: Iterable[str], known: Iterable[str]) -> None:
        """`kinds` as a workspace names them; secrets are covered whether it says so or not."""
        self._now = LogRedaction([*SECRETS, *(kind for kind in kinds if kind in PERSONAL)], known)
        self.suspects = self._now.suspects
        self._with_rules.clear()

    def clean(self, value: dict[str, Any]) -> dict[str, Any]:
        return self._now.clean(value)

    def text(self, text: str) -> str:
        return self._now.text(text)

    @property
    def streamed(self) -> StreamScanners:
        return self._now.streamed

    def with_rules(self, rules: Sequence[GuardrailRule]) -> StreamScanners:
        """The same together with an agent's rules, which are made once and kept."""
        cached = self._with_rules.get(id(rules))
        if cached is None or cached[0] is not rules:
            cached = self._with_rules[id(rules)] = rules, StreamScanners(self._now.streamed.set.scanners, rules)
        return cached[1]


def without(text: str, scanners: ScannerSet) -> str:
    """The text with all that the scanners find in it replaced."""
    if not scanners.suspects(text):
        return text
    window, made = StreamWindow(scanners), list[str]()
    for released in (*(window.take(text[at : at + CHUNK]) for at in range(0, len(text), CHUNK)), window.end()):
        done = start = released.start
        for number, match in released.finds:
            if match.start >= done:
                made.append(released.text[done - start : match.start - start])
                made.append(replacement(match.label) if number != GOES_ON else "")
            done = max(done, match.end)
        made.append(released.text[done - start :])
    return "".join(made)


@lru_cache(_MAX_KIND_SETS)
def _prefilter(patterns: tuple[str, ...]) -> Callable[[bytes], Any]:
    """Which of the patterns a text may have. Of the same patterns always the same: a start asks for it three times."""
    prefilter = re2.Set.SearchSet()
    for pattern in patterns:
        # Encoded, a line break before a secret ends in a letter (\n), so no word boundary may be asked for.
        prefilter.Add(pattern.replace(r"\b", ""))
    prefilter.Compile()
    # Around this is only a method in Python that also takes a str, for a quarter of the cost of a look.
    return getattr(prefilter, "_set", prefilter).Match  # type: ignore[no-any-return]  # it has no types


@lru_cache(_MAX_KIND_SETS)
def _scanners(secrets: tuple[str, ...], personal: tuple[str, ...]) -> tuple[ScannerSet | None, StreamScanners]:
    """Of personal data, and of both."""
    scanners = pii_scanners(personal)
    both = StreamScanners([*(secret_pattern(kind) for kind in secrets), *scanners])
    return ScannerSet(scanners) if scanners else None, both


def _with_lead(pattern: str) -> str:
    return pattern.replace(r"\b", LEAD, 1) if r"\b" in pattern else f"(){pattern}"


def _automaton(values: list[str]) -> Any:
    if not values:
        return None
    return ahocorasick_rs.AhoCorasick(values, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest)


def _spans(automaton: Any, text: str) -> list[tuple[int, int]]:
    return [(start, end) for _, start, end in automaton.find_matches_as_indexes(text)]
