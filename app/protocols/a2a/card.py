"""The agent card: what an agent is, where it is reached, and how one shows who one is.

Leaves to others: who may read it (the gate).
"""

from typing import Final

from app import __version__
from app.core.json import JsonObject
from app.protocols.context import ServerContext
from app.workspace.compiled import CompiledAgent

_MODES: Final = ["text/plain", "application/json"]
_MEDIA: Final = {"image": "image/*", "audio": "audio/*", "video": "video/*", "file": "application/*"}


def agent_card(server: ServerContext, agent: CompiledAgent, address: str) -> JsonObject:
    """`address` is where this agent is served; both bindings are there."""
    workspace = server.workspace.current
    skills = [
        {"id": name, "name": name, "description": workspace.skills[name].description, "tags": ["skill"]}
        for name in agent.skills
        if name in workspace.skills
    ]
    own = {"id": agent.name, "name": agent.name, "description": agent.description or agent.name, "tags": ["agent"]}
    media = server.media_of(agent)
    versions = ["1.0", "0.3"] if server.settings.a2a_v03 else ["1.0"]
    bindings = [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), *(("JSONRPC", one) for one in versions[1:])]
    card: JsonObject = {
        "name": agent.name,
        "description": agent.description or f"The agent {agent.name}.",
        "version": __version__,
        "supportedInterfaces": [
            {"url": address, "protocolBinding": binding, "protocolVersion": version} for binding, version in bindings
        ],
        "capabilities": {"streaming": True, "pushNotifications": server.pushes.possible, "extendedAgentCard": True},
        "defaultInputModes": _modes(media, "input"),
        "defaultOutputModes": _modes(media, "output"),
        "skills": [own, *skills],
    }
    if len(versions) > 1:
        card |= {"url": address, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
    if server.access.enabled:
        card["securitySchemes"] = {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"bearer": {"list": []}}}]
    return card


def _modes(media: frozenset[str], way: str) -> list[str]:
    """Text and data are everybody's; of files only those that the agent's model can read, or make."""
    return _MODES + [mode for medium, mode in _MEDIA.items() if f"{way}.{medium}" in media]
