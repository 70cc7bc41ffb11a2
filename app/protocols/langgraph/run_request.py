"""A request for a run in LangGraph's shape: read, and checked against what can be served.

Leaves to `run_start`: what becomes of it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from app.core.json import JsonObject
from app.core.value import value
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_states import STRATEGY, STREAM, assistant_id
from app.protocols.dialects.langgraph_stream import MODES
from app.protocols.dialects.langgraph_values import MESSAGE_IDS
from app.protocols.http.parts import refuse_long_text
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.inputs import GraphInput, read_input, text_size
from app.runtime.intake.submission import Busy

Disconnect = Literal["continue", "cancel"]

STRATEGIES: Final = ("enqueue", "reject", "interrupt", "rollback")
STOPS: Final = {"interrupt_before": "langgraph.interruptBefore", "interrupt_after": "langgraph.interruptAfter"}
"""The labels of a run with the nodes at which its backend stops it."""
MAX_DELAY: Final = 366 * 86_400
_MAX_STOPS: Final = 200
_MAX_LABEL: Final = 200
_UNSERVED: Final = {
    "feedback_keys": "Feedback is given at /api/runs/{run}/feedback; there are no signed addresses for it.",
}
"""Fields that would promise what nothing keeps, and what to do instead."""


@value(frozen=True, slots=True)
class ResumeCommand:
    value: Any


@value(frozen=True, slots=True)
class GraphRunRequest:
    graph_id: str
    given: GraphInput | None
    """None resumes, or goes on from where the thread stands."""
    resume: ResumeCommand | None
    metadata: JsonObject
    modes: tuple[str, ...]
    subgraphs: bool
    strategy: Busy
    create_thread: bool
    on_disconnect: Disconnect
    checkpoint: str | None
    stops: Mapping[str, str]
    """By label, the nodes at which the run is to stop."""
    after_seconds: float
    webhook: str | None


def graph_named(server: ServerContext, named: str) -> str | None:
    """The agent, or `workflow:NAME`, that an assistant's id or a graph's name stands for."""
    graphs = server.workspace.current.acting_agents
    if named in graphs:
        return named
    return next((graph for graph in graphs if assistant_id(graph) == named), None)


def read_run(server: ServerContext, body: JsonObject) -> GraphRunRequest:
    named = fields.text(body, "assistant_id")
    if named is None:
        raise Declined("assistant_id is required.")
    graph = graph_named(server, named)
    if graph is None:
        raise Declined("There is no such assistant.", code="AGENT_NOT_FOUND")
    _refuse_unserved(body)
    resume = _command(body)
    given = None if resume is not None or body.get("input") is None else _input(server, graph, body)
    return GraphRunRequest(
        graph_id=graph,
        given=given,
        resume=resume,
        metadata=fields.metadata(body),
        modes=read_modes(body.get("stream_mode")) or ("values",),
        subgraphs=fields.flag(body, "stream_subgraphs"),
        strategy=cast(Busy, fields.choice(body, "multitask_strategy", STRATEGIES, "enqueue")),
        create_thread=fields.choice(body, "if_not_exists", ("create", "reject"), "reject") == "create",
        on_disconnect=cast(Disconnect, fields.choice(body, "on_disconnect", ("continue", "cancel"), "continue")),
        checkpoint=read_checkpoint(body),
        stops=_stops(server, graph, body),
        after_seconds=_delay(body),
        webhook=fields.text(body, "webhook", longest=2000),
    )


def run_labels(wanted: GraphRunRequest) -> dict[str, str]:
    labels = {**wanted.stops, STREAM: ",".join(wanted.modes) + (";subgraphs" if wanted.subgraphs else "")}
    if wanted.strategy != "enqueue":
        labels[STRATEGY] = wanted.strategy
    ids = [named for named in (wanted.given.ids if wanted.given is not None else ()) if named]
    if ids and len(ids[-1]) <= _MAX_LABEL:
        labels[MESSAGE_IDS] = ids[-1]
    return labels


def read_modes(given: Any) -> tuple[str, ...]:
    """From a body, where it is a text or a list; none is empty."""
    wanted = [given] if isinstance(given, str) else given or []
    if not isinstance(wanted, list) or not all(isinstance(mode, str) for mode in wanted):
        raise Declined("stream_mode must be a mode or a list of modes.")
    if unknown := [mode for mode in wanted if mode not in MODES]:
        modes = ", ".join(sorted(MODES))
        raise Declined(f"stream_mode has {len(unknown)} mode(s) that are not supported; there are {modes}.")
    return tuple(dict.fromkeys(wanted))


def _refuse_unserved(body: JsonObject) -> None:
    for name, message in _UNSERVED.items():
        if body.get(name):
            raise Declined(f"{name}: {message}")


def _command(body: JsonObject) -> ResumeCommand | None:
    command = fields.mapping(body, "command")
    if command.get("goto"):
        raise Declined("command.goto is not supported: which step comes next is decided by the agent or workflow.")
    if command.get("update"):
        raise Declined("command.update is not supported with a run: update the thread's state, then start the run.")
    if "resume" in command and command["resume"] is not None:
        if body.get("input") is not None:
            raise Declined("A run takes an input or a command, not both.")
        return ResumeCommand(command["resume"])
    return None


def _input(server: ServerContext, graph: str, body: JsonObject) -> GraphInput:
    agent = server.workspace.current.acting_agents[graph]
    takes_object = graph.startswith("workflow:") or agent.spec.backend == "langgraph"
    given = read_input(body["input"], takes_object=takes_object)
    refuse_long_text(text_size(given))
    return given


def _stops(server: ServerContext, graph: str, body: JsonObject) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, label in STOPS.items():
        given = body.get(name)
        if not given:
            continue
        nodes = [given] if isinstance(given, str) else given
        if not isinstance(nodes, list) or not all(isinstance(one, str) and one and "," not in one for one in nodes):
            raise Declined(f"{name} must be a list of nodes, or `*`.")
        agent = server.workspace.current.agents.get(graph)
        if agent is None or agent.spec.backend != "langgraph":
            raise Declined(f"{name}: only an agent of the backend langgraph has nodes to stop at.")
        found[label] = ",".join(nodes)
        if len(found[label]) > _MAX_STOPS:
            raise Declined(f"{name} may have at most {_MAX_STOPS} characters.")
    return found


def _delay(body: JsonObject) -> float:
    given = body.get("after_seconds")
    if given is None:
        return 0
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= MAX_DELAY:
        raise Declined(f"after_seconds must be a number from 0 to {MAX_DELAY}.")
    return float(given)


def read_checkpoint(body: JsonObject) -> str | None:
    named = fields.text(body, "checkpoint_id")
    if named is not None:
        return named
    for place in (body.get("checkpoint"), fields.mapping(fields.mapping(body, "config"), "configurable")):
        if isinstance(place, dict) and isinstance(place.get("checkpoint_id"), str):
            return cast(str, place["checkpoint_id"])
    return None
