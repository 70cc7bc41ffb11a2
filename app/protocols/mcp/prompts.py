"""Prompts of the MCP server: each skill of the workspace, as instructions for the client's own model.

Leaves to others: skills that agents follow here (the runtime), and their texts as resources (`resources`).
"""

from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.protocols.context import ServerContext
from app.protocols.dialects.jsonrpc import INVALID_PARAMS, RpcError, RpcMessage, failure_data

PAGE: Final = 100
_MAX_TASK: Final = 100_000
_ARGUMENTS: Final = [{"name": "task", "description": "What the skill is to be applied to.", "required": False}]


def list_prompts(server: ServerContext, message: RpcMessage) -> JsonObject:
    skills = server.workspace.current.skills
    after = message.params.get("cursor")
    if after is not None and not isinstance(after, str):
        raise RpcError(INVALID_PARAMS, "The cursor is none of this list's.")
    names = sorted(name for name in skills if name > (after or ""))
    shown = [{"name": name, "description": skills[name].description, "arguments": _ARGUMENTS} for name in names[:PAGE]]
    return {"prompts": shown} | ({"nextCursor": names[PAGE - 1]} if len(names) > PAGE else {})


def get_prompt(server: ServerContext, message: RpcMessage) -> JsonObject:
    name = message.params.get("name")
    skill = server.workspace.current.skills.get(name) if isinstance(name, str) else None
    if skill is None:
        failure = Failure("NOT_FOUND", "There is no such prompt.")
        raise RpcError(INVALID_PARAMS, failure.message, failure_data(failure))
    arguments: Any = message.params.get("arguments") or {}
    task = arguments.get("task", "") if isinstance(arguments, dict) else None
    if not isinstance(task, str) or len(task) > _MAX_TASK:
        raise RpcError(INVALID_PARAMS, f"The argument task must be a text of at most {_MAX_TASK} characters.")
    text = skill.body if not task else f"{skill.body}\n\n{task}"
    said = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": skill.description, "messages": [said]}
