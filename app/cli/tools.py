"""`holdfast tools`: lists the workspace's tools and calls one, with the same checks as a call by an agent."""

from typing import Annotated, Any

import typer

from app.cli.chat import ApproveOption
from app.cli.command_session import CommandSession, print_json, server_command

app = typer.Typer(no_args_is_help=True, help="Tools: list, call.")


@app.command("list")
@server_command
async def list_tools(session: CommandSession) -> None:
    """List the tools of the workspace."""
    found = [tool async for tool in session.client.pages("/api/tools")]
    session.table(
        found,
        {
            "tool": lambda tool: tool["name"],
            "kind": lambda tool: tool.get("kind") or "",
            "effect": lambda tool: tool.get("effect") or "",
            "description": lambda tool: tool.get("description") or "",
        },
    )


@app.command("call")
@server_command
async def call_tool(
    session: CommandSession,
    tool: Annotated[str, typer.Argument(help="The tool's name.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="One JSON object, or NAME=VALUE for each argument.")
    ] = None,
    approve: ApproveOption = "ask",
) -> None:
    """Call a tool directly. The call is checked and logged like a call by an agent."""
    from app.cli.client import path_of
    from app.cli.follower import Follower, cancelling, first_seq, leave_with
    from app.cli.screen import Screen

    body = {"arguments": parse_arguments(arguments or [])}
    submitted = await session.client.post(f"{path_of('tools', tool)}/invoke", body, wait=0)
    screen = Screen(session.notes, (), answer=False)
    with cancelling(session, submitted["id"]):
        after = await first_seq(session, submitted["id"]) - 1
        run = await Follower(session, screen, approve).follow(submitted["id"], after)
    if session.as_json:
        print_json(run)
    elif run["status"] == "completed":
        print_json(run["output"]) if not isinstance(run["output"], str) else typer.echo(run["output"])
    leave_with(session, run)


def parse_arguments(words: list[str]) -> dict[str, Any]:
    from app.cli.prompts import json_or_text

    if len(words) == 1 and words[0].lstrip().startswith("{"):
        given = json_or_text(words[0])
        if not isinstance(given, dict):
            raise typer.BadParameter("The arguments must be a JSON object.", param_hint="ARGUMENTS")
        return given
    pairs = [word.partition("=") for word in words]
    if wrong := [name for name, sign, _ in pairs if not sign or not name]:
        raise typer.BadParameter(f"{wrong[0]} is not of the form NAME=VALUE.", param_hint="ARGUMENTS")
    return {name: json_or_text(value) for name, _, value in pairs}
