// The workspace: who uses whom as a graph, what is wrong with the files, agents, tools, skills and workflows.
import { html, useState } from "../html.js";
import { attempt, get, post } from "../api.js";
import { Time } from "../format.js";
import { Empty, Loading, Problem, useNews, useResource } from "../resource.js";
import { link, route } from "../router.js";
import { may } from "../state.js";
import { Graph, WorkflowGraph } from "../parts/workflow_graph.js";
import { DigestHistory } from "../parts/digest_history.js";
import { Value } from "../parts/value.js";

const MAX_LISTED = 200;

export function Page() {
  const status = useResource(() => get("/api/workspace"));
  const parts = useResource(() =>
    Promise.all([get("/api/agents"), get("/api/tools"), get("/api/workflows")]).then(
      ([agents, tools, workflows]) => ({ agents: agents.items, tools: tools.items, workflows: workflows.items }),
    ),
  );
  const [chosen, choose] = useState(null);
  useNews(
    (frame) => frame.type.startsWith("runtime.workspace."),
    () => {
      status.reload();
      parts.reload();
    },
  );
  const reload = async () => {
    await attempt(() => post("/api/workspace/reload"), "Read again.");
    status.reload();
    parts.reload();
  };
  const found = status.value;
  const all = parts.value;
  return html`<div class="page">
    <div class="page-head"><h1>Workspace</h1>${found && html`<span class="chip mono" title=${found.digest}>
      ${found.digest.slice(0, 12)}</span><span class="muted small">loaded <${Time} at=${found.loadedAt} /></span>`}
      <div class="actions">${may("workspace:reload") && html`<button class="button"
          onClick=${reload}>Read the files again</button>`}</div></div>
    <${Problem} error=${status.error ?? parts.error} />
    ${found && html`<${Diagnostics} found=${found} />`}
    ${!all && !parts.error && html`<${Loading} />`}
    ${
      all &&
      html`<section class="card" aria-label="Who uses what"><header><h2>Who uses what</h2>
        <span class="muted small">click a node for its document</span></header>
        <${UsageGraph} all=${all} skills=${found?.skills ?? []} choose=${choose} /></section>
      ${(chosen ?? route.value.parts[1]) && html`<${Document} chosen=${chosen ?? { kind: "workflow", name:
        route.value.parts[1] }} all=${all} />`}
      <div class="columns"><${Agents} agents=${all.agents} choose=${choose} />
        <${Tools} tools=${all.tools} choose=${choose} /></div>
      <${Workflows} workflows=${all.workflows} choose=${choose} />`
    }
    ${found && html`<${DigestHistory} current=${found.digest} />`}
  </div>`;
}

function Diagnostics({ found }) {
  const rejected = found.rejected ?? [];
  const notes = found.diagnostics ?? [];
  if (!rejected.length && !notes.length)
    return html`<p class="notice ok" role="status">The files have no mistakes.</p>`;
  return html`${rejected.length > 0 && html`<p class="notice bad"
      role="alert">The newest files have mistakes; the workspace before them stays in use.</p>`}
    <section class="card" aria-label="Diagnostics"><header><h2>Diagnostics</h2></header>
      <div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table"><thead><tr>
      <th>Severity</th><th>Where</th><th>What</th></tr></thead>
    <tbody>${[...rejected, ...notes].slice(0, MAX_LISTED).map((one, index) => html`<tr key=${index}><td>
      <span class=${`chip ${one.severity === "error" ? "bad" : "warn"}`}>${one.severity ?? "note"}</span></td>
      <td class="mono">${one.file ?? one.source ?? ""}${one.line ? `:${one.line}` : ""}</td><td>${one.message}
      ${one.remedy ? html`<div class="muted small">${one.remedy}</div>` : null}</td></tr>`)}
      </tbody></table></div></section>`;
}

