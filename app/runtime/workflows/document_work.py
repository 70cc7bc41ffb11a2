"""What the steps of a Workflow document do: runs of agents, skills and workflows, tool calls, questions, timers.

Every call is keyed by the visit, the attempt and the item, so that a run which is entered again finds it. Leaves to
`node_runner`: attempts, time limits and the record; to the context: guard, approvals, budgets.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from app.backends.contract import AgentAnswer, CallRequest, StepFailed
from app.backends.workflow_contract import FlowValues, Visit, Waiting
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject, present
from app.core.value import mutable
from app.runtime.run.child_request import ChildRequest
from app.runtime.run.context import RunContext
from app.runtime.workflows.node_questions import NodeQuestions
from app.runtime.workflows.node_runner import NodeFailed, check_size
from app.workspace.compiled import CompiledNode, CompiledRoute, CompiledWorkflow
from app.workspace.flow_graph import START

_KNOWN_OUTCOME: Final = frozenset(
    {"TOOL_FAILED", "INVALID_ARGUMENTS", "GATE_DENIED", "APPROVAL_DENIED", "RATE_LIMITED"}
)
"""Failures of a call that say that it did not take effect; after any other one an unsafe call is not repeated."""
_NOTHING: Final = object()


@mutable(slots=True)
class _Items:
    """What became of the items of a `foreach`, over all attempts of a visit."""

    outputs: dict[int, Any] = field(default_factory=dict)
    waiting: dict[int, Waiting] = field(default_factory=dict)
    size: int = 0
    """Bytes of the outputs."""
    attempts: Counter[int] = field(default_factory=Counter)
    """How often each was begun. An item counts its own, so that a run which is entered again finds its calls whatever
    the other items did."""


class DocumentWork:
    def __init__(self, flow: CompiledWorkflow, ctx: RunContext) -> None:
        self._flow, self._ctx = flow, ctx
        self._questions = NodeQuestions(ctx.log, ctx.calls)
        self._items_of: dict[str, _Items] = {}
        self._before = {
            name: [edge.source for edge in edges] for name, edges in flow.graph.incoming.items() if name in flow.nodes
        }

    async def run(self, visit: Visit, attempt: int, values: FlowValues) -> Any:
        node, key = self._flow.nodes[visit.node], f"{visit.key}.{attempt}"
        if node.kind == "ask":
            return await self._ask(node, visit, values)
        if node.kind == "wait":
            assert node.spec.wait is not None
            seconds = node.spec.wait.seconds
            await self._questions.ask(visit, "timer", f"The step {node.id} waits.", seconds)
            return {"seconds": seconds}
        if node.foreach is None:
            return await self._act(node, key, values, await self._said(node, key), values.values())
        return await self._each(node, visit, attempt, values)

    def repeatable(self, node: str) -> bool:
        return not self._flow.nodes[node].unsafe

    # -- routers -------------------------------------------------------------------------------------

    def start_label(self, values: FlowValues) -> str | None:
        return self._choose(START, values, values.nodes, None)

    async def label(self, visit: Visit, output: Any, values: FlowValues) -> str | None:
        node = self._flow.nodes[visit.node]
        nodes = values.nodes | {visit.node: {"output": output}} if self._flow.routers.get(visit.node) else values.nodes
        return self._choose(visit.node, values, nodes, output if node.kind == "ask" else None)

    def _choose(self, source: str, values: FlowValues, nodes: Mapping[str, JsonObject], answer: Any) -> str | None:
        """First match wins; a router that fails or matches nothing fails the run."""
        routes = self._flow.routers.get(source, ())
        for route in routes:
            if route.when is None:
                return route.label
            found = route.when.evaluate(_values_of(route, values, nodes, answer))
            if isinstance(found, Failure):
                message = f"The router of {source} could not evaluate its rule for {route.label!r}: {found.message}."
                raise StepFailed(Failure("ROUTER_FAILED", message))
            if found:
                return route.label
        if not routes:
            return None
        raise StepFailed(Failure("ROUTER_FAILED", f"No rule of the router of {source} matched."))

    # -- what a step is given ------------------------------------------------------------------------

    def _given(self, node: CompiledNode, values: FlowValues, roots: Mapping[str, Any], item: Any) -> Any:
        if node.given is not None:
            filled = node.given.fill(roots)
            if isinstance(filled, Failure):
                raise NodeFailed(filled, repeatable=False)
            return filled if node.kind == "tool" else filled.get("input")
        given = self._output_before(node, values) if item is _NOTHING else item
        if node.kind == "tool" and not isinstance(given, dict):
            return {"input": given}
        return given

    def _output_before(self, node: CompiledNode, values: FlowValues) -> Any:
        """The output of the newest step before this one, else the input of the workflow."""
        before = set(self._before.get(node.id, ()))
        for name in reversed(values.nodes):
            if name in before and "output" in values.nodes[name]:
                return values.nodes[name]["output"]
        return values.input

    async def _said(self, node: CompiledNode, key: str) -> list[JsonObject]:
        """What was said to the run since: the next agent gets it with its input."""
        if node.kind not in ("agent", "skill") or not self._ctx.log.is_root:
            return []
        return await self._ctx.steering(f"node.{key}")

    # -- what it does --------------------------------------------------------------------------------

    async def _act(
        self,
        node: CompiledNode,
        key: str,
        values: FlowValues,
        said: list[JsonObject],
        roots: Mapping[str, Any],
        item: Any = _NOTHING,
    ) -> Any:
        given = self._given(node, values, roots, item)
        if node.kind == "tool":
            return await self._call_tool(node, key, given)
        if said:
            given = _with_messages(given, said)
        if node.kind == "workflow":
            self._check_input(node, given)
            asked = ChildRequest(None, given, key, workflow=node.target)
        else:
            asked = ChildRequest(node.agent, given, key, skill=node.target if node.kind == "skill" else None)
        return self._output(node, await self._ctx.call_child(asked))

    def _check_input(self, node: CompiledNode, given: Any) -> None:
        """As for a workflow that a client submits."""
        validator = self._ctx.workspace.workflows[node.target].input_validator
        issues = validator.issues(given) if validator is not None else ()
        if issues:
            where = f"{issues[0].path or '/'}: {issues[0].message}"
            message = f"The input breaks the schema of the workflow {node.target}: {where}"
            raise NodeFailed(Failure("WORKFLOW_INPUT_INVALID", message), repeatable=False)

    def _output(self, node: CompiledNode, answer: AgentAnswer) -> Any:
        if not answer.ok:
            error = answer.error or {}
            if error.get("code") == "RUN_CANCELLED":
                raise _ended(node, repeatable=not node.unsafe)
            raise NodeFailed(Failure(error.get("code", "SUBAGENT_FAILED"), error.get("message", answer.text)))
        agent = self._ctx.workspace.agents.get(node.agent or "")
        if agent is None or agent.output_validator is None or not isinstance(answer.output, str):
            return answer.output
        try:
            return json.loads(answer.output)
        except json.JsonError:
            message = f"The answer of the agent {agent.name} is not JSON, though it has an `outputSchema`."
            raise NodeFailed(Failure("OUTPUT_INVALID", message)) from None

    async def _call_tool(self, node: CompiledNode, key: str, args: JsonObject) -> Any:
        result = await self._ctx.call_branch_tool(CallRequest(key, node.target, args))
        if result.ok:
            return result.output
        code, _, message = result.content.partition(": ")
        if code == "TOOL_CANCELLED":
            raise _ended(node, repeatable=not node.unsafe)
        repeatable = not node.unsafe or code in _KNOWN_OUTCOME
        raise NodeFailed(Failure(code, message or result.content), repeatable=repeatable)

    async def _each(self, node: CompiledNode, visit: Visit, attempt: int, values: FlowValues) -> list[Any]:
        """Another attempt is made for the items that failed or did not begin, and for no other."""
        items, state = self._items(node, values), self._items_of.setdefault(visit.key, _Items())
        said, roots = await self._said(node, f"{visit.key}.{attempt}"), values.values()
        left = iter([pair for pair in enumerate(items) if pair[0] not in state.outputs | state.waiting])
        failures: list[NodeFailed] = []
        last = attempt >= self._flow.graph.nodes[node.id].attempts

        async def work() -> None:
            for index, item in left:
                state.attempts[index] += 1
                key, named = f"{visit.key}.{state.attempts[index]}.{index}", {**roots, "item": item, "index": index}
                try:
                    output = await self._act(node, key, values, said, named, item)
                    state.size += check_size(node.id, output, state.size)
                    state.outputs[index] = output
                except Waiting as asked:
                    state.waiting[index] = asked  # the other items go on
                except NodeFailed as failed:
                    if last:
                        raise
                    failures.append(failed)
                if failures:
                    return  # what is under way ends first: what was cut off could not be repeated

        workers = [asyncio.create_task(work()) for _ in range(min(node.spec.concurrency, len(items)))]
        await _all_or_first_failure(workers)
        if failures:
            raise next((failed for failed in failures if not failed.repeatable), failures[0])
        if state.waiting:
            raise next(iter(state.waiting.values()))
        del self._items_of[visit.key]
        return [state.outputs[index] for index in range(len(items))]

    def _items(self, node: CompiledNode, values: FlowValues) -> list[Any]:
        assert node.foreach is not None
        found = node.foreach.value(values.values())
        if isinstance(found, Failure):
            raise NodeFailed(found, repeatable=False)
        if not isinstance(found, list | tuple):
            message = f"`foreach` of the step {node.id} is not a list"
            raise NodeFailed(Failure("FOREACH_INVALID", message), repeatable=False)
        if len(found) > node.spec.max_items:
            message = f"`foreach` of the step {node.id} has {len(found)} items; `maxItems` is {node.spec.max_items}"
            raise NodeFailed(Failure("FOREACH_TOO_LARGE", message), repeatable=False)
        return list(found)

    # -- people --------------------------------------------------------------------------------------

    async def _ask(self, node: CompiledNode, visit: Visit, values: FlowValues) -> Any:
        spec, asked = node.spec.ask, node.asked
        assert spec is not None and asked is not None
        said = asked.fill(values.values())
        if isinstance(said, Failure):
            raise NodeFailed(said, repeatable=False)
        more: JsonObject = {"questions": [_named(one) for one in said["questions"]]}
        if spec.kind == "approval":
            if self._ctx.asks_nobody:
                message = "The conversation asks nobody for approvals."
                raise NodeFailed(Failure("APPROVAL_DENIED", message), repeatable=False)
            shown = present({"arguments": said["show"], "submittedBy": self._ctx.submitted_by})
            more = {"approver": spec.approver, **shown}
        title = str(said["title"])[:1000]
        answered = await self._questions.ask(visit, spec.kind, title, spec.expires_seconds, **more)
        if answered.get("expired"):
            message = f"The question of the step {node.id} was not answered in time."
            raise NodeFailed(Failure("QUESTION_EXPIRED", message), repeatable=False)
        answer = answered["answer"]
        if spec.kind == "question":
            return answer["answers"]
        if answer["decision"] != "approve" and node.id not in self._flow.routers:
            # Where nothing decides about a refusal, it stops the branch.
            reason = answer.get("reason") or "it was not approved"
            raise NodeFailed(Failure("APPROVAL_DENIED", reason), repeatable=False)
        return present({"decision": answer["decision"], "reason": answer.get("reason"), "by": answered["answeredBy"]})


def _with_messages(given: Any, messages: list[JsonObject]) -> Any:
    """An agent's input followed by what was said: a text, or parts if there is more than text."""
    if not isinstance(given, str) and not _are_parts(given):
        given = json.canonical(given).decode()
    media = any(part["type"] != "text" for message in messages for part in message.get("parts", ()))
    if isinstance(given, str) and not media:
        return "\n\n".join([given, *(str(message["content"]) for message in messages)])
    parts = [{"type": "text", "text": given}] if isinstance(given, str) else list(given)
    for message in messages:
        parts += message.get("parts") or [{"type": "text", "text": str(message["content"])}]
    return parts


