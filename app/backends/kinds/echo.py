"""Answers with its input, word by word: enough to see a run, its stream and its log without any model."""

import re
from collections.abc import Iterator
from typing import Final

from app.backends.contract import BackendKind, Context, Output, Result, Resume
from app.core import json
from app.core.ids import new_id

_WORDS: Final = re.compile(r"\S+\s*|\s+")
_MAX_PIECES: Final = 2_000
"""Every piece is an event. A text with millions of words is sent in pieces of many words."""


class EchoBackend:
    kind = "echo"
    resume: Resume = "restart"

    async def run(self, ctx: Context) -> Result:
        text = ctx.input if isinstance(ctx.input, str) else json.dumps(ctx.input).decode()
        message_id = new_id("message")
        for piece in _pieces(text):
            await ctx.say(message_id, piece)
        return Output(text, message_id=message_id)


def _pieces(text: str) -> Iterator[str]:
    least, start = len(text) // _MAX_PIECES, 0
    while (word := _WORDS.match(text, min(start + least, len(text)))) is not None:
        yield text[start : word.end()]
        start = word.end()
    if start < len(text):
        yield text[start:]


KIND: Final = BackendKind(name="echo", make=EchoBackend, needs_model=False)
