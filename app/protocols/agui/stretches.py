"""From an AG-UI request to the stretch of a run that answers it: a new run, or one that goes on with answers.

The client's run id names the request: sent again, it is answered with the same stretch. Leaves to others: frames.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.value import value
from app.events.catalog.interrupt import InterruptRaised
from app.protocols.agui.agent_input import RunAgentInput
from app.protocols.context import ServerContext
from app.protocols.dialects.agui import answer_of
from app.protocols.http.errors import HttpProblem
from app.protocols.http.submission import accepted
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.submission import Submission
from app.views.interrupt import Interrupt
from app.views.ports import Tombstone
from app.views.run import Run

RUN_LABEL: Final = "agui.run"
WORKFLOW: Final = "workflow:"


@value(frozen=True, slots=True)
class Stretch:
    """The events of a run after a position, up to its next pause."""

    run: Run
    after: int
    client_tools: frozenset[str]


async def open_stretch(
    server: ServerContext,
    caller: Principal,
    agent: str,
    given: RunAgentInput,
    raw: bytes,
    trace: Mapping[str, str] | None,
) -> Stretch:
    if given.resume:
        wanted = {one.interrupt_id: (one.status, one.payload) for one in given.resume}
        found = [await server.reader.interrupt(caller.tenant, interrupt_id) for interrupt_id in wanted]
        if any(one is None or one.thread_id != given.thread_id for one in found):
            raise HttpProblem(Failure("INTERRUPT_NOT_FOUND", "The thread has no such interrupt."))
        return await _go_on(server, caller, [(one, *wanted[one.id]) for one in found if one is not None])
    outputs = {one.tool_call_id or "": one for one in given.fresh() if one.role == "tool"}
    if outputs:
        calls = await server.reader.interrupts_of_calls(caller.tenant, list(outputs))
        calls = [one for one in calls if one.thread_id == given.thread_id]
        if calls:
            answers = [(one, "resolved", outputs[one.call_id or ""].text()) for one in calls]
            return await _go_on(server, caller, answers)
    return await _begin(server, caller, agent, given, raw, trace)


async def _begin(
    server: ServerContext,
    caller: Principal,
    agent: str,
    given: RunAgentInput,
    raw: bytes,
    trace: Mapping[str, str] | None,
) -> Stretch:
    thread = await server.reader.thread(caller.tenant, given.thread_id)
    history: list[JsonObject] = []
    if thread is not None and not isinstance(thread, Tombstone):
        said = "\n\n".join(one.text() for one in given.fresh() if one.role == "user")
    else:
        history, said = given.conversation()
    if not said:
        raise HttpProblem(Failure("INVALID_REQUEST", "There is no message of the user after the last answer."))
    flow = agent.removeprefix(WORKFLOW) if agent.startswith(WORKFLOW) else None
    wanted = Submission(
        agent=None if flow is not None else agent,
        workflow=flow,
        input=said,
        thread_id=given.thread_id,
        create_thread=True,
        history=history,
        labels={RUN_LABEL: given.run_id},
        instructions=given.instructions(),
        client_tools=given.client_tools(),
        idempotency_key=f"agui:{sha256(f'{agent}/{given.thread_id}/{given.run_id}'.encode()).hexdigest()}",
        body_hash=sha256(raw).hexdigest(),
        trace_context=trace,
    )
    run = accepted(await server.service.submit(caller, wanted))
    return Stretch(run, run.first_seq - 1, frozenset(one["name"] for one in wanted.client_tools))


async def _go_on(server: ServerContext, caller: Principal, answers: list[tuple[Interrupt, str, Any]]) -> Stretch:
    """All of one run; the stretch begins after the last of the pauses that are answered."""
    if not caller.may("interrupts:answer"):
        raise HttpProblem(Failure("FORBIDDEN", "The caller may not do this."), None, needs="interrupts:answer")
    run_id = answers[0][0].run_id or ""
    if any(one.run_id != run_id for one, _, _ in answers):
        raise HttpProblem(Failure("INVALID_REQUEST", "The answers belong to several runs."))
    for asked, status, payload in answers:
        await _give(server, caller, asked, status, payload)
    run = await server.reader.run(caller.tenant, run_id)
    if run is None:
        raise HttpProblem(Failure("RUN_NOT_FOUND", "There is no such run."))
    ids = {one.id for one, _, _ in answers}
    raised = await server.reader.events_of(
        caller.tenant, run.thread_id, (InterruptRaised.type,), run.first_seq - 1, run.last_seq, 10_000
    )
    after = max((event.seq for event in raised if event.payload["interruptId"] in ids), default=run.first_seq - 1)
    first = await server.reader.run_events(caller.tenant, run.id, run.first_seq - 1, 1)
    tools = (first[0].payload.get("clientTools") or ()) if first else ()
    return Stretch(run, after, frozenset(one["name"] for one in tools))


async def _give(server: ServerContext, caller: Principal, asked: Interrupt, status: str, payload: Any) -> None:
    """An answer that was given before is no mistake: the client sends its request again."""
    answer = answer_of(asked.kind, status, payload)
    if asked.status != "open":
        if asked.status == "resolved" and asked.answer == answer:
            return
        raise HttpProblem(Failure("INTERRUPT_NOT_OPEN", "It was answered before, or expired."))
    if answer is None:
        await server.lifecycle.cancel(caller, asked.run_id or "", "the user gave up a question")
        return
    given = await server.interrupts.answer(caller, asked.id, answer)
    if isinstance(given, NotAnswered):
        raise HttpProblem(given.failure, given.issues)
