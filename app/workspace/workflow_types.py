"""Checks what the templates of a workflow read: that the step exists, has run by then, and has such a value."""

from collections.abc import Mapping

from app.workspace.compiled import CompiledAgent, CompiledWorkflow
from app.workspace.report import DocumentPlace
from app.workspace.resolve import Resolver


class WorkflowTypes:
    def __init__(
        self,
        flow: CompiledWorkflow,
        flows: Mapping[str, CompiledWorkflow],
        resolver: Resolver,
        agents: Mapping[str, CompiledAgent],
        place: DocumentPlace,
    ) -> None:
        self._flow, self._flows, self._resolver, self._agents, self._place = flow, flows, resolver, agents, place

    def check(self) -> None:
        pass
