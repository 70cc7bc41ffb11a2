"""What is replaced before it is stored, what is left alone, and that the quick look never misses."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import json
from app.policy.guardrails.secret_patterns import SECRETS
from app.policy.redaction import PERSONAL, LogRedaction, secret_values
from tests.examples import examples

EXAMPLES = {
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
    "api_key": "sk-proj-" + "aB3_" * 8,
    "aws_key": "AKIA" + "ABCD2345" * 2,
    "github_token": "ghp_" + "a1B2c3" * 6,
    "google_key": "AIza" + "Ab1_x" * 7,
    "slack_token": "xoxb-12345678-abcdefgh",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "bearer": "Bearer abcdefghijklmnopqrst.uvw==",
    "holdfast_key": "hf_" + "Zz09" * 10,
}
SECRET_TEXTS = st.sampled_from(sorted(EXAMPLES.values()))


def _stored(redaction: LogRedaction, payload: dict[str, Any]) -> dict[str, Any]:
    """As the recorder does it: one look at the encoded payload decides whether it is walked."""
    return redaction.clean(payload) if redaction.suspects(json.canonical(payload)) else payload


@pytest.mark.smoke
@pytest.mark.requirement("G21", "HK-32")
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_every_kind_is_replaced_by_its_kind(kind: str) -> None:
    payload = {"text": f"use {EXAMPLES[kind]} for it"}
    assert _stored(LogRedaction(), payload) == {"text": f"use [REDACTED:{kind}] for it"}


@pytest.mark.requirement("G21")
@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("before", ["\n", "\t", "\r\n", "\x1f", '"', "\\", "é", ":", "="])
def test_a_secret_is_found_whatever_stands_before_it(kind: str, before: str) -> None:
    payload = {"text": f"line{before}{EXAMPLES[kind]} end"}
    assert _stored(LogRedaction(), payload) == {"text": f"line{before}[REDACTED:{kind}] end"}


@pytest.mark.requirement("G21")
@pytest.mark.parametrize("kind", sorted(SECRETS.keys() - {"private_key"}))
@pytest.mark.parametrize("escape", [r"\n", r"\t", r"\r\n", r"\u001f", r"\\n"])
def test_a_secret_is_found_in_text_that_quotes_json(kind: str, escape: str) -> None:
    payload = {"text": f'{{"output":"line{escape}{EXAMPLES[kind]}"}}'}
    assert _stored(LogRedaction(), payload) == {"text": f'{{"output":"line{escape}[REDACTED:{kind}]"}}'}


@pytest.mark.requirement("G21")
def test_a_private_key_that_was_cut_off_is_replaced_to_its_end() -> None:
    payload = {"text": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg"}
    assert _stored(LogRedaction(), payload) == {"text": "[REDACTED:private_key]"}


@pytest.mark.requirement("G21")
def test_secrets_are_replaced_in_keys_lists_and_nested_records() -> None:
    secret = EXAMPLES["github_token"]
    payload = {"a": [{"b": secret}, secret], secret: 1, "n": None, "f": 1.5, "t": True}
    assert _stored(LogRedaction(), payload) == {
        "a": [{"b": "[REDACTED:github_token]"}, "[REDACTED:github_token]"],
        "[REDACTED:github_token]": 1,
        "n": None,
        "f": 1.5,
        "t": True,
    }


def test_the_given_value_is_left_as_it_was() -> None:
    payload = {"a": [EXAMPLES["jwt"]]}
    LogRedaction().clean(payload)
    assert payload == {"a": [EXAMPLES["jwt"]]}


@pytest.mark.parametrize(
    "text",
    [
        "a task-force-of-many-words-and-letters met",
        "sk-short",
        "the bearer of bad news",
        "AKIA is a prefix",
        "eyJ is how a token begins",
        "-----BEGIN CERTIFICATE-----",
        "4111 1111 1111 1111",
        "someone@example.com",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert _stored(LogRedaction(), {"text": text}) == {"text": text}


@pytest.mark.parametrize(
    ("kind", "found", "similar"),
    [
        ("card", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("iban", "DE89 3704 0044 0532 0130 00", "DE88 3704 0044 0532 0130 00"),
        ("email", "someone@example.com", "someone at example.com"),
    ],
)
def test_personal_data_is_replaced_on_request_and_only_with_a_right_checksum(
    kind: str, found: str, similar: str
) -> None:
    redaction = LogRedaction([*SECRETS, kind])
    assert _stored(redaction, {"text": f"\n{found}\n"}) == {"text": f"\n[REDACTED:{kind}]\n"}
    assert _stored(redaction, {"text": f"\n{similar}\n"}) == {"text": f"\n{similar}\n"}


@pytest.mark.requirement("G21")
@pytest.mark.parametrize(
    "secret", ["correct horse", 'with "quotes" inside', "back\\slash value", "line\nbreak one", "ünïcödé é"]
)
def test_known_values_are_replaced_however_json_writes_them(secret: str) -> None:
    redaction = LogRedaction(known=[secret])
    assert _stored(redaction, {"text": f"é {secret} é"}) == {"text": "é [REDACTED:secret] é"}


@pytest.mark.requirement("G21")
def test_of_two_known_values_where_one_begins_the_other_no_tail_stays() -> None:
    redaction = LogRedaction(known=["password1", "password1-and-more"])
    assert _stored(redaction, {"text": "password1-and-more password1"}) == {
        "text": "[REDACTED:secret] [REDACTED:secret]"
    }


def test_known_values_under_eight_characters_are_ignored() -> None:
    assert _stored(LogRedaction(known=["secret"]), {"text": "a secret"}) == {"text": "a secret"}


USUAL, THOROUGH = LogRedaction(), LogRedaction([*SECRETS, *PERSONAL])


@pytest.mark.requirement("G21")
@settings(max_examples=examples(150), deadline=None)
@given(before=st.text(max_size=8), secret=SECRET_TEXTS, after=st.text(max_size=8))
def test_what_a_walk_would_replace_is_always_suspected(before: str, secret: str, after: str) -> None:
    """The quick look at encoded bytes may raise a false alarm, but it must never say that a secret is clean."""
    payload = {"text": before + secret + after}
    assert _stored(USUAL, payload) == USUAL.clean(payload)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.one_of(st.text(max_size=12), SECRET_TEXTS), max_size=5))
def test_cleaning_twice_changes_nothing_more(texts: list[str]) -> None:
    once = THOROUGH.clean({"texts": texts})
    assert THOROUGH.clean(once) == once


@pytest.mark.requirement("G21")
def test_known_secrets_are_what_a_workspace_lists_what_names_say_and_passwords_in_addresses() -> None:
    environ = {
        "CRM_LOGIN": "listed-value", "STRIPE_API_KEY": "named-value-1", "DB_PASSWORD": "named-value-2", "HOME": "/root",
        "DATABASE_URL": "postgres://app:in-the-address@db/app", "KEYBOARD": "qwerty-layout",
    }  # fmt: skip
    found = secret_values(environ, ["CRM_LOGIN", "MISSING"])
    assert sorted(found) == ["in-the-address", "listed-value", "named-value-1", "named-value-2"]
