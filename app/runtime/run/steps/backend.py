"""Hands the run to its backend with a context of its own, and takes what comes back.

Leaves to the context: what the backend may do; to the conductor: how a failure ends the run.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from app.backends.contract import AgentAnswer, Output, Skill, StepFailed
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog.execution import BudgetExceeded
from app.events.ports import StoreError
from app.runtime.run.approvals import Approvals, session_grants
from app.runtime.run.context import Brief, RunContext
from app.runtime.run.inlined import stored_blobs
from app.runtime.run.media import Media
from app.runtime.run.model_calls import ModelCalls
from app.runtime.run.run_log import CutOff, Superseded
from app.runtime.run.steps.passage import Passage
from app.runtime.run.tool_calls import AgentTool, ToolCalls, ToolPorts, client_tools
from app.tools.contract import JsonResult, Proposal, Result, Tool, ToolCall
from app.tools.contract import Scope as ToolScope
from app.tools.gateway import Gateway
from app.tools.registry import Registry
from app.workspace.specs.base import Limits


async def run_backend(passage: Passage) -> None:
    context = make_context(passage)
    try:
        with passage.budget.timer() as timer:
            result = await passage.backend.run(context)
    except TimeoutError:
        if not timer.ended:
            raise
        limit = passage.budget.wall_seconds or 0
        exceeded = BudgetExceeded(budget="wall_time", scope="run", limit=limit, used=limit)
        raise await passage.log.exceeded(exceeded) from None
    if passage.log.is_root:
        await passage.log.pause_if_asked()  # one that came with the last model call
    passage.output = Output(result) if isinstance(result, str) else result


def make_context(passage: Passage) -> RunContext:
    agent, log, services = passage.agent, passage.log, passage.services
    gateway, allowed = _gateway(passage)
    load = stored_blobs(services.reader, log.scope.tenant, log.scope.thread_id)
    models = ModelCalls(log, agent, passage.kit, services.router, passage.budget, Media(load))
    plan = passage.asked.get("modelPlan")
    models.model = plan["model"] if plan else None
    models.response_schema = passage.asked.get("responseSchema") or models.response_schema
    if "parameters" in passage.asked or "toolChoice" in passage.asked:
        models.ask(passage.asked)
    hooks = passage.hooks
    ports = ToolPorts(
        partial(_put_blob, passage), load, hook=hooks.of_a_call if hooks.concern_tools else None,
        ask_model=partial(_mend, models, gateway, allowed),
    )  # fmt: skip
    scope = _approvals(passage, ToolScope(log.run_id, allowed, log.scope.tenant))
    submitted_by = passage.family[0].actor if passage.family else None
    grants = session_grants(services.reader, log.scope.tenant, log.scope.thread_id)
    tools = passage.tools = ToolCalls(
        log, gateway, scope, ports, Approvals(log, grants, who=agent.name, submitted_by=submitted_by),
        parallel=models.parallel, limit=passage.budget.tool_calls,
    )  # fmt: skip

    def set_limits(wanted: Any) -> None:
        passage.budget.set(Limits.model_validate(wanted))
        tools.limit = passage.budget.tool_calls

    return RunContext(
        _brief(passage, allowed), log, models, tools, partial(passage.ask_agent, passage), services.schemas, set_limits,
        hooks,
    )  # fmt: skip


def _brief(passage: Passage, allowed: frozenset[str]) -> Brief:
    agent, skill = passage.agent, passage.skill
    # Instructions and policy, skill, memory; the conversation follows.
    texts = [
        agent.instructions, passage.asked.get("instructions") or "", *passage.policy, skill.body if skill else "",
        *passage.notes,
    ]  # fmt: skip
    return Brief(
        run_id=passage.run.id, thread_id=passage.run.thread_id, agent=agent.name, input=passage.given,
        instructions="\n\n".join(text for text in texts if text), history=passage.history,
        skill=None if skill is None else Skill(skill.name, skill.body, frozenset(skill.allowed_tools)),
        roles=passage.kit.roles, tools=allowed,
        max_turns=agent.spec.max_turns, max_reworks=agent.spec.max_reworks,
        context_policy=agent.spec.context_policy,
        config=agent.spec.config.get(passage.backend.kind, {}),
    )  # fmt: skip


def _gateway(passage: Passage) -> tuple[Gateway, frozenset[str]]:
    """The workspace's tools, and what only this run has: the client's own and the agent's subagents."""
    agent, registry = passage.agent, passage.kit.gateway.registry
    allowed = passage.kit.tools_of(agent)
    if passage.ceiling is not None:
        # Down the line of subagents nothing is added but what a parent expressly passes on (S17).
        allowed = (allowed & passage.ceiling) | frozenset(agent.subagents)
    if passage.skill is not None:
        # A skill only narrows; text never widens what an agent may use.
        allowed &= frozenset(passage.skill.allowed_tools)
    passage.own_tools = allowed - frozenset(agent.subagents)
    wanted = passage.asked.get("clientTools")
    if not wanted and not agent.subagents:
        return passage.kit.gateway, allowed
    extra: list[Tool] = client_tools(passage.log, wanted or ())
    allowed |= {tool.definition.name for tool in extra}
    for name in agent.subagents:
        described = passage.workspace.agents[name].description
        extra.append(AgentTool(name, described, partial(_ask_as_tool, passage)))
    return passage.kit.gate(Registry.beside(registry, extra)), allowed


def _approvals(passage: Passage, scope: ToolScope) -> ToolScope:
    """What the conversation asks for makes the workspace's rules stricter, or leaves them as they are."""
    match passage.asked.get("approvalPolicy"):
        case "never":
            return replace(scope, ask_nobody=True)
        case "untrusted":
            # The workspace's tools alone: a client decides about its own, and a subagent's calls are asked about.
            known = ((name, passage.kit.gateway.registry.find(name)) for name in scope.allowed)
            return replace(
                scope,
                always_ask=frozenset(
                    name for name, found in known if found is not None and found.definition.effect != "readonly"
                ),
            )
    return scope


async def _ask_as_tool(passage: Passage, name: str, given: Any, call_id: str) -> Result | Failure:
    try:
        answer: AgentAnswer = await passage.ask_agent(passage, name, given, call_id)
    except (StoreError, Superseded) as error:
        raise CutOff(error) from error
    except StepFailed as failed:
        return failed.failure
    return JsonResult(answer.text) if answer.ok else Failure("SUBAGENT_FAILED", answer.text)


async def _mend(
    models: ModelCalls, gateway: Gateway, allowed: frozenset[str], call: ToolCall, complaint: str
) -> Proposal | None:
    """One round in which the model may correct a refused call; whatever it proposes is checked again."""
    known = gateway.registry.find(call.name)
    if known is None or call.name not in allowed:
        return None
    wrong = call.raw if call.raw is not None else json.dumps(call.arguments).decode()
    messages: list[JsonObject] = [
        {"role": "system", "content": "A tool call was refused. Make the same call again with correct arguments."},
        {"role": "user", "content": f"Tool: {call.name}\nArguments: {wrong}\nRefused because: {complaint}"},
    ]
    answer = await models.mend(call.id, messages, known.definition)
    if answer is None or len(answer.calls) != 1:
        return None
    better = answer.calls[0]
    arguments = None if better.raw_args is not None else better.args
    return Proposal(better.name, arguments, raw=better.raw_args, complete=True)


async def _put_blob(passage: Passage, data: bytes, mime: str) -> JsonObject:
    scope = passage.log.scope
    return await passage.services.blobs.put(scope.tenant, scope.thread_id, data, mime)
