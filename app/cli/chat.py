"""`holdfast run` and `holdfast chat`: run an agent from the terminal."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli.command_session import CommandSession, print_json, server_command

if TYPE_CHECKING:
    from app.cli.follower import Approve

Agent = Annotated[str, typer.Argument(help="The agent's name.")]
ApproveOption = Annotated[
    Literal["ask", "always", "never"],
    typer.Option("--approve", help="How to answer approvals: ask at the terminal, always approve, or never approve."),
]
EventsOption = Annotated[
    list[str] | None,
    typer.Option("--events", help="Also show events of these types, such as 'runtime.*'. May be repeated."),
]


@server_command
async def run(
    session: CommandSession,
    agent: Agent,
    text: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    thread: Annotated[str | None, typer.Option(help="Thread to continue.")] = None,
    approve: ApproveOption = "ask",
    events: EventsOption = None,
) -> None:
    """Run an agent once: stream its answer, show its tool calls, ask for approvals."""
    from app.cli.follower import leave_with

    said = sys.stdin.read() if text == "-" else text
    ended = await say(session, agent, said, thread, approve, events)
    if session.as_json:
        print_json(ended)
    leave_with(session, ended)


@server_command
async def chat(
    session: CommandSession,
    agent: Agent,
    thread: Annotated[str | None, typer.Option(help="Thread to continue.")] = None,
    approve: ApproveOption = "ask",
    events: EventsOption = None,
) -> None:
    """Chat with an agent on one thread, line by line. Ctrl-D ends the chat."""
    from app.cli.prompts import read_line

    prompt = "> " if sys.stdin.isatty() and not session.quiet else ""
    session.notes.print(f"  chat with {agent} at {session.client.url}; Ctrl-D ends it", style="dim")
    while (line := await read_line(prompt)) is not None:
        if not line.strip():
            continue
        ended = await say(session, agent, line, thread, approve, events)
        thread = ended["threadId"]
        if session.as_json:
            print_json(ended)
        if ended["status"] == "waiting":
            session.notes.print(f"  the run waits: holdfast approvals decide {' '.join(ended['waitingOn'])} approve")
    if thread is not None:
        session.notes.print(f"  continue with: holdfast chat {agent} --thread {thread}", style="dim")


async def say(
    session: CommandSession, agent: str, text: str, thread: str | None, approve: "Approve", events: list[str] | None
) -> dict[str, Any]:
    from app.cli.follower import Follower, cancelling, first_seq, patterns
    from app.cli.screen import Screen

    body = {"agent": agent, "input": text} | ({} if thread is None else {"threadId": thread})
    submitted = await session.client.post("/api/runs", body)
    screen = Screen(session.notes, await patterns(session, events), answer=not session.as_json)
    with cancelling(session, submitted["id"]):
        after = await first_seq(session, submitted["id"]) - 1
        return await Follower(session, screen, approve).follow(submitted["id"], after)
