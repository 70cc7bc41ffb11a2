"""The official client against our fake: proof that the fake, and so our kind, speaks the real format."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Answer, Call, Fake, Status, running
from tests.models.provider_setup import SECRET

ASK: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hi"}]


@asynccontextmanager
async def a_client() -> AsyncIterator[tuple[Fake, openai.AsyncOpenAI]]:
    async with running(OpenAiSpeaker()) as fake:
        async with openai.AsyncOpenAI(api_key=SECRET, base_url=fake.url + "/v1", max_retries=1) as client:
            yield fake, client


async def test_the_official_client_reads_our_fakes_stream() -> None:
    async with a_client() as (fake, client):
        fake.plays(Answer(chunks=("Grüße ", "🙂"), write_size=3))
        stream = await client.chat.completions.create(
            model="m", messages=ASK, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == "Grüße 🙂"
        assert chunks[-1].usage is not None and chunks[-1].usage.prompt_tokens == 7


async def test_the_official_client_reads_our_fakes_tool_calls() -> None:
    async with a_client() as (fake, client):
        fake.plays(Answer(chunks=(), calls=(Call("weather", '{"city":"Paris"}'),), finish="tool_use"))
        answer = await client.chat.completions.create(model="m", messages=ASK)
        [call] = answer.choices[0].message.tool_calls or []
        assert call.type == "function" and call.function.arguments == '{"city":"Paris"}'
        assert answer.choices[0].finish_reason == "tool_calls"


async def test_the_official_client_retries_our_fakes_rate_limit() -> None:
    async with a_client() as (fake, client):
        fake.plays(Status(429, {"retry-after-ms": "1"}), Answer())
        answer = await client.chat.completions.create(model="m", messages=ASK)
        assert answer.choices[0].message.content == "Hello, world" and len(fake.seen) == 2


async def test_the_official_client_knows_our_fakes_errors() -> None:
    async with a_client() as (fake, client):
        fake.plays(Status(400, message="no such parameter"))
        with pytest.raises(openai.BadRequestError, match="no such parameter"):
            await client.chat.completions.create(model="m", messages=ASK)
