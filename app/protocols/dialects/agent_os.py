"""The log in the shape and the names of Agent OS Runtime's `.events.jsonl`; what that has no word for is left out.

A session there is a thread here; each run opens with `session.start` and ends with `session.close`.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from app.core import json
from app.core.clock import iso
from app.events.envelope import Event
from app.protocols.dialects.native import PAGE
from app.views.ports import Reader
from app.views.thread import Thread

Payload = dict[str, Any]


def _usage(payload: Payload) -> Payload:
    usage = payload.get("usage", {})
    renamed = {"input_tokens": usage.get("inputTokens", 0), "output_tokens": usage.get("outputTokens", 0)}
    return renamed | ({"cost_usd": usage["costUsd"]} if "costUsd" in usage else {})


def _pick(**names: str) -> Callable[[Payload], Payload]:
    """Their name to ours; what is absent stays absent."""
    return lambda payload: {theirs: payload[ours] for theirs, ours in names.items() if ours in payload}


_SPELLINGS: Final[dict[str, tuple[str, Callable[[Payload], Payload]]]] = {
    "runtime.request.queued": ("session.start", _pick(prompt="input", agent="agent")),
    "runtime.request.completed": ("session.close", lambda payload: {"ok": True, "output": payload["output"]}),
    "runtime.request.failed": ("session.close", lambda payload: {"ok": False, "reason": payload["error"]["code"]}),
    "runtime.request.cancelled": ("session.close", lambda payload: {"ok": False, "reason": "cancelled"}),
    "runtime.model.requested": (
        "llm.request",
        _pick(
            message_id="messageId",
            role="role",
            model="model",
            provider="provider",
            messages="messages",
            parameters="parameters",
        ),
    ),
    "runtime.model.completed": (
        "llm.response",
        lambda payload: {
            **_pick(
                message_id="messageId",
                role="role",
                model="model",
                text="text",
                tool_calls="toolCalls",
                finish_reason="finishReason",
            )(payload),
            "usage": _usage(payload),
        },
    ),
    "runtime.model.failed": ("llm.response", _pick(message_id="messageId", model="model", error="error")),
    "runtime.tool.invoked": ("tool.invoke", _pick(id="callId", name="tool", args="arguments")),
    "runtime.tool.resulted": ("tool.result", _pick(id="callId", name="tool", ok="ok", result="output", error="error")),
    "runtime.role.transitioned": ("agent.transition", _pick(**{"from": "from", "to": "to", "reason": "reason"})),
    "runtime.hook.fired": (
        "hook.fired",
        _pick(hook="hook", handler="handler", decision="decision", reason="reason"),
    ),
    "runtime.skill.invoked": ("skill.invoke", _pick(skill="skill", trigger="trigger")),
    "runtime.skill.completed": ("skill.complete", _pick(skill="skill", ok="ok")),
    "runtime.schema.violated": ("schema.violated", _pick(schema="schemaName", boundary="boundary", issues="issues")),
    "runtime.event.amended": (
        "event.amended",
        _pick(amends="amendsId", reason="reason", correction="correction"),
    ),
    "runtime.workflow.started": ("workflow.started", _pick(cycle_id="cycleId", workflow_id="workflowId")),
    "runtime.workflow.phase_advanced": (
        "workflow.phase_advanced",
        _pick(cycle_id="cycleId", from_phase="fromPhase", to_phase="toPhase"),
    ),
    "runtime.workflow.policy_gated": (
        "workflow.policy_gated",
        _pick(policy_id="policyId", decision="decision", reason="reason"),
    ),
    "runtime.workflow.completed": ("workflow.completed", _pick(cycle_id="cycleId", verdict="verdict")),
    "runtime.workflow.aborted": ("workflow.aborted", _pick(cycle_id="cycleId", reason="reason")),
}


_SPEAKERS: Final = {"LEAD": "lead", "PLAN": "planner", "WORK": "worker", "REVIEW": "reviewer", "REWORK": "worker"}
"""Who has the word in a state: there it is the role, not the program that plays it, who acts."""


def _actor(event: Event) -> str:
    payload = event.payload
    role = _SPEAKERS.get(payload["to"]) if event.type == "runtime.role.transitioned" else payload.get("role")
    return role or event.actor


def spell(event: Event) -> dict[str, Any] | None:
    """One line of `.events.jsonl`, or None for what that file has no word for."""
    if event.type == "runtime.role.reported":
        role = event.payload["role"]
        name, payload = f"{role}.report", event.payload["report"]
    elif event.type in _SPELLINGS:
        name, translate = _SPELLINGS[event.type]
        payload = translate(event.payload)
    else:
        return None
    return {
        "id": event.id,
        "session_id": event.thread_id,
        "ts": iso(event.at),
        "type": name,
        "actor": _actor(event),
        "payload": payload,
        "schema_version": "v1",
        "parent_id": event.parent_id,
    }


async def export(reader: Reader, tenant: str, thread: Thread) -> AsyncIterator[bytes]:
    after = 0
    while after < thread.last_seq and (page := await reader.events(tenant, thread.id, after, PAGE)):
        for event in page:
            line = spell(event) if event.seq <= thread.last_seq else None
            if line is not None:
                yield json.dumps(line)
        after = page[-1].seq
