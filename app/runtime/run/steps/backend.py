"""Hands the run to its backend with a context of its own, and takes what comes back.

Leaves to the context: what the backend may do; to the conductor: how a failure ends the run.
"""

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import Any

from app.backends.contract import AgentAnswer, Output, Skill, StepFailed
from app.core import json
from app.core.artifact import NewArtifact
from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.catalog import Payload
from app.events.catalog.builders import BuiltHandoff
from app.events.catalog.execution import BudgetExceeded
from app.events.ports import StoreError
from app.runtime.run.approvals import Approvals, session_grants, with_session_controls
from app.runtime.run.calls_in_flight import CallsInFlight
from app.runtime.run.context import RunContext, RunPorts
from app.runtime.run.model_calls import ModelCalls
from app.runtime.run.run_artifacts import RunArtifacts
from app.runtime.run.run_log import CutOff, Superseded
from app.runtime.run.steps.memory import before_finalize
from app.runtime.run.steps.run_scope import RunScope
from app.runtime.run.steps.verification import judge_artifact
from app.runtime.run.tool_calls import AgentTool, ToolCalls, ToolPorts, client_tools
from app.runtime.run.voice import Voice
from app.tools.contract import CallScope as ToolScope
from app.tools.contract import JsonResult, Proposal, Result, Tool, ToolRequest
from app.tools.gateway import Gateway
from app.tools.registry import Registry


def run_backend(run_scope: RunScope) -> Awaitable[None]:
    context = make_context(run_scope)
    handoff = None if run_scope.log.memo.handed_over else _handoff(run_scope, context)
    return answer(run_scope, context, handoff)


async def answer(run_scope: RunScope, context: RunContext, handoff: Payload | None = None) -> None:
    """The backend's output. Asked again with the same context, it goes on where the calls of the first time ended."""
    log, calls = run_scope.log, context.calls
    if handoff is not None:
        await log.open_with(handoff)
    try:
        with run_scope.budget.timer() as timer:
            calls.open()
            try:
                cycle = _cycle(run_scope)
                result = await (run_scope.backend.run(context) if cycle is None else context.run_cycle(cycle))
            except (Superseded, StoreError):
                await calls.close()
                raise
            except Exception:
                await _concluded(run_scope, calls)
                raise
            await _concluded(run_scope, calls)
            await context.finish_saying()
    except TimeoutError:
        if not timer.ended:
            raise
        limit = run_scope.budget.wall_seconds or 0
        exceeded = BudgetExceeded(budget="wall_time", scope="run", limit=limit, used=limit)
        raise await run_scope.log.exceeded(exceeded) from None
    finally:
        log.hold_opening()
    if log.is_root:
        await log.pause_if_asked()  # one that came with the last model call
    output = Output(result) if isinstance(result, str) else result
    if output.artifacts:
        output = await _stored(output, context)
    # What was held back is no message that a client has seen.
    run_scope.output = replace(output, message_id=None) if context.held_back else output
    run_scope.left_state = context.left_state


async def _concluded(run_scope: RunScope, calls: CallsInFlight) -> None:
    """An upstream may swallow what it is sent by an exception, so that is looked for once more."""
    await calls.close()
    calls.check()
    run_scope.log.stop_if_cancelled()


def _cycle(run_scope: RunScope) -> str | None:
    """The cycle that the chosen skill names. Only a root run begins one, so that none begins itself."""
    skill = run_scope.skill
    return skill.cycle if skill is not None and run_scope.depth == 0 and run_scope.workflow is None else None


async def _stored(output: Output, context: RunContext) -> Output:
    """The answer with the content that it brings along stored."""
    stored = [
        await context.artifacts.create(one.name, one.mime, one.data) if isinstance(one, NewArtifact) else one
        for one in output.artifacts
    ]
    return replace(output, artifacts=stored)


def _handoff(run_scope: RunScope, context: RunContext) -> BuiltHandoff:
    agent, plan = run_scope.agent, run_scope.asked.get("modelPlan")
    model = plan["model"] if plan else agent.model_plan.primary if agent.model_plan is not None else None
    subagents, offered = frozenset(agent.subagents), context.offered
    asked = subagents if run_scope.workflow is not None else offered & subagents
    return BuiltHandoff(
        run_scope.backend.kind,
        model_ref=model,
        tools=sorted(context.tools if run_scope.workflow is not None else offered - subagents),
        subagents=sorted(asked),
    )


def make_context(run_scope: RunScope) -> RunContext:
    agent, log, services, asked = run_scope.agent, run_scope.log, run_scope.services, run_scope.asked
    gateway, allowed = _gateway(run_scope)
    models = models_of(run_scope)
    wanted = ToolScope(log.run_id, allowed, log.scope.tenant, writes=run_scope.writes)
    # The workspace's tools alone: a client decides about its own, and a subagent's calls are asked about.
    scope = with_session_controls(wanted, asked, run_scope.toolset.gateway.registry)
    tools = run_scope.tools = ToolCalls(
        log,
        gateway,
        scope,
        partial(_lent_to_tools, run_scope, models, gateway, scope),
        parallel=models.parallel,
        limit=run_scope.budget.tool_calls,
    )
    context = run_scope.context = RunContext(
        run_scope.run,
        asked,
        run_scope.family[0] if run_scope.family else None,
        run_scope.workspace,
        agent,
        log,
        models,
        tools,
        run_scope.hooks,
        run_scope.budget,
        services.schemas,
        partial(_lent, run_scope),
        partial(before_finalize, run_scope) if agent.spec.memory else None,
    )
    skill = run_scope.skill
    # Instructions and policy, then the skill; the conversation follows, and after it memory.
    texts = agent.instructions, asked.get("instructions"), *run_scope.policy, skill.body if skill else ""
    context.input, context.instructions = run_scope.given, "\n\n".join(filter(None, texts))
    context.history, context.memory, context.state = run_scope.history, run_scope.memory, run_scope.state
    context.skill = None if skill is None else Skill(skill.name, skill.body, frozenset(skill.allowed_tools))
    context.tools, context.config = allowed, agent.spec.config.get(run_scope.backend.kind, {})
    gates = run_scope.gates = services.gates.of(run_scope.workspace, agent)
    if gates.blocking:
        context.held_back = models.held_back = any(rule.takes(log.run_id) for rule in gates.blocking)
    return context


