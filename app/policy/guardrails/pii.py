"""Personal data in text: card numbers, IBANs, addresses and numbers of people and machines, as scanners.

Each kind is a pattern of what may be one and, where there is one, the check that its digits carry. What is found does
not depend on how a text is cut. Leaves to others: what follows from a find.
"""

import ipaddress
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from app.policy.guardrails.contract import Match
from app.policy.guardrails.national_ids import NATIONAL_IDS, luhn
from app.policy.guardrails.patterns import BoundedPattern
from app.policy.guardrails.secret_patterns import SECRETS, SecretPattern

_IBAN_LENGTHS: Final = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18,
    "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24,
    "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24,
    "XK": 20,
}  # fmt: skip


class NumberScanner:
    """Finds what the pattern allows and the check accepts, between characters that are neither letters nor digits.

    Of several at one place the longest counts; where none is accepted, the next one that begins a word is tried.
    """

    def __init__(
        self,
        label: str,
        pattern: str,
        valid: Callable[[str], bool],
        *,
        apart: str = "",
        alone: bool = False,
        shape_first: bool = False,
    ) -> None:
        """`apart` are characters that join words as letters do; `alone` refuses a find that goes on a longer number.
        With `shape_first`, `valid` is only asked about what the pattern allows as a whole; without, about any beginning
        of that, which is quicker."""
        self._label, self._valid, self._apart, self._alone = label, valid, apart, alone
        self._shape_first = shape_first
        self._pattern = BoundedPattern(pattern)
        assert self._pattern.opening_source is not None and self._pattern.longest is not None
        self._longest, self._shortest = self._pattern.longest, self._pattern.shortest
        self._sources = (self._pattern.source, self._pattern.opening_source)

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    def search(self, text: str, start: int) -> Match | None:
        at = start
        while (found := self._candidate(text, at)) is not None:
            begin, end = found
            if self._is_edge(text, begin):
                last = self._accepted(text, begin, end)
                if last is not None:
                    return Match(begin, last, self._label)
            at = self._next_edge(text, begin + 1)
        return None

    def _candidate(self, text: str, at: int) -> tuple[int, int] | None:
        """The first piece from there on that the pattern allows. Looked for in slices that grow: a search costs as much
        as the text that it is given is long, and hostile text has a candidate at every word."""
        length = 2 * self._longest
        while True:
            piece = text[at : at + length]
            found = self._pattern.search(piece)
            whole = at + length >= len(text)
            if found is not None and (whole or found.start() + self._longest <= len(piece)):
                return at + found.start(), at + found.end()
            if whole:
                return None
            # What begins in the last characters of a slice may go on after it, so it is looked at again.
            at += len(piece) - self._longest + 1
            length *= 2

    def opening(self, text: str, start: int) -> int:
        at = self._pattern.opening(text, start)
        while at < len(text) and not self._is_edge(text, at):
            at = self._pattern.opening(text, self._next_edge(text, at + 1))
        return at

    def _next_edge(self, text: str, at: int) -> int:
        while at < len(text) and not self._is_edge(text, at):
            at += 1
        return at

    def _is_edge(self, text: str, at: int) -> bool:
        """Whether a word may begin or end here."""
        if at == 0 or at == len(text):
            return True
        if self._alone and _follows_number(text, at):
            return False
        before, after = text[at - 1], text[at]
        return not ((joins(before) or before in self._apart) and (joins(after) or after in self._apart))

    def _accepted(self, text: str, begin: int, end: int) -> int | None:
        for last in range(end, begin + max(4, self._shortest - 1), -1):
            if joins(text[last - 1]) and self._is_edge(text, last) and self._fits(text[begin:last]):
                return last
        return None

    def _fits(self, piece: str) -> bool:
        if self._shape_first:
            return self._pattern.matches(piece) and self._valid(piece)
        return self._valid(piece) and self._pattern.matches(piece)


def _follows_number(text: str, at: int) -> bool:
    """Whether this is the next group of a number that is written in groups."""
    group = text[max(0, at - 4) : at - 1]
    return len(group) == 3 and text[at - 1] in " -." and text[at].isdigit() and group[-1].isdigit() and group.isalnum()


def joins(char: str) -> bool:
    """Whether the character is part of a word, and not of a script that has no spaces between words."""
    return char.isalnum() and (char < "\u0e00" or not any(first <= char <= last for first, last in UNSPACED))


UNSPACED: Final = (
    ("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u2e80", "\uabff"),
    ("\uac00", "\ud7a3"), ("\uf900", "\ufaff"), ("\uff00", "\uffef"), ("\U00020000", "\U0003ffff"),
)  # fmt: skip
"""Thai and Lao, Burmese, Khmer, the scripts of China, Japan and Korea."""


