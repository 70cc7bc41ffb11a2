"""`holdfast undo`: shows what an undo of a run would do, and undoes it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from app.cli.chat import ApproveOption, EventsOption
from app.cli.command_session import CommandSession, print_json, server_command

if TYPE_CHECKING:
    from collections.abc import Mapping


@server_command
async def undo(
    session: CommandSession,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")],
    to: Annotated[
        str | None, typer.Option(metavar="CHECKPOINT", help="Only what happened after this checkpoint (label or seq).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and do nothing.")] = False,
    on_failure: Annotated[
        Literal["stop", "continue"], typer.Option(help="Whether to go on after an action that failed.")
    ] = "stop",
    approve: ApproveOption = "ask",
    events: EventsOption = None,
) -> None:
    """Undo the effects of a run, the newest first. The exit code is 1 if anything was not undone."""
    from app.cli.client import path_of
    from app.cli.follower import Follower, cancelling, first_seq, leave_with, patterns
    from app.cli.screen import Screen

    address = f"{path_of('runs', run)}/undo"
    plan = await session.client.post(f"{address}/plan", {} if to is None else {"toCheckpoint": to})
    if dry_run:
        _show_plan(session, plan)
        return
    for action in plan["actions"]:
        session.notes.print(f"  {_line(action)}", style="dim", markup=False)
    undoing = await session.client.post(address, {"planHash": plan["planHash"], "onFailure": on_failure})
    screen = Screen(session.notes, await patterns(session, events), answer=False)
    with cancelling(session, undoing["id"]):
        after = await first_seq(session, undoing["id"]) - 1
        ended = await Follower(session, screen, approve).follow(undoing["id"], after)
    report = ended["output"] or {}
    if session.as_json:
        print_json(ended)
    elif report:
        counts = ", ".join(f"{len(report[name])} {name}" for name in ("executed", "skipped", "failed"))
        typer.echo(report["verdict"] if session.quiet else f"{report['verdict']}: {counts}")
    leave_with(session, ended)
    if report.get("verdict") != "done":
        raise typer.Exit(1)


def _show_plan(session: CommandSession, plan: "Mapping[str, Any]") -> None:
    if session.as_json:
        print_json(plan)
        return
    session.table(
        plan["actions"],
        {
            "call": lambda action: action["callId"],
            "tool": lambda action: action["tool"],
            "status": lambda action: action["status"],
            "undone by": lambda action: (action["compensation"] or {}).get("tool", ""),
            "reason": lambda action: (action["reason"] or {}).get("message", ""),
        },
    )


def _line(action: "Mapping[str, Any]") -> str:
    if action["status"] == "planned":
        return f"{action['tool']}: will be undone by {action['compensation']['tool']}"
    if action["status"] == "undone":
        return f"{action['tool']}: was undone before"
    return f"{action['tool']}: cannot be undone: {action['reason']['message']}"
