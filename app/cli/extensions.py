"""`holdfast extensions`: lists the extensions that a server has loaded, and has it load them again."""

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Extensions: list, reload.")


@app.command("list")
@server_command
async def list_extensions(session: CommandSession) -> None:
    """List the extensions that the server has loaded, and why others were not."""
    found = await session.client.get("/api/agents/extensions")
    session.table(
        found["modules"],
        {
            "extension": lambda one: one["agentId"],
            "version": lambda one: one["version"],
            "trust": lambda one: f"{one['trust']['status']} ({one['trust']['mode']})",
            "events": lambda one: " ".join(one["events"]),
            "notes": lambda one: "; ".join([*one["trust"]["warnings"], *one["diagnostics"]]),
        },
    )
    for wrong in found["errors"]:
        typer.echo(f"{wrong['extension']} was not loaded: {wrong['message']} ({wrong['code']})", err=True)


@app.command("reload")
@server_command
async def reload_extensions(session: CommandSession) -> None:
    """Load the extensions again: all of them, or none if one is wrong."""
    found = await session.client.post("/api/agents/extensions/reload")
    loaded = f"{found['loadedCount']} extensions are loaded, version {found['snapshotVersion']} of the set"
    session.result(found, str(found["loadedCount"]) if session.quiet else loaded)
