"""Draws the graph of a workflow: as JSON, as Mermaid text and as an SVG picture, with the state of each step if known.

Pure functions. Leaves to the views: what state a step of a run has.
"""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from app.core.json import JsonObject, present
from app.core.value import value
from app.workspace.compiled import CompiledNode, CompiledWorkflow
from app.workspace.flow_graph import END, START, FlowGraph

_COLOURS: Final = {
    "completed": "#d9f2df",
    "failed": "#f8d7da",
    "running": "#dbe9fb",
    "waiting": "#fff3cd",
    "cancelled": "#e9ecef",
}
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 180, 46, 40, 44, 20
_TEXT: Final = 24
"""Characters of a name that a box shows."""


def graph_json(flow: CompiledWorkflow, states: Mapping[str, JsonObject] | None = None) -> JsonObject:
    nodes = [_node_json(node, states) for node in flow.nodes.values()]
    edges = [present({"from": edge.source, "to": edge.target, "condition": edge.label}) for edge in flow.graph.edges]
    return {"workflow": flow.name, "adapter": flow.spec.adapter, "nodes": nodes, "edges": edges}


def _node_json(node: CompiledNode, states: Mapping[str, JsonObject] | None) -> JsonObject:
    spec = node.spec
    shown = {
        "id": node.id,
        "kind": node.kind,
        "ref": spec.ref,
        "agent": node.agent if node.kind == "skill" else None,
        "asks": node.target if node.kind == "phase" else None,
        "foreach": spec.foreach,
        "join": spec.join if spec.join == "any" else None,
        "attempts": spec.retry.attempts if spec.retry else None,
        "timeoutSeconds": spec.timeout_seconds,
        "waitSeconds": spec.wait.seconds if spec.wait else None,
        "title": spec.ask.title if spec.ask else None,
    }
    state = {} if states is None else {"state": states.get(node.id, {"status": "pending", "visits": 0})}
    return {**present(shown), **state}


def mermaid(flow: CompiledWorkflow, states: Mapping[str, JsonObject] | None = None) -> str:
    lines = ["flowchart TD", "  START((start))", "  END((end))"]
    names = {name: f"n{number}" for number, name in enumerate(flow.nodes)} | {START: START, END: END}
    for node in flow.nodes.values():
        opening, closing = {"ask": ("{{", "}}"), "wait": ("([", "])"), "workflow": ("[[", "]]")}.get(
            node.kind, ("[", "]")
        )
        text = f"{node.id}<br/>{_what(node)}"
        lines.append(f'  {names[node.id]}{opening}"{_plain(text)}"{closing}')
    for edge in flow.graph.edges:
        label = f'|"{_plain(edge.label)}"|' if edge.label else ""
        lines.append(f"  {names[edge.source]} -->{label} {names[edge.target]}")
    for name, state in (states or {}).items():
        if name in names and state["status"] in _COLOURS:
            lines.append(f"  style {names[name]} fill:{_COLOURS[state['status']]}")
    return "\n".join(lines) + "\n"


def _what(node: CompiledNode) -> str:
    if node.kind == "ask":
        assert node.spec.ask is not None
        return node.spec.ask.kind
    if node.kind == "wait":
        assert node.spec.wait is not None
        return f"wait {node.spec.wait.seconds:g} s"
    if node.kind == "phase":
        return node.target
    each = ", for each" if node.foreach is not None else ""
    return f"{node.kind} {node.target}{each}"


def _plain(text: str) -> str:
    """Without what ends a text in Mermaid."""
    return text.replace('"', "'").replace("`", "'").replace("\n", " ")


