"""The published stream contract: what an event becomes for clients that speak of sessions, turns and items.

Pure functions of an event and of what was known when it happened (`Known`). Leaves to others: where that knowledge
comes from, how frames are numbered and encoded (the stream), and the REST spelling (`codex_sessions`).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from app.core.clock import iso
from app.core.json import JsonObject
from app.core.value import value
from app.events.catalog import execution, interrupt, ledger, project, session_job, thread
from app.events.envelope import Event
from app.protocols.dialects import codex_items as items
from app.protocols.dialects import codex_lifecycle as lifecycle
from app.protocols.dialects.codex_items import Notification
from app.protocols.dialects.codex_jobs import job_frame, suggestion_frame
from app.protocols.dialects.codex_lifecycle import Transition
from app.protocols.dialects.codex_requests import REQUESTED, RESOLVED, method_of, pending, resolved
from app.runtime.intake.rejection import SYSTEM_THREADS
from app.views.interrupt import Interrupt
from app.views.todos import FOLDED as TODO_TYPES
from app.views.todos import Todos

UNTITLED: Final = "New chat"


@value(frozen=True, slots=True)
class Known:
    """What an event alone does not say."""

    title: str | None = None
    interrupt: Interrupt | None = None
    """The one that was answered or expired."""
    plan: Todos | None = None
    """The thread's list of things to do, after this event."""
    tokens: dict[str, int] | None = None
    """What the thread's model calls used, this one included."""
    moves: tuple[Transition, ...] = ()
    """What the event did to the items of its turn."""
    project: str | None = None
    """The project that the session belongs to."""


NOTHING: Final = Known()


@value(frozen=True, slots=True)
class Alias:
    """One more frame for the same event."""

    type: str
    payload: Any
    everywhere: bool = False
    """Goes to every socket of the tenant with `threadId: null`, unless the thread is named."""
    thread_id: str | None = None
    """The thread that a frame for everybody names nevertheless."""


def aliases(event: Event, known: Known) -> list[Alias]:
    """The frames that follow an event's own, in the order of the contract."""
    if event.thread_id.startswith(SYSTEM_THREADS):
        # Of the system's own threads only their events are sent, and only to subscribers of exactly these threads.
        spoken = _OF_SYSTEM.get(event.type)
        return [spoken(event, known)] if spoken is not None else []
    made: list[Alias] = []
    for notification in items.notifications(event, known.plan, known.tokens, known.moves):
        made.append(Alias(f"app_server.{normal(notification.method)}", _signal(event, known, notification)))
        if notification.alias is not None:
            made.append(Alias(notification.alias, notification.params))
        made.append(Alias("notification", {"method": notification.method, "params": notification.params}))
    if event.type == interrupt.InterruptRaised.type:
        made += _request(event, known)
    else:
        direct = _DIRECT.get(event.type)
        made += direct(event, known) if direct is not None else ()
    return made


def normal(method: str) -> str:
    """`thread/tokenUsage/updated` is `thread.token_usage.updated` in a frame's type."""
    return ".".join(_HUMP.sub(r"\1_\2", part).lower() for part in method.split("/"))


_HUMP: Final = re.compile(r"([a-z0-9])([A-Z])")


def _signal(event: Event, known: Known, notification: Notification, request_id: str | None = None) -> dict[str, Any]:
    made = {
        "source": "app_server",
        "signalType": "notification" if request_id is None else "request",
        "eventType": f"app_server.{'' if request_id is None else 'request.'}{normal(notification.method)}",
        "method": notification.method,
        "receivedAt": iso(event.at),
        "context": {"threadId": event.thread_id, "turnId": event.run_id},
        "params": notification.params,
        "session": {"id": event.thread_id, "title": known.title or UNTITLED, "projectId": known.project},
    }
    return made if request_id is None else made | {"requestId": request_id}


# -- requests to a person or to the client ------------------------------------------------------------


def _request(event: Event, known: Known) -> Iterator[Alias]:
    asked = Interrupt(event.payload["interruptId"], event.thread_id)
    asked.apply(event)
    if asked.kind == "timer":
        return  # nobody is asked
    method, params = method_of(asked), pending(asked)
    signal = _signal(event, known, Notification(method, params), asked.id)
    yield Alias(f"app_server.request.{normal(method)}", signal)
    alias = REQUESTED.get(asked.kind)
    if alias is not None:
        yield Alias(alias, params)
    else:
        yield Alias("server_request", {"method": method, "id": asked.id, "params": params})


def _answered(event: Event, known: Known) -> Iterator[Alias]:
    asked = known.interrupt
    if asked is not None and asked.kind == "timer":
        return
    if asked is not None and asked.kind in RESOLVED:
        yield Alias(RESOLVED[asked.kind], resolved(asked.id, asked.kind, event.payload.get("answer")))


# -- what has a frame of its own and no method --------------------------------------------------------


def _row(event: Event, _: Known) -> Iterator[Alias]:
    entry = event.payload
    values = {"threadId": event.thread_id, "turnId": entry["turnId"], "messageId": entry["messageId"]}
    yield Alias("transcript_updated", values | {"type": entry["type"], "entry": entry})


