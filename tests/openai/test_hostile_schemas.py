"""A schema that came with a request is refused at once if checking values against it could cost too much."""

from typing import Any

import openai
import pytest

LINKS: dict[str, Any] = {
    f"n{number}": {"anyOf": [{"$ref": f"#/$defs/n{number + 1}"}, {"$ref": f"#/$defs/n{number + 1}"}]}
    for number in range(24)
}
EXPLOSIVE: dict[str, Any] = {
    "type": "object",
    "properties": {"v": {"$ref": "#/$defs/n0"}},
    "$defs": {**LINKS, "n24": {"type": "integer"}},
}
ASKED: Any = [{"role": "user", "content": "as json"}]


async def test_an_explosive_response_format_is_refused(client: openai.AsyncOpenAI) -> None:
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": EXPLOSIVE}}
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="helper", messages=ASKED, response_format=wanted)
    assert refused.value.code == "schema_too_complex"
    assert (await client.chat.completions.create(model="helper", messages=ASKED)).choices[0].message.content


async def test_an_explosive_schema_of_a_client_tool_is_refused(client: openai.AsyncOpenAI) -> None:
    tools: Any = [{"type": "function", "function": {"name": "mine", "parameters": EXPLOSIVE}}]
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model="helper", messages=ASKED, tools=tools)
    assert refused.value.code == "schema_too_complex"
    assert "mine" in refused.value.message


async def test_an_answer_that_breaks_a_large_but_allowed_schema_ends_the_run_and_nothing_else(
    client: openai.AsyncOpenAI,
) -> None:
    branches = [{"properties": {"city": {"const": f"c{number}"}}} for number in range(500)]
    schema = {"type": "object", "anyOf": branches, "required": ["city"]}
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.APIStatusError) as failed:
        await client.chat.completions.create(model="helper", messages=ASKED, response_format=wanted)
    assert failed.value.code == "model_output_invalid"
