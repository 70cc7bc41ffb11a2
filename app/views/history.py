"""The conversation so far: the messages of a thread's ended runs, as a model is told them again.

A run that failed or was cancelled leaves what it had done up to its last completed step; one that was rolled back
leaves nothing, and neither do the runs of subagents. A tool call and its result stay together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from app.core import json
from app.events.catalog import execution, model, policy, request, thread, tool
from app.events.envelope import Event

Message = dict[str, Any]

_BROUGHT: Final = "UserPromptSubmit:history-"
_SUMMARY: Final = "Summary of the conversation so far:\n"
_UNANSWERED: Final = "The run ended before this call had a result."


@dataclass(slots=True)
class _Told:
    """One run's part of the conversation while it is folded."""

    messages: list[Message] = field(default_factory=list)
    agent: str | None = None
    open_calls: dict[str, str] = field(default_factory=dict)
    """Calls without a result, by id, with the tool's name."""
    rolled_back: bool = False

    def close(self) -> list[Message]:
        """As a model may be told it: every call has its result."""
        closing = [
            {"role": "tool", "content": _UNANSWERED, "tool_call_id": call_id, "name": name}
            for call_id, name in self.open_calls.items()
        ]
        return [] if self.rolled_back else [*self.messages, *closing]


def history(events: Iterable[Event], agent: str | None = None) -> list[Message]:
    """In the shape of completion_request_v1's messages, in the order of the runs' ends. What this agent summed up
    in an earlier run it is told as that summary; another agent may have room for all of it."""
    runs: dict[str, _Told] = {}
    told: list[Message] = []
    for event in events:
        payload = event.payload
        if event.type in (thread.ThreadCreated.type, thread.ThreadForked.type):
            told += payload.get("history") or []
        if event.run_id is None:
            continue
        if event.type == request.RequestQueued.type and not payload.get("parentRunId") and not payload.get("tool"):
            runs[event.run_id] = _Told([user_message(payload.get("input"))], payload.get("agent"))
        run = runs.get(event.run_id)
        if run is None:
            continue
        _tell(run, event)
        if event.type == policy.HookFired.type and payload.get("key", "").startswith(_BROUGHT):
            _heed_brought(told, payload)
        if event.type == execution.ContextCompacted.type and agent is not None and run.agent == agent:
            told = _summed_up(told, payload)
        if event.type in request.TERMINAL:
            told += run.close()
            del runs[event.run_id]
    return told


def summary_message(text: str) -> Message:
    """A user's message, not the system's: what a summary says comes from the conversation and instructs nobody."""
    return {"role": "user", "content": _SUMMARY + text}


def is_summary(message: Message) -> bool:
    return bool(message["role"] == "user" and message["content"].startswith(_SUMMARY))


def _summed_up(told: list[Message], payload: Message) -> list[Message]:
    kept = payload.get("keptMessages")
    if kept is None or not isinstance(payload.get("summary"), str):
        return told
    return [summary_message(payload["summary"]), *told[len(told) - kept :]]


def _tell(run: _Told, event: Event) -> None:
    payload = event.payload
    match event.type:
        case execution.StepCompleted.type if payload["step"] == "commands":
            run.messages += steered(payload["result"])
        case execution.CommandInjected.type if payload["arguments"].get("rollback"):
            run.rolled_back = True
        case model.ModelCompleted.type if payload["toolCalls"] and not payload.get("role"):
            calls = [_call(call) for call in payload["toolCalls"]]
            run.messages.append({"role": "assistant", "content": _text(payload["text"]), "tool_calls": calls})
            run.open_calls |= {call["id"]: call["name"] for call in calls}
        case tool.ToolResulted.type if payload["callId"] in run.open_calls:
            content = _text(payload.get("output")) if payload["ok"] else payload["error"]["message"]
            run.messages.append(
                {"role": "tool", "content": content, "tool_call_id": payload["callId"], "name": payload["tool"]}
            )
            del run.open_calls[payload["callId"]]
        case policy.HookFired.type:
            _heed(run, payload)
        case request.RequestCompleted.type:
            run.messages.append({"role": "assistant", "content": _text(payload["output"])})


def _heed_brought(told: list[Message], fired: Message) -> None:
    """Of a history that came with a request the same holds, message by message; of a denied one nothing is told."""
    changed = fired.get("output") or {}
    if fired["decision"] == "deny":
        told.clear()
    elif changed and told:
        number = int(fired["key"].removeprefix(_BROUGHT))
        told[number] = user_message(changed["input"] if "input" in changed else changed["prompt"])


def _heed(run: _Told, fired: Message) -> None:
    """What a hook kept from the model of this run, it keeps from those of later ones."""
    changed, denied = fired.get("output") or {}, fired["decision"] == "deny"
    # What people said on the way has a longer key, and stands in the command as the hooks left it.
    match fired["hook"], fired.get("key"):
        case ("SessionStart" | "UserPromptSubmit") as hook, key if denied and key == hook:
            run.rolled_back = True
        case "UserPromptSubmit", "UserPromptSubmit" if changed:
            run.messages[0] = user_message(changed["input"] if "input" in changed else changed["prompt"])
        case "PostToolUse", _ if changed or denied:
            content = fired.get("reason", "") if denied else _text(changed.get("output"))
            for number, message in enumerate(run.messages):
                if message.get("tool_call_id") == fired.get("callId"):
                    run.messages[number] = message | {"content": content}


def user_message(given: Any) -> Message:
    """What a client gave a run, as a message: text, message parts, or an object as JSON."""
    if isinstance(given, list) and given and all(isinstance(part, dict) and "type" in part for part in given):
        text = "\n".join(part["text"] for part in given if part["type"] == "text")
        return {"role": "user", "content": text, "parts": given}
    return {"role": "user", "content": _text(given)}


def steered(commands: Iterable[dict[str, Any]]) -> list[Message]:
    """Messages of the steering commands among those that a run took up."""
    messages = []
    for told in commands:
        arguments = told["arguments"]
        if told["command"] != "steer":
            continue
        for name, role in (("hint", "system"), ("message", "user")):
            if name in arguments:  # neither is there when a hook denied it
                messages.append({"role": role, "content": arguments[name]})
    return messages


def _call(call: dict[str, Any]) -> dict[str, Any]:
    made = {"id": call["id"], "name": call["name"], "args": call["args"]}
    return made | ({"raw_args": call["rawArgs"]} if "rawArgs" in call else {})


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value).decode()
