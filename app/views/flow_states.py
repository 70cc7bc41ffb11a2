"""The state of each step of a workflow's run, folded from the run's events and those of the runs it started."""

from collections.abc import Iterable
from typing import Any

from app.events.catalog import adapter, execution, interrupt, request, tool
from app.events.envelope import Event

State = dict[str, Any]


class FlowStates:
    """By step: `status` (running, waiting, completed, failed, cancelled), `visits`, and what it is about."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.nodes: dict[str, State] = {}
        self.order: list[str] = []
        """The visits that have ended, such as `plan.1`, in order."""
        self._asked: dict[str, str] = {}

    def apply_all(self, events: Iterable[Event]) -> "FlowStates":
        for event in events:
            self.apply(event)
        return self

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case request.RequestQueued.type if payload.get("parentRunId") == self._run_id:
                state = self._begun(payload["callId"])
                state.setdefault("runs", []).append(event.run_id)
            case tool.ToolInvoked.type if event.run_id == self._run_id:
                self._begun(payload["callId"])
            case interrupt.InterruptRaised.type if payload.get("node"):
                if (payload.get("forRunId") or event.run_id) == self._run_id:
                    self._asked[payload["interruptId"]] = payload["node"]
                    self._begun(f"{payload['key'].removeprefix('node:')}.1")
                    self.nodes[payload["node"]] |= {"status": "waiting", "interruptId": payload["interruptId"]}
            case interrupt.InterruptResolved.type | interrupt.InterruptExpired.type:
                node = self._asked.pop(payload["interruptId"], None)
                if node is not None and self.nodes[node]["status"] == "waiting":
                    self.nodes[node]["status"] = "running"
            case execution.StepCompleted.type if payload["step"] == "node" and event.run_id == self._run_id:
                self._ended(payload["key"], payload["result"])
            case adapter.AdapterEvent.type if payload["event"]["phase"] == "agent.node.cancelled":
                if event.run_id == self._run_id:
                    signal = payload["event"]
                    self.nodes[signal["nodeId"]] = {"status": "cancelled", "visits": signal["visit"]}
            case _ if event.type in request.TERMINAL and event.run_id == self._run_id:
                for state in self.nodes.values():
                    if state["status"] in ("running", "waiting"):
                        state["status"] = "cancelled"

    def _begun(self, call_id: str) -> State:
        """A call is named by the step, the visit and the attempt."""
        node, visit = (*call_id.split(".", 2), "1")[:2]
        state = self.nodes.get(node)
        number = int(visit) if visit.isdecimal() else 1
        if state is None or state["visits"] < number:
            state = self.nodes[node] = {"status": "running", "visits": number}
        return state

    def _ended(self, key: str, result: Any) -> None:
        node, _, number = key.rpartition(".")
        known = self.nodes.get(node, {})
        kept: State = {name: known[name] for name in ("runs", "interruptId") if name in known}
        result = result if isinstance(result, dict) else {}
        more: State = {name: result[name] for name in ("label", "error") if name in result}
        status = "failed" if "error" in result else "completed"
        self.nodes[node] = {"status": status, "visits": int(number), **kept, **more}
        self.order.append(key)