def _are_parts(given: Any) -> bool:
    return bool(given) and isinstance(given, list) and all(isinstance(one, dict) and "type" in one for one in given)


def _named(question: JsonObject) -> JsonObject:
    """With the id that forms of every client name its answer by; some authors write `key`."""
    return question if "id" in question or "key" not in question else {"id": question["key"], **question}


def _ended(node: CompiledNode, *, repeatable: bool) -> NodeFailed:
    """Found in the log: an earlier entry of the run ended the attempt, because its time was over."""
    return NodeFailed(
        Failure("NODE_TIMEOUT", f"An attempt of the step {node.id} was over its time."), repeatable=repeatable
    )


def _values_of(route: CompiledRoute, values: FlowValues, nodes: Mapping[str, JsonObject], answer: Any) -> JsonObject:
    """What a rule reads, and nothing else: the cost of a rule is that of the values it is given."""
    read = nodes if route.nodes is None else {name: nodes[name] for name in route.nodes if name in nodes}
    visits = dict(values.visits) if route.reads_visits else {}
    return {"input": values.input, "nodes": dict(read), "answer": answer, "item": None, "visits": visits}


async def _all_or_first_failure(tasks: "Sequence[asyncio.Task[None]]") -> None:
    """Waits for all of them; the first failure ends the others."""
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()
