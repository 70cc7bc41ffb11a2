"""One run of a compiled graph: its signals, its questions, and the state that the thread keeps of it.

Leaves to `chat`: models and tools; to `graphs`: which graph it is.
"""

import asyncio
import functools
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import run_in_executor
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.constants import START
from langgraph.pregel import Pregel
from langgraph.types import Command, Interrupt
from langsmith.run_helpers import tracing_context

from app.backends.bridge import Bridge
from app.backends.contract import Output, StepFailed
from app.backends.kinds.langgraph.chat import GATE, text_of, to_langchain
from app.backends.kinds.langgraph.own_tools import RUNS_AGENTS, in_step, record_tools
from app.backends.kinds.langgraph.state import keep, restored
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.views.state_updates import split_state

MAX_SIGNAL: Final = 8 * 1024
"""Bytes of a node's update that its signal repeats; the whole is in the calls that made it, and in the state."""
_CONCURRENCY: Final = 16
"""Nodes of one run that work at the same time."""
_MESSAGES: Final = "messages"
_BEFORE: Final = "langgraph.interruptBefore"
_AFTER: Final = "langgraph.interruptAfter"
"""Labels of a run with the nodes at which its client wants it to stop, or `*`."""

_threads: Final = ThreadPoolExecutor(64, thread_name_prefix="holdfast-graph")
"""For nodes that are plain functions. They block while a model answers; the loop's own threads must not."""