@value(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    text: str
    below: str
    colour: str

    @property
    def middle(self) -> float:
        return self.x + _WIDTH / 2


def svg(flow: CompiledWorkflow, states: Mapping[str, JsonObject] | None = None) -> str:
    """Steps in rows, each below those that lead to it; edges back are drawn at the side."""
    rows = _rows(flow.graph)
    widest = max(len(row) for row in rows)
    width = _MARGIN * 2 + widest * _WIDTH + (widest - 1) * _GAP_X + 60
    height = _MARGIN * 2 + len(rows) * _HEIGHT + (len(rows) - 1) * _GAP_Y
    boxes: dict[str, _Box] = {}
    for number, row in enumerate(rows):
        left = (width - 60 - len(row) * _WIDTH - (len(row) - 1) * _GAP_X) / 2
        for place, name in enumerate(row):
            status = (states or {}).get(name, {}).get("status", "")
            node = flow.nodes.get(name)
            below = "" if node is None else _what(node)
            x, y = left + place * (_WIDTH + _GAP_X), _MARGIN + number * (_HEIGHT + _GAP_Y)
            boxes[name] = _Box(x, y, name, below, _COLOURS.get(status, "#ffffff"))
    parts = [_line(boxes[e.source], boxes[e.target], e.label, width) for e in flow.graph.edges]
    parts += [_rectangle(box) for box in boxes.values()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="12">'
        '<defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker></defs>'
        f"<title>{escape(flow.name)}</title>"
    )
    return head + "".join(parts) + "</svg>\n"


def _rows(graph: FlowGraph) -> list[list[str]]:
    """By the longest way from START, not counting edges back."""
    depth: dict[str, int] = {START: 0}
    order = [START, *graph.nodes]
    place = {name: number for number, name in enumerate(order)}
    for name in order:
        for edge in graph.outgoing.get(name, ()):
            if edge.target != END and place[edge.target] > place[name]:
                depth[edge.target] = max(depth.get(edge.target, 0), depth.get(name, 0) + 1)
    for name in graph.nodes:
        depth.setdefault(name, 1)
    depth[END] = max(depth.values()) + 1
    rows: list[list[str]] = [[] for _ in range(depth[END] + 1)]
    for name in [*order, END]:
        rows[depth[name]].append(name)
    return [row for row in rows if row]


def _rectangle(box: _Box) -> str:
    text, below = escape(box.text[:_TEXT]), escape(box.below[: _TEXT + 2])
    return (
        f'<g><rect x="{box.x:g}" y="{box.y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="{box.colour}" '
        f'stroke="#555"/><text x="{box.middle:g}" y="{box.y + (20 if below else 28):g}" text-anchor="middle" '
        f'font-weight="bold">{text}</text>'
        f'<text x="{box.middle:g}" y="{box.y + 36:g}" text-anchor="middle" fill="#555">{below}</text></g>'
    )


def _line(start: _Box, end: _Box, label: str | None, width: float) -> str:
    style = 'fill="none" stroke="#555" marker-end="url(#a)"'
    if end.y > start.y:
        y1, y2 = start.y + _HEIGHT, end.y
        path = (
            f"M{start.middle:g},{y1:g} C{start.middle:g},{y1 + 20:g} {end.middle:g},{y2 - 20:g} {end.middle:g},{y2:g}"
        )
        at = ((start.middle + end.middle) / 2 + 6, (y1 + y2) / 2)
    else:
        side, y1, y2 = width - 20, start.y + _HEIGHT / 2, end.y + _HEIGHT / 2
        path = f"M{start.x + _WIDTH:g},{y1:g} C{side:g},{y1:g} {side:g},{y2:g} {end.x + _WIDTH:g},{y2:g}"
        at = (side - 40, (y1 + y2) / 2)
    text = f'<text x="{at[0]:g}" y="{at[1]:g}" fill="#555">{escape(label)}</text>' if label else ""
    return f'<path d="{path}" {style}/>{text}'


def flow_json(flow: CompiledWorkflow, *, available: bool) -> JsonObject:
    """The workflow as a list shows it."""
    spec = flow.spec
    shown: dict[str, Any] = {
        "name": flow.name,
        "description": flow.description,
        "labels": dict(flow.labels),
        "adapter": spec.adapter,
        "available": available,
        "nodes": len(flow.nodes),
        "input": spec.input,
        "output": spec.output,
        "maxVisits": flow.graph.max_visits,
    }
    return shown
