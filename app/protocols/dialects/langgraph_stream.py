"""The first LangGraph protocol: server-sent events of one run, in the modes that its client asked for.

A frame's id is `seq.part`: the thread's `seq` of the event that it tells of, and its number among those of that event,
counted over all modes. Pure: the same events always give the same frames. Leaves to others: following and sending.
"""

from collections.abc import Callable
from typing import Any, Final

import orjson

from app.core.clock import iso
from app.events.catalog import adapter, request
from app.events.envelope import Event
from app.protocols.dialects import langgraph_messages as messages
from app.protocols.dialects.langgraph_interrupts import shown_interrupts
from app.protocols.dialects.langgraph_reading import Acting, GraphReading, Namespace, named_id
from app.protocols.dialects.langgraph_segments import segment_id
from app.protocols.dialects.langgraph_states import (
    assistant_id,
    checkpoint_config,
    checkpoint_metadata,
    error_object,
    state_object,
)
from app.protocols.dialects.langgraph_values import MODEL_NODE, TOOLS_NODE, ThreadValues

Payload = dict[str, Any]

MODES: Final = frozenset(
    {"values", "messages", "messages-tuple", "updates", "events", "tasks", "checkpoints", "debug", "custom"}
)
Cursor = tuple[int, int]
"""The `seq` and part of the last frame that a client has."""
BEGINNING: Final[Cursor] = (-1, 0)
_INTERRUPTED: Final = {"error": "UserInterrupt", "message": "The run was cancelled."}


def frame(place: Cursor, name: str, data: Any) -> bytes:
    return b"id: %d.%d\nevent: %b\ndata: %b\n\n" % (*place, name.encode(), orjson.dumps(data))


