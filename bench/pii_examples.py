"""Generated examples of personal data, and of what only looks like it, each in a sentence of one of 20 languages.

Numbers get their check digits from code of their own here, written from the rules of each country and not from the
scanners that they are to test. The same seed gives the same examples.
"""

import string
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

SENTENCES: Final = (
    "Please use {} from now on.", "Bitte ab jetzt {} verwenden.", "Merci d'utiliser {} désormais.",
    "Por favor, use {} desde ahora.", "Per favore usi {} da adesso.", "Gebruik voortaan {} alstublieft.",
    "Proszę odtąd używać {} zawsze.", "Använd {} från och med nu.", "Brug {} fra nu af.", "Bruk {} fra nå av.",
    "Käytä {} tästä lähtien.", "Por favor, utilize {} agora.", "Lütfen bundan sonra {} deneyin.",
    "Пожалуйста, используйте {} теперь.", "Παρακαλώ χρησιμοποιήστε {} τώρα.",
    "请使用{}谢谢", "今後は{}を使ってください",
    "앞으로 {} 를 사용하세요.", "कृपया अब से {} का उपयोग करें।", "يرجى استخدام {} من الآن.",
)  # fmt: skip
DIGITS: Final = string.digits
LETTERS: Final = string.ascii_uppercase


@dataclass(frozen=True, slots=True)
class Example:
    kind: str | None
    """What it is; None for something that must not be found."""
    form: str
    """The country, format or sort of thing."""
    value: str
    text: str


def examples(seed: int, count: int) -> list[Example]:
    """`count` of each form, so that every form weighs the same."""
    random, made = Random(seed), list[Example]()
    for kind, forms in FORMS.items():
        for form, make in forms.items():
            for _ in range(count):
                value = make(random)
                sentence = SENTENCES[len(made) % len(SENTENCES)]
                made.append(Example(None if kind == "none" else kind, form, value, sentence.format(value)))
    return made


def _digits(random: Random, count: int) -> str:
    return "".join(random.choices(DIGITS, k=count))


def _filled(random: Random, shape: str) -> str:
    """`#` becomes a digit, `@` a capital letter, `*` a hexadecimal digit, `1` to `9` stay."""
    choices = {"#": DIGITS, "@": LETTERS, "*": "0123456789abcdef"}
    return "".join(random.choice(choices[char]) if char in choices else char for char in shape)


def _luhn_digit(digits: str) -> str:
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def _grouped(text: str, sizes: tuple[int, ...], mark: str) -> str:
    parts, at = [], 0
    for size in sizes:
        parts.append(text[at : at + size])
        at += size
    return mark.join(part for part in parts if part)


def _card(prefix: str, length: int, sizes: tuple[int, ...], mark: str, wrong: int = 0) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        body = prefix + _digits(random, length - 1 - len(prefix))
        check = (int(_luhn_digit(body)) + wrong) % 10
        return _grouped(f"{body}{check}", sizes, mark)

    return make


def _iban(country: str, shape: str, mark: str = " ", wrong: int = 0) -> Callable[[Random], str]:
    def make(random: Random) -> str:
        account = _filled(random, shape)
        moved = "".join(str(int(char, 36)) for char in f"{account}{country}00")
        check = (98 - int(moved) % 97 + wrong) % 100
        return _grouped(f"{country}{check:02}{account}", (4,) * 9, mark)

    return make


def _shape(shape: str) -> Callable[[Random], str]:
    return lambda random: _filled(random, shape)


def _phone(shape: str) -> Callable[[Random], str]:
    """`?` is a digit from 2 to 9: no subscriber's number begins with 0 or 1."""
    return lambda random: _filled(random, "".join(random.choice("23456789") if char == "?" else char for char in shape))


def _word(random: Random, alphabet: str, low: int = 3, high: int = 9) -> str:
    return "".join(random.choices(alphabet, k=random.randint(low, high)))


def _email(alphabet: str, mark: str, end: str) -> Callable[[Random], str]:
    return lambda random: f"{_word(random, alphabet)}{mark}{_word(random, alphabet)}@{_word(random, alphabet)}{end}"


def _date(random: Random) -> tuple[str, str, str]:
    return f"{random.randint(40, 99):02}", f"{random.randint(1, 12):02}", f"{random.randint(1, 28):02}"


