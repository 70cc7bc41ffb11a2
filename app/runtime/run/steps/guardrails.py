"""Content rules before and after the backend. Leaves to `run_guardrails`: asking them, and what a verdict does."""

from dataclasses import replace

from app.runtime.run.steps.backend import models_of
from app.runtime.run.steps.run_scope import RunScope


async def guard_input(run_scope: RunScope) -> None:
    guardrails = run_scope.guardrails
    if guardrails is None:
        return
    guardrails.ask_model = models_of(run_scope).judge_content
    history = run_scope.history if run_scope.brought else ()
    run_scope.given, brought = await guardrails.input(run_scope.given, history)
    if run_scope.brought:
        run_scope.history = brought


async def guard_output(run_scope: RunScope) -> None:
    guardrails = run_scope.guardrails
    if guardrails is None:
        return
    assert run_scope.output is not None
    text = await guardrails.output(run_scope.output.text)
    if text != run_scope.output.text:
        # What was streamed was something else, so the output no longer is that message.
        run_scope.output = replace(run_scope.output, text=text, message_id=None)
    if run_scope.output.parts:
        parts = await guardrails.output_parts([dict(part) for part in run_scope.output.parts])
        run_scope.output = replace(run_scope.output, parts=parts)
