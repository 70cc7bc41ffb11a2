"""A thread as the state of a LangGraph graph: its messages and other channels, now and at every checkpoint.

A pure fold of the thread's events. A checkpoint is a `seq` of the thread at which the state changed; its id holds that
number. Leaves to others: spelling messages (`langgraph_messages`), state objects (`langgraph_states`), the wire.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable, value
from app.events.catalog import execution, interrupt, model, request, thread, tool
from app.events.envelope import Event
from app.protocols.dialects import langgraph_messages as messages
from app.protocols.dialects.langgraph_interrupts import is_breakpoint
from app.views.history import GUARDED_INPUT

Payload = dict[str, Any]

MODEL_NODE: Final = "model"
TOOLS_NODE: Final = "tools"
MESSAGE_IDS: Final = "langgraph.messages"
"""The label of a run with the ids that its client gave its messages."""
_GRAPH_STATE: Final = "holdfast.langgraph/1"
TYPES: Final = (
    thread.ThreadCreated.type,
    thread.ThreadForked.type,
    thread.ThreadStateSaved.type,
    thread.ThreadStateUpdated.type,
    request.RequestQueued.type,
    request.RequestStarted.type,
    *sorted(request.TERMINAL),
    execution.StepCompleted.type,
    execution.CommandInjected.type,
    model.ModelCompleted.type,
    tool.ToolResulted.type,
    interrupt.InterruptRaised.type,
    interrupt.InterruptResolved.type,
    interrupt.InterruptExpired.type,
)
"""All that a thread's values are made of; whoever reads for them may leave out the rest, such as every token."""


@mutable(slots=True)
class _Entry:
    """A message, and from which `seq` to which it is part of the state."""

    message: Payload
    since: int
    until: int | None = None
    run_id: str | None = None

    def holds(self, at: int | None) -> bool:
        if at is None:
            return self.until is None
        return self.since <= at and (self.until is None or at < self.until)


@value(frozen=True, slots=True)
class StateCheckpoint:
    """Where the state changed, and what was to come next."""

    seq: int
    at: int
    step: int
    source: str
    run_id: str | None
    next: tuple[str, ...]
    interrupts: Mapping[str, Payload] = field(default_factory=dict)


@mutable(slots=True)
class _Begun:
    """A run of which the thread knows."""

    payload: Payload
    started: bool = False
    named: bool = False
    """Whether the backend reports its own nodes."""


