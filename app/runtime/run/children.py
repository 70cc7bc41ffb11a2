"""Runs of subagents: on their parent's thread, in its lease and slot, within its budget, never deeper than five.

A subagent is known by the call that asked for it, so a parent that is entered again finds it where it was. Leaves to
the conductor: conducting the run itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from app.backends.contract import AgentAnswer, StepFailed
from app.core import json
from app.core.errors import Failure
from app.core.ids import new_id
from app.events.catalog import Payload, request
from app.events.recorder import Scope
from app.runtime.run.child_request import Branch, ChildRequest
from app.runtime.run.run_log import expect
from app.runtime.run.steps.run_scope import RunScope
from app.views.run import Run

MAX_DEPTH: Final = 5

ConductChild = Callable[[Run, Scope, RunScope, ChildRequest], Awaitable[list[Payload]]]


async def ask_agent(conduct: ConductChild, parent: RunScope, name: str, given: Any, call_id: str) -> AgentAnswer:
    return await run_child(conduct, parent, ChildRequest(name, given, call_id), Branch())


async def run_child(conduct: ConductChild, parent: RunScope, asked: ChildRequest, branch: Branch) -> AgentAnswer:
    call_id = asked.call_id
    if asked.workflow is None and asked.agent not in parent.agent.subagents:
        raise StepFailed(Failure("AGENT_NOT_ALLOWED", f"{parent.agent.name!r} has no such subagent"))
    if parent.depth >= MAX_DEPTH:
        raise StepFailed(Failure("SUBAGENTS_TOO_DEEP", f"Subagents may nest at most {MAX_DEPTH} levels deep."))
    known = parent.log.memo.children.get(call_id)
    if known is not None and known.terminal:
        return _answer(known)
    await parent.log.begin_step()
    await parent.log.opened()  # what the run knew by then is in the log before what it begins
    child_id = known.id if known is not None else new_id("run")
    scope = replace(parent.log.scope, run_id=child_id, actor="system")
    child = await _begin(parent, scope, known, asked)
    children = parent.log.control.children
    children.add(child_id)
    ending = await _conducted(conduct, child, scope, parent, asked, branch)
    due = [one for one in parent.log.control.evaluations if one.run_id == child_id]
    completes = ending[-1].type == request.RequestCompleted.type
    appended = expect(await parent.services.recorder.record(scope, *ending, conditions=due if completes else ()))
    parent.log.control.evaluations = [one for one in parent.log.control.evaluations if one.run_id != child_id]
    children.discard(child_id)
    for event in appended.events:
        child.apply(event)
    return _answer(child)


async def _conducted(
    conduct: ConductChild, child: Run, scope: Scope, parent: RunScope, asked: ChildRequest, branch: Branch
) -> list[Payload]:
    """How it ended. A branch that is not needed any more, or is over its time, ends while its run goes on."""
    try:
        return await conduct(child, scope, parent, asked)
    except asyncio.CancelledError:
        if not branch.ended or parent.log.control.cancelled.is_set:
            raise
        return [request.RequestCancelled(reason="its step was ended", by="system")]


def ceiling_of(parent: RunScope, name: str) -> frozenset[str]:
    """What a subagent may use of the workspace's tools: what its parent may use now, and what is expressly passed on.

    A parent that is a subagent itself passes on only what it was let use, and a skill holds for all that is done for
    it: so whatever is down the line only narrows.
    """
    passed = parent.agent.spec.passed_on(name)
    if parent.ceiling is not None:
        passed &= parent.ceiling
    if parent.skill is not None:
        passed &= frozenset(parent.skill.allowed_tools)
    return parent.own_tools | passed


async def _begin(parent: RunScope, scope: Scope, known: Run | None, asked: ChildRequest) -> Run:
    assert scope.fence is not None and scope.run_id is not None
    executor, epoch = f"run:{parent.run.id}", scope.fence.epoch
    if known is None:
        queued = request.RequestQueued(
            agent=asked.agent,
            workflow=asked.workflow,
            skill=asked.skill,
            input=asked.input,
            instructions=asked.instructions,
            metadata=dict(asked.metadata),
            call_id=asked.call_id,
            parent_run_id=parent.run.id,
            workspace_digest=parent.run.workspace_digest,
            approval_policy=parent.asked.get("approvalPolicy"),
            session_limits=parent.asked.get("sessionLimits"),
            mode=parent.asked.get("mode"),
        )
        opening: list[Payload] = [queued, request.RequestStarted(executor=executor, epoch=epoch)]
        known = Run(scope.run_id, scope.thread_id)
    else:
        opening = [request.RequestResumed(executor=executor, epoch=epoch, reason="recovery")]
    appended = expect(await parent.services.recorder.record(scope, *opening))
    known.first_seq = known.first_seq or appended.events[0].seq
    for event in appended.events:
        known.apply(event)
    return known


def _answer(child: Run) -> AgentAnswer:
    if child.status == "completed":
        text = child.output if isinstance(child.output, str) else json.dumps(child.output).decode()
        return AgentAnswer(child.id, True, text, child.output)
    error = child.error or {"code": "RUN_CANCELLED", "message": "the subagent was cancelled"}
    return AgentAnswer(child.id, False, f"{error['code']}: {error['message']}", error=error)
