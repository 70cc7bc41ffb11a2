"""What each kind sends: the one request shape in each provider's words."""

import base64
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from app.core import json
from app.models.capabilities import TOOL_CHOICE, needed
from app.models.completion import (
    CompletionRequest,
    JsonPart,
    Media,
    Message,
    ReasoningLevel,
    Text,
    Thought,
    ToolCall,
    ToolDef,
)
from app.models.contract import ProviderCall
from app.models.kinds.anthropic import Anthropic
from app.models.kinds.gemini import Gemini
from app.models.kinds.ollama import Ollama
from app.models.kinds.openai import OpenAi
from app.models.media import Attachments
from app.models.transport import Dialect
from app.outside.http import Segments
from tests.models.provider_setup import a_model

ASK = CompletionRequest((Message("system", "Be brief."), Message("user", "Hi")))
SCHEMA = {"type": "object"}
DIALECTS: dict[str, Dialect] = {
    "openai": OpenAi(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
    "ollama": Ollama(),
}


def body_of(kind: str, request: CompletionRequest, **config: Any) -> Any:
    model = a_model("m", kind, "test-model", **config)
    encoded = DIALECTS[kind].encode(ProviderCall(model, request, request.max_tokens), "key").body
    return json.loads(encoded if isinstance(encoded, bytes) else b"".join(encoded.pieces()))


def notes_of(kind: str, request: CompletionRequest) -> list[str]:
    return DIALECTS[kind].notes(ProviderCall(a_model("m", kind, "test-model"), request, request.max_tokens))


@pytest.mark.requirement("HK-9")
@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("openai", "reasoning_effort", "medium"),
        ("anthropic", "output_config", {"effort": "medium"}),
        (
            "gemini",
            "generationConfig",
            {"thinkingConfig": {"thinkingLevel": "medium", "includeThoughts": True}},
        ),
        ("ollama", "think", "medium"),
    ],
)
def test_an_effort_is_said_in_the_providers_words(kind: str, path: str, expected: Any) -> None:
    assert body_of(kind, replace(ASK, reasoning=ReasoningLevel("medium")))[path] == expected


def test_a_thinking_budget_goes_where_there_is_one_and_is_noted_where_not() -> None:
    request = replace(ASK, reasoning=ReasoningLevel(budget=2000), max_tokens=8000)
    assert body_of("anthropic", request)["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body_of("gemini", request)["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 2000
    assert "budget" in notes_of("openai", request)[0] and "budget" in notes_of("ollama", request)[0]
    assert notes_of("anthropic", request) == notes_of("gemini", request) == []


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("openai", lambda body: body["response_format"]["json_schema"]["schema"]),
        ("anthropic", lambda body: body["output_config"]["format"]["schema"]),
        ("gemini", lambda body: body["generationConfig"]["responseJsonSchema"]),
        ("ollama", lambda body: body["format"]),
    ],
)
def test_a_response_schema_is_said_in_the_providers_words(kind: str, found: Any) -> None:
    assert found(body_of(kind, replace(ASK, response_schema=SCHEMA))) == SCHEMA


@pytest.mark.parametrize(
    ("kind", "choice", "expected"),
    [
        ("openai", "required", "required"),
        ("openai", "t", {"type": "function", "function": {"name": "t"}}),
        ("anthropic", "required", {"type": "any"}),
        ("anthropic", "t", {"type": "tool", "name": "t"}),
        ("anthropic", "none", {"type": "none"}),
    ],
)
def test_a_tool_choice_is_said_in_the_providers_words(kind: str, choice: str, expected: Any) -> None:
    assert body_of(kind, replace(ASK, tools=(ToolDef("t"),), tool_choice=choice))["tool_choice"] == expected


