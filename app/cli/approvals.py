"""`holdfast approvals`: what waits for a person, and the answer."""

from typing import Annotated, Any, Literal

import typer

from app.cli.session import Session, talks

app = typer.Typer(no_args_is_help=True, help="What waits for a person: list, decide.")


@app.command("list")
@talks
async def list_approvals(
    session: Session,
    status: Annotated[Literal["open", "resolved", "expired"], typer.Option(help="Which of them.")] = "open",
    thread: Annotated[str | None, typer.Option(help="Only those of this thread.")] = None,
) -> None:
    """List approvals, questions and other things that wait for a person."""
    from app.cli.screen import brief

    found = [one async for one in session.client.pages("/api/interrupts", None, status=status, threadId=thread)]
    session.table(
        found,
        {
            "id": lambda one: one["id"],
            "kind": lambda one: one["kind"],
            "run": lambda one: one["runId"],
            "tool": lambda one: one["tool"] or "",
            "asks": lambda one: brief(one["arguments"]) if one["kind"] == "approval" else one["title"],
            "expires": lambda one: one["expiresAt"],
        },
    )


@app.command("decide")
@talks
async def decide(
    session: Session,
    interrupt: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    decision: Annotated[
        Literal["approve", "deny", "retry", "use", "fail", "resume"] | None,
        typer.Argument(help="approve or deny; retry, use or fail after a crash; resume after a pause."),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why it is denied; the agent reads it.")] = None,
    output: Annotated[
        str | None, typer.Option(help="JSON: what the tool gave, with `use` or for a client's tool.")
    ] = None,
    answers: Annotated[str | None, typer.Option(help="JSON: the answers to a question, by its id.")] = None,
) -> None:
    """Answer what waits; the first answer wins."""
    from app.cli.ask import json_or_text
    from app.cli.client import path_of

    answer: dict[str, Any] = {} if decision is None else {"decision": decision}
    if reason is not None:
        answer["reason"] = reason
    if output is not None:
        answer["output"] = json_or_text(output)
    if answers is not None:
        answer["answers"] = json_or_text(answers)
    answered = await session.client.post(f"{path_of('interrupts', interrupt)}/answer", answer)
    session.result(answered, interrupt if session.quiet else f"{interrupt} is answered; {answered['runId']} goes on")
    if session.in_process and answered["runId"] is not None:
        from app.cli.follow import see_to_its_rest

        await see_to_its_rest(session, answered["runId"])
