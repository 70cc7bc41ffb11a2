"""Checks what the templates of a workflow read: that the step exists, can have run by then, and has such a value.

Types come from the schemas of tools, agents and workflows. What a schema leaves open is not objected to.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core.json import JsonObject
from app.workspace.compiled import CompiledAgent, CompiledNode, CompiledWorkflow
from app.workspace.diagnostics import DocPath
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace
from app.workspace.resolve import Resolver
from app.workspace.schema_walk import SchemaDeadEnd, fits, type_name, walk
from app.workspace.templates import Template

_TEXT: Final[JsonObject] = {"type": "string"}
_APPROVAL: Final[JsonObject] = {
    "type": "object",
    "properties": {"decision": _TEXT, "reason": _TEXT, "by": _TEXT},
}
_WAITED: Final[JsonObject] = {"type": "object", "properties": {"seconds": {"type": "number"}}}
_ERROR: Final[JsonObject] = {"type": "object", "properties": {"code": _TEXT, "message": _TEXT}}
_COUNT: Final[JsonObject] = {"type": "integer"}

Schema = Mapping[str, Any] | None
"""None where nothing is known."""


class WorkflowTypes:
    def __init__(
        self,
        flow: CompiledWorkflow,
        flows: Mapping[str, CompiledWorkflow],
        resolver: Resolver,
        agents: Mapping[str, CompiledAgent],
        place: DocumentPlace,
    ) -> None:
        self._flow, self._flows, self._agents, self._place = flow, flows, agents, place
        self._index, self._report = resolver.index, resolver.report

    def check(self) -> None:
        for number, node in enumerate(self._flow.nodes.values()):
            path: DocPath = ("spec", "nodes", number)
            item = self._foreach(node, (*path, "foreach"))
            if node.asked is not None:
                for where, template in node.asked.places():
                    self._template(template, (*path, "ask", *where), node, None)
            if node.given is not None:
                for where, template in node.given.places():
                    self._template(template, (*path, "with", *where), node, item)
            if node.kind == "tool" and node.spec.with_ is not None:
                self._arguments(node, (*path, "with"), item)
            if node.kind == "workflow" and node.spec.with_ is not None:
                self._workflow_input(node, (*path, "with", "input"), item)
        if self._flow.result is not None:
            for where, template in self._flow.result.places():
                self._template(template, ("spec", "result", *where), None, None)

    # -- templates -----------------------------------------------------------------------------------

    def _foreach(self, node: CompiledNode, path: DocPath) -> Schema:
        """The schema of an item."""
        if node.foreach is None:
            return None
        schema = self._template(node.foreach, path, node, None)
        if schema is None:
            return None
        if not fits(schema, {"type": "array"}):
            message = f"`foreach` needs a list, and this is {type_name(schema)}"
            self._report.error("TEMPLATE_TYPE", self._place, path, message, expected="a path to a list")
            return None
        items = schema.get("items")
        return items if isinstance(items, Mapping) else None

    def _template(self, template: Template, path: DocPath, node: CompiledNode | None, item: Schema) -> Schema:
        """The schema of the value, if the template is one place; each place is checked."""
        found = [self._place_of(steps, path, node, item) for steps in template.places]
        single = len(template.places) == 1 and template.literals == ("", "")
        return found[0] if single else _TEXT

    def _place_of(self, steps: tuple[str, ...], path: DocPath, node: CompiledNode | None, item: Schema) -> Schema:
        root, rest = steps[0], steps[1:]
        if root == "input":
            return self._walk(self._flow.spec.input, rest, path, "the input")
        if root == "item":
            return self._walk(item, rest, path, "an item")
        if root == "index":
            return _COUNT
        if not rest:
            return None
        if rest[0] not in self._flow.nodes:
            hint = did_you_mean(self._report.suggest.nearest(rest[0], self._flow.nodes))
            self._report.error("NODE_UNKNOWN", self._place, path, f"there is no step {rest[0]!r}", hint=hint)
            return None
        if root == "visits":
            return _COUNT
        return self._of_node(rest, path, node)

    def _of_node(self, steps: tuple[str, ...], path: DocPath, reader: CompiledNode | None) -> Schema:
        name, graph = steps[0], self._flow.graph
        if reader is not None and not graph.reached_by[reader.id] & graph.bit(name):
            message = f"the step {name!r} never runs before {reader.id!r}, so there is no value"
            hint = f"add an edge that leads from {name} to {reader.id}"
            self._report.error("NODE_NOT_BEFORE", self._place, path, message, hint=hint)
            return None
        if len(steps) == 1:
            return None
        if steps[1] == "error":
            return self._walk(_ERROR, steps[2:], path, f"the error of {name}")
        if steps[1] != "output":
            message = f"a step has `output` and `error`, and no {steps[1]!r}"
            hint = f"write `nodes.{name}.output.{'.'.join(steps[1:])}`"
            self._report.error("TEMPLATE_TYPE", self._place, path, message, hint=hint)
            return None
        return self._walk(self._output(self._flow.nodes[name]), steps[2:], path, f"the output of {name}")

    def _walk(self, schema: Schema, steps: tuple[str, ...], path: DocPath, what: str) -> Schema:
        found = walk(schema, steps)
        if not isinstance(found, SchemaDeadEnd):
            return found
        hint = did_you_mean(self._report.suggest.nearest(found.step, found.names))
        at = ".".join(steps[: found.depth])
        message = f"{what}{f' at {at}' if at else ''} is {found.kind} and has no {found.step!r}"
        expected = f"one of: {', '.join(sorted(found.names)[:10])}" if found.names else None
        self._report.error("TEMPLATE_TYPE", self._place, path, message, expected=expected, hint=hint)
        return None

    # -- what steps give -----------------------------------------------------------------------------

    def _output(self, node: CompiledNode) -> Schema:
        schema = self._output_of_one(node)
        return schema if node.foreach is None else {"type": "array", "items": schema or {}}

    def _output_of_one(self, node: CompiledNode) -> Schema:
        match node.kind:
            case "tool":
                tool = self._tool(node.target)
                return tool.spec.output if tool is not None else None
            case "agent" | "skill":
                agent = self._agents.get(node.agent or "")
                return None if agent is None else agent.spec.output_schema or _TEXT
            case "workflow":
                called = self._flows.get(node.target)
                return called.spec.output if called is not None else None
            case "wait":
                return _WAITED
            case "ask":
                assert node.spec.ask is not None
                return _APPROVAL if node.spec.ask.kind == "approval" else None
            case "phase":
                return None  # no template reads the phases of a cycle

    def _tool(self, name: str) -> Any:
        document = self._index.documents["Tool"].get(name)
        return document.tool if document is not None else None

    # -- arguments of tools --------------------------------------------------------------------------

    def _arguments(self, node: CompiledNode, path: DocPath, item: Schema) -> None:
        tool = self._tool(node.target)
        schema: Schema = tool.spec.input if tool is not None else None
        properties = schema.get("properties") if schema is not None else None
        if schema is None or not isinstance(properties, Mapping) or node.given is None:
            return
        given: JsonObject = node.given.value
        for name, value in given.items():
            wanted = properties.get(name)
            if wanted is None and not schema.get("additionalProperties") and "patternProperties" not in schema:
                hint = did_you_mean(self._report.suggest.nearest(name, properties))
                message = f"the tool {node.target!r} has no argument {name!r}"
                self._report.error("ARGUMENT_UNKNOWN", self._place, (*path, name), message, hint=hint, key=True)
            elif isinstance(wanted, Mapping):
                self._argument(node, name, value, wanted, (*path, name), item)
        for name in schema.get("required", ()):
            if name not in given:
                message = f"the tool {node.target!r} needs the argument {name!r}"
                self._report.error("ARGUMENT_MISSING", self._place, path, message, expected=f"`{name}`", key=True)

    def _workflow_input(self, node: CompiledNode, path: DocPath, item: Schema) -> None:
        called = self._flows.get(node.target)
        schema: Schema = called.spec.input if called is not None else None
        if schema is None or node.given is None or "input" not in node.given.value:
            return
        given, properties = node.given.value["input"], schema.get("properties")
        self._argument(node, "input", given, schema, path, item)
        if not isinstance(given, dict):
            return
        for name, value in given.items():
            wanted = properties.get(name) if isinstance(properties, Mapping) else None
            if isinstance(wanted, Mapping):
                self._argument(node, name, value, wanted, (*path, name), item)
        for name in schema.get("required", ()):
            if name not in given:
                message = f"the workflow {node.target!r} needs {name!r} in its input"
                self._report.error("ARGUMENT_MISSING", self._place, path, message, expected=f"`{name}`", key=True)

    def _argument(
        self, node: CompiledNode, name: str, value: Any, wanted: Mapping[str, Any], path: DocPath, item: Schema
    ) -> None:
        if isinstance(value, Template):
            single = len(value.places) == 1 and value.literals == ("", "")
            actual: Schema = self._known(value.places[0], node, item) if single else _TEXT
        else:
            actual = _literal(value)
        if actual is not None and not fits(actual, wanted):
            message = (
                f"the argument {name!r} of {node.target!r} is {type_name(wanted)}, and this is {type_name(actual)}"
            )
            self._report.error("TEMPLATE_TYPE", self._place, path, message, expected=type_name(wanted))

    def _known(self, steps: tuple[str, ...], node: CompiledNode, item: Schema) -> Schema:
        """The schema of a place that was checked already, without saying anything again."""
        root, rest = steps[0], steps[1:]
        if root in ("index", "visits"):
            return _COUNT
        schema: Schema = None
        if root == "input":
            schema = self._flow.spec.input
        elif root == "item":
            schema = item
        elif len(rest) > 1 and rest[0] in self._flow.nodes and rest[1] == "output":
            schema, rest = self._output(self._flow.nodes[rest[0]]), rest[2:]
        found = walk(schema, rest)
        return None if isinstance(found, SchemaDeadEnd) else found


def _literal(value: Any) -> Schema:
    if isinstance(value, bool):
        return {"type": "boolean"}
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return {"type": name}
    return {"type": "null"} if value is None else None
