"""A thread's stored events read as what LangGraph's streams report; what both of its protocols share.

A reading walks the events from the first one of a run on and calls the hooks of its dialect, with the run of the
thread that each belongs to and the namespace of the subagent or subgraph that acts. It has no clock and no state but
the events, so the same events always give the same frames. Leaves to others: where events come from, and the wire.
"""

from typing import Any, Final
from uuid import UUID, uuid5

from app.events.catalog import adapter, execution, interrupt, model, request, tool
from app.events.envelope import Event
from app.protocols.dialects.langgraph_segments import RunSegments
from app.protocols.dialects.langgraph_values import ThreadValues, of_model, of_tool

Payload = dict[str, Any]
Namespace = tuple[str, ...]

_SIGNAL: Final = adapter.AdapterEvent.type
_IDS: Final = UUID("7d0f6c5e-6d1f-5f2a-9b0c-2f5a4c1e8d11")


def named_id(*parts: str) -> str:
    """An id that is a function of what it names."""
    return str(uuid5(_IDS, "/".join(parts)))


class Acting:
    """Whose event it is: the run that a client started, and the namespace within it."""

    __slots__ = ("namespace", "root", "segments")

    def __init__(self, root: str, segments: RunSegments, namespace: Namespace = ()) -> None:
        self.root, self.segments, self.namespace = root, segments, namespace


