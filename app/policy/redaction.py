"""Replaces secrets, and on request personal data, by `[REDACTED:kind]` before anything is stored.

It replaces and never refuses. A linear-time prefilter looks at the encoded payload once; only a suspect payload is
walked string by string, where checksums drop false alarms. Leaves to others: which kinds a workspace wants, and
where the values of known secrets come from.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import ahocorasick_rs
import re2

from app.core import json

J = TypeVar("J")


def _luhn(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    if not 13 <= len(digits) <= 19:
        return False
    doubled = [d * 2 - 9 if d > 4 else d * 2 for d in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _iban(text: str) -> bool:
    compact = text.replace(" ", "")
    number = "".join(str(int(char, 36)) for char in compact[4:] + compact[:4])
    return int(number) % 97 == 1


SECRETS: Final[dict[str, str]] = {
    "private_key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    "api_key": r"\b(?:sk|pk|rk)[-_](?:[a-z]+[-_])*[A-Za-z0-9_-]{20,}",
    "aws_key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "github_token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})",
    "google_key": r"\bAIza[A-Za-z0-9_-]{35}",
    "slack_token": r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    "jwt": r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    "bearer": r"(?i)\bbearer [A-Za-z0-9._~+/-]{20,}=*",
    "holdfast_key": r"\bhf_[A-Za-z0-9_-]{32,}",
}
PERSONAL: Final[dict[str, str]] = {
    "card": r"\b(?:\d[ -]?){12,18}\d\b",
    "email": r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
}
_LEAD: Final = r"(\b|\\[bfnrt]|\\u[0-9a-fA-F]{4})"
"""Before a secret: a word boundary, or an escape that ends in a letter, as in text that quotes JSON or a repr."""
_CHECKSUMS: Final[dict[str, Callable[[str], bool]]] = {"card": _luhn, "iban": _iban}


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
        patterns = {kind: (SECRETS | PERSONAL)[kind] for kind in kinds}
        self._patterns = [(kind, re2.compile(_with_lead(pattern))) for kind, pattern in patterns.items()]
        self._prefilter = re2.Set.SearchSet()
        for pattern in patterns.values():
            # Encoded, a line break before a secret ends in a letter (\n), so no word boundary may be asked for.
            self._prefilter.Add(pattern.replace(r"\b", ""))
        self._prefilter.Compile()
        # Short values would redact ordinary words; no credential worth the name is under eight characters.
        values = sorted({value for value in known if len(value) >= 8})
        # Longest first at each place: of two values where one begins the other, no tail may stay.
        self._known = _automaton(values)
        self._known_encoded = _automaton([json.dumps(value).decode()[1:-1] for value in values])

    def suspects(self, encoded: bytes) -> bool:
        """False means: certainly clean."""
        if self._prefilter.Match(encoded):
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
        if not self._prefilter.Match(text.encode("utf-8", "surrogatepass")):
            return text  # one look instead of one for each pattern: nearly every text is clean
        for kind, pattern in self._patterns:
            test = _CHECKSUMS.get(kind)

            def replaced(match: Any, kind: str = kind, test: Callable[[str], bool] | None = test) -> str:
                lead: str = match.group(1)
                found: str = match.group()
                if test is not None and not test(found[len(lead) :]):
                    return found
                return f"{lead}[REDACTED:{kind}]"

            text = pattern.sub(replaced, text)
        return text


class CurrentRedaction:
    """What is replaced now: secrets always, and what the loaded workspace adds."""

    def __init__(self) -> None:
        self._now = LogRedaction()

    def follow(self, kinds: Iterable[str], known: Iterable[str]) -> None:
        """`kinds` as a workspace names them; secrets are covered whether it says so or not."""
        self._now = LogRedaction([*SECRETS, *(kind for kind in kinds if kind in PERSONAL)], known)

    def suspects(self, encoded: bytes) -> bool:
        return self._now.suspects(encoded)

    def clean(self, value: dict[str, Any]) -> dict[str, Any]:
        return self._now.clean(value)

    def text(self, text: str) -> str:
        return self._now.text(text)


def _with_lead(pattern: str) -> str:
    return pattern.replace(r"\b", _LEAD, 1) if r"\b" in pattern else f"(){pattern}"


def _automaton(values: list[str]) -> Any:
    if not values:
        return None
    return ahocorasick_rs.AhoCorasick(values, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest)


def _spans(automaton: Any, text: str) -> list[tuple[int, int]]:
    return [(start, end) for _, start, end in automaton.find_matches_as_indexes(text)]