class ThreadValues:
    """Feed it the thread's events in order, from the first on."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._past: list[tuple[int, list[_Entry]]] = []
        """Former lists of messages, with the `seq` that replaced them."""
        self._channels: list[tuple[int, Payload]] = []
        self._runs: dict[str, _Begun] = {}
        self._open: dict[str, Payload] = {}
        self.checkpoints: list[StateCheckpoint] = []
        self.agent: str | None = None
        """What the newest run that has started runs: an agent or `workflow:NAME`."""

    # -- reading ---------------------------------------------------------------------------------------

    def messages(self, at: int | None = None) -> list[Payload]:
        entries = next((past for seq, past in self._past if at is not None and at < seq), self._entries)
        return [entry.message for entry in entries if entry.holds(at)]

    def values(self, at: int | None = None) -> Payload:
        return {**self._held(at), "messages": self.messages(at)}

    @property
    def open_interrupts(self) -> Mapping[str, Payload]:
        return self._open

    def message(self, message_id: str) -> Payload | None:
        return next(
            (e.message for e in reversed(self._entries) if e.message["id"] == message_id and e.holds(None)), None
        )

    # -- folding ---------------------------------------------------------------------------------------

    def apply(self, event: Event) -> bool:
        """Whether the state is another one now: a checkpoint."""
        handle = _HANDLERS.get(event.type)
        if handle is None:
            return False
        before = len(self.checkpoints)
        handle(self, event, event.payload)
        return len(self.checkpoints) > before

    def _mark(self, event: Event, source: str, *following: str) -> None:
        step = len(self.checkpoints) - 1
        made = StateCheckpoint(event.seq, event.at, step, source, event.run_id, following, dict(self._open))
        self.checkpoints.append(made)

    def _add(self, event: Event, message: Payload) -> None:
        self._entries.append(_Entry(message, event.seq, run_id=event.run_id))

    def _put(self, event: Event, message: Payload) -> None:
        """In the place of the one with the same id, else at the end."""
        for number in range(len(self._entries) - 1, -1, -1):
            entry = self._entries[number]
            if entry.message["id"] == message["id"] and entry.until is None:
                if entry.message != message:
                    entry.until = event.seq
                    self._entries.insert(number + 1, _Entry(message, event.seq, run_id=event.run_id))
                return
        self._add(event, message)

    def _began_with(self, event: Event, payload: Payload) -> None:
        known = payload.get("history") or ()
        for number, message in enumerate(known):
            self._add(event, messages.of_history(message, f"{event.thread_id}-{event.seq}-{number}"))
        for state in (payload.get("states") or {}).values():
            self._keep_channels(event, state)
        if known:
            self._mark(event, "fork" if event.type == thread.ThreadForked.type else "input")

    def _saved(self, event: Event, payload: Payload) -> None:
        if self._keep_channels(event, payload["state"]):
            self._mark(event, "loop")

    def _keep_channels(self, event: Event, state: Any) -> bool:
        """What a graph of its own left behind: its channels, and its messages as it has them."""
        if not isinstance(state, dict) or state.get("format") != _GRAPH_STATE:
            return False
        held = {name: plain_state(value) for name, value in state["values"].items()}
        said = held.pop("messages", None)
        self._channels.append((event.seq, held))
        if isinstance(said, list):
            self._replace_messages(event, said)
        return True

    def _replace_messages(self, event: Event, said: list[Any]) -> None:
        known = {entry.message["id"]: entry for entry in self._entries if entry.until is None}
        kept: list[_Entry] = []
        for number, message in enumerate(said):
            if not isinstance(message, dict) or "type" not in message:
                return
            same = next((e for e in known.values() if _is_same(e.message, message) and e not in kept), None)
            named = message.get("id") or f"{event.thread_id}-{event.seq}-{number}"
            kept.append(same or _Entry(message | {"id": named}, event.seq, run_id=event.run_id))
        self._renew(event, kept)

    def _updated(self, event: Event, payload: Payload) -> None:
        """A client set the state: messages by their ids, other channels by their names."""
        restores = payload.get("restores")
        said = [messages.of_history(one, one["id"]) for one in payload["messages"]]
        if payload["replaces"]:
            self._set_messages(event, said)
        else:
            for message in said:
                self._add(event, message)
        given = {name: plain_state(value) for name, value in (payload.get("values") or {}).items()}
        given.pop("messages", None)
        if given or restores is not None:
            self._channels.append((event.seq, {**self._held(restores), **given}))
        following = self.checkpoints[-1].next if self._open and self.checkpoints else ()
        self._mark(event, "update" if restores is None else "fork", *following)

    def _held(self, at: int | None) -> Payload:
        return next((held for seq, held in reversed(self._channels) if at is None or seq <= at), {})

    def _set_messages(self, event: Event, said: list[Payload]) -> None:
        """These are the messages from here on; one that was known stays what it was."""
        kept: list[_Entry] = []
        known: dict[str, list[Payload]] = {}
        for entries in (*(past for _, past in self._past), self._entries):
            for entry in entries:
                known.setdefault(entry.message["id"], []).append(entry.message)
        for message in said:
            same = [one for one in known.get(message["id"], ()) if _says_the_same(one, message)]
            # Without its run: what is set by a client stays when that run is rolled back.
            kept.append(_Entry(same[-1] if same else message, event.seq))
        self._renew(event, kept)

    def _renew(self, event: Event, entries: list[_Entry]) -> None:
        """Another list of messages from here on; of earlier places the former one is read."""
        self._past.append((event.seq, self._entries))
        self._entries = entries

    # -- runs ------------------------------------------------------------------------------------------

    def _queued(self, event: Event, payload: Payload) -> None:
        plain = not payload.get("parentRunId") and not payload.get("undoOf")
        if plain and event.run_id is not None:
            self._runs[event.run_id] = _Begun(payload)

    def _started(self, event: Event, _payload: Payload) -> None:
        run = self._runs.get(event.run_id or "")
        if run is None or run.started:
            return
        run.started = True
        given = run.payload
        self.agent = f"workflow:{given['workflow']}" if given.get("workflow") else given.get("agent")
        if not given.get("tool"):
            named = (given.get("labels") or {}).get(MESSAGE_IDS)
            if not named or self.message(named) is not None:
                named = f"{event.run_id}-input"
            self._add(event, messages.human(named, given.get("input")))
        self._mark(event, "input", MODEL_NODE)

    def _stepped(self, event: Event, payload: Payload) -> None:
        if event.run_id not in self._runs:
            return
        step, result = payload["step"], payload["result"]
        if step == "commands":
            for sent in result:
                arguments = sent.get("arguments") or {}
                if sent.get("command") == "steer" and "message" in arguments:
                    self._add(event, messages.human(f"said-{sent['commandId']}", arguments["message"]))
                    self._mark(event, "update", MODEL_NODE)
        elif step == "node":
            self._mark(event, "loop")
        elif payload["key"] == GUARDED_INPUT and isinstance(result, dict) and "input" in result:
            first = next((e for e in self._entries if e.run_id == event.run_id and e.until is None), None)
            if first is not None:
                self._put(event, messages.human(first.message["id"], result["input"]))

    def _commanded(self, event: Event, payload: Payload) -> None:
        if payload["arguments"].get("rollback"):
            for entry in self._entries:
                if entry.run_id == event.run_id and entry.until is None:
                    entry.until = event.seq
            self._mark(event, "update")

    def _answered(self, event: Event, payload: Payload) -> None:
        if event.run_id in self._runs and payload.get("role") is None and not _is_aside(payload):
            self._add(event, of_model(payload))
            self._mark(event, "loop", *((TOOLS_NODE,) if payload["toolCalls"] else ()))

    def _resulted(self, event: Event, payload: Payload) -> None:
        if event.run_id in self._runs:
            self._add(event, of_tool(payload))
            self._mark(event, "loop", MODEL_NODE)

    def _raised(self, event: Event, payload: Payload) -> None:
        if event.run_id in self._runs and payload["kind"] != "timer":
            self._open[payload["interruptId"]] = payload
            stopped = (
                payload["questions"][0]["value"]["next"]
                if is_breakpoint(payload["kind"], payload.get("questions"))
                else None
            )
            self._mark(event, "loop", *(stopped or (payload.get("node") or TOOLS_NODE,)))

    def _resolved(self, _event: Event, payload: Payload) -> None:
        self._open.pop(payload["interruptId"], None)

    def _ended(self, event: Event, payload: Payload) -> None:
        run = self._runs.pop(event.run_id or "", None)
        if run is None:
            return
        self._open.clear()
        if event.type == request.RequestCompleted.type:
            self._completed(event, payload, run.payload)
        self._mark(event, "loop")

    def _completed(self, event: Event, payload: Payload, given: Payload) -> None:
        output, parts = payload["output"], payload.get("parts")
        if given.get("workflow"):
            held = self._channels[-1][1] if self._channels else {}
            self._channels.append((event.seq, {**held, "output": output}))
        last = next((e for e in reversed(self._entries) if e.until is None), None)
        own = last is not None and last.run_id == event.run_id and last.message["type"] == "ai"
        if last is not None and own and not last.message["tool_calls"]:
            said = messages.content_of(parts or output)
            if last.message["content"] != said:
                self._put(event, last.message | {"content": said})
        elif output is not None:
            self._add(event, messages.ai(payload.get("messageId") or f"{event.run_id}-answer", parts or output))


def of_model(payload: Payload) -> Payload:
    """What a model said, as a message."""
    text = payload.get("text") or ""
    calls = [{"id": call["id"], "name": call["name"], "args": call.get("args")} for call in payload["toolCalls"]]
    content = [{"type": "text", "text": text}, *payload["parts"]] if payload.get("parts") else text
    return messages.ai(payload["messageId"], content, calls, payload.get("usage"), payload.get("model"))


def of_tool(payload: Payload) -> Payload:
    output = payload.get("output") if payload["ok"] else (payload.get("error") or {}).get("message")
    return messages.tool(payload["callId"], payload["tool"], output, ok=payload["ok"])


def plain_state(value: Any) -> Any:
    """A value of a graph's stored state with its messages as clients know them."""
    if isinstance(value, dict):
        if value.keys() == {"$message"}:
            kept = value["$message"]
            data = kept.get("data") if isinstance(kept, dict) else None
            return {**plain_state(data), "type": kept.get("type")} if isinstance(data, dict) else value
        return {name: plain_state(item) for name, item in value.items()}
    return [plain_state(item) for item in value] if isinstance(value, list) else value


