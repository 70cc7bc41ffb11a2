"""A digest of all that can change an agent's answers: what an evaluation may use again is what has the same one.

Gates and evaluators judge answers and do not make them, and agents that this one cannot ask have no part in it: they
may change, and the digest stays as it is.
"""

from hashlib import sha256
from typing import Any

from app.core import json
from app.core.json import JsonObject
from app.workspace.compiled import CompiledWorkspace


def agent_fingerprint(workspace: CompiledWorkspace, agent: str, model_plan: str | None) -> str:
    asked, todo = set[str](), [agent]
    while todo:
        name = todo.pop()
        if name not in asked:
            asked.add(name)
            todo += workspace.agents[name].subagents
    document: JsonObject = {
        "agent": agent,
        "modelPlan": model_plan,
        "runtime": _dump(workspace.runtime),
        "agents": {name: _agent(workspace, name) for name in sorted(asked)},
        "models": {name: _dump(model.spec) for name, model in workspace.models.items()},
        "tools": {name: _dump(tool.spec) for name, tool in workspace.tools.items()},
        "servers": {name: _dump(server.spec) for name, server in workspace.mcp_servers.items()},
        "hooks": {name: _dump(hook.spec) for name, hook in workspace.hooks.items()},
        "guardrails": {name: _dump(rule.spec) for name, rule in workspace.guardrails.items()},
        "skills": {name: [skill.body, sorted(skill.allowed_tools)] for name, skill in workspace.skills.items()},
        "roles": {name: role.prompt for name, role in workspace.roles.items()},
        "python": {path: file.sha256 for path, file in workspace.files.files.items() if path.endswith(".py")},
    }
    return sha256(json.canonical(document)).hexdigest()


def _agent(workspace: CompiledWorkspace, name: str) -> JsonObject:
    agent = workspace.agents[name]
    spec = _dump(agent.spec)
    spec.pop("gates", None)
    blocking = [gate.evaluator for gate in agent.spec.gates if gate.mode == "blocking"]
    # A blocking gate may change which answer is given.
    return {"spec": spec, "instructions": agent.instructions, "blocking": blocking}


def _dump(spec: Any) -> JsonObject:
    made: JsonObject = spec.model_dump(mode="json", by_alias=True)
    return made
