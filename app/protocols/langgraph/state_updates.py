"""What a client sets of a thread's state, as the event that records it: messages by their ids, channels by their names.

Messages join the conversation, replace those with the same id or take them out; an earlier checkpoint brings back what
stood there. Leaves to others: recording it (`runtime.intake.threads`), a graph's own rules for its channels (its
backend), and the routes.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from app.core.json import JsonObject
from app.core.principal import Principal
from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog.thread import ThreadForked, ThreadStateSaved, ThreadStateUpdated
from app.protocols.context import ServerContext
from app.protocols.dialects import langgraph_messages as messages
from app.protocols.dialects.langgraph_interrupts import takes_updates
from app.protocols.dialects.langgraph_states import graph_of
from app.protocols.dialects.langgraph_values import StateCheckpoint, ThreadValues
from app.protocols.http.parts import refuse_long_text
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.inputs import MAX_MESSAGES, read_message
from app.protocols.langgraph.run_request import graph_named
from app.protocols.langgraph.thread_reading import last_run
from app.views.forked import states
from app.views.state_updates import split_state
from app.views.thread import Thread

REMOVE_ALL: Final = "__remove_all__"
_REMOVE: Final = "remove"
_UNANSWERED: Final = "The run ended before this call had a result."
_MAX_ID: Final = 180
_MAX_NAMED: Final = 50
_STATES: Final = (ThreadForked.type, ThreadStateSaved.type, ThreadStateUpdated.type)
_MAX_STATES: Final = 10_000


class StateUpdates:
    """The updates of one thread, from where it stands."""

    def __init__(self, server: ServerContext, caller: Principal, thread: Thread, values: ThreadValues) -> None:
        self._server, self._caller, self._thread, self._values = server, caller, thread, values

    async def update(self, given: JsonObject, as_node: str | None, at: StateCheckpoint | None) -> ThreadStateUpdated:
        """`at` is the checkpoint that is updated; None for the thread as it stands."""
        agent = await self._own_graph()
        if as_node is not None:
            await self._refuse_unknown_node(agent, as_node)
        self._refuse_if_at_work(agent)
        said = _as_list(given["messages"]) if given.get("messages") is not None else []
        kept = self._values.messages(None if at is None else at.seq)
        brought, whole, raw = _merged(kept, said, strict=agent is None)
        replaces = at is not None or whole is not None
        conversation = brought if whole is None and at is None else [*kept, *brought] if whole is None else whole
        if agent is None:
            _refuse_open_calls(brought)
        values = {**given, "messages": raw} if said else dict(given)
        return ThreadStateUpdated(
            messages=await self.as_history(_closed(conversation)),
            replaces=replaces,
            values=values if agent is not None else {k: v for k, v in values.items() if k != "messages"} or None,
            agent=agent,
            as_node=as_node,
            restores=None if at is None else at.seq,
            state=None if at is None or agent is None else await self._state_at(agent, at.seq),
        )

    async def restoration(self, at: StateCheckpoint, without: int = 0) -> ThreadStateUpdated:
        """The thread as it stood at a checkpoint, but for the newest messages."""
        agent = await self._own_graph()
        kept = self._values.messages(at.seq)
        kept = kept[: len(kept) - without]
        state = None if agent is None else await self._state_at(agent, at.seq)
        differs = agent is not None and _ids(_messages_of(state)) != _ids(kept)
        return ThreadStateUpdated(
            messages=await self.as_history(_closed(kept)),
            replaces=True,
            values={"messages": [{"type": _REMOVE, "id": REMOVE_ALL}, *map(_slim, kept)]} if differs and kept else None,
            agent=agent,
            restores=at.seq,
            state=state,
        )

    async def as_history(self, said: Sequence[JsonObject]) -> list[JsonObject]:
        made = [messages.to_history(message) for message in said]
        for message in made:
            for part in message.get("parts", ()):
                if part["type"] != "text":
                    part["blob"] = await self._reference(part)
        return made

    # -- within ----------------------------------------------------------------------------------------

    async def _reference(self, part: JsonObject) -> JsonObject:
        digest = part["blob"]["sha256"]
        size = await self._server.reader.blob_size(self._caller.tenant, self._thread.id, str(digest))
        if size is None:
            raise Declined("A message has media that the thread does not hold.")
        return {"sha256": digest, "size": size, "mime": part["mime"]}

    async def _own_graph(self) -> str | None:
        """The agent of the thread that runs a graph of its own, which has channels to set."""
        last = await last_run(self._server, self._caller.tenant, self._thread.id) if self._thread.used else None
        named = graph_of(last) if last is not None else self._thread.metadata.get("graph_id")
        graph = graph_named(self._server, named) if isinstance(named, str) else None
        agent = None if graph is None else self._server.workspace.current.agents.get(graph)
        if agent is None or agent.spec.backend != "langgraph":
            return None
        return graph if "graph" in agent.spec.config.get("langgraph", {}) else None

    async def _refuse_unknown_node(self, agent: str | None, as_node: str) -> None:
        """Now, and not when a run takes the update up: whoever sends it learns of it."""
        if agent is None:
            return  # without a graph of its own nobody looks at the name
        known = await self._server.nodes_of(self._server.workspace.current.agents[agent])
        if known is not None and as_node not in known:
            names = ", ".join(sorted(known)[:_MAX_NAMED])
            raise Declined(f"as_node names no node of the graph; it has: {names}.")

    def _refuse_if_at_work(self, agent: str | None) -> None:
        status = self._thread.status
        if status == "busy":
            message = "The thread has a run at work; its state can be changed when that has ended."
            raise Declined(message, code="THREAD_BUSY", status=409)
        asked = [(one["kind"], one.get("questions")) for one in self._values.open_interrupts.values()]
        takes = len(asked) == 1 and takes_updates(*asked[0])
        if status == "waiting" and not (agent and takes):
            message = "The thread waits for an answer, which its run goes on with: resume it first."
            raise Declined(message, code="THREAD_BUSY", status=409)

    async def _state_at(self, agent: str, seq: int) -> Any:
        """What the agent's last run up to there left."""
        tenant, thread_id = self._caller.tenant, self._thread.id
        load = stored_blobs(self._server.reader, tenant, thread_id)
        found = await self._server.reader.events_of(tenant, thread_id, _STATES, 0, seq, _MAX_STATES)
        return states([await with_blobs(event, load) for event in found]).get(agent)