def _deleted(event: Event, known: Known) -> Iterator[Alias]:
    values = {
        "status": "deleted",
        "sessionId": event.thread_id,
        "title": known.title or UNTITLED,
        "message": "The session was deleted.",
        "deletedAt": iso(event.at),
    }
    yield Alias("session_deleted", values, everywhere=True, thread_id=event.thread_id)


def _project(event: Event) -> dict[str, Any]:
    at = iso(event.at)
    return {"createdAt": at} | event.payload | {"updatedAt": at}


def _assigned(event: Event, _: Known) -> Iterator[Alias]:
    values = {
        "sessionId": event.payload["sessionId"],
        "projectId": event.payload.get("projectId"),
        "previousProjectId": event.payload.get("previousProjectId"),
    }
    yield Alias("session_project_updated", values, everywhere=True, thread_id=event.thread_id)


def _job(event: Event, _: Known) -> Iterator[Alias]:
    yield Alias(*job_frame(event))


def _suggested(event: Event, _: Known) -> Iterator[Alias]:
    yield Alias("suggested_request_updated", suggestion_frame(event))


def _login(event: Event) -> JsonObject:
    payload = event.payload
    return {"name": payload["server"], "success": payload["success"], "error": payload.get("error")}


def _over_budget(event: Event, _: Known) -> Iterator[Alias]:
    if event.payload["scope"] == "tenant":
        yield Alias("account_rate_limits_updated", {"rateLimits": event.payload}, everywhere=True)


_DIRECT: Final[dict[str, Callable[[Event, Known], Iterator[Alias]]]] = {
    interrupt.InterruptResolved.type: _answered,
    interrupt.InterruptExpired.type: _answered,
    thread.TranscriptUpserted.type: _row,
    thread.ThreadDeleted.type: _deleted,
    execution.BudgetExceeded.type: _over_budget,
    project.ProjectSessionAssigned.type: _assigned,
    session_job.SessionJobUpdated.type: _job,
    session_job.SessionSuggestionUpdated.type: _suggested,
}
_OF_SYSTEM: Final[dict[str, Callable[[Event, Known], Alias]]] = {
    # The agents of the workspace are the apps of a client; it asks for the list when it hears this.
    ledger.WorkspaceLoaded.type: lambda event, _: Alias("app_list_updated", event.payload, everywhere=True),
    project.ProjectUpserted.type: lambda event, _: Alias("project_upserted", _project(event), everywhere=True),
    project.ProjectDeleted.type: lambda event, _: Alias(
        "project_deleted", {"projectId": event.payload["projectId"]}, everywhere=True
    ),
    ledger.McpOAuthCompleted.type: lambda event, _: Alias("mcp_oauth_completed", _login(event), everywhere=True),
}

# -- what must be known beforehand --------------------------------------------------------------------

NEEDS_TITLE: Final = items.TYPES | {interrupt.InterruptRaised.type, thread.ThreadDeleted.type}
NEEDS_INTERRUPT: Final = frozenset({interrupt.InterruptResolved.type, interrupt.InterruptExpired.type})
NEEDS_STORY: Final = items.OF_STORY
FOLDED: Final = tuple(dict.fromkeys((*TODO_TYPES, items.MODEL_COMPLETED, *lifecycle.FOLDED)))
"""What a thread's plan, its tokens and the items of its turns are folded from; deltas come in addition."""

ALIASES: Final[dict[str, tuple[bool, str]]] = {
    "app_server.*": (False, "A notification or a request (`app_server.request.*`) of the runtime, by its method."),
    "notification": (False, "The raw notification: its method and its parameters."),
    "server_request": (False, "A request that has no frame of its own."),
    "approval": (False, "A person is asked for a yes."),
    "approval_resolved": (False, "It was decided, or expired."),
    "tool_user_input_requested": (False, "A person is asked questions."),
    "tool_user_input_resolved": (False, "They were answered, or expired."),
    "tool_call_requested": (False, "The client is to run one of its own tools."),
    "tool_call_resolved": (False, "It did, or did not in time."),
    "turn_plan_updated": (False, "The list of things to do changed."),
    "turn_diff_updated": (False, "A diff was made."),
    "thread_token_usage_updated": (False, "A model call used tokens."),
    "transcript_updated": (False, "A client's row of the transcript, as it stands after the merge."),
    "session_deleted": (True, "A session was deleted."),
    "orchestrator_job_queued": (False, "A job that works for the session is on the queue."),
    "orchestrator_job_started": (False, "An attempt at it began."),
    "orchestrator_job_progress": (False, "It reports how far it is."),
    "orchestrator_job_completed": (False, "It completed, and its rows of the transcript are final."),
    "orchestrator_job_failed": (False, "It failed for good."),
    "orchestrator_job_canceled": (False, "It was cancelled."),
    "suggested_request_updated": (False, "A suggested request changed its state."),
    "project_upserted": (True, "A project was created or renamed."),
    "project_deleted": (True, "A project was deleted."),
    "session_project_updated": (True, "A session was put into a project, or out of it."),
    "app_list_updated": (True, "The workspace was loaded: ask for the agents again."),
    "account_rate_limits_updated": (True, "The tenant's budget of the day is used up."),
}
"""Every type of frame other than the events' own: whether it goes to everybody, and what it reports."""
