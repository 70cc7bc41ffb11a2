"""Our own loop: the model answers or asks for tools, until it has answered or its turns are used up.

What is said to the run while the model answers begins another turn, and a Stop hook may grant one; when the turns
run out then, the last answer is the result.
"""

from typing import Final

from app.backends.contract import BackendKind, Context, Output, Result, Resume, StepFailed
from app.backends.conversation import ANSWER_AGAIN, Conversation
from app.core.errors import Failure
from app.views.history import memory_message, user_message


class NativeBackend:
    kind = "native"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        conversation = Conversation(ctx)
        answered: Output | None = None
        for turn in range(1, ctx.max_turns + 1):
            conversation.add(await ctx.steering())
            answer = await ctx.call_model(await conversation.messages())
            conversation.add([answer.message])
            if answer.calls:
                conversation.add(
                    {"role": "tool", "content": result.content, "tool_call_id": result.call_id, "name": result.name}
                    for result in await ctx.call_tools(answer.calls)
                )
                continue
            answered = Output(answer.text, message_id=answer.message_id, parts=answer.parts)
            if turn < ctx.max_turns and (said := await ctx.steering()):
                conversation.add(said)  # it came while the model answered: one more turn
                continue
            if turn < ctx.max_turns and (known := await ctx.before_finalize(answer.text)):
                conversation.add([memory_message(f"{known}\n\n{ANSWER_AGAIN}")])
                continue
            go_on = await ctx.go_on(turn, answer.text) if turn < ctx.max_turns else None
            if go_on is None:
                return answered
            conversation.add([user_message(go_on)])
        if answered is not None:
            return answered
        raise StepFailed(Failure("MAX_TURNS", f"No answer within {ctx.max_turns} turns."))


KIND: Final = BackendKind(name="native", make=NativeBackend)
