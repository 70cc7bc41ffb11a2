"""State objects, threads, runs and checkpoints in LangGraph's shapes. Pure functions of folds of the log."""

from typing import Any, Final
from uuid import UUID, uuid5

from app.core.clock import iso
from app.protocols.dialects.langgraph_interrupts import shown_interrupts
from app.protocols.dialects.langgraph_segments import RunSegment, segment_id
from app.protocols.dialects.langgraph_values import StateCheckpoint, ThreadValues
from app.views.run import Run
from app.views.thread import Thread

Payload = dict[str, Any]

_NAMESPACE: Final = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""Theirs, so that an assistant has the id that clients know from a LangGraph server with a graph of the same name."""
_CHECKPOINT: Final = "1f000000-0000-6000-8000-"
"""Before the `seq`: shaped as their ids, and in the same order as the checkpoints."""
TEMPORARY: Final = "langgraph.temporary"
"""The label of a thread that a run without one was given; lists leave it out."""
STREAM: Final = "langgraph.stream"
"""The label of a run with what its client wanted to be sent."""
STRATEGY: Final = "langgraph.multitask"


def assistant_id(graph_id: str) -> str:
    return str(uuid5(_NAMESPACE, graph_id))


def checkpoint_id(seq: int) -> str:
    return f"{_CHECKPOINT}{seq:012x}"


def parse_checkpoint_id(text: str) -> int | None:
    number = text.removeprefix(_CHECKPOINT)
    if number == text or len(number) != 12:
        return None
    try:
        return int(number, 16)
    except ValueError:
        return None


def graph_of(run: Run) -> str:
    if run.workflow is not None:
        return f"workflow:{run.workflow}"
    return run.agent or (f"tool:{run.tool}" if run.tool else "")


def run_object(run: Run, segment: RunSegment) -> Payload:
    graph = graph_of(run)
    metadata = {**run.metadata, "graph_id": graph, "assistant_id": assistant_id(graph)}
    modes = (run.labels.get(STREAM) or "values").split(";")[0].split(",")
    return {
        "run_id": segment_id(run.id, segment.number),
        "thread_id": run.thread_id,
        "assistant_id": assistant_id(graph),
        "created_at": iso(segment.created_at),
        "updated_at": iso(segment.updated_at),
        "status": segment.status,
        "metadata": metadata,
        "kwargs": {"input": run.input if segment.number == 0 else None, "config": {}, "stream_mode": modes},
        "multitask_strategy": run.labels.get(STRATEGY, "enqueue"),
    }


def thread_status(thread: Thread, last: Run | None) -> str:
    """`error` as long as the last thing that happened was a failure."""
    if thread.active:
        return "interrupted" if thread.status == "waiting" else "busy"
    return "error" if last is not None and last.status == "failed" else "idle"


def thread_object(thread: Thread, last: Run | None, values: ThreadValues | None) -> Payload:
    graph = None if last is None else graph_of(last)
    named = {} if graph is None else {"graph_id": graph, "assistant_id": assistant_id(graph)}
    failed = last is not None and last.status == "failed" and not thread.active
    shown: Payload = {
        "thread_id": thread.id,
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
        "state_updated_at": iso(thread.updated_at),
        "metadata": {**named, **thread.metadata},
        "status": thread_status(thread, last),
        "config": {},
        "values": None,
        "interrupts": {},
        "error": error_object(last.error or {}) if failed and last is not None else None,
    }
    if values is not None:
        shown["values"] = values.values() if values.checkpoints else None
        shown["interrupts"] = {one["id"]: [one] for one in shown_interrupts(values.open_interrupts)}
    return shown


def error_object(error: Payload) -> Payload:
    return {"error": error.get("code", "INTERNAL"), "message": error.get("message", "")}


def checkpoint_config(thread_id: str, seq: int) -> Payload:
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id(seq), "checkpoint_map": None}


def state_object(thread_id: str, values: ThreadValues, number: int) -> Payload:
    """The state at the checkpoint of that number."""
    point = values.checkpoints[number]
    parent = values.checkpoints[number - 1] if number > 0 else None
    tasks = [_task(thread_id, point, name) for name in point.next]
    asked = shown_interrupts(point.interrupts)
    if tasks and asked:
        tasks = [task | {"interrupts": asked} for task in tasks[:1]] + tasks[1:]
    return {
        "values": values.values(point.seq),
        "next": list(point.next),
        "tasks": tasks,
        "metadata": checkpoint_metadata(point),
        "created_at": iso(point.at),
        "checkpoint": checkpoint_config(thread_id, point.seq),
        "parent_checkpoint": None if parent is None else checkpoint_config(thread_id, parent.seq),
        "checkpoint_id": checkpoint_id(point.seq),
        "parent_checkpoint_id": None if parent is None else checkpoint_id(parent.seq),
        "interrupts": asked,
    }


def empty_state(thread_id: str) -> Payload:
    """Of a thread on which nothing has happened."""
    return {
        "values": {},
        "next": [],
        "tasks": [],
        "metadata": {},
        "created_at": None,
        "checkpoint": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": None, "checkpoint_map": None},
        "parent_checkpoint": None,
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
        "interrupts": [],
    }


def checkpoint_metadata(point: StateCheckpoint) -> Payload:
    return {"source": point.source, "step": point.step, "parents": {}, "run_id": point.run_id}


def task_id(thread_id: str, seq: int, name: str) -> str:
    return str(uuid5(_NAMESPACE, f"{thread_id}/{seq}/{name}"))


def _task(thread_id: str, point: StateCheckpoint, name: str) -> Payload:
    return {
        "id": task_id(thread_id, point.seq, name),
        "name": name,
        "path": ["__pregel_pull", name],
        "error": None,
        "interrupts": [],
        "checkpoint": None,
        "state": None,
        "result": None,
    }
