"""The conversation so far: the messages of a thread's completed runs, as a model is told them again.

Runs that failed or were cancelled leave no messages. A tool call and its result stay together.
"""

from collections.abc import Iterable
from typing import Any

from app.core import json
from app.events.catalog import model, request, tool
from app.events.envelope import Event

Message = dict[str, Any]


def history(events: Iterable[Event]) -> list[Message]:
    """In the shape of completion_request_v1's messages."""
    of_run: dict[str, list[Message]] = {}
    told: list[Message] = []
    for event in events:
        if event.run_id is None:
            continue
        mine = of_run.setdefault(event.run_id, [])
        payload = event.payload
        match event.type:
            case request.RequestQueued.type if not payload.get("parentRunId"):
                mine.append({"role": "user", "content": _text(payload.get("input"))})
            case model.ModelCompleted.type if payload["toolCalls"]:
                calls = [_call(call) for call in payload["toolCalls"]]
                mine.append({"role": "assistant", "content": _text(payload["text"]), "tool_calls": calls})
            case tool.ToolResulted.type:
                content = _text(payload.get("output")) if payload["ok"] else payload["error"]["message"]
                mine.append(
                    {"role": "tool", "content": content, "tool_call_id": payload["callId"], "name": payload["tool"]}
                )
            case request.RequestCompleted.type if mine and mine[0]["role"] == "user":
                told += [*mine, {"role": "assistant", "content": _text(payload["output"])}]
    return told


def _call(call: dict[str, Any]) -> dict[str, Any]:
    made = {"id": call["id"], "name": call["name"], "args": call["args"]}
    return made | ({"raw_args": call["rawArgs"]} if "rawArgs" in call else {})


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value).decode()
