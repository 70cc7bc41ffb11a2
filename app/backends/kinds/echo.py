"""Answers with what it was told, word by word: enough to see a run, its stream and its log without any model."""

import re
from typing import Final

from app.backends.contract import Context, Output, Result, Resume
from app.core import json
from app.core.ids import new_id

_WORDS: Final = re.compile(r"\S+\s*|\s+")


class EchoBackend:
    kind = "echo"
    resume: Resume = "restart"

    async def run(self, ctx: Context) -> Result:
        text = ctx.input if isinstance(ctx.input, str) else json.dumps(ctx.input).decode()
        message_id = new_id("message")
        await ctx.emit("agent.handoff", tools=[], subagents=[])
        for word in _WORDS.findall(text):
            await ctx.say(message_id, word)
        return Output(text, message_id=message_id)
