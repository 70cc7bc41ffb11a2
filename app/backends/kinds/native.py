"""Our own loop: the model answers or asks for tools, until it has answered or its turns are used up.

What is said to the run while the model answers begins another turn, and a Stop hook may grant one; when the turns
run out then, the last answer is the result.
"""

from typing import Final

from app.backends.contract import BackendKind, Context, Output, Result, Resume, StepFailed
from app.backends.conversation import ANSWER_AGAIN, Conversation
from app.core.errors import Failure
from app.core.json import JsonObject
from app.views.history import memory_message, user_message


class NativeBackend:
    kind = "native"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        conversation = Conversation(ctx)
        answered: Output | None = None
        for turn in range(1, ctx.max_turns + 1):
            if said := await ctx.steering():
                conversation.add(said)
            answer = await ctx.call_model(await conversation.messages())
            if answer.calls:
                conversation.add([answer.message])
                conversation.add(
                    {"role": "tool", "content": result.content, "tool_call_id": result.call_id, "name": result.name}
                    for result in await ctx.call_tools(answer.calls)
                )
                continue
            answered = Output(answer.text, message_id=answer.message_id, parts=answer.parts)
            following = await _following(ctx, turn, answer.text) if turn < ctx.max_turns else []
            if not following:
                return answered
            conversation.add([answer.message, *following])
        if answered is not None:
            return answered
        raise StepFailed(Failure("MAX_TURNS", f"No answer within {ctx.max_turns} turns."))


async def _following(ctx: Context, turn: int, text: str) -> list[JsonObject]:
    """What begins one more turn after an answer; empty if that is the result."""
    if said := await ctx.steering():
        return said  # it came while the model answered
    if known := await ctx.before_finalize(text):
        return [memory_message(f"{known}\n\n{ANSWER_AGAIN}")]
    go_on = await ctx.go_on(turn, text)
    return [] if go_on is None else [user_message(go_on)]


KIND: Final = BackendKind(name="native", make=NativeBackend)
