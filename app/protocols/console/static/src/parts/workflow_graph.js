// A graph laid out by dagre and drawn as SVG: workflows with the states of their nodes, and who uses whom.
import { html, useEffect, useState } from "../html.js";
import { get } from "../api.js";
import { Empty, Loading, Problem } from "../resource.js";

export function WorkflowGraph({ source, query = {}, version = "" }) {
  const [found, setFound] = useState({ loading: true });
  useEffect(() => {
    let current = true;
    get(source, query).then(
      (graph) => {
        if (current) setFound({ graph });
      },
      (error) => {
        if (current) setFound({ error });
      },
    );
    return () => {
      current = false;
    };
  }, [source, version, JSON.stringify(query)]);
  if (found.loading) return html`<div class="graph"><${Loading} /></div>`;
  if (found.error) return html`<div class="graph"><${Problem} error=${found.error} /></div>`;
  const { nodes, edges } = read(found.graph);
  return html`<${Graph} nodes=${nodes} edges=${edges} label="Workflow graph" />`;
}

function read(graph) {
  const nodes = graph.nodes.map((node) => ({
    id: node.id,
    title: node.id,
    sub: [node.ref?.replace(/^(\w+?)s\./, "$1 ") ?? node.kind, node.state?.visits > 1 ? `×${node.state.visits}` : ""]
      .filter(Boolean)
      .join(" "),
    state: node.state?.status ?? "",
  }));
  const edges = graph.edges.map((edge) => ({
    from: edge.from,
    to: edge.to,
    taken: graph.order?.includes(edge.from) && graph.order.includes(edge.to),
  }));
  for (const end of ["START", "END"])
    if (edges.some((edge) => edge.from === end || edge.to === end))
      nodes.push({ id: end, title: end === "START" ? "start" : "end", sub: "", state: "" });
  return { nodes, edges };
}

const width = (node) =>
  Math.min(
    260,
    Math.max(110, 26 + Math.max(7.4 * node.title.length, 6.6 * ((node.sub ?? "").length + (node.state ? 12 : 0)))),
  );
const HEIGHT = 46;
const MAX_NODES = 300;

export function Graph({ nodes, edges, label, choose, direction = "TB" }) {
  const [layout, setLayout] = useState(null);
  const shape = JSON.stringify([
    nodes.map((node) => [node.id, node.title]),
    edges.map((edge) => [edge.from, edge.to]),
    direction,
  ]);
  useEffect(() => {
    let current = true;
    import("../../vendor/dagre.js").then((dagre) => {
      if (current) setLayout(arrange(dagre, nodes.slice(0, MAX_NODES), edges, direction));
    });
    return () => {
      current = false;
    };
  }, [shape]);
  if (!nodes.length) return html`<${Empty} title="Nothing to draw" />`;
  if (!layout) return html`<div class="graph"><${Loading} /></div>`;
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const taken = new Map(edges.map((edge) => [`${edge.from} ${edge.to}`, edge.taken]));
  return html`<div class="graph" tabindex="0" role="region" aria-label=${label}>
    <svg width=${layout.width} height=${layout.height}
    viewBox=${`${layout.left} ${layout.top} ${layout.width} ${layout.height}`} role="img"
    aria-label=${`${label}: ${nodes.length} nodes`}>
    <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
      <path d="M0 0 8 4 0 8z" /></marker></defs>
    ${layout.edges.map((edge) => html`<path key=${`${edge.from} ${edge.to}`} d=${edge.path}
        class=${taken.get(`${edge.from} ${edge.to}`) ? "taken" : ""} marker-end="url(#arrow)" />`)}
    ${layout.nodes.map((place) => {
      const node = byId.get(place.id);
      if (!node) return null;
      return html`<g key=${place.id} class=${`${node.state} ${node.focus ? "focus" : ""}`}
          transform=${`translate(${place.x - place.width / 2} ${place.y - HEIGHT / 2})`} data-node=${node.id}
          data-state=${node.state} onClick=${choose ? () => choose(node) : undefined}>
      <rect class="node" width=${place.width} height=${HEIGHT} rx="9" /><text x="12" y=${node.sub ? 20 : 28}>
        ${cut(node.title, place.width)}</text>${node.sub && html`<text class="sub" x="12" y="36">
        ${cut(`${node.sub}${node.state ? ` · ${node.state}` : ""}`, place.width)}</text>`}<title>${node.title}
        </title></g>`;
    })}
  </svg></div>`;
}

const cut = (said, size) => {
  const fits = Math.floor((size - 20) / 6.6);
  return said.length > fits ? `${said.slice(0, fits - 1)}…` : said;
};

function arrange({ Graph: Layout, layout }, nodes, edges, direction) {
  const graph = new Layout();
  graph.setGraph({ rankdir: direction, nodesep: 26, ranksep: 44, marginx: 6, marginy: 6 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) graph.setNode(node.id, { width: width(node), height: HEIGHT });
  for (const edge of edges)
    if (graph.hasNode(edge.from) && graph.hasNode(edge.to) && edge.from !== edge.to)
      graph.setEdge(edge.from, edge.to);
  layout(graph);
  const size = graph.graph();
  // Edges may bend beyond the nodes, which dagre does not count.
  const points = graph.edges().flatMap((edge) => graph.edge(edge).points);
  const left = Math.min(0, ...points.map((point) => point.x - 6));
  const top = Math.min(0, ...points.map((point) => point.y - 6));
  const right = Math.max(size.width, ...points.map((point) => point.x + 6));
  const bottom = Math.max(size.height, ...points.map((point) => point.y + 6));
  return {
    left,
    top,
    width: Math.ceil(right - left),
    height: Math.ceil(bottom - top),
    nodes: graph.nodes().map((id) => ({ id, ...graph.node(id) })),
    edges: graph.edges().map((edge) => ({ from: edge.v, to: edge.w, path: path(graph.edge(edge).points) })),
  };
}

function path([first, ...rest]) {
  let made = `M${first.x} ${first.y}`;
  for (let index = 0; index < rest.length - 1; index += 1) {
    const middle = { x: (rest[index].x + rest[index + 1].x) / 2, y: (rest[index].y + rest[index + 1].y) / 2 };
    made += `Q${rest[index].x} ${rest[index].y} ${middle.x} ${middle.y}`;
  }
  const last = rest.at(-1);
  return `${made}L${last.x} ${last.y}`;
}
