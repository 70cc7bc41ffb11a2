"""The state of each step of a workflow's run, folded from the run's events and those of the runs it started."""

from collections.abc import Iterable
from typing import Any, Final

from app.core.clock import iso
from app.events.catalog import adapter, execution, interrupt, request, tool, workflow
from app.events.envelope import Event

State = dict[str, Any]

_KEPT: Final = ("startedAt", "runs", "interruptId")


class FlowStates:
    """By step: `status` (running, waiting, completed, failed, cancelled), `visits`, when the newest visit began and
    ended (`startedAt`, `endedAt`), the runs that it started (`runs`), what it waits for, and what came of it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.nodes: dict[str, State] = {}
        self.order: list[str] = []
        """The visits that have ended, such as `plan.1`, in order."""
        self._asked: dict[str, str] = {}
        self._family: dict[str, str] = {}
        """The runs that steps started, at any depth, with their step."""

    def apply_all(self, events: Iterable[Event]) -> "FlowStates":
        for event in events:
            self.apply(event)
        return self

    def apply(self, event: Event) -> None:
        payload, mine = event.payload, event.run_id == self._run_id
        match event.type:
            case request.RequestQueued.type if payload.get("parentRunId") == self._run_id:
                node, state = self._begun(payload["callId"], event)
                state.setdefault("runs", []).append(event.run_id)
                self._family[event.run_id or ""] = node
            case request.RequestQueued.type if payload.get("parentRunId") in self._family:
                self._family[event.run_id or ""] = self._family[payload["parentRunId"]]
            case tool.ToolInvoked.type if mine:
                self._begun(payload["callId"], event)
            case workflow.SpecPhaseStarted.type if mine:
                self._begun(f"{payload['phaseId']}.1", event)
            case interrupt.InterruptRaised.type:
                self._raised(event)
            case interrupt.InterruptResolved.type | interrupt.InterruptExpired.type:
                answered = self._asked.pop(payload["interruptId"], None)
                waits = answered in self._asked.values()
                if answered is not None and not waits and self.nodes[answered]["status"] == "waiting":
                    self.nodes[answered]["status"] = "running"
            case execution.StepCompleted.type if payload["step"] == "node" and mine:
                self._ended(payload["key"], payload["result"], event)
            case adapter.AdapterEvent.type if mine and payload["event"]["phase"] == "agent.node.cancelled":
                signal = payload["event"]
                known = self.nodes.get(signal["nodeId"], {})
                kept: State = {name: known[name] for name in _KEPT if name in known}
                ended = {"status": "cancelled", "visits": signal["visit"], "endedAt": iso(event.at)}
                self.nodes[signal["nodeId"]] = {**ended, **kept}
            case _ if event.type in request.TERMINAL and mine:
                for state in self.nodes.values():
                    if state["status"] in ("running", "waiting"):
                        state |= {"status": "cancelled", "endedAt": iso(event.at)}

    def _raised(self, event: Event) -> None:
        """A question of a step itself, or of a run that it started."""
        payload = event.payload
        asking = payload.get("forRunId") or event.run_id
        if asking == self._run_id and payload.get("node"):
            call_id, lacking = payload["key"].removeprefix("node:"), payload["node"].partition(":")
            # A phase asks for what it lacks in its own name: `design:requires`, with the number of the question.
            node, _ = self._begun(f"{lacking[0]}.1" if lacking[1] else call_id, event)
        elif asking in self._family:
            node = self._family[asking]
        else:
            return
        self._asked[payload["interruptId"]] = node
        self.nodes[node] |= {"status": "waiting", "interruptId": payload["interruptId"]}

    def _begun(self, call_id: str, event: Event) -> tuple[str, State]:
        """A call is named by the step, the visit and the attempt."""
        node, visit = (*call_id.split(".", 2), "1")[:2]
        state = self.nodes.get(node)
        number = int(visit) if visit.isdecimal() else 1
        if state is None or state["visits"] < number:
            state = self.nodes[node] = {"status": "running", "visits": number, "startedAt": iso(event.at)}
        return node, state

    def _ended(self, key: str, result: Any, event: Event) -> None:
        node, _, number = key.rpartition(".")
        known = self.nodes.get(node, {})
        if known.get("visits") != int(number):
            known = {"startedAt": iso(event.at)}  # a visit that did nothing but end, such as an empty list
        kept: State = {name: known[name] for name in _KEPT if name in known}
        result = result if isinstance(result, dict) else {}
        more: State = {name: result[name] for name in ("label", "error") if name in result}
        status = "failed" if "error" in result else "completed"
        self.nodes[node] = {"status": status, "visits": int(number), **kept, "endedAt": iso(event.at), **more}
        self.order.append(key)
