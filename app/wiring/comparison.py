"""Runs one workspace through every installed backend and measures where they differ.

Each backend takes the place of the one that an agent names, on a runtime and a database of its own that are gone
afterwards. What is compared is read from the log: nothing is known about a backend that a client could not see.
Leaves to the command line: how it is shown.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from app.backends.contract import Backend
from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.json import JsonObject
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.core.value import mutable, value
from app.events.catalog import request
from app.events.envelope import Event
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.kinds import Backends, installed_backends
from app.wiring.runtime import Holdfast, open_holdfast

CASES_FILE: Final = "compare.json"
MAX_RUN_SECONDS: Final = 300.0
_PACKAGES: Final = {
    "langgraph": "langgraph",
    "deepagents": "deepagents",
    "openai_agents": "openai-agents",
    "google_adk": "google-adk",
    "agent_framework": "agent-framework-core",
    "pydantic_ai": "pydantic-ai-slim",
}
_NOT_COMPARED: Final = frozenset({"echo"})
"""It calls no model and no tool."""
_COMPARED: Final = (
    "status",
    "outputShape",
    "traceNodes",
    "modelCalls",
    "toolCalls",
    "toolsOffered",
    "instructionBytes",
)
"""What must be equal for two backends to be alike, of the first run of each case."""


@value(frozen=True, slots=True)
class CompareCase:
    """What an agent is asked, and what it should do about it."""

    agent: str
    input: Any
    tools: tuple[tuple[str, JsonObject], ...] = ()
    skill: str | None = None
    contains: str | None = None

    @classmethod
    def read(cls, given: JsonObject) -> "CompareCase":
        tools = tuple((call["name"], call.get("args", {})) for call in given.get("tools", ()))
        return cls(given["agent"], given["input"], tools, given.get("skill"), given.get("contains"))


@mutable(slots=True)
class Observed:
    """One run, as its log tells it."""

    case: CompareCase
    status: str
    output: Any
    milliseconds: float
    cpu_milliseconds: float
    events: list[Event] = field(repr=False)

    def payloads(self, kind: str) -> list[JsonObject]:
        return [event.payload for event in self.events if event.type == f"runtime.{kind}"]

    @property
    def ok(self) -> bool:
        wanted = self.case.contains
        return self.status == "completed" and (wanted is None or wanted.casefold() in str(self.output).casefold())

    @property
    def calls(self) -> list[tuple[str, JsonObject]]:
        made = {call["callId"]: (call["tool"], call["arguments"]) for call in self.payloads("tool.invoked")}
        return list(made.values())

    @property
    def arguments_match(self) -> bool:
        return sorted(map(str, self.calls)) == sorted(map(str, self.case.tools))

    @property
    def skill_resolved(self) -> bool:
        return self.case.skill in [skill["skill"] for skill in self.payloads("skill.invoked")]

    def shape(self) -> JsonObject:
        asked = self.payloads("model.requested")
        first = asked[0] if asked else {"messages": [], "tools": []}
        system = [message["content"] for message in first["messages"] if message["role"] == "system"]
        return {
            "status": self.status,
            "outputShape": output_shape(self.output),
            "traceNodes": list(trace_nodes(self.events)),
            "modelCalls": len(self.payloads("model.completed")),
            "toolCalls": len(self.calls),
            "toolsOffered": sorted(first.get("tools") or ()),
            "instructionBytes": sum(len(text.encode()) for text in system),
        }


class OneBackend(Mapping[str, Backend]):
    """Whatever backend an agent names, it runs on this one."""

    def __init__(self, backend: Backend, names: Iterable[str]) -> None:
        self._backend, self._names = backend, tuple(names)

    def __getitem__(self, name: str) -> Backend:
        if name not in self._names:
            raise KeyError(name)
        return self._backend

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def comparable() -> list[str]:
    """The backends that are installed here, in the order of the list of kinds."""
    kinds = installed_backends()
    return [name for name in kinds if kinds.usable(name) is not None and name not in _NOT_COMPARED]


def read_cases(workspace: Path, agents: Sequence[str]) -> list[CompareCase] | Failure:
    """The cases of the workspace, of these agents only; all of them if none is named."""
    file = workspace / CASES_FILE
    try:
        cases = [CompareCase.read(given) for given in json.loads_strict(file.read_bytes())["cases"]]
    except FileNotFoundError:
        return Failure("INVALID_REQUEST", f"There is no {CASES_FILE} in {workspace}, and no input was given.")
    except (json.JsonError, KeyError, TypeError, AttributeError) as error:
        return Failure("INVALID_REQUEST", f"{file} is not a list of cases: {type(error).__name__}: {error}.")
    return [case for case in cases if not agents or case.agent in agents]


Progress = Callable[[str, int, int], None]
"""The backend, and how many of its runs are done."""


async def compare(
    workspace: Path, cases: Sequence[CompareCase], backends: Sequence[str], repeat: int, progress: Progress
) -> JsonObject:
    results = [await _of_backend(workspace, cases, name, repeat, progress) for name in backends]
    return {
        "workspace": workspace.name,
        "repeat": repeat,
        "cases": [{"agent": case.agent, "input": case.input} for case in cases],
        "backends": results,
        "differences": differences(results),
    }


async def _of_backend(
    workspace: Path, cases: Sequence[CompareCase], name: str, repeat: int, progress: Progress
) -> JsonObject:
    started = time.process_time()
    backend = Backends(installed_backends())[name]
    imported = time.process_time() - started
    seen: list[Observed] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-compare-") as folder:
        settings = Settings(data_dir=Path(folder), workspace=workspace)
        async with open_holdfast(settings, backends=OneBackend(backend, installed_backends())) as holdfast:
            for number in range(repeat * len(cases)):
                progress(name, number, repeat * len(cases))
                seen.append(await _observe(holdfast, cases[number % len(cases)]))
    progress(name, repeat * len(cases), repeat * len(cases))
    with_tools = [run for run in seen if run.case.tools]
    with_skill = [run for run in seen if run.case.skill is not None]
    return {
        "backend": name,
        "version": _version(name),
        "resume": backend.resume,
        "runs": len(seen),
        "successRate": _rate([run.ok for run in seen]),
        "toolArgumentMatchRate": _rate([run.arguments_match for run in with_tools]),
        "skillResolutionRate": _rate([run.skill_resolved for run in with_skill]),
        "meanMs": round(fmean(run.milliseconds for run in seen), 1),
        "meanCpuMs": round(fmean(run.cpu_milliseconds for run in seen), 1),
        "importCpuMs": round(imported * 1000),
        "cases": [{"agent": run.case.agent, "input": run.case.input, **run.shape()} for run in seen[: len(cases)]],
    }


async def _observe(holdfast: Holdfast, case: CompareCase) -> Observed:
    begun, cpu = time.perf_counter(), time.process_time()
    run = await holdfast.service.submit(LOCAL, Submission(case.agent, case.input))
    if not isinstance(run, Run):
        raise HoldfastError("INVALID_REQUEST", f"the agent {case.agent!r} takes no run: {run.failure.message}")
    events: list[Event] = []
    store = holdfast.store
    async with asyncio.timeout(MAX_RUN_SECONDS):
        stream = follow(store.hub, store.reader.events, LOCAL.tenant, run.thread_id, run.first_seq - 1)
        async with aclosing(stream) as batches:
            async for batch in batches:
                events += [event for event in batch if event.run_id == run.id]
                if events and any(event.type in (*request.TERMINAL, "runtime.interrupt.raised") for event in events):
                    break
    last = events[-1]
    status = {"runtime.request.completed": "completed", "runtime.request.failed": "failed"}.get(last.type, "waiting")
    if status == "waiting":
        await holdfast.lifecycle.cancel(LOCAL, run.id)
    milliseconds, cpu = (time.perf_counter() - begun) * 1000, (time.process_time() - cpu) * 1000
    return Observed(case, status, last.payload.get("output"), milliseconds, cpu, events)


# -- what is read from a run ---------------------------------------------------------------------------


def trace_nodes(events: Iterable[Event]) -> Iterator[str]:
    """What the run did, in order: skills, models, tools, subagents, and the nodes that a graph reports."""
    for event in events:
        payload = event.payload
        match event.type:
            case "runtime.skill.invoked":
                yield f"skills.{payload['skill']}"
            case "runtime.model.completed":
                yield f"model.{payload['role']}" if payload.get("role") else "model"
            case "runtime.tool.invoked":
                yield f"tools.{payload['tool']}"
            case "runtime.adapter.event" if payload["event"]["phase"] == "agent.node.completed":
                yield f"node.{payload['event']['nodeId']}"
            case "runtime.adapter.event" if payload["event"]["phase"] == "agent.tool.result":
                yield f"own.{payload['event']['toolId']}"


def output_shape(output: Any) -> str:
    if isinstance(output, str):
        try:
            found = json.loads_strict(output.encode())
        except (json.JsonError, UnicodeEncodeError):
            return "text"
        return f"JSON text: {output_shape(found)}" if isinstance(found, dict | list) else "text"
    if isinstance(output, Mapping):
        return f"object({', '.join(sorted(output))})"
    return type(output).__name__


def differences(results: Sequence[JsonObject]) -> list[JsonObject]:
    """For each case, each thing that is not the same for all: which backends have which value."""
    found: list[JsonObject] = []
    for number, case in enumerate(results[0]["cases"] if results else ()):
        for what in _COMPARED:
            values: dict[bytes, list[str]] = {}
            for result in results:
                values.setdefault(json.canonical(result["cases"][number][what]), []).append(result["backend"])
            if len(values) > 1:
                groups = [{"value": json.loads(value), "backends": names} for value, names in values.items()]
                found.append({"agent": case["agent"], "input": case["input"], "what": what, "values": groups})
    return found


def _rate(hits: Sequence[bool]) -> float | None:
    return round(sum(hits) / len(hits), 4) if hits else None


def _version(name: str) -> str | None:
    try:
        return version(_PACKAGES.get(name, "holdfast"))
    except PackageNotFoundError:
        return None