class GraphReading:
    """Feed it the thread's events in order. `values` knows the thread up to the event before the first."""

    def __init__(self, values: ThreadValues) -> None:
        self.values = values
        self._acting: dict[str, Acting] = {}
        self._agents: dict[str, Payload] = {}
        """What was asked of each run."""
        self._inner: set[str] = set()
        """Messages of a backend's inner voices, which are no part of the conversation."""

    def feed(self, event: Event) -> None:
        self.step(event, changed=self.values.apply(event))

    def step(self, event: Event, *, changed: bool) -> None:
        """As `feed`, when somebody else has fed the values; `changed` is whether the state is another one."""
        if event.type == request.RequestQueued.type:
            self._queued(event)
        who = self._acting.get(event.run_id or "")
        if who is None:
            return
        segments = who.segments
        before = len(segments.segments), segments.paused
        segments.apply(event)
        if before[0] and len(segments.segments) > before[0]:
            self.on_resumed(event, who)
        self._dispatch(event, who)
        if changed:
            self.on_values(event, who)
        if segments.paused and not before[1]:
            self.on_paused(event, who)
        if segments.ended and event.run_id == who.root:
            self._forget(who.root)

    def _queued(self, event: Event) -> None:
        payload, run_id = event.payload, event.run_id or ""
        parent = self._acting.get(payload.get("parentRunId") or "")
        if parent is not None:
            name = payload.get("agent") or payload.get("workflow") or "agent"
            self._acting[run_id] = Acting(parent.root, parent.segments, (*parent.namespace, f"{name}:{run_id}"))
        elif not payload.get("parentRunId") and not payload.get("undoOf"):
            self._acting[run_id] = Acting(run_id, RunSegments(run_id))
        self._agents[run_id] = payload

    def _forget(self, root: str) -> None:
        for run_id in [run_id for run_id, who in self._acting.items() if who.root == root]:
            del self._acting[run_id]
            self._agents.pop(run_id, None)

    def asked_of(self, run_id: str) -> Payload:
        return self._agents.get(run_id, {})

    def namespace_of(self, run_id: str) -> Namespace:
        return self._acting[run_id].namespace

    # -- hooks -----------------------------------------------------------------------------------------

    def on_queued(self, event: Event, who: Acting) -> None:
        """A run was accepted, or a subagent's began."""

    def on_resumed(self, event: Event, who: Acting) -> None:
        """The run goes on after a pause: what follows is another run to the client."""

    def on_started(self, event: Event, who: Acting) -> None: ...

    def on_delta(self, event: Event, who: Acting, signal: Payload) -> None:
        """A piece of a message: text, reasoning, or the arguments of a call."""

    def on_model(self, event: Event, who: Acting) -> None:
        """A model was asked."""

    def on_message(self, event: Event, who: Acting, message: Payload) -> None: ...

    def on_abandoned(self, event: Event, who: Acting, message_id: str) -> None: ...

    def on_tool_started(self, event: Event, who: Acting) -> None: ...

    def on_tool(self, event: Event, who: Acting, message: Payload) -> None: ...

    def on_node(self, event: Event, who: Acting, name: str, update: Any) -> None:
        """A step of a graph or a workflow has ended."""

    def on_graph(self, event: Event, who: Acting) -> None:
        """The backend runs a graph, which reports its nodes itself."""

    def on_custom(self, event: Event, who: Acting, data: Any) -> None: ...

    def on_interrupt(self, event: Event, who: Acting) -> None: ...

    def on_values(self, event: Event, who: Acting) -> None:
        """The thread's state is another one."""

    def on_paused(self, event: Event, who: Acting) -> None: ...

    def on_ended(self, event: Event, who: Acting) -> None:
        """The run, or a subagent's, has ended."""

    # -- events ----------------------------------------------------------------------------------------

    def _dispatch(self, event: Event, who: Acting) -> None:
        kind = event.type
        if kind == _SIGNAL:
            self._signalled(event, who, event.payload["event"])
            return
        payload = event.payload
        match kind:
            case request.RequestQueued.type:
                self.on_queued(event, who)
            case request.RequestStarted.type | request.RequestResumed.type:
                self.on_started(event, who)
            case model.ModelRequested.type:
                if payload.get("role") is not None:
                    self._inner.add(payload["messageId"])
                else:
                    self.on_model(event, who)
            case model.ModelCompleted.type:
                if payload.get("role") is None and not payload.get("aside") and not payload.get("repairs"):
                    self.on_message(event, who, of_model(payload))
            case model.ModelFailed.type if payload["abandoned"] and payload["messageId"] not in self._inner:
                self.on_abandoned(event, who, payload["messageId"])
            case tool.ToolInvoked.type:
                self.on_tool_started(event, who)
            case tool.ToolResulted.type:
                self.on_tool(event, who, of_tool(payload))
            case execution.StepCompleted.type if payload["step"] == "node":
                result = payload["result"] if isinstance(payload["result"], dict) else {}
                shown = {name: result[name] for name in ("output", "error") if name in result}
                self.on_node(event, who, payload["key"].rpartition(".")[0], shown)
            case interrupt.InterruptRaised.type if payload["kind"] != "timer":
                self.on_interrupt(event, who)
            case _ if kind in request.TERMINAL:
                self.on_ended(event, who)

    def _signalled(self, event: Event, who: Acting, signal: Payload) -> None:
        phase = signal["phase"]
        if phase in adapter.DELTAS:
            if signal.get("messageId", "") not in self._inner and signal.get("role") is None:
                self.on_delta(event, who, signal)
        elif phase == "agent.langgraph.invoke":
            self.on_graph(event, who)
        elif phase == "agent.langgraph.custom":
            self.on_custom(event, self._within(event, who, signal), signal.get("data"))
        elif phase == "agent.node.completed" and "visit" not in signal:  # a workflow's step is shown by its record
            update = _spelled(signal.get("update"))
            self.on_node(event, self._within(event, who, signal), str(signal.get("nodeId")), update)

    def _within(self, event: Event, who: Acting, signal: Payload) -> Acting:
        """The subgraph that a graph's own signal comes from; its id is made from its place."""
        names = signal.get("namespace") or []
        if not names:
            return who
        made: list[str] = []
        for name in names:
            made.append(f"{name}:{named_id(event.run_id or '', *made, name)}")
        return Acting(who.root, who.segments, (*who.namespace, *made))


def _spelled(update: Any) -> Any:
    """A node's update with its messages as clients know them."""
    if isinstance(update, dict):
        if "type" in update and "content" in update:
            calls = [{**call, "id": None, "type": "tool_call"} for call in update.get("toolCalls", ())]
            made = {name: value for name, value in update.items() if name != "toolCalls"}
            return made | ({"tool_calls": calls} if update["type"] == "ai" else {})
        return {name: _spelled(value) for name, value in update.items()}
    return [_spelled(item) for item in update] if isinstance(update, list) else update