def _lent(run_scope: RunScope) -> RunPorts:
    log, services = run_scope.log, run_scope.services
    return RunPorts(
        partial(run_scope.ask_agent, run_scope),
        partial(run_scope.run_child, run_scope),
        partial(judge_artifact, run_scope),
        RunArtifacts(log, services.reader, services.files),
        Voice(log, services.secrets, run_scope.guardrails),
    )


def _lent_to_tools(run_scope: RunScope, models: ModelCalls, gateway: Gateway, scope: ToolScope) -> ToolPorts:
    assert run_scope.context is not None, "tools are called within the context"
    log, hooks, guardrails = run_scope.log, run_scope.hooks, run_scope.guardrails
    grants = session_grants(run_scope.services.reader, log.scope.tenant, log.scope.thread_id)
    submitted_by = run_scope.family[0].actor if run_scope.family else None
    return ToolPorts(
        partial(_put_blob, run_scope),
        run_scope.load,
        Approvals(log, grants, who=run_scope.agent.name, submitted_by=submitted_by).approve,
        hook=hooks.of_a_call if hooks.concern_tools else None,
        ask_model=partial(_mend, models, gateway, scope.offered),
        guardrails=guardrails if guardrails is not None and guardrails.concern_tools else None,
        artifact=run_scope.context.artifacts.of_a_tool,
    )


def models_of(run_scope: RunScope) -> ModelCalls:
    """The run's model calls, made when something first needs them: a rule about the input, or the backend."""
    if run_scope.models is None:
        log, services, asked = run_scope.log, run_scope.services, run_scope.asked
        models = run_scope.models = ModelCalls(
            log,
            run_scope.agent,
            run_scope.toolset,
            services.router,
            run_scope.budget,
            run_scope.load,
            services.secrets,
            run_scope.guardrails,
        )
        plan = asked.get("modelPlan")
        models.model = plan["model"] if plan else None
        models.response_schema = asked.get("responseSchema") or models.response_schema
        if "parameters" in asked or "toolChoice" in asked:
            models.ask(asked)
    return run_scope.models


def _gateway(run_scope: RunScope) -> tuple[Gateway, frozenset[str]]:
    """The workspace's tools, and what only this run has: the client's own and the agent's subagents."""
    agent, registry = run_scope.agent, run_scope.toolset.gateway.registry
    if run_scope.workflow is not None:
        # Its steps name what they run: no model chooses among agents as among tools.
        run_scope.own_tools = frozenset(agent.tools)
        return run_scope.toolset.gateway, run_scope.own_tools
    allowed, subagents = run_scope.toolset.setup_of(agent).tools, frozenset(agent.subagents)
    if run_scope.ceiling is not None:
        # Down the line of subagents nothing is added but what a parent expressly passes on.
        allowed &= run_scope.ceiling
    allowed |= subagents
    if run_scope.skill is not None:
        # A skill only narrows; text never widens what an agent may use.
        allowed &= frozenset(run_scope.skill.allowed_tools)
    run_scope.own_tools = allowed - subagents
    declared = run_scope.asked.get("clientTools")
    if not declared and not agent.subagents:
        return run_scope.toolset.gateway, allowed
    extra: list[Tool] = client_tools(run_scope.log, declared or ())
    allowed |= {tool.definition.name for tool in extra}
    for name in agent.subagents:
        described = run_scope.workspace.agents[name].description
        extra.append(AgentTool(name, described, partial(_ask_as_tool, run_scope)))
    return run_scope.toolset.gate(Registry.extended(registry, extra)), allowed


async def _ask_as_tool(run_scope: RunScope, name: str, given: Any, call_id: str) -> Result | Failure:
    try:
        answer: AgentAnswer = await run_scope.ask_agent(run_scope, name, given, call_id)
    except (StoreError, Superseded) as error:
        raise CutOff(error) from error
    except StepFailed as failed:
        return failed.failure
    return JsonResult(answer.text) if answer.ok else Failure("SUBAGENT_FAILED", answer.text)


async def _mend(
    models: ModelCalls, gateway: Gateway, offered: frozenset[str], call: ToolRequest, complaint: str
) -> Proposal | None:
    """One round in which the model may correct a refused call; whatever it proposes is checked again."""
    known = gateway.registry.find(call.name)
    if known is None or call.name not in offered:
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


async def _put_blob(run_scope: RunScope, data: bytes, mime: str) -> JsonObject:
    scope = run_scope.log.scope
    return await run_scope.services.blobs.put(scope.tenant, scope.thread_id, data, mime)
