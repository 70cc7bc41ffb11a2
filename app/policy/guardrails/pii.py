"""Personal data in text: card numbers, IBANs, addresses and numbers of people and machines, as scanners.

Each kind is a pattern of what may be one and, where there is one, the check that its digits carry. What is found does
not depend on how a text is cut. Leaves to others: what follows from a find.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Final

from app.policy.guardrails.contract import Match
from app.policy.guardrails.national_ids import NATIONAL_IDS, luhn
from app.policy.guardrails.patterns import BoundedPattern, compiled
from app.policy.guardrails.secret_patterns import SECRETS, SecretPattern, secret_pattern

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


_NEAR: Final = 128  # characters around a candidate that are looked through for more of them


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
        whole: bool = False,
    ) -> None:
        """`apart` are characters that join words as letters do; `alone` refuses a find that goes on a longer number,
        `whole` one that is some groups of a longer number in groups.
        With `shape_first`, `valid` is only asked about what the pattern allows as a whole; without, about any beginning
        of that, which is quicker."""
        self._label, self._valid, self._alone = label, valid, alone
        self._shape_first, self._whole = shape_first, whole
        # What follows decides whether more groups follow, so a stream has to wait for it.
        self._pattern = BoundedPattern(f"(?:{pattern})[ -]?" if whole else pattern)
        assert self._pattern.opening_source is not None and self._pattern.longest is not None
        self._find, self._longest = compiled(pattern), self._pattern.longest
        self._shortest = max(5, self._pattern.shortest)
        self._sources = (pattern, self._pattern.opening_source)
        # RE2 finds where one may be; around there Python's own expressions look: hostile text has a candidate at every
        # word, and a call of RE2 takes longer than the few characters that a bounded pattern can go through. These
        # patterns are ours, and a failed attempt of one costs no more than its longest match has characters.
        joint = f"(?:{_JOINT}|[{re.escape(apart)}])" if apart else _JOINT
        edge = f"(?:(?<!{joint})|(?!{joint}))"
        shape = _CODE_POINT.sub(lambda found: rf"\u{int(found[1], 16):04x}", pattern)
        self._shape = re.compile(f"(?:{shape})", re.ASCII)
        self._begin = re.compile(f"{edge}(?a:{shape})")
        self._edge = re.compile(edge)
        self._end = re.compile(f"(?<={_JOINT}){edge}")

    @property
    def sources(self) -> tuple[str, ...]:
        return self._sources

    @property
    def longest(self) -> int:
        """Characters that a stream may have to be held for it."""
        return self._longest

    def search(self, text: str, start: int) -> Match | None:
        at = start
        while (near := self._possible(text, at)) is not None:
            at, until = near, near + _NEAR
            # What begins before `until` may end that much later.
            while (found := self._begin.search(text, at, until + self._longest)) is not None and found.start() < until:
                begin, end = found.span()
                if not (self._alone and _follows_number(text, begin)):
                    last = self._accepted(text, begin, end)
                    if last is not None:
                        return Match(begin, last, self._label)
                at = begin + 1
            at = until
        return None

    def _possible(self, text: str, at: int) -> int | None:
        """Where the first piece from there on begins that the pattern allows. RE2 looks for it, in slices that grow: a
        search costs as much as the text that it is given is long."""
        length = 4 * self._longest
        while at < len(text):
            piece, is_last = text[at : at + length], at + length >= len(text)
            found = self._find.search(piece)
            # What begins in the last characters of a slice may go on after it, so it is looked at again: another one
            # that begins before it may only be complete then.
            if found is not None and (is_last or found.start() + self._longest <= len(piece)):
                return at + int(found.start())
            if is_last:
                return None
            at += len(piece) - self._longest + 1
            length *= 4
        return None

    def opening(self, text: str, start: int) -> int:
        at = self._pattern.opening(text, start)
        while at < len(text) and not self._is_edge(text, at):
            following = self._edge.search(text, at + 1)
            at = self._pattern.opening(text, len(text) if following is None else following.start())
        return at

    def _is_edge(self, text: str, at: int) -> bool:
        """Whether a word may begin or end here."""
        if self._alone and 0 < at < len(text) and _follows_number(text, at):
            return False
        return self._edge.match(text, at) is not None

    def _accepted(self, text: str, begin: int, end: int) -> int | None:
        if end - begin < self._shortest:
            return None
        # One character more than may belong to it: what follows decides whether a word ends.
        ends = [found.start() for found in self._end.finditer(text, begin + self._shortest, end + 1)]
        for last in reversed(ends):
            fits = last <= end and self._fits(text[begin:last])
            if fits and not (self._whole and _has_more_groups(text, begin, last)):
                return last
        return None

    def _fits(self, piece: str) -> bool:
        if self._shape_first:
            return self._shape.fullmatch(piece) is not None and self._valid(piece)
        return self._valid(piece) and self._shape.fullmatch(piece) is not None


class CardScanner(NumberScanner):
    """Card numbers. The checks of all the lengths that one may have are made in one pass over its digits."""

    def __init__(self) -> None:
        super().__init__("card", r"[2-6](?:[ -]?\d){12,18}", luhn, apart="+")

    def _accepted(self, text: str, begin: int, end: int) -> int | None:
        found, count, plain, doubled = None, 0, 0, 0
        for at in range(begin, end):
            digit = _DIGITS.get(text[at])
            if digit is not None:
                # The last digit counts as it is, the one before it twice, and so on: another digit swaps the two sums.
                plain, doubled = doubled + digit, plain + _TWICE[digit]
                count += 1
                ends = count >= 13 and plain % 10 == 0 and self._edge.match(text, at + 1)
                if ends and _ISSUED.fullmatch(_compact(text[begin : at + 1])):
                    found = at + 1
        return found if found is not None and len(set(_compact(text[begin:found]))) > 1 else None


_ISSUED: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"  # Visa
    r"|5\d{15}|5[0678]\d{15,17}|(?:222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard and Maestro
    r"|220[0-4]\d{12,15}|3[47]\d{13}|2131\d{11}"  # Mir, American Express, JCB
    r"|3[0689]\d{12}(?:\d{2,5})?|35[2-8]\d{13,16}|6\d{15,18}"  # Diners Club, JCB, Discover, UnionPay and others
)
"""What the numbers of cards begin with, and how long they are then."""
_DIGITS: Final = {str(digit): digit for digit in range(10)}
_TWICE: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def _follows_number(text: str, at: int) -> bool:
    """Whether this is the next group of a number that is written in groups."""
    if at < 2 or text[at - 1] not in " -." or not text[at].isdigit() or not text[at - 2].isdigit():
        return False
    return text[at - 1] != " " or (at >= 4 and text[at - 4 : at - 1].isalnum())


def _has_more_groups(text: str, begin: int, end: int) -> bool:
    """Whether the groups of this number are some of a longer one: what parts them also parts it from more digits."""
    mark = next((char for char in text[begin:end] if char in " -"), None)
    if mark is None:
        return False
    before = begin >= 2 and text[begin - 1] == mark and text[begin - 2].isdigit()
    return before or (end + 1 < len(text) and text[end] == mark and text[end + 1].isdigit())


def joins(char: str) -> bool:
    """Whether the character is part of a word, and not of a script that has no spaces between words."""
    return char.isalnum() and (char < "\u0e00" or not any(first <= char <= last for first, last in UNSPACED))


UNSPACED: Final = (
    ("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"), ("\u2e80", "\uabff"),
    ("\uac00", "\ud7a3"), ("\uf900", "\ufaff"), ("\uff00", "\uffef"), ("\U00020000", "\U0003ffff"),
)  # fmt: skip
"""Thai and Lao, Burmese, Khmer, the scripts of China, Japan and Korea."""
_JOINT: Final = rf"[^\W_{''.join(f'{first}-{last}' for first, last in UNSPACED)}]"
"""A character that `joins`, for Python's expressions."""
_CODE_POINT: Final = re.compile(r"\\x\{([0-9a-f]+)\}")
"""How RE2 spells a character; Python does so differently."""