def _sum(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))


def _until(make: Callable[[Random], str | None]) -> Callable[[Random], str]:
    """Numbers for which the rule gives no check digit are not issued: another one is taken."""

    def again(random: Random) -> str:
        while (made := make(random)) is None:
            pass
        return made

    return again


def _de(random: Random) -> str:
    body, rest = random.choice("123456789") + _digits(random, 9), 10
    for char in body:
        rest = (((int(char) + rest) % 10 or 10) * 2) % 11
    return body + str((11 - rest) % 10)


def _fr(random: Random) -> str:
    year, month, _ = _date(random)
    body = f"{random.choice('12')}{year}{month}{random.randint(10, 95)}{_digits(random, 6)}"
    return _grouped(f"{body}{97 - int(body) % 97:02}", (1, 2, 2, 2, 3, 3, 2), random.choice(["", " "]))


def _es(random: Random) -> str:
    body = _digits(random, 8)
    return body + "TRWAGMYFPDXBNJZSQVHLCKE"[int(body) % 23]


def _nl(random: Random) -> str | None:
    body = _digits(random, 8)
    check = _sum(body, (9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return None if check > 9 else _grouped(f"{body}{check}", (4, 2, 3), ".")


def _be(random: Random) -> str:
    year, month, day = _date(random)
    number = _digits(random, 3)
    return f"{year}.{month}.{day}-{number}.{97 - int(year + month + day + number) % 97:02}"


def _pl(random: Random) -> str:
    body = "".join(_date(random)) + _digits(random, 4)
    return body + str(-_sum(body, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3)) % 10)


def _se(random: Random) -> str:
    body = "".join(_date(random)) + _digits(random, 3)
    return f"{body[:6]}-{body[6:]}{_luhn_digit(body)}"


def _no(random: Random) -> str | None:
    year, month, day = _date(random)
    body = f"{day}{month}{year}{_digits(random, 3)}"
    first = -_sum(body, (3, 7, 6, 1, 8, 9, 4, 5, 2)) % 11
    second = -_sum(f"{body}{first % 10}", (5, 4, 3, 2, 7, 6, 5, 4, 3, 2)) % 11
    return None if first > 9 or second > 9 else f"{body}{first}{second}"


def _fi(random: Random) -> str:
    year, month, day = _date(random)
    born, number = f"{day}{month}{year}", f"{random.randint(2, 899):03}"
    return f"{born}-{number}{'0123456789ABCDEFHJKLMNPRSTUVWXY'[int(born + number) % 31]}"


def _br(random: Random) -> str:
    body = _digits(random, 9)
    for length in (9, 10):
        rest = _sum(body, tuple(range(length + 1, 1, -1))) % 11
        body += str(0 if rest < 2 else 11 - rest)
    return f"{body[:3]}.{body[3:6]}.{body[6:9]}-{body[9:]}"


def _cn(random: Random) -> str:
    body = f"{random.randint(110000, 659000)}19{''.join(_date(random))}{_digits(random, 3)}"
    return body + "10X98765432"[sum(int(char) * (2 ** (17 - place) % 11) for place, char in enumerate(body)) % 11]


def _ch(random: Random) -> str:
    body = "756" + _digits(random, 9)
    return _grouped(body + str(-_sum(body, (1, 3) * 6) % 10), (3, 4, 4, 2), ".")


def _ca(random: Random) -> str:
    body = random.choice("1234567") + _digits(random, 7)
    return _grouped(body + _luhn_digit(body), (3, 3, 3), random.choice(" -"))


def _tr(random: Random) -> str:
    body = [random.randint(1, 9), *(random.randint(0, 9) for _ in range(8))]
    body.append((7 * sum(body[0::2]) - sum(body[1::2])) % 10)
    return "".join(map(str, [*body, sum(body) % 10]))


def _za(random: Random) -> str:
    body = "".join(_date(random)) + _digits(random, 4) + random.choice("01") + "8"
    return body + _luhn_digit(body)


def _kr(random: Random) -> str:
    body = "".join(_date(random)) + random.choice("1234") + _digits(random, 5)
    check = (11 - _sum(body, (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)) % 11) % 10
    return f"{body[:6]}-{body[6:]}{check}"


def _ro(random: Random) -> str:
    body = random.choice("12") + "".join(_date(random)) + _digits(random, 5)
    check = _sum(body, (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11
    return body + str(1 if check == 10 else check)


def _gb(random: Random) -> str:
    first, second = random.choice("ABCEHJLMPRSTWXY"), random.choice("ABCEHJLMPRSWXY")
    return _grouped(
        f"{first}{second}{_digits(random, 6)}{random.choice('ABCD')}", (2, 2, 2, 2, 1), random.choice(["", " "])
    )


def _us(random: Random) -> str:
    return f"{random.randint(1, 665):03}-{random.randint(1, 99):02}-{random.randint(1, 9999):04}"


def _isbn(random: Random) -> str:
    body = "978" + _digits(random, 9)
    return _grouped(body + str(-_sum(body, (1, 3) * 6) % 10), (3, 1, 4, 4, 1), "-")


def _octets(random: Random) -> str:
    return ".".join(str(random.randint(1, 254)) for _ in range(4))


def _secret(prefix: str, count: int, alphabet: str = string.ascii_letters + DIGITS) -> Callable[[Random], str]:
    return lambda random: prefix + "".join(random.choices(alphabet, k=count))


_IBAN_SHAPES: Final = {
    "AT": "#" * 16, "BE": "#" * 12, "BG": "@@@@" + "#" * 14, "CH": "#" * 17, "CZ": "#" * 20, "DE": "#" * 18,
    "DK": "#" * 14, "EE": "#" * 16, "ES": "#" * 20, "FI": "#" * 14, "FR": "#" * 10 + "@" * 11 + "##",
    "GB": "@@@@" + "#" * 14, "IE": "@@@@" + "#" * 14, "IT": "@" + "#" * 10 + "@" * 12, "LU": "#" * 16,
    "NL": "@@@@" + "#" * 10, "NO": "#" * 11, "PL": "#" * 24, "PT": "#" * 21, "SE": "#" * 20, "TR": "#" * 22,
    "SA": "##" + "@" * 18,
}  # fmt: skip
_PHONE_SHAPES: Final = (
    "+1 202-555-####", "+1 (202) 555-####", "(202) 555-####", "202-555-####", "202.555.####", "+44 20 7### ####",
    "+44 (0)20 7### ####", "020 7### ####", "+49 30 ?######", "+49 (0)171 ?######", "0171/?######", "030 ?######",
    "+33 6 ## ## ## ##", "06 ## ## ## ##", "+39 06 #### ####", "+34 6## ### ###", "+31 6 ########", "+48 5## ### ###",
    "+46 70-### ## ##", "+55 11 9####-####", "+86 138 #### ####", "+81 90-####-####", "+82 10-####-####",
    "+91 9#### #####", "+7 9## ###-##-##", "+90 5## ### ## ##", "0049 30 ?######", "+4915112######", "07911######",
    "6## ### ###", "138########",
)  # fmt: skip
_CYRILLIC, _GREEK, _SMALL = "абвгдежзиклмнопрст", "αβγδεζηθικλμνοπρστ", string.ascii_lowercase
_HEX = "0123456789abcdef"

FORMS: Final[dict[str, dict[str, Callable[[Random], str]]]] = {
    "card": {
        "visa 4-4-4-4": _card("4", 16, (4, 4, 4, 4), " "),
        "visa together": _card("4", 16, (16,), ""),
        "visa of 13": _card("4", 13, (13,), ""),
        "mastercard dashes": _card("55", 16, (4, 4, 4, 4), "-"),
        "mastercard 2": _card("2221", 16, (4, 4, 4, 4), " "),
        "amex 4-6-5": _card("37", 15, (4, 6, 5), " "),
        "diners": _card("36", 14, (4, 6, 4), " "),
        "discover": _card("6011", 16, (16,), ""),
        "jcb": _card("3530", 16, (4, 4, 4, 4), " "),
        "unionpay of 19": _card("62", 19, (6, 13), " "),
    },
    "iban": {
        **{country: _iban(country, shape) for country, shape in _IBAN_SHAPES.items()},
        "DE together": _iban("DE", "#" * 18, ""),
    },
    "email": {
        "plain": _email(_SMALL, ".", ".com"), "plus": _email(_SMALL, "+", ".org"),
        "digits": _email(DIGITS + "a", "_", ".de"),
        "subdomain": _email(_SMALL, "-", ".mail.co.uk"), "long end": _email(_SMALL, ".", ".photography"),
        "accents": _email("abcéüñø", ".", ".fr"), "cyrillic": _email(_CYRILLIC, ".", ".рф"),
        "greek": _email(_GREEK, ".", ".ελ"), "punycode": _email(_SMALL, ".", ".xn--p1ai"),
        "chinese name": _email("王小明李华", "", ".com"),
        "quoted": lambda random: f'"{_word(random, _SMALL)} x"@example.com',
    },
    "phone": {shape: _phone(shape) for shape in _PHONE_SHAPES},
    "national_id": {
        "us": _us, "gb": _gb, "de": _de, "fr": _fr, "es": _es, "nl": _until(_nl), "be": _be, "pl": _pl, "se": _se,
        "no": _until(_no), "fi": _fi, "br": _br, "cn": _cn, "ch": _ch, "ca": _ca, "tr": _tr, "za": _za, "kr": _kr,
        "ro": _ro,
    },
    "ip": {
        "v4": _octets,
        "v6 whole": _shape("2001:db8:1***:2***:3***:4***:5***:6***"),
        "v6 short": _shape("2001:db8::1***:2***"),
        "v6 link": _shape("fe80::1***:2***:3***:4***"),
        "v4 with port": lambda random: f"{_octets(random)}:8080",
        "v4 in a URL": lambda random: f"http://{_octets(random)}/x",
    },
    "mac": {
        "colons": _shape("0*:1*:2*:3*:4*:5*"), "dashes": _shape("A0-1#-2#-3#-4#-5#"), "dots": _shape("a***.1***.2***"),
        "together": _shape("00aB*#*#*#*#"),
    },
    "token": {
        "api_key": _secret("sk-proj-", 40), "aws_key": _secret("AKIA", 16, LETTERS + "234567"),
        "github_token": _secret("ghp_", 36), "google_key": _secret("AIza", 35), "slack_token": _secret("xoxb-", 24),
        "jwt": lambda random: ".".join(_secret(start, 20)(random) for start in ("eyJ", "eyJ", "")),
        "bearer": _secret("Bearer ", 32), "holdfast_key": _secret("hf_", 40),
        "password": lambda random: f"password={_word(random, _SMALL + DIGITS, 8, 14)}",
    },
    "none": {
        "card, wrong check": _card("4", 16, (4, 4, 4, 4), " ", wrong=1),
        "IBAN, wrong check": _iban("DE", "#" * 18, wrong=1),
        "order number": _shape("ORD-2024-######"), "invoice": _shape("INV########"), "order digits": _shape("9######"),
        "version": _shape("v1.#.#"), "version of four": _shape("1.#.#.1##"),
        "date": lambda random: f"2024-{random.randint(1, 12):02}-{random.randint(1, 28):02}",
        "date with points": lambda random: f"{random.randint(1, 28):02}.{random.randint(1, 12):02}.2024",
        "time stamp": lambda random: f"2024-11-{random.randint(1, 28):02}T1{_digits(random, 1)}:30:07Z",
        "epoch": _shape("17########"), "epoch in ms": _shape("17###########"),
        "git hash": lambda random: "".join(random.choices(_HEX, k=40)),
        "sha256": lambda random: "".join(random.choices(_HEX, k=64)),
        "uuid": _shape("********-****-4***-a***-************"), "ISBN": _isbn,
        "price": _shape("1#,###.## EUR"), "large number": _shape("1 ### ### ###"), "size": _shape("1###x####"),
        "package": _shape("name@1.#.#"), "clock": _shape("1#:2#:3#"), "ratio": _shape("1#:#"),
        "file": _shape("IMG_2024####_######.jpg"),
        "percent": _shape("##.##%"), "tracking": _shape("1Z@@@###########"), "DOI": _shape("10.1###/j.2#.0##"),
    },
}  # fmt: skip
"""For each kind, how to make one of each form. Some are forms that are known not to be found."""
