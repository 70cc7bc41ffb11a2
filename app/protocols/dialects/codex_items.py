"""Events as the notifications of the published contract: turns, their items, the plan, the tokens.

A run is a turn, a message or a tool call is an item. Only what has a method there is sent; the rest of the log goes
out under its own types alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from app import __version__
from app.core.value import value
from app.events.catalog import adapter, artifact, execution, model, request, thread, tool
from app.events.envelope import Event
from app.protocols.dialects.codex_lifecycle import MOVES, Transition, delta_item
from app.views.controls import controls_of
from app.views.text_diff import FILE
from app.views.todos import TOOL as TODOS
from app.views.todos import Todos

PROVIDER: Final = "holdfast"
SOURCE: Final = "appServer"


@value(frozen=True, slots=True)
class Notification:
    method: str
    params: Any
    alias: str | None = None
    """The type of the frame of its own that a client may wait for."""


@value(frozen=True, slots=True)
class _Source:
    event: Event
    plan: Todos | None
    tokens: dict[str, int] | None
    moves: tuple[Transition, ...] = ()

    def params(self, **more: Any) -> dict[str, Any]:
        return {"threadId": self.event.thread_id, "turnId": self.event.run_id} | more

    def items(self) -> Iterator[Notification]:
        """What the event did to the turn's items."""
        for phase, item in self.moves:
            yield Notification(f"item/{phase}", self.params(item=item))


def notifications(
    event: Event, plan: Todos | None, tokens: dict[str, int] | None, moves: tuple[Transition, ...] = ()
) -> list[Notification]:
    notify = _NOTIFY.get(event.type)
    return [] if notify is None else list(notify(_Source(event, plan, tokens, moves)))


Notify = Callable[[_Source], Iterator[Notification]]

# -- threads and turns --------------------------------------------------------------------------------


def _thread_started(source: _Source) -> Iterator[Notification]:
    event = source.event
    metadata, seconds = event.payload.get("metadata") or {}, event.at // 1000
    made = {
        "id": event.thread_id,
        "name": event.payload.get("title"),
        "preview": "",
        "modelProvider": PROVIDER,
        "createdAt": seconds,
        "updatedAt": seconds,
        "path": None,
        "cwd": controls_of(metadata).get("cwd", ""),
        "cliVersion": __version__,
        "source": SOURCE,
        "gitInfo": None,
        "turns": [],
    }
    yield Notification("thread/started", {"thread": made})


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
    yield from source.items()
    yield Notification("turn/completed", _turn(source.event, "completed"))


def _turn_interrupted(source: _Source) -> Iterator[Notification]:
    yield from source.items()
    yield Notification("turn/completed", _turn(source.event, "interrupted"))


def _turn_failed(source: _Source) -> Iterator[Notification]:
    error = {key: source.event.payload["error"].get(key) for key in ("code", "message")}
    yield from source.items()
    yield Notification("error", source.params(error=error, willRetry=False))
    yield Notification("turn/completed", _turn(source.event, "failed", error))


def _will_retry(source: _Source) -> Iterator[Notification]:
    yield Notification("error", source.params(error={"message": source.event.payload["reason"]}, willRetry=True))


def _compacted(source: _Source) -> Iterator[Notification]:
    yield Notification("thread/compacted", source.params())


def _summed_up(source: _Source) -> Iterator[Notification]:
    """By a job on a thread of its own, which is named as the turn."""
    yield Notification("thread/compacted", source.params(turnId=source.event.payload["jobId"]))


# -- items --------------------------------------------------------------------------------------------

_DELTAS: Final = {
    adapter.OUTPUT_DELTA: "item/agentMessage/delta",
    adapter.REASONING_DELTA: "item/reasoning/textDelta",
}
"""The arguments of a call as they arrive have no method there: they come with the call's item."""


def _signal(source: _Source) -> Iterator[Notification]:
    signal = source.event.payload["event"]
    item = delta_item(signal)
    if item is None:
        return
    yield from source.items()
    more = {"contentIndex": signal.get("part") or 0} if signal["phase"] == adapter.REASONING_DELTA else {}
    yield Notification(_DELTAS[signal["phase"]], source.params(itemId=item, delta=signal.get("text") or "", **more))


def _of_items(source: _Source) -> Iterator[Notification]:
    yield from source.items()


def _message_completed(source: _Source) -> Iterator[Notification]:
    said = source.event.payload
    yield from source.items()
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


def _call_completed(source: _Source) -> Iterator[Notification]:
    result = source.event.payload
    yield from source.items()
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
        params = source.params(diff=diff if isinstance(diff, str) else "", artifact=made)
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
    thread.ThreadCompacted.type: _summed_up,
    adapter.AdapterEvent.type: _signal,
    model.ModelRequested.type: _of_items,
    model.ModelCompleted.type: _message_completed,
    model.ModelFailed.type: _of_items,
    tool.ToolInvoked.type: _of_items,
    tool.ToolResulted.type: _call_completed,
    artifact.ArtifactCreated.type: _diff,
    thread.TodosUpdated.type: _plan,
}

TYPES: Final = frozenset(_NOTIFY)
MODEL_COMPLETED: Final = model.ModelCompleted.type
OF_STORY: Final = frozenset({tool.ToolResulted.type, thread.TodosUpdated.type}) | MOVES
"""Events that are sent together with the state of the thread after them."""