_MARKS: Final = dict.fromkeys(map(ord, " .:/+-()\u00a0"))
"""What may stand between the digits of a number."""


def _compact(text: str) -> str:
    return text.translate(_MARKS)


def _card(text: str) -> bool:
    digits = text.replace(" ", "").replace("-", "")
    return len(digits) >= 13 and digits[0] in "23456" and len(set(digits)) > 1 and luhn(digits)


def _iban(text: str) -> bool:
    compact = text.replace(" ", "").replace("-", "").upper()
    if len(compact) != _IBAN_LENGTHS.get(compact[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def _ip(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not address.is_unspecified


def _mac(text: str) -> bool:
    marks = {char for char in text if not char.isalnum()}
    return len(marks) == 1 and len(set(_compact(text).lower())) > 1


def _phone(text: str) -> bool:
    digits = sum(map(str.isdigit, text))
    return 8 <= digits <= 15 and len(set(_compact(text))) > 2


def _address(text: str) -> bool:
    return text.rpartition(".")[2].replace("-", "").isalnum()


def _has_check(valid: Callable[[str], bool], text: str) -> bool:
    return valid(_compact(text))


_GAP: Final = r"[ .\-/\x{a0}]"
_PHONE: Final = "|".join(
    (
        # With a country code: +49 (0)30 1234567, +1-202-555-0143
        rf"(?:\+|00)[1-9]\d{{0,2}}{_GAP}?(?:\(0?\d{{0,4}}\){_GAP}?)?\d{{1,5}}(?:{_GAP}?\d{{1,5}}){{1,5}}",
        # With an area code in brackets: (202) 555-0143, (030) 123 456
        rf"\(0?\d{{2,4}}\){_GAP}?\d{{2,4}}(?:{_GAP}?\d{{2,4}}){{1,3}}",
        # In groups, from the trunk prefix on: 030 1234567, 06 12 34 56 78, 0171/2345678
        rf"0\d{{1,4}}{_GAP}\d{{2,8}}(?:{_GAP}\d{{2,8}}){{0,4}}",
        # North American: 202-555-0143, 202.555.0143
        r"[2-9]\d{2}(?:-[2-9]\d{2}-|\.[2-9]\d{2}\.)\d{4}",
        # Mobile numbers written together: 06123456789
        r"0[1-9]\d{8,9}",
    )
)
_LETTERS: Final = r"A-Za-z\x{c0}-\x{24f}\x{370}-\x{52f}"
"""Latin, Greek and Cyrillic ones. Scripts without spaces between words would join an address to the words before it."""
_EMAIL: Final = (
    rf"[{_LETTERS}0-9_][{_LETTERS}0-9._%+'-]{{0,63}}@"
    rf"(?:[{_LETTERS}0-9-]{{1,40}}\.){{1,4}}(?:[{_LETTERS}]{{2,24}}|xn--[a-z0-9-]{{2,20}})"
)


def _email() -> NumberScanner:
    return NumberScanner("email", _EMAIL, _address, apart="")


def _ips() -> list[NumberScanner]:
    octets = r"\d{1,3}(?:\.\d{1,3}){3}"
    groups = r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}"
    return [NumberScanner("ip", octets, _ip, apart="."), NumberScanner("ip", groups, _ip, apart=":")]


def _macs() -> list[NumberScanner]:
    pairs, fours = r"[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}", r"[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}"
    return [NumberScanner("mac", pairs, _mac, apart=":"), NumberScanner("mac", fours, _mac, apart=".")]


Make = Callable[[], Iterable[NumberScanner | SecretPattern]]
PII: Final[dict[str, Make]] = {
    "card": lambda: [NumberScanner("card", r"\d(?:[ -]?\d){12,18}", _card)],
    "iban": lambda: [NumberScanner("iban", r"[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}", _iban)],
    "email": lambda: [_email()],
    "phone": lambda: [NumberScanner("phone", _PHONE, _phone, alone=True)],
    "national_id": lambda: [
        NumberScanner("national_id", one.pattern, partial(_has_check, one.valid), shape_first=True)
        for one in NATIONAL_IDS
    ],
    "ip": _ips,
    "mac": _macs,
    "token": lambda: [SecretPattern(kind) for kind in SECRETS],
}


def pii_scanners(kinds: Iterable[str]) -> list[NumberScanner | SecretPattern]:
    return [scanner for kind in kinds for scanner in PII[kind]()]