class GraphSession:
    def __init__(
        self, bridge: Bridge, graph: Pregel[Any, Any, Any, Any], config: Mapping[str, Any], *, keeps_state: bool
    ) -> None:
        self._bridge, self._ctx, self._options, self._keeps_state = bridge, bridge.ctx, config, keeps_state
        self.output_key: str | None = config.get("outputKey")
        self._saver = InMemorySaver()
        self._graph = graph.copy({"checkpointer": self._saver})
        _move_to_own_threads(self._graph)
        record_tools(self._graph)
        self._asked: Counter[str] = Counter()
        self._begun = False
        self._stopped = 0
        """How often the run has stopped at a node because its client wanted it to."""
        self.first: Mapping[str, Any] = {}
        """What the state of a thread's first run begins with, where it has no value for it."""

    @property
    def _config(self) -> RunnableConfig:
        callbacks = [] if self._options.get("ungoverned") else [_Gatekeeper(self._bridge)]
        return {
            "configurable": {"thread_id": self._ctx.thread_id, "checkpoint_ns": ""},
            "recursion_limit": int(self._options.get("recursionLimit", 100)),
            "max_concurrency": _CONCURRENCY,
            "callbacks": list(callbacks),
        }

    async def turn(self, messages: list[JsonObject]) -> Output:
        given: Any = await self._given(messages)
        with tracing_context(enabled=False):
            while True:
                asked = await self._stream(given)
                if asked:
                    given = Command(resume=await self._answers(asked))
                elif not await self._goes_on():
                    break
                else:
                    given = None
            values = await self._values()
        if self._keeps_state:
            await self._keep(values)
        return self._output(values)

    # -- input, output and state -----------------------------------------------------------------------

    async def _given(self, messages: list[JsonObject]) -> Any:
        new = [to_langchain(message) for message in messages]
        begun, self._begun = self._begun, True
        before: list[BaseMessage] = []
        if not begun:
            base, updates = split_state(self._ctx.state)
            kept = restored(base) if self._keeps_state else {}
            for name, value in self.first.items():
                kept[name] = {**value, **kept.get(name, {})} if isinstance(value, Mapping) else kept.get(name, value)
            if kept:
                await self._seed(kept)
            if updates and self._keeps_state:
                await self._apply(updates, START)
                kept = await self._values()
            if not kept.get(_MESSAGES):
                before = [to_langchain(message) for message in self._ctx.history]
        key, channels = self._options.get("inputKey"), self._graph.channels
        if key is None and _MESSAGES in channels:
            return {_MESSAGES: [*before, *new]}
        if key is None and not begun and isinstance(self._ctx.input, dict):
            return dict(self._ctx.input)
        text = "\n".join(text_of(message) for message in new)
        return {key or _only_input(self._graph): text}

    async def _seed(self, values: Mapping[str, Any]) -> None:
        """As if the run before had ended in this process."""
        known = {name: value for name, value in values.items() if name in self._graph.channels}
        checkpoint = empty_checkpoint()
        versions = {name: self._saver.get_next_version(None, None) for name in known}
        checkpoint["channel_values"], checkpoint["channel_versions"] = known, dict(versions)
        await self._saver.aput(self._config, checkpoint, {"source": "input", "step": -1, "parents": {}}, versions)

    async def _apply(self, updates: Sequence[Mapping[str, Any]], by: str | None = None) -> None:
        """What clients set of the state, by the graph's own rules for its channels; as node `by` if they name none."""
        nodes = self._graph.nodes
        for update in updates if isinstance(updates, Sequence) else ():
            if not isinstance(update, Mapping) or not isinstance(update.get("values"), Mapping):
                continue  # whoever answers for a graph may send anything
            values = {name: value for name, value in update["values"].items() if name in self._graph.channels}
            node = update.get("asNode")
            if node is not None and node not in nodes:
                raise StepFailed(Failure("BACKEND_CONFIG_INVALID", f"The graph has no node {str(node)[:100]!r}."))
            if values:
                await self._graph.aupdate_state(self._config, values, as_node=node or by)

    async def _values(self) -> dict[str, Any]:
        found = await self._graph.aget_state(self._config)
        return dict(found.values) if isinstance(found.values, Mapping) else {"output": found.values}

    async def _keep(self, values: Mapping[str, Any]) -> None:
        document, omitted = keep(values)
        if omitted:
            await self._ctx.emit("agent.langgraph.state_omitted", keys=omitted)
        self._ctx.set_state(document)

    def _output(self, values: Mapping[str, Any]) -> Output:
        key = self.output_key
        if key is None and values.get(_MESSAGES):
            return self._bridge.output(text_of(values[_MESSAGES][-1]))
        found = (
            values.get(key) if key is not None else {n: v for n, v in values.items() if ":" not in n and n[:2] != "__"}
        )
        return self._bridge.output(found if isinstance(found, str) else json.canonical(plain(found)).decode())

    # -- what happens on the way -----------------------------------------------------------------------

    async def _stream(self, given: Any) -> list[tuple[str, Interrupt]]:
        """Runs until the graph ends or asks; the questions by the node that asked."""
        asked: list[tuple[str, Interrupt]] = []
        stream = self._graph.astream(
            given,
            self._config,
            stream_mode=["updates", "custom"],
            subgraphs=True,
            durability="exit",
            interrupt_before=self._stops(_BEFORE),
            interrupt_after=self._stops(_AFTER),
        )
        async for namespace, mode, data in stream:
            self._bridge.check()
            if mode == "custom":
                await self._ctx.emit("agent.langgraph.custom", namespace=_names(namespace), data=plain(data))
                continue
            for node, update in data.items():
                if node == "__interrupt__":
                    asked += [("/".join(_names(namespace)), each) for each in update if not namespace]
                elif not node.startswith("__"):
                    await self._completed(_names(namespace), node, update)
        return asked

    def _stops(self, label: str) -> Any:
        named = self._ctx.request.labels.get(label)
        return named if named in (None, "*") else named.split(",")

    async def _goes_on(self) -> bool:
        """Whether the graph stopped at a node, and had the answer to go on; what was set meanwhile is applied."""
        if self._stops(_BEFORE) is None and self._stops(_AFTER) is None:
            return False
        following = list((await self._graph.aget_state(self._config)).next)
        if not following:
            return False
        self._stopped += 1
        question: JsonObject = {
            "id": "breakpoint",
            "question": f"The run stops before {', '.join(following)}.",
            "value": {"next": following},
        }
        title = f"Stopped before {', '.join(following)}"
        answers = await self._bridge.start(self._ctx.ask(title[:200], [question], key=f"breakpoint:{self._stopped}"))
        said = answers.get("breakpoint")  # where an older server kept the updates
        older = said.get("updates") if isinstance(said, dict) else None
        await self._apply(answers.get("updates") or older or ())
        return True

    async def _completed(self, namespace: list[str], node: str, update: Any) -> None:
        shown = plain(update)
        size = len(json.canonical(shown))
        fields: JsonObject = {"update": shown} if size <= MAX_SIGNAL else {"updateBytes": size}
        if namespace:
            fields["namespace"] = namespace
        await self._ctx.emit("agent.node.completed", nodeId=node, workflowId=self._ctx.agent, **fields)

    async def _answers(self, asked: Sequence[tuple[str, Interrupt]]) -> Any:
        """All questions of a step are asked at once; the answers are by the interrupt's id, which is new each time.
        With an answer comes what was set of the state meanwhile."""
        tasks = [self._bridge.start(self._ask(interrupt.value)) for _, interrupt in asked]
        await asyncio.wait(tasks)
        self._bridge.check()
        given = [task.result() for task in tasks]
        await self._apply([update for _, updates in given for update in updates])
        answers = {interrupt.id: answer for (_, interrupt), (answer, _) in zip(asked, given, strict=True)}
        return answers if len(answers) > 1 else next(iter(answers.values()))

    def _ask(self, value: Any) -> Any:
        """`interrupt(value)` as a question of the run, answered with a value and with updates of the state. The graph's
        own ids are random, so the value is the key."""
        shown = plain(value)
        content = hashlib.sha256(json.canonical(shown)).hexdigest()[:32]
        self._asked[content] += 1
        key = f"interrupt:{content}:{self._asked[content]}"
        title = (
            value
            if isinstance(value, str)
            else next(
                (
                    str(value[name])
                    for name in ("question", "title", "task", "description")
                    if isinstance(value, dict) and name in value
                ),
                "The graph asks",
            )
        )
        question: JsonObject = {"id": "answer", "question": shown if isinstance(shown, str) else title, "value": shown}

        async def ask() -> tuple[Any, list[JsonObject]]:
            answers = await self._ctx.ask(title[:200], [question], key=key)
            return answers.get("answer", answers), answers.get("updates") or []

        return ask()


