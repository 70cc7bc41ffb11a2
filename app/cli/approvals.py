"""`holdfast approvals`: lists and answers approvals, questions and other interrupts."""

from typing import Annotated, Any, Literal

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Approvals and questions: list, decide.")


def _asked(one: dict[str, Any]) -> Any:
    """What a person needs to see in order to answer: the arguments of a call, the text of what is to be remembered."""
    if one["kind"] != "approval":
        return one["title"]
    content = one["arguments"].get("content") if one["tool"] is None and one["arguments"] else None
    text = content.get("text") if isinstance(content, dict) else content
    return f"{one['title']} {text}" if isinstance(text, str) else one["arguments"]


@app.command("list")
@server_command
async def list_approvals(
    session: CommandSession,
    status: Annotated[
        Literal["open", "resolved", "expired"], typer.Option(help="Only those with this status.")
    ] = "open",
    thread: Annotated[str | None, typer.Option(help="Only those of this thread.")] = None,
) -> None:
    """List approvals, questions and other interrupts that wait for a person."""
    from app.cli.screen import brief

    found = [one async for one in session.client.pages("/api/interrupts", None, status=status, threadId=thread)]
    session.table(
        found,
        {
            "id": lambda one: one["id"],
            "kind": lambda one: one["kind"],
            "run": lambda one: one["runId"] or "",
            "tool": lambda one: one["tool"] or "",
            "asks": lambda one: brief(_asked(one)),
            "expires": lambda one: one["expiresAt"],
        },
    )


@app.command("decide")
@server_command
async def decide(
    session: CommandSession,
    interrupt: Annotated[str, typer.Argument(metavar="ID", help="The id of the approval or question.")],
    decision: Annotated[
        Literal["approve", "deny", "retry", "use", "fail", "resume"] | None,
        typer.Argument(
            help="approve or deny an approval; retry, use or fail an interrupted tool call; resume a paused run."
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason of a denial. The agent receives it.")] = None,
    output: Annotated[
        str | None, typer.Option(help="Output of the tool as JSON, with `use` or for a client tool.")
    ] = None,
    answers: Annotated[str | None, typer.Option(help="Answers to questions as a JSON object, by question id.")] = None,
) -> None:
    """Answer an approval or question. The first answer counts."""
    from app.cli.client import path_of
    from app.cli.prompts import json_or_text

    answer: dict[str, Any] = {} if decision is None else {"decision": decision}
    if reason is not None:
        answer["reason"] = reason
    if output is not None:
        answer["output"] = json_or_text(output)
    if answers is not None:
        answer["answers"] = json_or_text(answers)
    answered = await session.client.post(f"{path_of('interrupts', interrupt)}/answer", answer)
    run = answered["runId"]
    said = f"{interrupt} is answered" if run is None else f"{interrupt} is answered; {run} continues"
    session.result(answered, interrupt if session.quiet else said)
    if session.in_process and answered["runId"] is not None:
        from app.cli.follower import follow_in_process

        await follow_in_process(session, answered["runId"])
