// Evaluations: datasets, evaluations with their scores against a baseline, pass rates of gates.
import { html, useEffect, useState } from "../html.js";
import { attempt, get, post } from "../api.js";
import { count, oneLine, Status, Time } from "../format.js";
import { Empty, Problem, useResource } from "../resource.js";
import { link } from "../router.js";
import { may } from "../state.js";
import { atLast, Plot } from "../parts/plot.js";

const REFRESH_MS = 1500;
const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(value * 1000) / 10}%`);

export function Page() {
  const evaluations = useResource(() => get("/api/evals", { limit: 50 }));
  const datasets = useResource(() => get("/api/datasets", { limit: 100 }));
  const gates = useResource(() => get("/api/gates"));
  const agents = useResource(() => get("/api/agents"));
  const [chosen, choose] = useState(null);
  const items = evaluations.value?.items ?? [];
  // Evaluations are recorded in a thread of the system, of which the websocket brings no news.
  const running = items.some((one) => one.status === "running");
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(evaluations.reload, REFRESH_MS);
    return () => clearInterval(timer);
  }, [running]);
  return html`<div class="page">
    <div class="page-head"><h1>Evals</h1></div>
    <${Problem} error=${evaluations.error ?? datasets.error} />
    ${items.length > 1 && html`<${ScorePlot} items=${items} />`}
    <section class="card" aria-label="Evaluations"><header><h2>Evaluations</h2></header>
      ${
        evaluations.value && !items.length
          ? html`<${Empty} title="No evaluation yet">
            <p>An evaluation runs every case of a dataset through an agent and scores the answers. Keep runs of the <a
            href=${link("playground")}>playground</a> as cases, then start one below.</p></${Empty}>`
          : html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table"><thead><tr>
            <th>Evaluation</th><th>Status</th><th>Agent</th><th>Dataset</th><th>Scores</th><th>Verdict</th>
            <th>Started</th></tr></thead><tbody>
          ${items.map((one) => html`<tr key=${one.id}><td>
            <button class="button small plain mono" onClick=${() => choose(one.id)}>${one.id.slice(-8)}</button></td>
            <td><${Status} value=${one.status} /> ${one.status === "running" && one.progress ?
            `${one.progress.done}/${one.progress.total}` : ""}</td><td>${one.agent}</td><td>
            ${one.dataset} v${one.version}</td><td>${Object.entries(one.scores ?? {}).map(([name, score]) => html`<div
            key=${name}>${name} ${percent(score.mean)} <${Difference} of=${score} />
            </div>`)}</td><td>${one.passed === null ? "–" : html`<span class=${`chip ${one.passed ? "ok" : "bad"}`}>
            ${one.passed ? "passed" : "not passed"}</span>`}</td><td><${Time} at=${one.startedAt} /></td></tr>`)}
            </tbody></table></div>`
      }</section>
    ${chosen && html`<${Results} key=${chosen} id=${chosen} />`}
    <div class="columns"><${Datasets} datasets=${datasets.value?.items ?? []} agents=${agents.value?.items ?? []}
        started=${evaluations.reload} /><${Gates} gates=${gates.value?.items ?? []} /></div>
  </div>`;
}

function ScorePlot({ items }) {
  const ordered = [...items].filter((one) => one.scores).reverse();
  const names = [...new Set(ordered.flatMap((one) => Object.keys(one.scores)))].slice(0, 4);
  const colours = ["#1f9d8f", "#4f83d1", "#8a78c9", "#c98a1c"];
  if (ordered.length < 2 || !names.length) return null;
  const line = (name, index, value) => ({
    values: ordered.map((one) => value(one.scores[name]) ?? null),
    colour: colours[index],
    points: true,
  });
  const lines = names.flatMap((name, index) => [
    { ...line(name, index, (score) => score?.mean), name },
    { ...line(name, index, (score) => score?.baseline?.mean), name: `${name}, baseline`, dashed: true },
  ]);
  return html`<${Plot} title="Scores of evaluations" times=${ordered.map((one) => Date.parse(one.startedAt) / 1000)}
      lines=${lines.filter((one) => one.values.some((value) => value !== null))} format=${percent}
      inWords=${atLast} />`;
}

