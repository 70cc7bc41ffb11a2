"""Triggers are literal, on word borders, in linear time."""

import time

import pytest

from app.workspace.triggers import TriggerMatcher

SKILLS = {"greet": ["hi", "hello there"], "mail": ["e-mail", "write mail"], "cpp": ["c++"], "any": ["a.*b"]}


@pytest.mark.requirement("OS-L5")
@pytest.mark.parametrize(
    ("text", "skills"),
    [
        ("Hi!", ["greet"]),
        ("this", []),
        ("hi_there", []),
        ("HELLO   \n THERE you", ["greet"]),
        ("send an E-Mail, hi", ["mail", "greet"]),
        ("I write c++ code", ["cpp"]),
        ("axxb", []),
        ("a.*b", ["any"]),
        ("", []),
    ],
)
def test_skills_are_matched_by_words_and_phrases(text: str, skills: list[str]) -> None:
    assert [hit.skill for hit in TriggerMatcher(SKILLS).match(text)] == skills


def test_longest_trigger_wins_then_the_name() -> None:
    matcher = TriggerMatcher({"b": ["report"], "a": ["report"], "c": ["weekly report"]})
    assert [hit.skill for hit in matcher.match("a weekly report")] == ["c", "a", "b"]
    best = matcher.best("a weekly report", {"b", "a"})
    assert best is not None and best.skill == "a"


def test_case_is_folded_beyond_ascii() -> None:
    assert TriggerMatcher({"s": ["STRASSE"]}).match("die straße hier")


def test_many_triggers_on_a_long_text_take_linear_time() -> None:
    matcher = TriggerMatcher({f"s{n}": [f"word{n}", "a " * (n % 40) + "b"] for n in range(1_000)})
    start = time.process_time()
    matcher.match("a " * 200_000)
    assert time.process_time() - start < 2
