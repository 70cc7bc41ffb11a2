"""The one shape: published fields, our optional ones, and the way back from the log."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.schemas import SchemaRegistry
from app.models.completion import (
    CompletionRequest,
    CompletionResponse,
    JsonPart,
    Media,
    Message,
    ReasoningLevel,
    Text,
    Thought,
    TokenUsage,
    ToolCall,
    ToolDef,
    message_from_json,
    request_hash,
)

PICTURE = b"png" * 100
CALL = ToolCall("c1", "t", {}, "{broken")
TALK = (
    Message("system", "Be brief."),
    Message("user", "Look", (Text("Look"), Media("image", "image/png", PICTURE, "p.png"), JsonPart({"a": [1]}))),
    Message("assistant", "", tool_calls=(CALL,), thoughts=(Thought("anthropic", "hm", "signed"),)),
    Message("tool", "ok", tool_call_id="c1", name="t"),
)
FULL = CompletionRequest(
    TALK,
    tools=(ToolDef("t", "a tool"),),
    tool_choice="t",
    max_tokens=5,
    temperature=0.5,
    stop=("END",),
    seed=1,
    reasoning=ReasoningLevel("low", 100),
    response_schema={"type": "object"},
)


@pytest.mark.requirement("OS-L7", "OS-I5")
@pytest.mark.parametrize("request_", [CompletionRequest((Message("user", "Hi"),)), FULL])
def test_a_request_validates_against_the_published_schema(request_: CompletionRequest) -> None:
    assert SchemaRegistry().validate("completion_request_v1", request_.to_json("m")) == []


@pytest.mark.requirement("OS-L7", "OS-I5")
def test_a_response_validates_against_the_published_schema() -> None:
    usage = TokenUsage(1, 2, 3, 4, 0.5)
    media = (Media("image", "image/png", PICTURE),)
    response = CompletionResponse("hi", (CALL,), "tool_use", usage, "m", "msg", media, (Thought("x"),), "hm")
    assert SchemaRegistry().validate("completion_response_v1", response.to_json()) == []
    message = response.as_message()
    assert message.parts[0] == Text("hi") and message.thoughts and message.tool_calls == (CALL,)


_COUNTED = st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False), st.text(max_size=3), st.none())
_PLAIN = st.builds(
    CompletionResponse,
    text=st.text(),
    tool_calls=st.just(()),
    finish_reason=st.sampled_from(["stop", "tool_use", "max_tokens", "safety", "other"]),
    usage=st.builds(TokenUsage, _COUNTED, _COUNTED, _COUNTED, _COUNTED, st.none() | st.floats(0, 1e9)),
    model=st.text(),
    message_id=st.text(),
    reasoning=st.text(),
)


@pytest.mark.requirement("OS-L7", "OS-I5")
@given(response=_PLAIN)
def test_a_plain_response_matches_its_schema_whatever_it_says(response: CompletionResponse) -> None:
    if response.is_plain:
        assert SchemaRegistry().validate("completion_response_v1", response.to_json()) == []


def test_only_text_with_whole_numbers_is_plain() -> None:
    def response(usage: TokenUsage = TokenUsage(1, 2), **fields: Any) -> CompletionResponse:
        given = {"text": "hi", "tool_calls": (), "finish_reason": "stop", "model": "m", "message_id": "msg"}
        return CompletionResponse(usage=usage, **(given | fields))

    assert response().is_plain and response(TokenUsage(1, 2, 3, 4, 0.5)).is_plain
    strange: Any = "12"
    for usage in (TokenUsage(strange), TokenUsage(1, strange), TokenUsage(1, 2, strange), TokenUsage(1, 2, 3, strange)):
        assert not response(usage).is_plain
    picture = Media("image", "image/png", PICTURE)
    for fields in ({"tool_calls": (CALL,)}, {"parts": (picture,)}, {"thoughts": (Thought("x"),)}):
        assert not response(**fields).is_plain
    assert not response(finish_reason="other").is_plain


@pytest.mark.requirement("HK-2")
def test_a_message_comes_back_from_json_as_it_was() -> None:
    blobs = {hashlib.sha256(PICTURE).hexdigest(): PICTURE}
    back = tuple(message_from_json(m.to_json(), lambda blob: blobs[blob["sha256"]]) for m in TALK)
    assert [m.to_json() for m in back] == [m.to_json() for m in TALK]
    assert request_hash(CompletionRequest(back).to_json("m")) == request_hash(CompletionRequest(TALK).to_json("m"))


def test_media_are_named_by_hash_and_never_spelled_out() -> None:
    document = FULL.to_json("m")
    assert document["messages"][1]["parts"][1]["blob"] == {
        "sha256": hashlib.sha256(PICTURE).hexdigest(),
        "size": 300,
        "mime": "image/png",
    }
    assert "pngpng" not in str(document)
