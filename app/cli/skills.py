"""`holdfast skills`: lists, shows and accepts skills that repeated runs suggest."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Skills that repeated runs suggest: candidates, show, accept.")

Candidate = Annotated[str, typer.Argument(metavar="ID", help="The candidate's id.")]


@app.command()
@server_command
async def candidates(session: CommandSession) -> None:
    """List the skills that repeated runs suggest, best first."""
    found = (await session.client.get("/api/skills/candidates"))["items"]
    session.table(
        found,
        {
            "id": lambda one: one["id"],
            "name": lambda one: one["name"],
            "agent": lambda one: one["agent"],
            "status": lambda one: one["status"],
            "confidence": lambda one: one["confidence"],
            "runs": lambda one: one["evidenceCount"],
            "tools": lambda one: " ".join(one["tools"]),
        },
    )


@app.command()
@server_command
async def show(session: CommandSession, candidate: Candidate) -> None:
    """Print the SKILL.md that is proposed."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("skills/candidates", candidate))
    session.result(found, found["content"].rstrip("\n"))


@app.command()
@server_command
async def accept(
    session: CommandSession,
    candidate: Candidate,
    folder: Annotated[Path, typer.Option("--workspace-folder", help="Folder of the workspace to write to.")],
) -> None:
    """Write the SKILL.md into the workspace. An existing file is not replaced."""
    from app.cli.client import path_of

    if not (folder / "runtime.yaml").is_file():
        typer.echo(f"{folder} is not a workspace: it has no runtime.yaml.", err=True)
        raise typer.Exit(1)
    found = await session.client.get(path_of("skills/candidates", candidate))
    target = folder / found["proposedPath"]
    if target.exists():
        typer.echo(f"{target} already exists. Remove or rename it first.", err=True)
        raise typer.Exit(1)
    accepted = await session.client.post(f"{path_of('skills/candidates', candidate)}/accept", {})
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(accepted["content"], encoding="utf-8")
    line = f"Wrote {target}. Add the skill to `skills` of the agent {accepted['agent']}, then run `holdfast check`."
    session.result(accepted, str(target) if session.quiet else line)
