"""What is found in a stream does not depend on how it is cut, and text without a find passes unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.events.catalog.adapter import OUTPUT_DELTA, TOOL_DELTA
from app.policy.guardrails.contract import GuardrailRule, Scanner
from app.policy.guardrails.patterns import BoundedPattern, PatternError
from app.policy.guardrails.pii import PII, NumberScanner, _follows_number, pii_scanners
from app.policy.guardrails.screen import StreamScanners, StreamScreen
from app.policy.guardrails.secret_patterns import SECRETS, KnownSecrets, SecretPattern
from tests.examples import examples

KNOWN = ["hunter2hunter2", "supersecretvalue-" + "z" * 300, "supersec", "aaaaaaaaaaaaab"]
PIECES = [
    *KNOWN, "sk-proj-" + "A1b2" * 8, "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1B2" * 10, "Bearer " + "aB3/" * 8 + "==",
    "eyJhbGciOiJI.eyJzdWIiOiIx.abcDEF123-_", "-----BEGIN RSA PRIVATE KEY-----\nMIIa+/\n-----END RSA PRIVATE KEY-----",
    "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "joe@example.com", "+49 30 1234567", "123-45-6789",
    "10.0.0.1", "the", "ask", "sk-", "\\n", "s", "risk-free", "-----", "eyJ", "super", "2024-11-17", "12:30", "::",
]  # fmt: skip
SECRET_SCANNERS: list[Scanner] = [KnownSecrets(KNOWN), *(SecretPattern(kind) for kind in SECRETS)]
PLAIN = StreamScanners(SECRET_SCANNERS)
RULED = StreamScanners(SECRET_SCANNERS, [GuardrailRule("r", "pii", "redact", scanners=tuple(pii_scanners(PII)))])
TEXTS = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from([" ", "", ", ", "\n", "-"])), max_size=6)


def _through(scanners: StreamScanners, text: str, cuts: list[int], phase: str = OUTPUT_DELTA) -> str:
    screen, made, at = StreamScreen(scanners), "", 0
    for cut in [*sorted(cut % (len(text) + 1) for cut in cuts), len(text)]:
        piece, at = text[at:cut], cut
        made += screen.text(piece) if phase == OUTPUT_DELTA else screen.take(phase, 0, piece)
    return made + "".join(rest for _, _, rest in screen.end())


@pytest.mark.requirement("G21", "HK-18")
@settings(deadline=None, max_examples=examples(60))
@given(TEXTS, st.lists(st.integers(0, 2000), max_size=12), st.sampled_from([PLAIN, RULED]))
def test_the_cuts_of_a_stream_do_not_change_what_is_found(
    parts: list[tuple[str, str]], cuts: list[int], scanners: StreamScanners
) -> None:
    text = "".join(piece + gap for piece, gap in parts)
    whole = _through(scanners, text, [])
    assert _through(scanners, text, cuts) == whole == _through(scanners, text, list(range(len(text))))


@pytest.mark.requirement("G21")
def test_of_two_tokens_that_are_joined_nothing_is_left() -> None:
    token = "eyJhbGciOiJI.eyJzdWIiOiIx.abcDEF123-_"
    for text in (f"{token}-{token} ", f"{token}{token} ", f"{token}.{token} ", f"{token[:24]}-{token} "):
        for cuts in ([], list(range(len(text)))):
            assert _through(PLAIN, text, cuts) == "[REDACTED:jwt] "


@pytest.mark.requirement("G21")
@pytest.mark.parametrize("secret", [*KNOWN, "sk-proj-" + "A1b2" * 8, "AKIAIOSFODNN7EXAMPLE"])
def test_a_secret_cut_at_any_place_does_not_leave(secret: str) -> None:
    text = f"so {secret} it is"
    for cut in range(len(text)):
        assert secret not in _through(PLAIN, text, [cut])


@pytest.mark.requirement("G21")
def test_letters_written_as_escapes_hide_nothing_in_arguments() -> None:
    text = '{"key": "\\u0068unter2\\u0068unter2", "line": "a\\nb\\\\u0041"}'
    for cuts in ([], list(range(len(text)))):
        assert _through(PLAIN, text, cuts, TOOL_DELTA) == '{"key": "[REDACTED:secret]", "line": "a\\nb\\\\u0041"}'


@pytest.mark.parametrize("pattern", ["a+", "a*", "(", "(a|b{2,})", "x?", r"\Qab\E", "a{300}"])
def test_a_pattern_that_could_hold_back_everything_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        BoundedPattern(pattern, limit=256)


GROUPS = ["1", "12 ", "123 ", "1234-", "+", "0", "4111 1111 1111 1111", "x", " ", ".", "030 1234567"]


@pytest.mark.requirement("HK-18")
@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.sampled_from(GROUPS), min_size=40, max_size=160).map("".join))
def test_a_search_in_slices_finds_what_a_search_in_the_whole_finds(text: str) -> None:
    for scanner in pii_scanners(["card", "phone", "national_id", "ip", "mac"]):
        assert isinstance(scanner, NumberScanner)
        found, at, expected = scanner.search(text, 0), 0, None
        while expected is None and (candidate := scanner._begin.search(text, at)) is not None:
            begin, end = candidate.span()
            if not (scanner._alone and _follows_number(text, begin)):
                last = scanner._accepted(text, begin, end)
                expected = None if last is None else (begin, last)
            at = begin + 1
        assert (None if found is None else (found.start, found.end)) == expected
