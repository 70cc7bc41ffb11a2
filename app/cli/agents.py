"""`holdfast agents`: lists the agents."""

from app.cli.command_session import CommandSession, server_command


@server_command
async def agents(session: CommandSession) -> None:
    """List the agents of the workspace."""
    found = [agent async for agent in session.client.pages("/api/agents")]
    session.table(
        found,
        {
            "agent": lambda agent: agent["name"],
            "backend": lambda agent: agent["backend"],
            "tools": lambda agent: ", ".join(agent["tools"]),
            "subagents": lambda agent: ", ".join(agent["subagents"]),
            "description": lambda agent: agent["description"] or "",
        },
    )