class RunFrames(GraphReading):
    """The frames of segment `number` of a run, after those that the client has."""

    def __init__(
        self,
        values: ThreadValues,
        run_id: str,
        number: int,
        modes: frozenset[str],
        *,
        subgraphs: bool = False,
        after: Cursor = BEGINNING,
    ) -> None:
        super().__init__(values)
        self._run_id, self._number, self._modes = run_id, number, modes
        self._subgraphs, self._after = subgraphs, after
        self._out: list[bytes] = []
        self._seq = self._part = 0
        self._written: dict[str, str] = {}
        """The text so far of messages that are being written."""
        self._called: set[str] = set()
        """Calls of which pieces were sent."""
        self._named: set[str] = set()
        self._own_nodes = False
        """Whether the graph reports its nodes itself."""
        self._step = 0
        self._in_segment = False
        self._closing = False
        self.ended = False
        self.error: Payload | None = None

    def feed(self, event: Event) -> None:
        if not self.ended:
            super().feed(event)

    def step(self, event: Event, *, changed: bool) -> None:
        self._seq, self._part = event.seq, 0
        super().step(event, changed=changed)
        if self._closing:
            error = self.error
            if error is not None:
                self._emit(None, "error", lambda: error)
            self.ended = True

    def take(self) -> bytes:
        made = b"".join(self._out)
        self._out.clear()
        return made

    # -- frames ----------------------------------------------------------------------------------------

    def _emit(self, mode: str | None, name: str, data: Callable[[], Any], namespace: Namespace = ()) -> None:
        """`mode` None goes to everybody. What is not wanted has its number all the same."""
        if not self._in_segment:
            return
        part, self._part = self._part, self._part + 1
        wanted = (mode is None or mode in self._modes) and (self._subgraphs or not namespace)
        if not wanted or (self._seq, part) <= self._after:
            return
        self._out.append(frame((self._seq, part), "|".join((name, *namespace)), data()))

    def _is_own(self, who: Acting) -> bool:
        return who.root == self._run_id

    # -- the run ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._in_segment = True
        data = {"run_id": segment_id(self._run_id, self._number), "attempt": 1}
        self._emit(None, "metadata", lambda: data)

    def on_queued(self, event: Event, who: Acting) -> None:
        if event.run_id == self._run_id and self._number == 0:
            self._open()

    def on_resumed(self, event: Event, who: Acting) -> None:
        if self._is_own(who) and who.segments.current.number == self._number:
            self._open()

    def on_started(self, event: Event, who: Acting) -> None:
        if not self._is_own(who) or event.run_id != self._run_id:
            return
        if event.type == request.RequestResumed.type:
            self._values()
        self._events("on_chain_start", "LangGraph", {"input": self.asked_of(self._run_id).get("input")})

    def on_values(self, event: Event, who: Acting) -> None:
        if self._is_own(who):
            self._values()
            number = len(self.values.checkpoints) - 1
            self._emit("checkpoints", "checkpoints", lambda: self._checkpoint(event.thread_id, number))
            self._debug("checkpoint", event, lambda: self._checkpoint(event.thread_id, number))

    def on_paused(self, event: Event, who: Acting) -> None:
        if self._is_own(who) and who.segments.current.number == self._number:
            self._closing = True

    def on_ended(self, event: Event, who: Acting) -> None:
        if event.run_id != self._run_id or who.segments.current.number != self._number:
            return
        if event.type == request.RequestFailed.type:
            self.error = error_object(event.payload["error"])
        elif event.type == request.RequestCancelled.type:
            self.error = dict(_INTERRUPTED)
        if event.type == request.RequestCompleted.type:
            self._answer(event)
        self._events("on_chain_end", "LangGraph", {"output": event.payload.get("output")})
        self._closing = True

    def _answer(self, event: Event) -> None:
        """What no model call reported: the answer of a backend that asks none."""
        said = self.values.messages()[-1:]
        if said and said[0]["type"] == "ai" and said[0]["id"] not in self._named:
            message_id = said[0]["id"]
            if message_id not in self._written and isinstance(said[0]["content"], str):
                self._piece(event, messages.chunk(message_id, said[0]["content"]), MODEL_NODE, ())
            self._whole(event, said[0], MODEL_NODE, ())
            self._update(MODEL_NODE, said, ())

    # -- what it says and does -------------------------------------------------------------------------

    def on_delta(self, event: Event, who: Acting, signal: Payload) -> None:
        if not self._is_own(who):
            return
        message_id, text = signal.get("messageId") or "", signal.get("text") or ""
        if signal["phase"] == adapter.OUTPUT_DELTA:
            made = messages.chunk(message_id, text)
            self._written[message_id] = self._written.get(message_id, "") + text
        elif signal["phase"] == adapter.REASONING_DELTA:
            made = messages.chunk(message_id, additional_kwargs={"reasoning_content": text})
        else:
            made = messages.chunk(message_id, tool_call_chunks=[self._call_piece(signal, text)])
        self._piece(event, made, MODEL_NODE, who.namespace)
        if signal["phase"] == adapter.OUTPUT_DELTA:
            partial = self._written[message_id]
            self._emit("messages", "messages/partial", lambda: [messages.ai(message_id, partial)], who.namespace)

    def _call_piece(self, signal: Payload, text: str) -> Payload:
        call_id = signal.get("callId")
        first = call_id not in self._called
        self._called.add(call_id or "")
        name = signal.get("toolId") if first else None
        return {
            "name": name,
            "args": text,
            "id": call_id if first else None,
            "index": signal.get("part") or 0,
            "type": "tool_call_chunk",
        }

    def _piece(self, event: Event, made: Payload, node: str, namespace: Namespace) -> None:
        message_id = made["id"]
        if message_id not in self._named:
            self._named.add(message_id)
            about = self._about(event, node, namespace)
            self._emit("messages", "messages/metadata", lambda: {message_id: {"metadata": about}}, namespace)
        self._emit("messages-tuple", "messages", lambda: [made, self._about(event, node, namespace)], namespace)
        if made["type"] == "AIMessageChunk":
            self._events("on_chat_model_stream", node, {"chunk": made}, namespace)

    def on_model(self, event: Event, who: Acting) -> None:
        if self._is_own(who):
            self._step += 1
            task = self._task(event.payload["messageId"], MODEL_NODE)
            self._emit("tasks", "tasks", lambda: task | {"input": {}, "triggers": []}, who.namespace)
            self._debug("task", event, lambda: task | {"input": {}, "triggers": []}, who.namespace)
            self._events("on_chat_model_start", MODEL_NODE, {"input": {}}, who.namespace)

    def on_message(self, event: Event, who: Acting, message: Payload) -> None:
        if not self._is_own(who):
            return
        namespace, message_id = who.namespace, message["id"]
        rest: Payload = {"usage_metadata": message["usage_metadata"]}
        if message_id not in self._written and isinstance(message["content"], str) and message["content"]:
            self._piece(event, messages.chunk(message_id, message["content"]), MODEL_NODE, namespace)
        unsent = [call for call in message["tool_calls"] if call["id"] not in self._called]
        if unsent:
            rest["tool_call_chunks"] = [messages.tool_call_chunk(call, n) for n, call in enumerate(unsent)]
        rest["response_metadata"] = message["response_metadata"]
        self._piece(event, messages.chunk(message_id, last=True, **rest), MODEL_NODE, namespace)
        self._whole(event, message, MODEL_NODE, namespace)
        self._written.pop(message_id, None)
        self._events("on_chat_model_end", MODEL_NODE, {"output": message}, namespace)
        self._task_done(event, message_id, MODEL_NODE, {"messages": [message]}, namespace)
        self._update(MODEL_NODE, [message], namespace)

    def _whole(self, event: Event, message: Payload, node: str, namespace: Namespace) -> None:
        message_id = message["id"]
        if message_id not in self._named:
            self._named.add(message_id)
            about = self._about(event, node, namespace)
            self._emit("messages", "messages/metadata", lambda: {message_id: {"metadata": about}}, namespace)
        self._emit("messages", "messages/complete", lambda: [message], namespace)

    def on_tool_started(self, event: Event, who: Acting) -> None:
        if self._is_own(who):
            payload = event.payload
            task = self._task(payload["callId"], TOOLS_NODE)
            begun = task | {"input": {"name": payload["tool"], "args": payload["arguments"]}, "triggers": [MODEL_NODE]}
            self._emit("tasks", "tasks", lambda: begun, who.namespace)
            self._debug("task", event, lambda: begun, who.namespace)
            self._events("on_tool_start", payload["tool"], {"input": payload["arguments"]}, who.namespace)

    def on_tool(self, event: Event, who: Acting, message: Payload) -> None:
        if not self._is_own(who):
            return
        namespace = who.namespace
        self._emit(
            "messages-tuple", "messages", lambda: [message, self._about(event, TOOLS_NODE, namespace)], namespace
        )
        self._whole(event, message, TOOLS_NODE, namespace)
        self._events("on_tool_end", message["name"], {"output": message}, namespace)
        self._task_done(event, message["tool_call_id"], TOOLS_NODE, {"messages": [message]}, namespace)
        self._update(TOOLS_NODE, [message], namespace)

    def on_graph(self, event: Event, who: Acting) -> None:
        self._own_nodes = self._own_nodes or event.run_id == self._run_id

    def on_node(self, event: Event, who: Acting, name: str, update: Any) -> None:
        if self._is_own(who):
            self._emit("updates", "updates", lambda: {name: update}, who.namespace)

    def on_custom(self, event: Event, who: Acting, data: Any) -> None:
        if self._is_own(who):
            self._emit("custom", "custom", lambda: data, who.namespace)

    def on_interrupt(self, event: Event, who: Acting) -> None:
        if self._is_own(who):
            named = event.payload["interruptId"]
            asked = shown_interrupts({named: event.payload})
            self._emit("updates", "updates", lambda: {"__interrupt__": asked})
            self._task_done(event, event.payload.get("callId") or named, TOOLS_NODE, {}, (), asked)

    # -- shapes ----------------------------------------------------------------------------------------

    def current_values(self) -> Payload:
        """The state, with the questions that are open."""
        asked = shown_interrupts(self.values.open_interrupts)
        return self.values.values() | ({"__interrupt__": asked} if asked else {})

    def _values(self) -> None:
        self._emit("values", "values", self.current_values)

    def _update(self, node: str, said: list[Payload], namespace: Namespace) -> None:
        """A graph that reports its nodes gives its updates itself."""
        if self.asked_of(self._run_id).get("workflow") is None and not self._own_nodes:
            self._emit("updates", "updates", lambda: {node: {"messages": said}}, namespace)

    def _about(self, event: Event, node: str, namespace: Namespace) -> Payload:
        graph = self.values.agent or ""
        return {
            "thread_id": event.thread_id,
            "run_id": segment_id(self._run_id, self._number),
            "graph_id": graph,
            "assistant_id": assistant_id(graph),
            "langgraph_node": node,
            "langgraph_step": self._step,
            "langgraph_triggers": [],
            "langgraph_path": ["__pregel_pull", node],
            "langgraph_checkpoint_ns": "|".join(namespace),
            "checkpoint_ns": "|".join(namespace),
        }

    def _events(self, kind: str, name: str, data: Payload, namespace: Namespace = ()) -> None:
        about = {"langgraph_node": name, "langgraph_checkpoint_ns": "|".join(namespace)}
        made = {"event": kind, "name": name, "run_id": segment_id(self._run_id, self._number), "tags": []}
        self._emit("events", "events", lambda: made | {"metadata": about, "data": data, "parent_ids": []}, namespace)

    def _task(self, of: str, node: str) -> Payload:
        return {"id": named_id(self._run_id, of), "name": node}

    def _task_done(
        self,
        event: Event,
        of: str,
        node: str,
        result: Payload,
        namespace: Namespace,
        interrupts: list[Payload] | None = None,
    ) -> None:
        done = self._task(of, node) | {"error": None, "result": result, "interrupts": interrupts or []}
        self._emit("tasks", "tasks", lambda: done, namespace)
        self._debug("task_result", event, lambda: done, namespace)

    def _debug(self, kind: str, event: Event, payload: Callable[[], Any], namespace: Namespace = ()) -> None:
        def made() -> Payload:
            return {"step": self._step, "timestamp": iso(event.at), "type": kind, "payload": payload()}

        self._emit("debug", "debug", made, namespace)

    def _checkpoint(self, thread_id: str, number: int) -> Payload:
        state = state_object(thread_id, self.values, number)
        point = self.values.checkpoints[number]
        before = self.values.checkpoints[number - 1] if number else None
        return {
            "config": {"configurable": checkpoint_config(thread_id, point.seq)},
            "parent_config": None if before is None else {"configurable": checkpoint_config(thread_id, before.seq)},
            "values": state["values"],
            "metadata": checkpoint_metadata(point),
            "next": state["next"],
            "tasks": state["tasks"],
            "checkpoint": state["checkpoint"],
            "parent_checkpoint": state["parent_checkpoint"],
        }
