"""What models make comes in from every provider that can make it, and goes back in the next request to each."""

import base64
from typing import Any

import pytest

from app.models.capabilities import needed
from app.models.completion import CompletionRequest, Media, Message, Text, ToolCall
from app.models.contract import Completed, TextDelta
from app.models.kinds import gemini, openai
from app.models.media import MAX_MEDIA, hashed, received, stored_media
from app.models.prepare import Prepared, prepare
from app.models.transport import WireFault
from tests.models.provider_setup import a_model
from tests.models.test_decoding import read
from tests.models.test_encoding import body_of

pytestmark = pytest.mark.requirement("HK-2")

PICTURE, SOUND = b"\x89PNG a picture", b"RIFF a sound"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url(data: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{b64(data)}"


def conversation(*after: Message) -> CompletionRequest:
    picture = Media("image", "image/png", PICTURE)
    made = Message("assistant", "Here.", (Text("Here."), picture))
    return CompletionRequest((Message("user", "draw"), made, *after))


# -- from a model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mime", "kind", "stored"),
    [
        ("image/png", "image", "image/png"),
        ("audio/L16;codec=pcm;rate=24000", "audio", "audio/l16"),
        ("video/mp4", "video", "video/mp4"),
        ("application/pdf", "file", "application/pdf"),
        ("text/html\r\nset-cookie: a=b", "file", "application/octet-stream"),
        ("x" * 5_000 + "/y", "file", "application/octet-stream"),
        ("", "file", "application/octet-stream"),
        (None, "file", "application/octet-stream"),
        ({"no": "text"}, "file", "application/octet-stream"),
    ],
)
def test_the_type_that_a_model_names_is_checked(mime: Any, kind: str, stored: str) -> None:
    assert received(mime, b64(b"data")) == Media(kind, stored, b"data")  # type: ignore[arg-type]


def test_what_is_not_base64_is_no_media() -> None:
    with pytest.raises(ValueError):
        received("image/png", "not base64!")


def test_openai_answers_with_sound_in_pieces_and_what_is_said_in_it() -> None:
    events = read(
        openai.OpenAiDecoder(),
        {"choices": [{"delta": {"audio": {"id": "a", "transcript": "Good "}}}]},
        {"choices": [{"delta": {"audio": {"data": b64(SOUND[:6])}}}]},
        {"choices": [{"delta": {"audio": {"data": b64(SOUND[6:]), "transcript": "day."}}}]},
        {"choices": [{"delta": {"audio": {"expires_at": 5}}, "finish_reason": "stop"}]},
    )
    assert events == [
        TextDelta("Good "),
        TextDelta("day."),
        Completed("stop", (Media("audio", "audio/wav", SOUND),)),
    ]


@pytest.mark.parametrize("place", ["delta", "message"])
def test_openai_gateways_answer_with_pictures(place: str) -> None:
    images = [{"type": "image_url", "image_url": {"url": url(PICTURE)}}]
    document = {"choices": [{place: {"content": "Here.", "images": images}, "finish_reason": "stop"}]}
    decoder = openai.OpenAiDecoder()
    events = read(decoder, document) if place == "delta" else [*decoder.whole(document), *decoder.finish()]
    assert events == [TextDelta("Here."), Completed("stop", (Media("image", "image/png", PICTURE),))]


def test_an_address_of_a_picture_is_text_and_nobody_asks_for_it() -> None:
    images = [{"image_url": {"url": "http://169.254.169.254/latest"}}]
    events = read(openai.OpenAiDecoder(), {"choices": [{"delta": {"images": images}, "finish_reason": "stop"}]})
    assert events == [TextDelta("\nhttp://169.254.169.254/latest\n"), Completed("stop")]


def test_more_media_than_any_model_makes_end_the_call() -> None:
    images = [{"image_url": {"url": url(b"x")}}] * (MAX_MEDIA + 1)
    with pytest.raises(WireFault):
        read(openai.OpenAiDecoder(), {"choices": [{"delta": {"images": images}, "finish_reason": "stop"}]})
    parts = [{"inlineData": {"mimeType": "image/png", "data": b64(b"x")}}] * (MAX_MEDIA + 1)
    with pytest.raises(WireFault):
        read(gemini.ContentDecoder(), {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})


def test_content_is_hashed_once_and_stored_under_its_hash() -> None:
    part = hashed(Media("image", "image/png", PICTURE))
    (draft,) = stored_media((Text("a"), part))
    assert isinstance(part, Media) and hashed(part) is part
    assert (draft.sha256, draft.data, draft.mime) == (part.sha256, PICTURE, "image/png")


# -- to a model -----------------------------------------------------------------------------------------


def test_gemini_gets_its_picture_back_in_its_own_message() -> None:
    sent = body_of("gemini", conversation(Message("user", "larger")))
    assert sent["contents"][1] == {
        "role": "model",
        "parts": [{"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": b64(PICTURE)}}],
    }


def test_ollama_gets_its_picture_back_in_its_own_message() -> None:
    sent = body_of("ollama", conversation(Message("user", "larger")))
    assert sent["messages"][1] == {"role": "assistant", "content": "Here.", "images": [b64(PICTURE)]}


def test_openai_is_shown_what_an_assistant_made_as_a_user_would_show_it() -> None:
    sent = body_of("openai", conversation(Message("user", "larger")))
    roles = [message["role"] for message in sent["messages"]]
    assert roles == ["user", "assistant", "user", "user"]
    assert sent["messages"][1]["content"] == "Here."
    assert sent["messages"][2]["content"][1] == {"type": "image_url", "image_url": {"url": url(PICTURE)}}


def test_anthropic_is_shown_what_an_assistant_made_as_a_user_would_show_it() -> None:
    sent = body_of("anthropic", conversation(Message("user", "larger")))
    assistant, user = sent["messages"][1], sent["messages"][2]
    assert assistant == {"role": "assistant", "content": [{"type": "text", "text": "Here."}]}
    assert user["role"] == "user" and user["content"][1]["source"]["data"] == b64(PICTURE)


def test_what_was_made_beside_a_call_follows_the_results_of_the_call() -> None:
    request = CompletionRequest(
        (
            Message("user", "draw and file it"),
            Message("assistant", "", (Media("image", "image/png", PICTURE),), (ToolCall("c1", "save", {}),)),
            Message("tool", "saved", tool_call_id="c1", name="save"),
        )
    )
    sent = body_of("openai", request)
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool", "user"]


def test_a_model_that_takes_no_pictures_goes_on_without_those_that_were_made() -> None:
    request = conversation(Message("user", "thanks"))
    assert needed(request) == frozenset()
    ready = prepare(request, a_model("blind", "openai", "test"), frozenset({"streaming"}))
    assert isinstance(ready, Prepared)
    assert ready.notes == ("blind takes no image: what an assistant made of it was left out",)
    assert ready.call.request.messages[1].parts == (Text("Here."), Text("[image/png, not shown]"))