function UsageGraph({ all, skills, choose }) {
  const nodes = [];
  const edges = [];
  const add = (kind, name) => nodes.push({ id: `${kind} ${name}`, title: name, sub: kind, state: "", kind, name });
  for (const flow of all.workflows) add("workflow", flow.name);
  for (const agent of all.agents) add("agent", agent.name);
  for (const tool of all.tools) add("tool", tool.name);
  for (const skill of skills) add("skill", skill);
  for (const agent of all.agents) {
    for (const tool of agent.tools) edges.push({ from: `agent ${agent.name}`, to: `tool ${tool}` });
    for (const skill of agent.skills) edges.push({ from: `agent ${agent.name}`, to: `skill ${skill}` });
    for (const other of agent.subagents) edges.push({ from: `agent ${agent.name}`, to: `agent ${other}` });
  }
  const flows = useResource(
    () =>
      Promise.all(
        all.workflows.slice(0, 20).map((flow) => get(`/api/workflows/${encodeURIComponent(flow.name)}/graph`)),
      ),
    [all.workflows.length],
  );
  for (const graph of flows.value ?? []) {
    for (const node of graph.nodes) {
      const [kind, name] = (node.ref ?? "").split(/\.(.*)/s);
      if (name) edges.push({ from: `workflow ${graph.workflow}`, to: `${kind.replace(/s$/, "")} ${name}` });
    }
  }
  return html`<${Graph} nodes=${nodes} edges=${edges} label="Who uses what" direction="LR" choose=${(node) => choose({
    kind: node.kind, name: node.name })} />`;
}

function Document({ chosen, all }) {
  const { kind, name } = chosen;
  const found = useResource(
    () =>
      kind === "agent"
        ? get(`/api/agents/${encodeURIComponent(name)}`)
        : kind === "tool"
          ? get(`/api/tools/${encodeURIComponent(name)}`)
          : kind === "workflow"
            ? get(`/api/workflows/${encodeURIComponent(name)}`)
            : Promise.resolve({ name }),
    [kind, name],
  );
  return html`<section class="card" aria-label="Document"><header><span class="chip">${kind}</span><h2>${name}</h2>
    ${kind === "agent" && html`<a class="button small" href=${link("playground", { agent: name })}>Talk to it</a>
      <a class="button small" href=${link("runs", { agent: name })}>Its runs</a>`}
    ${kind === "workflow" && html`<a class="button small" href=${link("runs", { workflow: name })}>Its runs</a>`}
      </header>
    <div class="body stack"><${Problem} error=${found.error} />
      ${found.value && html`<${Value} value=${found.value} label="Compiled document" />`}</div>
    ${kind === "workflow" && all.workflows.some((flow) => flow.name === name) && html`<${WorkflowGraph}
        source=${`/api/workflows/${encodeURIComponent(name)}/graph`} />`}</section>`;
}

function Agents({ agents, choose }) {
  if (!agents.length)
    return html`<section class="card"><${Empty} title="No agents">
      <p>An agent is a YAML document of the kind <code>Agent</code> in the workspace's folder.</p></${Empty}>
      </section>`;
  return html`<section class="card" aria-label="Agents"><header><h2>Agents</h2></header>
    ${agents.map((agent) => html`<button class="list-item" key=${agent.name} onClick=${() => choose({ kind: "agent",
    name: agent.name })}><div class="row"><strong>${agent.name}</strong><span class="chip">${agent.backend}</span>
    ${!agent.available && html`<span class="chip bad">not installed</span>`}</div><div class="muted small">
    ${agent.description}</div></button>`)}</section>`;
}

function Tools({ tools, choose }) {
  return html`<section class="card" aria-label="Tools"><header><h2>Tools</h2></header>
    ${tools.slice(0, MAX_LISTED).map((tool) => html`<button class="list-item" key=${tool.name} onClick=${() =>
    choose({ kind: "tool", name: tool.name })}><div class="row"><strong class="mono">${tool.name}</strong>
    <span class="chip">${tool.effect ?? tool.kind ?? ""}</span></div><div class="muted small">${tool.description}
    </div></button>`)}</section>`;
}

function Workflows({ workflows, choose }) {
  if (!workflows.length)
    return html`<section class="card"><${Empty} title="No workflows">
      <p>A document of the kind <code>Workflow</code> joins agents, tools and questions into a graph.</p></${Empty}>
      </section>`;
  return html`<section class="card" aria-label="Workflows"><header><h2>Workflows</h2></header>
    ${workflows.map((flow) => html`<button class="list-item" key=${flow.name} onClick=${() => choose({ kind:
    "workflow", name: flow.name })}><div class="row"><strong>${flow.name}</strong><span class="chip">
    ${flow.nodes} nodes</span></div><div class="muted small">${flow.description}</div></button>`)}</section>`;
}