def _as_list(given: Any) -> list[Any]:
    said = given if isinstance(given, list) else [given]
    if len(said) > MAX_MESSAGES:
        raise Declined(f"values.messages may have at most {MAX_MESSAGES} messages.")
    return said


def _merged(
    kept: list[JsonObject], said: list[Any], *, strict: bool
) -> tuple[list[JsonObject], list[JsonObject] | None, list[JsonObject]]:
    """(what is new, the whole conversation if more than that changes, what was sent with an id for each)."""
    added: list[JsonObject] = []
    whole = list(kept)
    changes, raw, size = False, [], 0
    for number, given in enumerate(said):
        place = f"values.messages.{number}"
        if isinstance(given, dict) and given.get("type", given.get("role")) == _REMOVE:
            whole, changes = _without(whole, given.get("id"), place), True
            raw.append({"type": _REMOVE, "content": "", "id": given["id"]})
            continue
        named = given.get("id") if isinstance(given, dict) else None
        if named is not None and not (isinstance(named, str) and 0 < len(named) <= _MAX_ID):
            raise Declined(f"{place}.id must be a text of 1 to {_MAX_ID} characters.")
        made = read_message(given, place)
        if made["role"] == "system" and strict:
            raise Declined(f"{place}: the system's message is the agent's own; send a user's or an assistant's.")
        if "parts" in made:
            raise Declined(f"{place}: media are sent with a run.")
        size += len(made["content"])
        message = messages.of_history(made, named or str(uuid4()))
        raw.append(_slim(message))
        same = next((n for n, known in enumerate(whole) if known["id"] == message["id"]), None)
        if same is None:
            whole.append(message)
            added.append(message)
        else:
            whole[same], changes = message, True
    refuse_long_text(size)
    conversation = [message for message in whole if message["type"] != "system"]
    return [m for m in added if m["type"] != "system"], conversation if changes else None, raw


def _slim(message: JsonObject) -> JsonObject:
    """What a graph is given of a message."""
    names = ("type", "content", "id", "name", "tool_calls", "tool_call_id")
    return {name: message[name] for name in names if message.get(name)} | {"content": message["content"]}


def _without(kept: list[JsonObject], named: Any, place: str) -> list[JsonObject]:
    if named == REMOVE_ALL:
        return []
    left = [message for message in kept if message["id"] != named]
    if len(left) == len(kept):
        raise Declined(f"{place}: there is no message with this id to remove.")
    return left


def _refuse_open_calls(said: Sequence[JsonObject]) -> None:
    """What a model is sent has a result for every call, and a call for every result."""
    waiting: set[str] = set()
    for message in said:
        if message["type"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Declined("values.messages: a tool's message must follow the message with its call.")
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting |= {call["id"] for call in message.get("tool_calls") or ()}
    if waiting:
        raise Declined("values.messages: every tool call must be followed by the tool's message with its result.")


def _closed(said: Sequence[JsonObject]) -> list[JsonObject]:
    """With a result for every call, as a model has to be sent it: those of a run that was cut off have none."""
    closed: list[JsonObject] = []
    waiting: dict[str, str] = {}
    for message in [*said, None]:
        if message is None or message["type"] != "tool":
            closed += [messages.tool(call_id, name, _UNANSWERED, ok=False) for call_id, name in waiting.items()]
            waiting = {}
        if message is not None:
            closed.append(message)
            waiting |= {call["id"]: call["name"] for call in message.get("tool_calls") or ()}
            waiting.pop(message.get("tool_call_id") or "", None)
    return closed


def _messages_of(state: Any) -> list[Any]:
    """Of a graph's state as it was kept: the messages, with their ids."""
    base, updates = split_state(state)
    held = base["values"].get("messages") if isinstance(base, dict) and "values" in base else None
    if updates or not isinstance(held, list):
        return []
    return [message.get("$message", {}).get("data", {}) for message in held if isinstance(message, dict)]


def _ids(said: Sequence[JsonObject]) -> list[Any]:
    return [message.get("id") for message in said]
