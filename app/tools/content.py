"""The stages of the gateway that ask the run's rules about content: arguments on the way in, results on the way out.

Results are looked at before they are recorded, so that nothing is stored which a rule redacts. Leaves to the rules:
what they look for; to `stages`: everything else.
"""

from dataclasses import replace

from app.core.errors import Failure
from app.core.json import Json
from app.tools.attempt import GatewayServices, Next, Returned, ToolAttempt
from app.tools.contract import JsonResult, Result, TextResult
from app.tools.guard import is_json


async def guard(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    rules, call = attempt.ports.guardrails, attempt.call
    if rules is None:
        return await proceed(attempt)
    guarded = await rules.check("toolArguments", call.name, call.id, attempt.arguments)
    if guarded.refused is not None:
        return Returned(attempt.ended(guarded.refused))
    changed = guarded.content
    if changed != attempt.arguments:
        if not isinstance(changed, dict) or attempt.found.guard.check(changed):
            message = "A guardrail redacted the arguments, and the tool does not accept what is left of them."
            return Returned(attempt.ended(Failure("GUARDRAIL_DENIED", message)))
        attempt = replace(attempt, call=replace(call, arguments=changed))
    return await proceed(replace(attempt, must_ask=guarded.ask))


async def release(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    returned = await proceed(attempt)
    if attempt.ports.guardrails is None or not returned.outcome.executed:
        return returned
    refused = await attempt.ports.guardrails.release(attempt.call.id)
    return returned if refused is None else Returned(replace(returned.outcome, output=None, error=refused))


async def guarded_result(attempt: ToolAttempt, result: Result | Failure) -> Result | Failure:
    """What a tool gave, as the rules left it. Bytes and files are not text: no rule looks at them."""
    rules, call = attempt.ports.guardrails, attempt.call
    if rules is None:
        return result
    content: Json
    match result:
        case JsonResult(value):
            content = value
        case TextResult(text):
            content = text
        case Failure():
            content = result.message
        case _:
            return result
    if not is_json(content):
        return result  # what cannot be written as JSON is refused when it is recorded
    guarded = await rules.check("toolResults", call.name, call.id, content)
    if guarded.refused is not None:
        return guarded.refused
    if guarded.content == content:
        return result
    if isinstance(result, Failure):
        return replace(result, message=str(guarded.content), detail={})
    return TextResult(str(guarded.content)) if isinstance(result, TextResult) else JsonResult(guarded.content)