// What changed against the baseline, on the cases that both have.
function Difference({ of: { baseline } }) {
  if (!baseline) return null;
  const sign = baseline.difference > 0 ? "+" : "";
  const kind = baseline.difference > 0 ? "ok" : baseline.difference < 0 ? "bad" : "";
  const cases = `${count(baseline.better)} cases better, ${count(baseline.worse)} worse`;
  return html`<span class=${`chip ${kind}`} title=${cases}>
    ${sign}${percent(baseline.difference)} against ${percent(baseline.mean)}</span>`;
}

function Results({ id }) {
  const found = useResource(() => get(`/api/evals/${encodeURIComponent(id)}/results`), [id]);
  const cases = found.value?.cases ?? [];
  return html`<section class="card" aria-label="Results"><header><h2>Results</h2>
    <a class="button small" href=${`/api/evals/${encodeURIComponent(id)}/report`} download="report.html">Report</a>
    </header><${Problem} error=${found.error} />
    <div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table"><thead><tr><th>Case</th>
      <th>Output</th><th>Scores</th><th>Run</th></tr></thead><tbody>
    ${cases.slice(0, 200).map((one, index) => html`<tr key=${index}><td class="mono">
      ${one.caseId ?? one.id ?? index + 1}</td><td>${oneLine(one.output ?? one.error, 160)}</td><td>
      ${oneLine(one.scores ?? one.results, 120)}</td><td>
      ${one.runId && html`<a href=${link("runs", one.runId)}>open</a>`}</td></tr>`)}</tbody></table></div></section>`;
}

function Datasets({ datasets, agents, started }) {
  const start = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const wanted = given.gates
      .split(/[\s,]+/)
      .filter(Boolean)
      .map((one) => one.split(":"));
    const gates = Object.fromEntries(wanted.map(([name, score]) => [name, Number(score ?? 1)]));
    await attempt(
      () =>
        post("/api/evals", {
          dataset: given.dataset,
          agent: given.agent,
          gates,
          ...(given.baseline ? { baseline: "latest" } : {}),
        }),
      "Started.",
    );
    started();
  };
  return html`<section class="card" aria-label="Datasets"><header><h2>Datasets</h2></header>
    ${
      !datasets.length
        ? html`<${Empty} title="No dataset yet">
          <p>A dataset is a list of cases: an input, and what is expected of it. <code>POST /api/datasets</code> makes
          one, also from runs that were recorded.</p></${Empty}>`
        : html`
    ${datasets.map((one) => html`<div class="list-item" key=${one.name}><div class="row"><strong>${one.name}</strong>
      <span class="chip">v${one.version}</span><span class="muted small">${count(one.cases)} cases, ${one.source}
      </span></div></div>`)}
    ${may("runs:write") && html`<form class="composer" onSubmit=${start}><label class="field"><span>Dataset</span>
      <select class="input" name="dataset">${datasets.map((one) => html`<option key=${one.name}>${one.name}
      </option>`)}</select></label><label class="field"><span>Agent</span><select class="input" name="agent">
      ${agents.map((one) => html`<option key=${one.name}>${one.name}</option>`)}</select></label><label class="field">
      <span>Evaluators</span><input class="input" name="gates" placeholder="name:score, default: the agent's gates" />
      </label><label class="row small muted"><input type="checkbox" name="baseline" /> against the latest</label>
      <button class="button primary">Evaluate</button></form>`}`
    }</section>`;
}

function Gates({ gates }) {
  return html`<section class="card" aria-label="Gates"><header><h2>Pass rates of gates</h2></header>
    ${!gates.length ? html`<${Empty} title="No gate was evaluated">
      <p>An agent's <code>gates</code> score its runs, in the shadow or before the answer leaves.</p>
      </${Empty}>` : html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table">
      <thead><tr><th>Gate</th><th>Agent</th><th>Mode</th><th class="number">Evaluated</th>
      <th class="number">Passed</th></tr></thead><tbody>${gates.map((one, index) => html`<tr key=${index}><td>
      ${one.gate}</td><td>${one.agent ?? "–"}</td><td>${one.mode}</td><td class="number">${count(one.evaluated)}</td>
      <td class="number">${percent(one.passRate)}</td></tr>`)}</tbody></table></div>`}</section>`;
}
