"""`holdfast agents`: whom one can ask."""

from app.cli.session import Session, talks


@talks
async def agents(session: Session) -> None:
    """List the agents of the workspace."""
    found = [agent async for agent in session.client.pages("/api/agents")]
    session.table(
        found,
        {
            "agent": lambda agent: agent["name"],
            "backend": lambda agent: agent["backend"],
            "tools": lambda agent: ", ".join(agent["tools"]),
            "subagents": lambda agent: ", ".join(agent["subagents"]),
            "does": lambda agent: agent["description"] or "",
        },
    )
