// Home: how much is going on now, and over time.
import { html, useEffect } from "../html.js";
import { get } from "../api.js";
import { brief, cost, count, nameOf, oneLine, Status, Time } from "../format.js";
import { Loading, Problem, useNews, useResource } from "../resource.js";
import { link, route, setQuery } from "../router.js";
import { liveState, may } from "../state.js";
import { atLast, Plot } from "../parts/plot.js";
import { FirstSteps } from "../parts/first_steps.js";
import { providersOf } from "../parts/metrics_text.js";

const RANGES = [
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
];
const REFRESH_MS = 15000;

export function Page() {
  const range = route.value.query.range ?? "1h";
  const stats = useResource(() => get("/api/stats/series", { range }), [range]);
  const recent = useResource(() => get("/api/runs", { limit: 8 }));
  const reload = () => {
    stats.reload();
    recent.reload();
  };
  useNews(
    (frame) => frame.type.startsWith("runtime.request.") || frame.type.startsWith("runtime.interrupt."),
    reload,
    2000,
  );
  useEffect(() => {
    const timer = setInterval(stats.reload, REFRESH_MS);
    return () => clearInterval(timer);
  }, [range]);
  const found = stats.value;
  return html`<div class="page">
    <div class="page-head"><h1>Home</h1><div class="actions"><label class="hidden-label" for="range">Range</label>
      <select id="range" class="input" value=${range} onChange=${(event) => setQuery({ range: event.target.value })}>
        ${RANGES.map(([value, name]) => html`<option key=${value} value=${value}>Last ${name}</option>`)}
        </select></div></div>
    <${Problem} error=${stats.error} />
    ${!found && stats.loading && html`<${Loading} />`}
    ${found && html`<${Tiles} found=${found} /><${Plots} found=${found} />`}
    <div class="columns"><${Recent} recent=${recent} /><${Health} /></div>
  </div>`;
}

const sum = (points, name) => points.reduce((total, point) => total + point[name], 0);

function Tiles({ found }) {
  const { points } = found;
  const minutes = Math.max(1, (new Date(found.until) - new Date(found.from)) / 60000);
  const runs = sum(points, "runs");
  const failed = sum(points, "failed");
  const share = ((failed / runs) * 100).toFixed(1);
  const tiles = [
    ["Runs", count(runs), link("runs")],
    ["Runs per minute", (runs / minutes).toFixed(runs / minutes < 10 ? 1 : 0)],
    [
      "Failed",
      html`${count(failed)}${runs > 0 && html`<span class="small muted"> ${share}%</span>`}`,
      link("runs", { status: "failed" }),
    ],
    ["Tokens", brief(sum(points, "inputTokens") + sum(points, "outputTokens"))],
    ["Cost", cost(sum(points, "costUsd"))],
    ["Queue", count(found.queued), link("runs", { status: "queued" })],
    ["Running", count(found.running), link("runs", { status: "running" })],
    ["Waiting for people", count(found.openInterrupts), link("inbox")],
  ];
  return html`<div class="tiles">${tiles.map(([name, value, target]) => html`<div class="tile" key=${name}>
    <div class="name">${target ? html`<a href=${target}>${name}</a>` : name}</div><div class="value">${value}
    </div></div>`)}</div>`;
}

function Plots({ found }) {
  const times = found.points.map((point) => Date.parse(point.at) / 1000);
  const of = (name) => found.points.map((point) => point[name]);
  return html`<div class="columns">
    <${Plot} title="Runs" times=${times} lines=${[
      { name: "completed", values: of("completed"), colour: "#1f9d6b", fill: true },
      { name: "failed", values: of("failed"), colour: "#d1463c", fill: true },
      { name: "cancelled", values: of("cancelled"), colour: "#8a99a5" },
    ]} format=${brief} />
    <${Plot} title="Tokens" times=${times} lines=${[
      { name: "input", values: of("inputTokens"), colour: "#4f83d1", fill: true },
      { name: "output", values: of("outputTokens"), colour: "#8a78c9", fill: true },
    ]} format=${brief} />
    <${Plot} title="Cost" times=${times} lines=${[{ name: "US dollars", values: of("costUsd"), colour: "#c98a1c",
      fill: true }]} format=${cost} />
    <${Plot} title="Failed, of all runs" times=${times} lines=${[{ name: "share", points: true, values:
      found.points.map((point) =>
      (point.runs ? point.failed / point.runs : null)), colour: "#d1463c" }]} format=${(value) =>
      (value === null ? "–" : `${Math.round(value * 100)}%`)} inWords=${atLast} />
  </div>`;
}

function Recent({ recent }) {
  const items = recent.value?.items ?? [];
  if (recent.value && !items.length) return html`<${FirstSteps} />`;
  return html`<section class="card" aria-label="Latest runs"><header><h2>Latest runs</h2></header>
    ${items.map((run) => html`<a class="list-item" key=${run.id} href=${link("runs", run.id)}><div class="row">
      <${Status} value=${run.status} /><strong>${nameOf(run)}</strong><span class="truncate muted grow">
      ${oneLine(run.input, 80)}</span><span class="small muted"><${Time} at=${run.createdAt} /></span></div></a>`)}
  </section>`;
}

function Health() {
  const ready = useResource(() =>
    fetch("/readyz").then(async (answer) => ({ ok: answer.ok, ...(await answer.json()) })),
  );
  const metrics = useResource(() =>
    may("metrics:read") ? fetch("/metrics").then((answer) => answer.text()) : Promise.resolve(""),
  );
  const providers = providersOf(metrics.value ?? "");
  const value = ready.value;
  return html`<section class="card" aria-label="Server"><header><h2>Server</h2></header><div class="body">
    <dl class="facts">
    <dt>State</dt><dd>${value ? html`<span class=${`chip ${value.ok ? "ok" : "bad"}`}>${value.status ?? "not ready"}
      </span>` : "…"}</dd>
    <dt>This page</dt><dd><span class=${`chip ${liveState.value === "live" ? "ok" : "warn"}`}>${liveState.value}
      </span></dd>
    ${value?.sandbox && html`<dt>Sandbox</dt><dd>${value.sandbox.level}</dd>`}
    ${value?.bus && html`<dt>Replicas</dt><dd>${value.bus.replicas ?? value.bus.kind ?? oneLine(value.bus, 80)}</dd>`}
    <dt>Providers</dt><dd>${providers.length ? providers.map((one) => html`<div key=${one.name} class="row">
      <span class=${`chip ${one.errors ? "warn" : "ok"}`}>${one.errors ? `${count(one.errors)} errors` : "healthy"}
      </span> ${one.name} <span class="muted small">${count(one.calls)} calls</span>
      </div>`) : html`<span class="muted">no model call since the server started</span>`}</dd>
  </dl></div></section>`;
}
