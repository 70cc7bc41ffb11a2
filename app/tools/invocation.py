"""Runs one tool within its time, and ends it when the run is cancelled. The only caller of `Tool.invoke`.

A tool that ignores its end is left behind after the grace: nothing waits for it any longer, and its late
result is dropped. A synchronous Python function in a thread is the one kind that cannot be ended.
"""

import asyncio
import contextlib
import logging
from typing import Final

from app.core.errors import Failure, HoldfastError
from app.core.json import JsonObject
from app.core.suspend import Suspended
from app.core.value import value
from app.tools.complaints import error_text
from app.tools.contract import CancelFlag, Result, Tool, ToolContext, ToolError

CANCEL_GRACE: Final = 10.0  # seconds, as promised
_MARGIN: Final = 1.0  # after the kill at the end of the grace there is still something to clear away
_TIMEOUT_GRACE: Final = 3.0

_log = logging.getLogger(__name__)


@value(frozen=True, slots=True)
class Invoked:
    result: Result | Failure
    applied: bool = True
    """False when the run was cancelled meanwhile: recorded, not used."""


async def invoke(
    tool: Tool,
    arguments: JsonObject,
    ctx: ToolContext,
    cancelled: CancelFlag | None,
    grace: float = CANCEL_GRACE,
) -> Invoked:
    """Always answers, also when the caller's task is cancelled: then the task's `cancelling()` says so."""
    loop = asyncio.get_running_loop()
    task, stopped = loop.create_task(_guarded(tool, arguments, ctx)), loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    if cancelled is not None:
        cancelled.subscribe(stop)
    left = ctx.deadline - loop.time()
    try:
        await asyncio.wait({task, stopped}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        return await _ended(task, grace + _MARGIN, CANCELLED, applied=False)
    finally:
        if cancelled is not None:
            cancelled.forget(stop)
    if task.done():
        return Invoked(task.result())
    if stopped.done():
        return await _ended(task, grace + _MARGIN, CANCELLED, applied=False)
    timeout = Failure("TOOL_TIMEOUT", f"{ctx.tool} did not finish within its time")
    return await _ended(task, _TIMEOUT_GRACE, timeout, applied=True)


CANCELLED: Final = Failure("TOOL_CANCELLED", "The run was cancelled while the tool was running.")


async def _ended(
    task: "asyncio.Future[Result | Failure]", grace: float, otherwise: Failure, *, applied: bool
) -> Invoked:
    task.cancel()
    loop = asyncio.get_running_loop()
    until = loop.time() + grace
    while not task.done() and loop.time() < until:
        # A second cancel of our own task must not leave a process behind either; it waits for the same end.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=until - loop.time())
    if not task.done():
        _log.warning("a tool did not end when it was asked to", extra={"code": otherwise.code})
        task.add_done_callback(_forget)
        return Invoked(otherwise, applied)
    if task.cancelled() or applied:
        return Invoked(otherwise, applied)
    return Invoked(task.result(), applied)


async def _guarded(tool: Tool, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
    try:
        return await tool.invoke(arguments, ctx)
    except Suspended:
        raise
    except HoldfastError as error:
        return error.failure
    except ToolError as error:
        return Failure("TOOL_FAILED", error_text(str(error)) or "the tool failed", error.retryable)
    except Exception as error:
        _log.exception("a tool raised", extra={"tool": ctx.tool, "call_id": ctx.call_id})
        return Failure("TOOL_FAILED", _raised(ctx.tool, error))


def _raised(tool: str, error: Exception) -> str:
    """What the model may act on. Secrets in it are replaced when it is recorded, before anybody sees it."""
    try:
        said = error_text(str(error))
    except Exception:  # an exception's text is the tool's code as well
        said = ""
    return f"{tool} failed with {type(error).__name__}" + (f": {said}" if said else "")


def _forget(task: "asyncio.Future[Result | Failure]") -> None:
    if not task.cancelled():
        task.exception()