def _is_aside(payload: Payload) -> bool:
    return payload.get("aside") is not None or payload.get("repairs") is not None


def _says_the_same(known: Payload, given: Payload) -> bool:
    return all(known.get(name) == given.get(name) for name in ("id", "type", "content", "tool_calls", "tool_call_id"))


def _is_same(known: Payload, given: Payload) -> bool:
    if known["type"] != given["type"]:
        return False
    if known["type"] == "tool":
        return bool(known.get("tool_call_id") == given.get("tool_call_id"))
    return known["id"] == given.get("id") or (given.get("id") is None and known["content"] == given.get("content"))


_HANDLERS: Final = {
    thread.ThreadCreated.type: ThreadValues._began_with,
    thread.ThreadForked.type: ThreadValues._began_with,
    thread.ThreadStateSaved.type: ThreadValues._saved,
    thread.ThreadStateUpdated.type: ThreadValues._updated,
    request.RequestQueued.type: ThreadValues._queued,
    request.RequestStarted.type: ThreadValues._started,
    execution.StepCompleted.type: ThreadValues._stepped,
    execution.CommandInjected.type: ThreadValues._commanded,
    model.ModelCompleted.type: ThreadValues._answered,
    tool.ToolResulted.type: ThreadValues._resulted,
    interrupt.InterruptRaised.type: ThreadValues._raised,
    interrupt.InterruptResolved.type: ThreadValues._resolved,
    interrupt.InterruptExpired.type: ThreadValues._resolved,
    **dict.fromkeys(request.TERMINAL, ThreadValues._ended),
}