class _Gatekeeper(AsyncCallbackHandler):
    """Refuses models of the graph's own: nothing would count, check or record what they do."""

    raise_error = True
    run_inline = True

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self._only_ours(serialized, kwargs.get("tags"))

    async def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], *, run_id: UUID, **kwargs: Any
    ) -> None:
        self._only_ours(serialized, kwargs.get("tags"))

    def _only_ours(self, serialized: dict[str, Any] | None, tags: Sequence[str] | None) -> None:
        if GATE not in (tags or ()):
            name = str((serialized or {}).get("name") or "a model")
            raise self._bridge.fail(ungoverned(f"model of its own, {name}"))

    async def on_tool_start(
        self, serialized: dict[str, Any] | None, input_str: str, *, run_id: UUID, **kwargs: Any
    ) -> None:
        if in_step.get():
            return
        name = str((serialized or {}).get("name") or "a tool")
        if name in RUNS_AGENTS:
            return
        raise self._bridge.fail(ungoverned(f"tool of its own, {name}"))


def ungoverned(what: str) -> StepFailed:
    message = f"The graph uses a {what}, and the agent does not allow that (`ungoverned`)."
    return StepFailed(Failure("BACKEND_UNGOVERNED", message))


def _move_to_own_threads(graph: Pregel[Any, Any, Any, Any]) -> None:
    """Plain functions among the nodes run in threads of the loop by default, where they would block the server."""
    for node in graph.nodes.values():
        bound = getattr(node, "bound", None)
        run = getattr(bound, "afunc", None)
        if isinstance(run, functools.partial) and run.func is run_in_executor and run.args[0] is None:
            bound.afunc = functools.partial(_in_own_thread, run.args[1])  # type: ignore[union-attr]  # it has one


async def _in_own_thread(func: Any, *args: Any, **kwargs: Any) -> Any:
    call = functools.partial(copy_context().run, func, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads, call)


def _only_input(graph: Pregel[Any, Any, Any, Any]) -> str:
    keys = [name for name in graph.get_input_jsonschema().get("properties", {}) if isinstance(name, str)]
    if len(keys) == 1 or "input" in keys:
        return "input" if "input" in keys else keys[0]
    message = (
        f"The graph takes {', '.join(keys) or 'no input'}; `config.langgraph.inputKey` must name the one for text."
    )
    raise StepFailed(Failure("BACKEND_CONFIG_INVALID", message))


def _names(namespace: Sequence[str]) -> list[str]:
    """Without the ids in it, which are new at every entry."""
    return [part.partition(":")[0] for part in namespace]


def plain(value: Any) -> Any:
    """As JSON, for people: what a signal shows."""
    if isinstance(value, BaseMessage):
        made: JsonObject = {"type": value.type, "content": text_of(value)}
        calls = getattr(value, "tool_calls", None)
        return made | {"toolCalls": [{"name": c["name"], "args": plain(c["args"])} for c in calls]} if calls else made
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    dump = getattr(value, "model_dump", None)
    return plain(dump(mode="json")) if callable(dump) else f"<{type(value).__name__}>"
