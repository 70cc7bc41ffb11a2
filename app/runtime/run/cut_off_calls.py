"""What becomes of a call that may have taken effect and has no result: an operator decides, once per attempt."""

from typing import Any

from app.backends.contract import StepFailed
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.core.value import value
from app.events.catalog.interrupt import InterruptRaised
from app.runtime.run.run_log import RunLog


@value(frozen=True, slots=True)
class CutOffCall:
    call_id: str
    tool: str
    arguments: Any
    argument_hash: str | None = None


@value(frozen=True, slots=True)
class UseOutput:
    """The operator knows what it gave."""

    output: Any


async def decided(log: RunLog, call: CutOffCall) -> UseOutput | None:
    """None to call it again. Raises `Suspended` until somebody decides, and `StepFailed` when it must not go on."""
    asked = log.memo.recovery(call.call_id)
    if asked is None:
        raise await log.raise_interrupt(
            InterruptRaised(
                interrupt_id=new_id("interrupt"),
                kind="recovery",
                expires_at=log.expiry(),
                tool=call.tool,
                title=f"{call.tool} was cut off; whether it took effect is unknown",
                call_id=call.call_id,
                arguments=call.arguments,
                argument_hash=call.argument_hash,
            )
        )
    answer = asked.get("answer")
    if answer is None and not asked.get("expired"):
        raise Suspended(asked["interruptId"])
    decision = answer["decision"] if answer else "fail"
    if decision == "retry":
        return None
    if decision == "use" and answer is not None:
        return UseOutput(answer.get("output"))
    message = f"The tool {call.tool} was interrupted; its outcome is unknown and it is not repeated."
    raise StepFailed(Failure("TOOL_OUTCOME_UNKNOWN", message))
