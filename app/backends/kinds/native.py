"""Our own loop: the model answers or asks for tools, until it has answered or its turns are used up."""

from app.backends.contract import Context, Output, Result, Resume, StepFailed
from app.core.errors import Failure
from app.core.json import JsonObject
from app.views.history import user_message


class NativeBackend:
    kind = "native"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        messages: list[JsonObject] = [*_system(ctx), *ctx.history, user_message(ctx.input)]
        for _ in range(ctx.max_turns):
            messages += await ctx.steering()
            answer = await ctx.call_model(messages)
            if not answer.calls:
                return Output(answer.text, message_id=answer.message_id)
            messages.append(answer.message)
            messages += [
                {"role": "tool", "content": result.content, "tool_call_id": result.call_id, "name": result.name}
                for result in await ctx.call_tools(answer.calls)
            ]
        raise StepFailed(Failure("MAX_TURNS", f"no answer within {ctx.max_turns} turns"))


def _system(ctx: Context) -> list[JsonObject]:
    return [{"role": "system", "content": ctx.instructions}] if ctx.instructions else []