@pytest.mark.requirement("HK-8")
@pytest.mark.parametrize(
    ("kind", "place", "expected"),
    [
        (
            "openai",
            (),
            {"temperature": 1.5, "top_p": 0.9, "max_completion_tokens": 64, "stop": ["END"], "seed": 7,
             "presence_penalty": 0.5, "frequency_penalty": -0.5},
        ),
        ("anthropic", (), {"temperature": 1.0, "max_tokens": 64, "stop_sequences": ["END"]}),
        (
            "gemini",
            ("generationConfig",),
            {"temperature": 1.5, "topP": 0.9, "maxOutputTokens": 64, "stopSequences": ["END"], "seed": 7,
             "presencePenalty": 0.5, "frequencyPenalty": -0.5},
        ),
        (
            "ollama",
            ("options",),
            {"temperature": 1.5, "top_p": 0.9, "num_predict": 64, "stop": ["END"], "seed": 7, "presence_penalty": 0.5,
             "frequency_penalty": -0.5},
        ),
    ],
)  # fmt: skip
def test_every_knob_is_said_in_the_providers_words(kind: str, place: tuple[str, ...], expected: Any) -> None:
    request = replace(
        ASK, temperature=1.5, top_p=0.9, max_tokens=64, stop=("END",), seed=7, presence_penalty=0.5,
        frequency_penalty=-0.5,
    )  # fmt: skip
    sent = body_of(kind, request)
    for name in place:
        sent = sent[name]
    content = {"model", "messages", "system", "stream", "stream_options"}
    assert {name: value for name, value in sent.items() if name not in content} == expected


def test_anthropic_takes_one_of_two_knobs_and_says_what_it_left_out() -> None:
    both = replace(ASK, temperature=0.5, top_p=0.9, seed=7, presence_penalty=0.5)
    assert [note.split()[0] for note in notes_of("anthropic", both)] == ["seed", "presence_penalty", "top_p"]
    assert body_of("anthropic", replace(ASK, top_p=0.9))["top_p"] == 0.9


@pytest.mark.parametrize(
    ("kind", "effort", "sent"),
    [
        ("openai", "minimal", "minimal"), ("openai", "xhigh", "xhigh"), ("anthropic", "minimal", "low"),
        ("anthropic", "max", "max"), ("gemini", "xhigh", "high"), ("gemini", "max", "high"), ("ollama", "max", "high"),
        ("ollama", "minimal", True), ("ollama", "none", False),
    ],
)  # fmt: skip
def test_an_effort_that_a_provider_does_not_know_is_the_nearest_that_it_does(kind: str, effort: Any, sent: Any) -> None:
    body = body_of(kind, replace(ASK, reasoning=ReasoningLevel(effort)))
    found = {
        "openai": lambda: body["reasoning_effort"],
        "anthropic": lambda: body["output_config"]["effort"],
        "gemini": lambda: body["generationConfig"]["thinkingConfig"]["thinkingLevel"],
        "ollama": lambda: body["think"],
    }[kind]()
    assert found == sent


def test_whoever_must_call_a_tool_of_anthropics_does_not_think_first() -> None:
    request = replace(
        ASK, tools=(ToolDef("t"),), tool_choice="required", reasoning=ReasoningLevel("high"), temperature=0.5
    )
    body = body_of("anthropic", request)
    assert "thinking" not in body
    assert (body["tool_choice"], body["temperature"]) == ({"type": "any"}, 0.5)
    assert "a forced tool" in notes_of("anthropic", request)[0]
    assert "thinking" in body_of("anthropic", replace(request, tool_choice="auto"))


