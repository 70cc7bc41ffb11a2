"""What each kind reads out of documents that the fakes do not send."""

import base64
from typing import Any

import pytest

from app.models.completion import Media, Thought
from app.models.contract import Completed, TextDelta, UsageReport
from app.models.kinds import anthropic, gemini, ollama, openai
from app.models.transport import MAX_CALLS, MAX_VALUES, Decoder, Upstream, WireFault, read_document, whole_answer


def read(decoder: Decoder, *documents: Any) -> list[Any]:
    events: list[Any] = []
    for document in documents:
        events += decoder.payload(document)
    return events + decoder.finish()


def test_anthropics_encrypted_thoughts_are_kept_for_the_next_turn() -> None:
    block = {"type": "redacted_thinking", "data": "xyz"}
    events = read(
        anthropic.MessagesDecoder(),
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "some_later_invention"},
        {"type": "message_stop"},
    )
    assert events[-1] == Completed("stop", (), (Thought("anthropic", "", "redacted:xyz"),))


def test_anthropics_cached_input_is_part_of_the_input() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5, "output_tokens": 1}
    events = read(anthropic.MessagesDecoder(), {"type": "message_start", "message": {"usage": usage}})
    assert events[0] == UsageReport(105, 1, None, 90)


def test_gemini_can_answer_with_a_picture() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"png").decode()}}
    candidate = {"content": {"parts": [part]}, "finishReason": "STOP"}
    [completed] = read(gemini.ContentDecoder(), {"candidates": [candidate]})
    assert completed.parts == (Media("image", "image/png", b"png"),)


def test_geminis_signature_on_text_is_kept() -> None:
    parts = [{"text": "Hi"}, {"text": "", "thoughtSignature": "signed"}]
    events = read(gemini.ContentDecoder(), {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
    assert events == [TextDelta("Hi"), Completed("stop", (), (Thought("gemini", "", "signed"),))]


def test_a_prompt_that_gemini_blocks_is_a_withheld_answer() -> None:
    [completed] = read(gemini.ContentDecoder(), {"promptFeedback": {"blockReason": "SAFETY"}})
    assert completed.finish_reason == "safety"


def test_a_function_call_that_gemini_cannot_read_itself_is_an_upstream_error() -> None:
    with pytest.raises(Upstream):
        read(gemini.ContentDecoder(), {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})


def test_ollamas_arguments_may_also_be_text() -> None:
    function = {"name": "t", "arguments": '{"n": 1'}
    events = read(ollama.OllamaDecoder(), {"message": {"tool_calls": [{"function": function}]}, "done": True})
    assert events[1].raw_args == '{"n": 1' and events[-1] == Completed("tool_use")


def test_an_openai_refusal_is_text_and_a_usage_chunk_may_lack_choices() -> None:
    events = read(
        openai.OpenAiDecoder(),
        {"choices": [{"delta": {"refusal": "No."}, "finish_reason": None}]},
        {"choices": [{"delta": {"content": "!"}, "finish_reason": "content_filter"}]},
        {"choices": None, "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )
    assert events == [TextDelta("No."), TextDelta("!"), UsageReport(1, 2), Completed("safety")]


def test_a_compatible_server_that_calls_but_says_stop_means_the_call() -> None:
    call = {"id": "c", "function": {"name": "t", "arguments": "{}"}}
    events = read(openai.OpenAiDecoder(), {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "stop"}]})
    assert events[-1] == Completed("tool_use")


def test_an_answer_of_very_many_values_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(WireFault, match="values"):
        read_document(b'{"choices":[' + b",".join([b"{}"] * MAX_VALUES) + b"]}")
    text = b'{"text":"' + b"," * 500_000 + b'"}'
    assert len(read_document(text)["text"]) == 500_000


def test_an_answer_with_thousands_of_tool_calls_is_refused() -> None:
    call = b'{"id":"c","function":{"name":"t","arguments":"{}"}}'
    answer = b'{"choices":[{"message":{"tool_calls":[%s]}}]}'
    with pytest.raises(WireFault, match="calls tools"):
        whole_answer(openai.OpenAiDecoder(), answer % b",".join([call] * (MAX_CALLS + 1)))
    assert len(whole_answer(openai.OpenAiDecoder(), answer % b",".join([call] * 3))) == 7
