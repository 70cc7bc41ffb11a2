"""Events as the notifications of the published contract: turns, their items, the plan, the tokens.

A run is a turn, a message or a tool call is an item. Only what has a method there is sent; the rest of the log goes
out under its own types alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from app.events.catalog import adapter, artifact, execution, model, request, thread, tool
from app.events.envelope import Event
from app.views.text_diff import FILE
from app.views.todos import TOOL as TODOS
from app.views.todos import Todos
from app.views.transcript import as_text


@dataclass(frozen=True, slots=True)
class Notification:
    method: str
    params: Any
    alias: str | None = None
    """The type of the frame of its own that a client may wait for."""


@dataclass(frozen=True, slots=True)
class _Source:
    event: Event
    plan: Todos | None
    tokens: dict[str, int] | None

    def params(self, **more: Any) -> dict[str, Any]:
        return {"threadId": self.event.thread_id, "turnId": self.event.run_id, **more}


def notifications(event: Event, plan: Todos | None, tokens: dict[str, int] | None) -> list[Notification]:
    notify = _NOTIFY.get(event.type)
    return [] if notify is None else list(notify(_Source(event, plan, tokens)))


Notify = Callable[[_Source], Iterator[Notification]]

# -- threads and turns --------------------------------------------------------------------------------


def _thread_started(source: _Source) -> Iterator[Notification]:
    event = source.event
    yield Notification(
        "thread/started", {"thread": {"id": event.thread_id, "name": event.payload.get("title"), "turns": []}}
    )


def _thread_updated(source: _Source) -> Iterator[Notification]:
    thread_id, changed = source.event.thread_id, source.event.payload
    if "title" in changed:
        yield Notification("thread/name/updated", {"threadId": thread_id, "threadName": changed["title"]})
    if "archived" in changed:
        yield Notification("thread/archived" if changed["archived"] else "thread/unarchived", {"threadId": thread_id})


def _turn(event: Event, status: str, error: Any = None) -> dict[str, Any]:
    return {
        "threadId": event.thread_id,
        "turn": {"id": event.run_id, "status": status, "items": [], "error": error},
    }


def _turn_started(source: _Source) -> Iterator[Notification]:
    yield Notification("turn/started", _turn(source.event, "inProgress"))


def _turn_completed(source: _Source) -> Iterator[Notification]:
    ended = source.event.payload
    if ended.get("messageId") is None:
        # The answer is no message of the turn's: what the roles within the agent said is not sent. The transcript's id.
        item = {"type": "agentMessage", "id": f"{source.event.run_id}:output"}
        yield Notification("item/started", source.params(item=item | {"text": ""}))
        yield Notification("item/completed", source.params(item=item | {"text": as_text(ended["output"])}))
    yield Notification("turn/completed", _turn(source.event, "completed"))


def _turn_interrupted(source: _Source) -> Iterator[Notification]:
    yield Notification("turn/completed", _turn(source.event, "interrupted"))


def _turn_failed(source: _Source) -> Iterator[Notification]:
    error = {key: source.event.payload["error"].get(key) for key in ("code", "message")}
    yield Notification("error", source.params(error=error, willRetry=False))
    yield Notification("turn/completed", _turn(source.event, "failed", error))


def _will_retry(source: _Source) -> Iterator[Notification]:
    yield Notification("error", source.params(error={"message": source.event.payload["reason"]}, willRetry=True))


def _compacted(source: _Source) -> Iterator[Notification]:
    yield Notification("thread/compacted", source.params())


# -- items --------------------------------------------------------------------------------------------

_DELTAS: Final = {
    adapter.OUTPUT_DELTA: "item/agentMessage/delta",
    adapter.REASONING_DELTA: "item/reasoning/textDelta",
    adapter.TOOL_DELTA: "item/toolCall/argumentsDelta",
}


def _signal(source: _Source) -> Iterator[Notification]:
    signal = source.event.payload["event"]
    method = _DELTAS.get(signal["phase"])
    if method is not None and signal.get("role") is None:
        item = signal.get("callId") or signal.get("messageId")
        yield Notification(
            method, source.params(itemId=item, contentIndex=signal.get("part") or 0, delta=signal.get("text"))
        )


def _message_started(source: _Source) -> Iterator[Notification]:
    if source.event.payload.get("role") is None:
        item = {"type": "agentMessage", "id": source.event.payload["messageId"], "text": ""}
        yield Notification("item/started", source.params(item=item))


def _message_completed(source: _Source) -> Iterator[Notification]:
    said = source.event.payload
    if said.get("role") is None:
        item = {"type": "agentMessage", "id": said["messageId"], "text": said["text"]}
        yield Notification("item/completed", source.params(item=item))
    usage = {"last": tokens_of(said["usage"]), "total": source.tokens, "modelContextWindow": None}
    yield Notification("thread/tokenUsage/updated", source.params(tokenUsage=usage), "thread_token_usage_updated")


def tokens_of(usage: dict[str, Any]) -> dict[str, int]:
    given, made = usage.get("inputTokens") or 0, usage.get("outputTokens") or 0
    return {
        "inputTokens": given,
        "cachedInputTokens": usage.get("cachedTokens") or 0,
        "outputTokens": made,
        "reasoningOutputTokens": usage.get("reasoningTokens") or 0,
        "totalTokens": given + made,
    }


def _call_started(source: _Source) -> Iterator[Notification]:
    call = source.event.payload
    item = {"type": "dynamicToolCall", "id": call["callId"], "tool": call["tool"], "arguments": call["arguments"]}
    yield Notification("item/started", source.params(item=item | {"status": "inProgress"}))


def _call_completed(source: _Source) -> Iterator[Notification]:
    result = source.event.payload
    item = {
        "type": "dynamicToolCall",
        "id": result["callId"],
        "tool": result["tool"],
        "status": "completed" if result["ok"] else "failed",
        "result": result.get("output"),
        "error": result.get("error"),
        "durationMs": result.get("durationMs"),
    }
    yield Notification("item/completed", source.params(item=item))
    if result["tool"] in TODOS and result["ok"] and result.get("applied") is not False:
        yield from _plan(source)


def _plan(source: _Source) -> Iterator[Notification]:
    if source.plan is not None:
        plan = [{"step": todo.title, "status": _STEPS.get(todo.status, "pending")} for todo in source.plan.items]
        yield Notification("turn/plan/updated", source.params(explanation=None, plan=plan), "turn_plan_updated")


_STEPS: Final = {"pending": "pending", "blocked": "pending", "in_progress": "inProgress", "done": "completed"}


def _diff(source: _Source) -> Iterator[Notification]:
    """A file that a tool changed has its diff; an artifact that is a diff may carry its text. A large one is a blob."""
    made = source.event.payload["artifact"]
    if made.get("kind") in ("diff", FILE) or made["mime"] == "text/x-diff":
        diff = made.get("diff", made.get("text"))
        params = source.params(diff=diff if isinstance(diff, str) else None, artifact=made)
        yield Notification("turn/diff/updated", params, "turn_diff_updated")


_NOTIFY: Final[dict[str, Notify]] = {
    thread.ThreadCreated.type: _thread_started,
    thread.ThreadForked.type: _thread_started,
    thread.ThreadUpdated.type: _thread_updated,
    request.RequestStarted.type: _turn_started,
    request.RequestCompleted.type: _turn_completed,
    request.RequestCancelled.type: _turn_interrupted,
    request.RequestFailed.type: _turn_failed,
    model.ModelRetryScheduled.type: _will_retry,
    execution.ContextCompacted.type: _compacted,
    adapter.AdapterEvent.type: _signal,
    model.ModelRequested.type: _message_started,
    model.ModelCompleted.type: _message_completed,
    tool.ToolInvoked.type: _call_started,
    tool.ToolResulted.type: _call_completed,
    artifact.ArtifactCreated.type: _diff,
    thread.TodosUpdated.type: _plan,
}

TYPES: Final = frozenset(_NOTIFY)
MODEL_COMPLETED: Final = model.ModelCompleted.type
OF_STORY: Final = frozenset({model.ModelCompleted.type, tool.ToolResulted.type})
"""Events that are sent together with the state of the thread after them."""