def test_geminis_one_tool_is_named() -> None:
    body = body_of("gemini", replace(ASK, tools=(ToolDef("t"), ToolDef("u")), tool_choice="t"))
    assert body["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["t"]}


def test_ollama_is_not_shown_tools_that_it_must_not_call() -> None:
    request = replace(ASK, tools=(ToolDef("t"),), tool_choice="none")
    assert "tools" not in body_of("ollama", request)
    assert notes_of("ollama", request) == []


@pytest.mark.parametrize(("kind", "can"), [("openai", True), ("anthropic", True), ("gemini", True), ("ollama", False)])
def test_a_kind_says_whether_it_can_be_made_to_call_a_tool(kind: str, can: bool) -> None:
    assert (TOOL_CHOICE in DIALECTS[kind].capabilities) is can
    forced = replace(ASK, tools=(ToolDef("t"),), tool_choice="t")
    assert TOOL_CHOICE in needed(forced)
    assert TOOL_CHOICE not in needed(replace(forced, tool_choice="auto"))


@pytest.mark.parametrize(("choice", "mode"), [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")])
def test_geminis_tool_choice_is_a_mode(choice: str, mode: str) -> None:
    body = body_of("gemini", replace(ASK, tools=(ToolDef("t"),), tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}


def test_what_a_provider_has_no_word_for_is_noted() -> None:
    request = replace(ASK, seed=1, tools=(ToolDef("t"),), tool_choice="t", parallel_tool_calls=False)
    assert [note.split()[0] for note in notes_of("anthropic", request)] == ["seed"]
    assert [note.split()[0] for note in notes_of("ollama", request)] == ["tool_choice", "parallel_tool_calls"]
    assert [note.split()[0] for note in notes_of("gemini", request)] == ["parallel_tool_calls"]


def test_two_tool_results_become_one_message_where_roles_alternate() -> None:
    calls = (ToolCall("c1", "t", {"n": 1}), ToolCall("c2", "t", {"n": 2}))
    request = CompletionRequest(
        (
            Message("user", "Go"),
            Message("assistant", "", tool_calls=calls),
            Message("tool", "one", tool_call_id="c1", name="t"),
            Message("tool", "", (JsonPart({"two": 2}),), tool_call_id="c2", name="t"),
        )
    )
    results = body_of("anthropic", request)["messages"][2]
    assert results["role"] == "user" and [block["tool_use_id"] for block in results["content"]] == [
        "c1",
        "c2",
    ]
    answers = body_of("gemini", request)["contents"][2]["parts"]
    assert [part["functionResponse"]["response"]["result"] for part in answers] == ["one", {"two": 2}]


def test_signed_thoughts_go_back_to_their_own_provider_only() -> None:
    def conversation(thought: Thought) -> CompletionRequest:
        call = ToolCall("c1", "t", {})
        said = Message("assistant", "", tool_calls=(call,), thoughts=(thought,))
        answered = Message("tool", "one", tool_call_id="c1", name="t")
        return CompletionRequest((Message("user", "Go"), said, answered), reasoning=ReasoningLevel("high"))

    theirs = conversation(Thought("anthropic", "hm", "signed"))
    block = {"type": "thinking", "thinking": "hm", "signature": "signed"}
    assert body_of("anthropic", theirs)["messages"][1]["content"][0] == block
    assert "thinking" in body_of("anthropic", theirs)
    other = conversation(Thought("gemini", "", "signed", "c1"))
    assert body_of("gemini", other)["contents"][1]["parts"][0]["thoughtSignature"] == "signed"
    body = body_of("anthropic", other)
    assert body["messages"][1]["content"][0]["type"] == "tool_use"
    assert "thinking" not in body, "thinking cannot go on from a call without its thought"
    assert "signed" not in str(body_of("openai", theirs))


def test_the_models_own_body_is_merged_into_the_request() -> None:
    assert body_of("ollama", ASK, config={"body": {"keep_alive": "5m"}})["keep_alive"] == "5m"


@pytest.mark.requirement("HK-30")
def test_an_attachment_is_encoded_in_slices_from_where_it_is() -> None:
    data = memoryview(bytearray(range(256)) * 1000)
    attachments = Attachments()
    document = {
        "before": "x",
        "data": f"data:a/b;base64,{attachments.base64(Media('file', 'a/b', data))}",
        "z": 1,
    }
    body = attachments.body(document)
    assert isinstance(body, Segments)
    pieces = list(body.pieces())
    assert max(map(len, pieces)) <= 64 * 1024 and sum(map(len, pieces)) == body.length
    sent = json.loads(b"".join(pieces))
    assert base64.b64decode(sent["data"].partition(",")[2]) == bytes(data) and sent["z"] == 1


@pytest.mark.requirement("HK-30")
def test_encoding_a_large_attachment_allocates_no_copy_of_it() -> None:
    data = bytes(16 * 1024 * 1024)
    request = CompletionRequest((Message("user", "", (Text("look"), Media("image", "image/png", data))),))
    call = ProviderCall(a_model("m", "openai", "test"), request, None)
    tracemalloc.start()
    try:
        body = OpenAi().encode(call, None).body
        assert isinstance(body, Segments)
        assert sum(len(piece) for piece in body.pieces()) == body.length
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.requirement("HK-10", "HK-2")
@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_a_file_is_sent_whole_with_its_kind_where_the_provider_takes_files(kind: str) -> None:
    given = Media("file", "application/pdf", b"%PDF-1.7 hello", "report.pdf")
    body = body_of(kind, CompletionRequest((Message("user", "", (Text("read this"), given)),)))
    sent = json.dumps(body).decode()
    assert base64.b64encode(b"%PDF-1.7 hello").decode() in sent and "application/pdf" in sent and "read this" in sent


@pytest.mark.requirement("HK-10")
def test_a_provider_without_files_does_not_claim_them() -> None:
    assert "input.file" not in Ollama().capabilities