_MARKS: Final = dict.fromkeys(map(ord, " .:/+-()\u00a0"))
"""What may stand between the digits of a number."""


def _compact(text: str) -> str:
    return text.translate(_MARKS)


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
    digits = _compact(text)
    return 8 <= len(digits) <= 15 and len(set(digits)) > 2 and not _NO_PHONE.fullmatch(text)


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
        # North American: 202-555-0143, 202.555.0143, 1-800-555-0143
        r"(?:1[-.])?[2-9]\d{2}(?:-[2-9]\d{2}-|\.[2-9]\d{2}\.)\d{4}",
        # Mobile numbers written together: 06123456789, in China 13812345678
        r"0[1-9]\d{8,9}|1[3-9]\d{9}",
    )
)
_NO_PHONE: Final = re.compile(
    r"(?:0[1-9]|[12]\d|3[01])([./-])(?:0[1-9]|1[0-2])\1(?:19|20)\d{2}"  # a date
    r"|\d{3}-\d{2}-\d{4}|\d{4}\.\d{2}\.\d{3}|\d{3}\.\d{3}\.\d{3}-\d{2}"  # national ids: us, nl, br
)
_LETTERS: Final = r"A-Za-z\x{c0}-\x{24f}\x{370}-\x{52f}"
"""Latin, Greek and Cyrillic ones. Scripts without spaces between words would join an address to the words before it."""
_EMAIL: Final = (
    rf"[{_LETTERS}0-9_][{_LETTERS}0-9._%+'-]{{0,63}}@"
    rf"(?:[{_LETTERS}0-9-]{{1,40}}\.){{1,4}}(?:xn--[a-z0-9-]{{2,20}}|[{_LETTERS}]{{2,24}})"
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
    "card": lambda: [CardScanner()],
    "iban": lambda: [NumberScanner("iban", r"[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}", _iban)],
    "email": lambda: [_email()],
    "phone": lambda: [NumberScanner("phone", _PHONE, _phone, alone=True)],
    "national_id": lambda: [
        NumberScanner(
            "national_id", one.pattern, partial(_has_check, one.valid), apart="+", shape_first=True, whole=one.whole
        )
        for one in NATIONAL_IDS
    ],
    "ip": _ips,
    "mac": _macs,
    "token": lambda: [secret_pattern(kind) for kind in SECRETS],
}


@cache
def _scanners_of(kind: str) -> tuple[NumberScanner | SecretPattern, ...]:
    """They keep nothing of what they look at, so that all rules share them."""
    return tuple(PII[kind]())


def pii_scanners(kinds: Iterable[str]) -> list[NumberScanner | SecretPattern]:
    return [scanner for kind in kinds for scanner in _scanners_of(kind)]
