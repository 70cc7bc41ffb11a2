"""Model definitions as the workspace hands them over, and the scripted model that they can describe."""

import asyncio
from typing import Any

from app.core import json
from app.models.completion import CompletionRequest, Message, ReasoningLevel
from app.models.config import ModelConfig, model_config
from app.models.negotiate import ModelChoice
from app.models.prepare import Prepared, prepare
from app.workspace.specs.model import ModelSpec, ScriptMatch
from tests.models.provider_setup import open_provider_setup

SPEC: dict[str, Any] = {
    "provider": "openai",
    "model": "gpt-test",
    "baseUrl": "https://example.org/v1",
    "apiKey": "${env:KEY}",
    "capabilities": {"tools": True, "input": ["text", "image"], "output": ["text"]},
    "limits": {"maxInputTokens": 1000, "requestsPerMinute": 60},
    "prices": {"input": 1.5, "cachedInput": 0.5},
    "timeouts": {"firstTokenSeconds": 5},
    "retry": {"attempts": 2, "midStream": "restart", "budgetPerMinute": 9},
    "breaker": {"openSeconds": 7},
    "parameters": {"temperature": 0.3, "stop": ["END"]},
    "reasoning": {"effort": "low", "budgetTokens": 512},
    "fallbacks": ["other"],
    "config": {"apiVersion": "2024-10-01"},
}


def configured(spec: dict[str, Any]) -> ModelConfig:
    return model_config("m", ModelSpec.model_validate_json(json.dumps(spec)))


def test_a_model_document_becomes_a_frozen_value() -> None:
    config = configured(SPEC)
    assert set(config.declared or ()) == {
        "streaming",
        "systemMessages",
        "tools",
        "input.text",
        "input.image",
        "output.text",
    }
    assert (config.limits.max_input_tokens, config.prices.cached_input) == (1000, 0.5)
    assert (config.timeouts.first_token_seconds, config.timeouts.idle_seconds) == (5, 60)
    assert (config.retry.mid_stream, config.retry.budget_per_minute, config.breaker.open_seconds) == (
        "restart",
        9,
        7,
    )
    assert config.parameters.stop == ("END",)
    assert config.api_version == "2024-10-01" and config.fallbacks == ("other",)
    prepared = prepare(CompletionRequest((Message("user", "Hi"),)), config, frozenset({"reasoning"}))
    assert isinstance(prepared, Prepared)
    asked = prepared.call.request
    assert (asked.reasoning, asked.temperature, asked.stop) == (ReasoningLevel("low", 512), 0.3, ("END",))


def test_a_script_keeps_its_rules_in_order() -> None:
    rules = [
        {"match": {"afterTool": "clock"}, "reply": {"text": "It is {{ toolResult }}."}},
        {"match": {"contains": "time"}, "reply": {"toolCalls": [{"name": "clock", "args": {"zone": "UTC"}}]}},
    ]
    config = configured({"provider": "scripted", "model": "demo", "script": {"rules": rules}})
    assert config.script is not None
    assert [rule.match for rule in config.script.rules] == [
        ScriptMatch(afterTool="clock"),
        ScriptMatch(contains="time"),
    ]


async def test_a_scripted_model_calls_a_tool_and_speaks_of_its_result() -> None:
    rules = [
        {"match": {"afterTool": "clock"}, "reply": {"text": "It is {{ toolResult }}.", "chunkSize": 4}},
        {
            "match": {"contains": "TIME"},
            "reply": {"toolCalls": [{"name": "clock", "args": {"for": "{{ input }}"}}]},
        },
        {"match": {"system": "rude"}, "reply": {"text": "No."}},
    ]
    config = configured({"provider": "scripted", "model": "demo", "script": {"rules": rules}})
    plan = ModelChoice(config)
    async with open_provider_setup("scripted", in_turn=False) as setup:
        ask = Message("user", "what time is it")
        first = await setup.answer(CompletionRequest((ask,)), plan)
        [call] = first.tool_calls
        assert (call.name, call.args) == ("clock", {"for": "what time is it"})
        again = await setup.answer(CompletionRequest((ask,)), plan)
        assert again.tool_calls[0].id != call.id
        result = Message("tool", "noon", tool_call_id=call.id, name="clock")
        second = await setup.answer(CompletionRequest((ask, first.as_message(), result)), plan)
        assert second.text == "It is noon." and second.finish_reason == "stop"
        rude = await setup.answer(CompletionRequest((Message("system", "Be rude."), Message("user", "Hi"))), plan)
        assert rude.text == "No."
        echo = await setup.answer(CompletionRequest((Message("user", "{{ turn }} Hi"),)), plan)
        assert echo.text == "{{ turn }} Hi", "a blank in the user's own text stays as it is"


async def test_the_same_conversation_always_gets_the_same_scripted_answer() -> None:
    config = configured({"provider": "scripted", "model": "demo"})
    async with open_provider_setup("scripted") as setup:
        plan, request = ModelChoice(config), CompletionRequest((Message("user", "Hello"),))
        answers = await asyncio.gather(*(setup.answer(request, plan) for _ in range(20)))
        assert len({(a.text, a.usage) for a in answers}) == 1
