"""Secrets that are recognised by their look or because their value is known, in whole texts and in streams.

Replaced everywhere and always; a workspace cannot switch them off. Leaves to others: where known values come from.
"""

import functools
from collections.abc import Iterable
from typing import Any, Final

import ahocorasick_rs
import re2

from app.policy.guardrails.contract import Match
from app.policy.guardrails.patterns import BoundedPattern, compiled
from app.policy.guardrails.window import EndlessScanner, OpenEnded

SECRETS: Final[dict[str, str]] = {
    "private_key": r"-----BEGIN [A-Z ]{0,64}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,64}PRIVATE KEY-----|\z)",
    "api_key": r"\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])*[A-Za-z0-9_-]{20,}",
    "aws_key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})",
    "google_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "slack_token": r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    # Everything that may belong to a token, so that of two that are joined by a "-" the second one is not left over.
    "jwt": r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}[A-Za-z0-9_.-]*",
    "bearer": r"(?i)\bbearer [A-Za-z0-9._~+/-]{20,}=*",
    "holdfast_key": r"\bhf_[A-Za-z0-9_-]{32,}",
}
LEAD: Final = r"(\b|\\[bfnrt]|\\u[0-9a-fA-F]{4})"
"""Before a secret: a word boundary, or an escape that ends in a letter, as in text that quotes JSON or a repr."""
_LEAD_LENGTH: Final = 6

_RESTS: Final[dict[str, str]] = {
    "api_key": r"[A-Za-z0-9_-]*",
    "github_token": r"[A-Za-z0-9_]*",
    "slack_token": r"[A-Za-z0-9-]*",
    "jwt": r"[A-Za-z0-9_.-]*",
    "bearer": r"[A-Za-z0-9._~+/-]*=*",
    "holdfast_key": r"[A-Za-z0-9_-]*",
}
_KEY_HEADER: Final = r"-----BEGIN [A-Z ]{0,64}PRIVATE KEY-----"
_KEY_END: Final = re2.compile(r"-----END [A-Z ]{0,64}PRIVATE KEY-----")
_HEAD: Final = 8
"""Characters by which a known value is recognised first. Shorter values are not looked for: they would redact ordinary
words, and no credential worth the name is as short."""


class _Characters:
    """Goes on as long as the characters are of a kind."""

    def __init__(self, source: str) -> None:
        self._more = compiled(f"^(?:{source})")

    def taken(self, before: str, text: str) -> tuple[int, bool]:
        # Padding ends a token: only more of it may follow.
        padded = len(text) - len(text.lstrip("=")) if before.endswith("=") else None
        count = int(self._more.search(text).end()) if padded is None else padded
        return count, count == len(text)


class _Key:
    """A private key goes on to its last line, however far that is."""

    def taken(self, before: str, text: str) -> tuple[int, bool]:
        found = _KEY_END.search(before + text)
        return (len(text), True) if found is None else (max(0, found.end() - len(before)), False)


class SecretPattern(EndlessScanner):
    def __init__(self, kind: str) -> None:
        source = SECRETS[kind]
        lead = LEAD if r"\b" in source else "()"
        body = source.replace(r"\b", "", 1) if r"\b" in source else source
        self._kind = kind
        self._find = compiled(lead + body)
        opening = BoundedPattern(_KEY_HEADER if kind == "private_key" else body).opening_source
        assert opening is not None
        self._opening = compiled(lead + opening)
        self._sources = (body, lead + opening)
        self._fixed = kind in ("aws_key", "google_key")

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    def search(self, text: str, start: int) -> Match | None:
        found = _after_lead(self._find, text, start)
        return None if found is None else Match(found.end(1), found.end(), self._kind)

    def opening(self, text: str, start: int) -> int:
        found = _after_lead(self._opening, text, start)
        return len(text) if found is None else int(found.end(1))

    def rest(self, text: str, match: Match) -> OpenEnded | None:
        if self._kind == "private_key":
            return _Key()
        if text.startswith("gh", match.start) and not text.startswith("github_pat_", match.start):
            return _Characters(r"[A-Za-z0-9]*")
        return None if self._fixed else _Characters(_RESTS[self._kind])


def _after_lead(pattern: Any, text: str, start: int) -> Any:
    """The first match whose secret begins at `start` or later; what leads to it may be before that."""
    at = max(0, start - _LEAD_LENGTH)
    while (found := pattern.search(text, at)) is not None and found.end(1) < start:
        at = found.start() + 1
    return found


class KnownSecrets:
    """Values that must never appear, whatever they look like. Memory and time grow with their total length."""

    def __init__(self, values: Iterable[str]) -> None:
        self._by_head: dict[str, list[str]] = {}
        # Longest first: of two values where one begins the other, no tail may stay.
        for value in sorted({value for value in values if len(value) >= _HEAD}, key=len, reverse=True):
            self._by_head.setdefault(value[:_HEAD], []).append(value)
        heads = sorted(self._by_head)
        self.heads = ahocorasick_rs.AhoCorasick(heads) if heads else None
        self._openings = {head[:length] for head in heads for length in range(1, _HEAD)}
        escaped = [re2.escape(head) for head in heads]
        openings = [BoundedPattern(head).opening_source for head in escaped]
        self._sources = (*escaped, "|".join(source for source in openings if source)) if heads else ()

    def __bool__(self) -> bool:
        return bool(self._by_head)

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    def search(self, text: str, start: int) -> Match | None:
        for at in self._starts(text, start):
            for value in self._by_head[text[at : at + _HEAD]]:
                if text.startswith(value, at):
                    return Match(at, at + len(value), "secret")
        return None

    def opening(self, text: str, start: int) -> int:
        for at in self._starts(text, start):
            left = len(text) - at
            if any(left < len(value) and value.startswith(text[at:]) for value in self._by_head[text[at : at + _HEAD]]):
                return at
        for length in range(min(_HEAD - 1, len(text) - start), 0, -1):
            if text[-length:] in self._openings:
                return len(text) - length
        return len(text)

    def _starts(self, text: str, start: int) -> list[int]:
        if self.heads is None:
            return []
        found = self.heads.find_matches_as_indexes(text[start:], overlapping=True)
        return sorted({at + start for _, at, _ in found})


@functools.cache
def secret_pattern(kind: str) -> SecretPattern:
    """One for each kind is enough: it remembers nothing of what it looks at."""
    return SecretPattern(kind)
