"""The window over a conversation: what always stays, what stays together, and that it fits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.backends.context_window import (
    NOTE_TOKENS,
    Room,
    note,
    shortened,
    split,
    tokens_of,
    total,
    transcript,
    units,
    window,
)
from app.core.json import JsonObject
from app.models.completion import CompletionRequest, estimate_tokens, message_from_json

REQUEST: JsonObject = {"role": "user", "content": "the request"}


def user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


def assistant(text: str) -> JsonObject:
    return {"role": "assistant", "content": text}


def calls(*ids: str, result: str = "r") -> list[JsonObject]:
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": i, "name": "t", "args": {}} for i in ids]}
    return [asked, *({"role": "tool", "content": result, "tool_call_id": i, "name": "t"} for i in ids)]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[JsonObject], list[JsonObject]]:
    """A thread so far and a run's own messages, whose call ids are all different."""
    text = st.text(max_size=40)
    number = 0

    def piece(kind: str, said: str, parallel: int) -> list[JsonObject]:
        nonlocal number
        if kind != "calls":
            return [{"role": kind, "content": said}]
        number += 1
        return calls(*(f"c{number}-{n}" for n in range(parallel)), result=said)

    kinds = st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "system", "calls"]), text, st.integers(1, 3)), max_size=12
    )
    before = [message for one in draw(kinds) for message in piece(*one)]
    after = [message for one in draw(kinds) for message in piece(*one)]
    return before, [REQUEST, *after]


rooms = st.builds(
    Room,
    st.none() | st.integers(0, 600),
    st.none() | st.integers(1, 40),
)


def ids_called(messages: Any) -> list[str]:
    return [call["id"] for message in messages for call in message.get("tool_calls", ())]


def ids_answered(messages: Any) -> list[str]:
    return [message["tool_call_id"] for message in messages if message["role"] == "tool"]


@pytest.mark.requirement("HK-7")
@given(conversations(), rooms)
def test_a_call_is_never_parted_from_its_results(found: tuple[list[JsonObject], list[JsonObject]], room: Room) -> None:
    shown = window(*found, room)
    assert ids_called(shown.messages) == ids_answered(shown.messages)
    assert ids_called(shown.left_out) == ids_answered(shown.left_out)


@given(conversations(), rooms)
def test_the_request_and_the_newest_unit_always_stay(
    found: tuple[list[JsonObject], list[JsonObject]], room: Room
) -> None:
    earlier, own = found
    shown = window(earlier, own, room)
    assert shown.own[0] is REQUEST
    newest = units(own)[-1]
    assert shown.own[-len(newest) :] == newest


@given(conversations(), rooms)
def test_what_is_shown_fits_or_is_the_least_there_can_be(
    found: tuple[list[JsonObject], list[JsonObject]], room: Room
) -> None:
    earlier, own = found
    shown = window(earlier, own, room)
    least = 1 + (len(units(own)[-1]) if len(own) > 1 else 0)
    said = note(shown.left_out)
    tokens = total(shown.messages) + (tokens_of(said) if said is not None else 0)
    assert room.holds(tokens, len(shown.messages)) or len(shown.messages) == least


@given(conversations(), rooms)
def test_nothing_is_lost_doubled_or_out_of_order(found: tuple[list[JsonObject], list[JsonObject]], room: Room) -> None:
    earlier, own = found
    shown = window(earlier, own, room)
    order = {id(message): number for number, message in enumerate([*earlier, *own])}
    numbers = [order[id(message)] for message in shown.messages]
    assert numbers == sorted(numbers)
    assert sorted([*numbers, *(order[id(message)] for message in shown.left_out)]) == sorted(order.values())


@given(conversations(), rooms)
def test_earlier_messages_begin_with_what_somebody_asked(
    found: tuple[list[JsonObject], list[JsonObject]], room: Room
) -> None:
    shown = window(*found, room)
    assert not shown.left_out or not shown.earlier or shown.earlier[0]["role"] == "user"


@given(conversations())
def test_with_room_for_all_nothing_is_left_out(found: tuple[list[JsonObject], list[JsonObject]]) -> None:
    earlier, own = found
    assert window(earlier, own, Room()).messages == (*earlier, *own)
    assert window(earlier, own, Room(total([*earlier, *own]), 100)).left_out == ()


@given(conversations())
def test_the_estimate_is_not_below_the_one_that_refuses_long_inputs(
    found: tuple[list[JsonObject], list[JsonObject]],
) -> None:
    messages = [*found[0], *found[1]]

    def no_media(_: Any) -> bytes:
        raise AssertionError

    request = CompletionRequest(messages=tuple(message_from_json(message, no_media) for message in messages))
    assert total(messages) >= estimate_tokens(request) - 1


@given(conversations(), st.integers(1, 20))
def test_a_split_keeps_units_whole_and_the_request(found: tuple[list[JsonObject], list[JsonObject]], keep: int) -> None:
    earlier, own = found
    parts = split(earlier, own, keep)
    assert parts.own[0] is REQUEST
    for piece in (parts.old, parts.earlier, parts.own):
        assert ids_called(piece) == ids_answered(piece)
    assert len(parts.old) + len(parts.earlier) + len(parts.own) == len(earlier) + len(own)
    assert len(parts.earlier) + len(parts.own) - 1 >= min(keep, len(earlier) + len(own) - 1)


# -- examples --------------------------------------------------------------------------------------


def test_the_oldest_go_first_and_the_rest_begins_with_a_question() -> None:
    earlier = [user("one"), assistant("1"), user("two"), assistant("2"), user("three"), assistant("3")]
    shown = window(earlier, [REQUEST], Room(messages=4))
    assert [message["content"] for message in shown.messages] == ["three", "3", "the request"]
    assert len(shown.left_out) == 4


def test_a_long_loop_keeps_its_request_and_its_newest_results() -> None:
    own = [REQUEST, *calls("a"), *calls("b"), *calls("c")]
    shown = window([user("before"), assistant("x")], own, Room(messages=4))
    assert shown.own == (REQUEST, *calls("c"))


def test_a_result_that_came_late_is_put_to_its_call_and_one_without_a_call_is_dropped() -> None:
    asked, result = calls("a")
    orphan = {"role": "tool", "content": "?", "tool_call_id": "gone", "name": "t"}
    assert units([asked, orphan, user("hint"), result]) == [(asked, result), (user("hint"),)]


def test_a_note_names_tools_and_files_and_stays_short() -> None:
    picture = {"role": "user", "content": "look", "parts": [{"type": "image", "name": "cat.png", "blob": {}}]}
    said = note([picture, *calls("a", "b")])
    assert said == {
        "role": "system",
        "content": "4 earlier messages are not shown. Tools used in them: t (2). Files in them: cat.png.",
    }
    many = [{**picture, "parts": [{"type": "file", "name": "ü" * 200, "blob": {}}]} for _ in range(50)]
    long = note(many)
    assert long is not None and tokens_of(long) <= NOTE_TOKENS
    assert note([]) is None


def test_a_long_result_is_cut_and_says_so() -> None:
    _, result = calls("a", result="ü" * 100)
    assert shortened(result, 9)["content"] == "üüüü\n[shortened to 9 of 200 bytes]"
    assert shortened(result, 200) is result
    assert shortened(user("x" * 100), 5) == user("x" * 100)


def test_a_transcript_is_plain_text_and_loses_the_oldest_first() -> None:
    messages = [user("first"), *calls("a", result="done"), assistant("last")]
    assert transcript(messages, None) == "user: first\nassistant: [calls t {}]\nt: done\nassistant: last"
    assert transcript(messages, 7) == "t: done\nassistant: last"
