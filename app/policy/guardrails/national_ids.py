"""National identification numbers: how each country writes them, and the check that its digits carry.

A pattern is what may be one; `valid` gets its letters and digits without separators. Numbers that are plain digits in
most texts, and whose check any tenth number passes, are only taken in their usual grouping.
"""

from collections.abc import Callable
from datetime import date
from operator import mul
from typing import Final

from app.core.value import value

Valid = Callable[[str], bool]


@value(frozen=True, slots=True)
class NationalId:
    country: str
    pattern: str
    valid: Valid
    whole: bool = False
    """Whether groups before and after it say that it is a part of something longer: its check passes many numbers."""


_PLAIN: Final = bytes(code - 48 if 48 <= code < 58 else 0 for code in range(256))
_DOUBLED: Final = bytes(sum(divmod(2 * (code - 48), 10)) if 48 <= code < 58 else 0 for code in range(256))
"""What a digit counts for by its code, once and twice."""


def luhn(digits: str) -> bool:
    codes = digits.encode()
    return (sum(codes[::-2].translate(_PLAIN)) + sum(codes[-2::-2].translate(_DOUBLED))) % 10 == 0


def _weighted(digits: str, weights: tuple[int, ...]) -> int:
    return sum(map(mul, digits.encode().translate(_PLAIN), weights))


def _is_date(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _born(two_digits: str, month: str, day: str) -> bool:
    return _is_date(2000 + int(two_digits), int(month), int(day)) or _is_date(
        1900 + int(two_digits), int(month), int(day)
    )


def _us(digits: str) -> bool:
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def _gb(text: str) -> bool:
    return text[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ") and not set(text[:2]) & set("DFIQUV")


def _de(digits: str) -> bool:
    product = 10
    for digit in digits[:10]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return digits[0] != "0" and (11 - product) % 10 == int(digits[10])


def _fr(text: str) -> bool:
    number = text[:13].replace("2A", "19").replace("2B", "18")
    return number.isdigit() and text[0] in "12" and 97 - int(number) % 97 == int(text[13:])


def _es(text: str) -> bool:
    number = text[:-1].replace("X", "0", 1).replace("Y", "1", 1).replace("Z", "2", 1)
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == text[-1]


_IT_ODD: Final = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)


def _it(text: str) -> bool:
    total = 0
    for place, char in enumerate(text[:15]):
        value = int(char) if char.isdigit() else ord(char) - 65
        total += value if place % 2 else _IT_ODD[value]
    return chr(65 + total % 26) == text[15]


def _nl(digits: str) -> bool:
    return (_weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2)) - int(digits[8])) % 11 == 0 and digits != "000000000"


def _be(digits: str) -> bool:
    number, check = int(digits[:9]), int(digits[9:])
    return check in (97 - number % 97, 97 - (2_000_000_000 + number) % 97)


def _pl(digits: str) -> bool:
    month = int(digits[2:4]) % 20
    known = 1 <= month <= 12 and 1 <= int(digits[4:6]) <= 31
    return known and (10 - _weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10) % 10 == int(digits[10])


def _se(digits: str) -> bool:
    short = digits[-10:]
    day = int(short[4:6])
    return _born(short[:2], short[2:4], f"{day - 60 if day > 60 else day:02}") and luhn(short)


def _dk(digits: str) -> bool:
    return _born(digits[4:6], digits[2:4], digits[:2])


def _no(digits: str) -> bool:
    first = (11 - _weighted(digits, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11) % 11
    second = (11 - _weighted(digits, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11) % 11
    return first == int(digits[9]) and second == int(digits[10])


def _fi(text: str) -> bool:
    number = text[:6] + text[-4:-1]
    return _born(text[4:6], text[2:4], text[:2]) and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(number) % 31] == text[-1]


def _pt(digits: str) -> bool:
    check = 11 - _weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return (0 if check > 9 else check) == int(digits[8])


def _br(digits: str) -> bool:
    if len(set(digits)) == 1:
        return False
    first = _weighted(digits, (10, 9, 8, 7, 6, 5, 4, 3, 2)) * 10 % 11 % 10
    second = _weighted(digits, (11, 10, 9, 8, 7, 6, 5, 4, 3, 2)) * 10 % 11 % 10
    return first == int(digits[9]) and second == int(digits[10])


_VERHOEFF: Final = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_VERHOEFF_STEP: Final = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


def _in(digits: str) -> bool:
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_VERHOEFF[check][int(_VERHOEFF_STEP[place % 8][int(digit)])])
    return digits[0] not in "01" and check == 0


