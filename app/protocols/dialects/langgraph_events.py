"""The second LangGraph protocol: what happens on a thread as events on channels, filtered by their subscriptions.

An event's id is `seq.part`; the last one that is sent of each stored event has the thread's `seq`, which is what a
client resumes after: one that was cut off in the middle gets all of that event's again and drops what it knows by id.
Pure: the same events always give the same frames. Leaves to others: following and sending.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable, value
from app.events.catalog import adapter, request
from app.events.envelope import Event
from app.protocols.dialects.langgraph_interrupts import is_breakpoint, value_of
from app.protocols.dialects.langgraph_reading import Acting, GraphReading, Namespace, named_id
from app.protocols.dialects.langgraph_states import checkpoint_id
from app.protocols.dialects.langgraph_values import MODEL_NODE, TOOLS_NODE, ThreadValues

Payload = dict[str, Any]

CHANNELS: Final = frozenset(
    {"values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"}
)
CUSTOM: Final = "custom:"
"""Before the name of a custom channel."""


@value(frozen=True, slots=True)
class ChannelFilter:
    """What one subscription gets: channels, within namespaces, down to a depth, after a `seq`."""

    channels: frozenset[str]
    namespaces: tuple[Namespace, ...] | None = None
    depth: int | None = None
    since: int = 0

    def wants(self, seq: int, channel: str, name: str | None, namespace: Namespace) -> bool:
        if seq <= self.since:
            return False
        if channel not in self.channels and not (channel == "custom" and f"{CUSTOM}{name}" in self.channels):
            return False
        if self.namespaces is None:
            return self.depth is None or len(namespace) <= self.depth
        return any(
            namespace[: len(prefix)] == prefix and (self.depth is None or len(namespace) - len(prefix) <= self.depth)
            for prefix in self.namespaces
        )


@mutable(slots=True)
class _MessageBlocks:
    """A message that is being written: its blocks so far."""

    blocks: list[Payload] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """What a block is of, and its index."""


class ThreadEvents(GraphReading):
    """The events of a thread that at least one of the filters wants."""

    def __init__(self, values: ThreadValues, filters: Sequence[ChannelFilter]) -> None:
        super().__init__(values)
        self._filters = filters
        self._made: list[Payload] = []
        self._part = 0
        self._event: Event | None = None
        self._writing: dict[str, _MessageBlocks] = {}
        self._was_paused = False
        self._own_graphs: set[str] = set()
        self._reported: set[str] = set()
        """Messages of which the client was sent something."""
        self._closing: Payload | None = None

    def frames(self, event: Event) -> list[Payload]:
        self._made, self._part, self._event = [], 0, event
        who = self._acting.get(event.run_id or "")
        self._was_paused = who is not None and who.segments.paused
        self.feed(event)
        if self._made:
            self._made[-1]["seq"] = event.seq
        return self._made

    def _emit(self, channel: str, data: Any, namespace: Namespace = (), method: str | None = None) -> None:
        event = self._event
        assert event is not None
        part, self._part = self._part, self._part + 1
        name = data.get("name") if channel == "custom" and isinstance(data, dict) else None
        if any(one.wants(event.seq, channel, name, namespace) for one in self._filters):
            params = {"namespace": list(namespace), "timestamp": event.at, "data": data}
            made = {"type": "event", "event_id": f"{event.seq}.{part}", "method": method or channel, "params": params}
            self._made.append(made)

    # -- the run ---------------------------------------------------------------------------------------

    def on_queued(self, event: Event, who: Acting) -> None:
        if who.namespace:
            payload = event.payload
            graph = payload.get("agent") or payload.get("workflow") or ""
            data: Payload = {"event": "started", "graph_name": graph}
            if payload.get("callId"):
                data["cause"] = {"type": "toolCall", "tool_call_id": payload["callId"]}
            self._emit("lifecycle", data, who.namespace)

    def on_started(self, event: Event, who: Acting) -> None:
        if not who.namespace:
            self._emit("lifecycle", {"event": "running", "graph_name": self.values.agent or ""})

    def on_values(self, event: Event, who: Acting) -> None:
        points = self.values.checkpoints
        point = points[-1]
        data: Payload = {"id": checkpoint_id(point.seq), "step": point.step, "source": point.source}
        if len(points) > 1:
            data["parent_id"] = checkpoint_id(points[-2].seq)
        self._emit("checkpoints", data)
        if any("values" in one.channels for one in self._filters):
            self._emit("values", self.values.values())
        else:
            self._part += 1

    def on_paused(self, event: Event, who: Acting) -> None:
        self._emit("lifecycle", {"event": "interrupted", "graph_name": self.values.agent or ""})

    def on_ended(self, event: Event, who: Acting) -> None:
        if self._was_paused and event.run_id == who.root:
            return  # it was given up while it waited: its last word was the question
        data: Payload = {"event": "completed", "graph_name": self.values.agent or ""}
        if event.type == request.RequestFailed.type:
            data |= {"event": "failed", "error": event.payload["error"]["message"]}
        elif event.type == request.RequestCancelled.type:
            data |= {"event": "failed", "error": "The run was cancelled."}
        elif event.run_id == who.root:
            self._answer()
        if event.run_id == who.root:
            self._closing = data
        else:
            self._emit("lifecycle", data, who.namespace)

    def step(self, event: Event, *, changed: bool) -> None:
        super().step(event, changed=changed)
        if self._closing is not None:  # the end comes after the values that it leaves
            data, self._closing = self._closing, None
            self._emit("lifecycle", data)

    def _answer(self) -> None:
        """What no model call reported: the answer of a backend that asks none."""
        said = self.values.messages()[-1:]
        if said and said[0]["type"] == "ai" and said[0]["id"] not in self._reported:
            self._finish(said[0], ())

    # -- messages --------------------------------------------------------------------------------------

    def _start(self, message_id: str, namespace: Namespace) -> _MessageBlocks:
        writing = self._writing.get(message_id)
        if writing is None:
            writing = self._writing[message_id] = _MessageBlocks()
            self._reported.add(message_id)
            about = {"langgraph_node": MODEL_NODE}
            data = {"event": "message-start", "role": "ai", "id": message_id, "metadata": about}
            self._emit("messages", data, namespace)
        return writing

    def _block(self, message_id: str, writing: _MessageBlocks, key: str, first: Payload, namespace: Namespace) -> int:
        index = writing.places.get(key)
        if index is None:
            index = writing.places[key] = len(writing.blocks)
            writing.blocks.append(dict(first))
            data = {"event": "content-block-start", "index": index, "content": first, "message_id": message_id}
            self._emit("messages", data, namespace)
        return index

    def on_delta(self, event: Event, who: Acting, signal: Payload) -> None:
        message_id, text = signal.get("messageId") or "", signal.get("text") or ""
        writing = self._start(message_id, who.namespace)
        first: Payload
        delta: Payload
        if signal["phase"] == adapter.OUTPUT_DELTA:
            key, first, delta = "text", {"type": "text", "text": ""}, {"type": "text-delta", "text": text}
            field_ = "text"
        elif signal["phase"] == adapter.REASONING_DELTA:
            key, first = "reasoning", {"type": "reasoning", "reasoning": ""}
            delta, field_ = {"type": "reasoning-delta", "reasoning": text}, "reasoning"
        else:
            named: Payload = {"id": signal.get("callId"), "name": signal.get("toolId"), "args": ""}
            key, first = f"call-{signal.get('callId')}", {"type": "tool_call_chunk", **named}
            delta, field_ = {"type": "tool-call-delta", "args": text}, "args"
        index = self._block(message_id, writing, key, first, who.namespace)
        writing.blocks[index][field_] += text
        data = {"event": "content-block-delta", "index": index, "delta": delta, "message_id": message_id}
        self._emit("messages", data, who.namespace)

    def on_message(self, event: Event, who: Acting, message: Payload) -> None:
        self._finish(message, who.namespace)
        if event.run_id not in self._own_graphs and not who.namespace:
            self._emit("updates", {"node": MODEL_NODE, "values": {"messages": [message]}})
        self._task_done(message["id"], MODEL_NODE, {"messages": [message]}, who.namespace)

    def _finish(self, message: Payload, namespace: Namespace) -> None:
        message_id = message["id"]
        writing = self._start(message_id, namespace)
        content = message["content"] if isinstance(message["content"], str) else ""
        if content:
            first = {"type": "text", "text": "" if "text" in writing.places else content}
            writing.blocks[self._block(message_id, writing, "text", first, namespace)]["text"] = content
        for call in message["tool_calls"]:
            first = {"type": "tool_call_chunk", "id": call["id"], "name": call["name"], "args": ""}
            index = self._block(message_id, writing, f"call-{call['id']}", first, namespace)
            writing.blocks[index] = dict(call)
        for index, block in enumerate(writing.blocks):
            done = {"event": "content-block-finish", "index": index, "content": block, "message_id": message_id}
            self._emit("messages", done, namespace)
        finish: Payload = {"event": "message-finish", "message_id": message_id}
        if message["usage_metadata"] is not None:
            finish["usage"] = message["usage_metadata"]
        self._emit("messages", finish, namespace)
        del self._writing[message_id]

    def on_abandoned(self, event: Event, who: Acting, message_id: str) -> None:
        if self._writing.pop(message_id, None) is not None:
            data = {"event": "error", "message": "The message was cut off and begins anew.", "message_id": message_id}
            self._emit("messages", data, who.namespace)

    # -- tools, nodes, questions -----------------------------------------------------------------------

    def on_model(self, event: Event, who: Acting) -> None:
        self._emit(
            "tasks", self._task(event.payload["messageId"], MODEL_NODE) | {"input": {}, "triggers": []}, who.namespace
        )

    def on_tool_started(self, event: Event, who: Acting) -> None:
        payload = event.payload
        data = {
            "event": "tool-started",
            "tool_call_id": payload["callId"],
            "tool_name": payload["tool"],
            "input": payload["arguments"],
        }
        self._emit("tools", data, who.namespace)
        begun = {"input": {"name": payload["tool"], "args": payload["arguments"]}, "triggers": [MODEL_NODE]}
        self._emit("tasks", self._task(payload["callId"], TOOLS_NODE) | begun, who.namespace)

    def on_tool(self, event: Event, who: Acting, message: Payload) -> None:
        payload, call_id = event.payload, message["tool_call_id"]
        if payload["ok"]:
            data: Payload = {"event": "tool-finished", "tool_call_id": call_id, "output": payload.get("output")}
        else:
            data = {"event": "tool-error", "tool_call_id": call_id, "message": message["content"]}
        self._emit("tools", data, who.namespace)
        if event.run_id not in self._own_graphs and not who.namespace:
            self._emit("updates", {"node": TOOLS_NODE, "values": {"messages": [message]}})
        self._task_done(call_id, TOOLS_NODE, {"messages": [message]}, who.namespace)

    def on_graph(self, event: Event, who: Acting) -> None:
        self._own_graphs.add(event.run_id or "")

    def on_node(self, event: Event, who: Acting, name: str, update: Any) -> None:
        self._emit("updates", {"node": name, "values": update}, who.namespace)

    def on_custom(self, event: Event, who: Acting, data: Any) -> None:
        named = {"name": data["name"]} if isinstance(data, dict) and isinstance(data.get("name"), str) else {}
        self._emit("custom", {**named, "payload": data}, who.namespace)

    def on_interrupt(self, event: Event, who: Acting) -> None:
        if is_breakpoint(event.payload["kind"], event.payload.get("questions")):
            return
        value = value_of(event.payload)
        data = {"interrupt_id": event.payload["interruptId"], "payload": value, "value": value}
        self._emit("input", data, (), "input.requested")

    def _task(self, of: str, node: str) -> Payload:
        return {"id": named_id(of), "name": node}

    def _task_done(self, of: str, node: str, result: Payload, namespace: Namespace) -> None:
        done = self._task(of, node) | {"error": None, "result": result, "interrupts": []}
        self._emit("tasks", done, namespace)