def _cn(text: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    born = _is_date(int(text[6:10]) or 1, int(text[10:12]), int(text[12:14]))
    return born and "10X98765432"[_weighted(text[:17], weights) % 11] == text[17].upper()


def _ean(digits: str) -> bool:
    return (10 - _weighted(digits, (1, 3) * 6) % 10) % 10 == int(digits[12])


def _tr(digits: str) -> bool:
    numbers = [int(digit) for digit in digits]
    tenth = (sum(numbers[0:9:2]) * 7 - sum(numbers[1:8:2])) % 10
    return numbers[0] != 0 and tenth == numbers[9] and sum(numbers[:10]) % 10 == numbers[10]


def _za(digits: str) -> bool:
    return _born(digits[:2], digits[2:4], digits[4:6]) and digits[10] in "012" and luhn(digits)


def _kr(digits: str) -> bool:
    check = (11 - _weighted(digits, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10
    return _born(digits[:2], digits[2:4], digits[4:6]) and digits[6] in "12345678" and check == int(digits[12])


def _cz(digits: str) -> bool:
    month = int(digits[2:4])
    month -= next((more for more in (70, 50, 20) if month > more), 0)
    return _born(digits[:2], f"{month:02}", digits[4:6]) and int(digits) % 11 == 0


def _ro(digits: str) -> bool:
    check = _weighted(digits, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return (
        digits[0] in "12345678"
        and _born(digits[1:3], digits[3:5], digits[5:7])
        and (1 if check == 10 else check) == int(digits[12])
    )


def _mx(text: str) -> bool:
    alphabet = "0123456789ABCDEFGHIJKLMN\u00d1OPQRSTUVWXYZ"
    total = sum(alphabet.index(char) * (18 - place) for place, char in enumerate(text[:17]))
    return _born(text[4:6], text[6:8], text[8:10]) and (10 - total % 10) % 10 == int(text[17])


NATIONAL_IDS: Final = (
    NationalId("us", r"\d{3}-\d{2}-\d{4}", _us),
    NationalId("gb", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", _gb),
    NationalId("de", r"\d{2} \d{3} \d{3} \d{3}|\d{11}", _de, whole=True),
    NationalId("fr", r"[12] ?\d{2} ?\d{2} ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}", _fr),
    NationalId("es", r"(?:\d{8}|[XYZ]-?\d{7})-?[A-Z]", _es),
    NationalId("it", r"[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]", _it),
    NationalId("nl", r"\d{4}\.\d{2}\.\d{3}|\d{3} \d{3} \d{3}", _nl, whole=True),
    NationalId("be", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}|\d{11}", _be),
    NationalId("pl", r"\d{11}", _pl),
    NationalId("se", r"(?:\d{2})?\d{6}[-+]\d{4}", _se),
    NationalId("dk", r"\d{6}-\d{4}", _dk),
    NationalId("no", r"\d{6} ?\d{5}", _no),
    NationalId("fi", r"\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]", _fi),
    NationalId("pt", r"\d{3} \d{3} \d{3}", _pt, whole=True),
    NationalId("br", r"\d{3}\.\d{3}\.\d{3}-\d{2}|\d{11}", _br),
    NationalId("in", r"\d{4}[ -]\d{4}[ -]\d{4}|\d{12}", _in, whole=True),
    NationalId("cn", r"\d{17}[0-9Xx]", _cn),
    NationalId("ch", r"756\.\d{4}\.\d{4}\.\d{2}|756\d{10}", _ean),
    NationalId("ca", r"\d{3}[ -]\d{3}[ -]\d{3}", luhn, whole=True),
    NationalId("tr", r"\d{11}", _tr),
    NationalId("za", r"\d{13}", _za),
    NationalId("kr", r"\d{6}-\d{7}", _kr),
    NationalId("cz", r"\d{6}/\d{4}", _cz),
    NationalId("ro", r"\d{13}", _ro),
    NationalId("mx", r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[0-9A-Z]\d", _mx),
)
