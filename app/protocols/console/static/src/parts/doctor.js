// How the server is (the checks of `holdfast doctor`), and how long it keeps what.
import { html } from "../html.js";
import { get } from "../api.js";
import { count, Time } from "../format.js";
import { Loading, Problem, useResource } from "../resource.js";
import { may } from "../state.js";
import { samples } from "./metrics_text.js";

const TONES = { ok: "ok", warning: "warn", wrong: "bad" };
const WORDS = { ok: "fine", warning: "look at this", wrong: "wrong" };

export function Doctor() {
  const found = useResource(() => get("/api/doctor"));
  const report = found.value;
  return html`<section class="card" aria-label="Doctor"><header><h2>Doctor</h2>
      ${report && html`<span class=${`chip ${report.ok ? "ok" : "bad"}`}>
        ${report.ok ? "nothing is wrong" : "something is wrong"}</span>
        <span class="muted small">checked <${Time} at=${report.checkedAt} /></span>`}
      <button class="button small" onClick=${found.reload}>Check again</button></header>
    <${Problem} error=${found.error} />
    ${found.loading && html`<div class="body"><${Loading} /></div>`}
    ${report && html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table">
      <thead><tr><th>Check</th><th>Result</th><th>Details</th></tr></thead>
      <tbody>${report.findings.map((one, index) => html`<tr key=${index}><td>${one.about}</td>
        <td><span class=${`chip ${TONES[one.level]}`}>${WORDS[one.level]}</span></td>
        <td>${one.message}${one.remedy && html`<div class="muted small">${one.remedy}</div>`}</td></tr>`)}</tbody>
      </table></div>`}</section>
    ${may("metrics:read") && html`<${Process} />`}`;
}

const FIGURES = [
  ["holdfast_sockets", "Open websockets", count],
  ["holdfast_requests_in_flight", "Requests in flight", count],
  ["holdfast_disk_free_bytes", "Free space on disk", (value) => `${(value / 1e9).toFixed(1)} GB`],
];

function Process() {
  const metrics = useResource(() => fetch("/metrics").then((answer) => (answer.ok ? answer.text() : "")));
  const known = FIGURES.map(([name, label, format]) => [label, samples(metrics.value ?? "", name)[0]?.value, format]);
  const shown = known.filter(([, value]) => value !== undefined);
  if (!shown.length) return null;
  return html`<section class="card" aria-label="Process"><header><h2>Process</h2></header><div class="body">
    <dl class="facts">${shown.map(([label, value, format]) => html`<dt key=${label}>${label}</dt><dd>${format(value)}
      </dd>`)}
    </dl></div></section>`;
}

const KEPT = {
  deltas: ["Pieces of streamed answers", "after a run has ended; the whole answer stays"],
  threads: ["Threads", "without an event; then they are deleted"],
  deleted: ["What was deleted", "then it is removed for good; only a tombstone with its last hash stays"],
};
const days = (value) => (value === null ? "for ever" : `${count(value)} ${value === 1 ? "day" : "days"}`);

export function Retention() {
  const found = useResource(() => get("/api/retention"));
  return html`<section class="card" aria-label="Retention"><header><h2>Retention</h2>
      <span class="muted small">the smaller of the two values counts; due threads are looked for every hour</span>
        </header>
    <${Problem} error=${found.error} />
    ${found.loading && html`<div class="body"><${Loading} /></div>`}
    ${found.value && html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table">
      <thead><tr><th>What</th><th>Is kept</th><th>Workspace says</th><th>Server allows</th></tr></thead>
      <tbody>${found.value.items.map((one) => html`<tr key=${one.what}>
        <td><strong>${KEPT[one.what][0]}</strong><div class="muted small">${KEPT[one.what][1]}</div></td>
        <td data-kept=${one.what}>${days(one.days)}</td><td>
          ${one.workspaceDays === null ? "–" : days(one.workspaceDays)}</td>
        <td>${one.settingDays === null ? "–" : days(one.settingDays)}</td></tr>`)}</tbody></table></div>`}
    <div class="body muted small">Set <code>retention</code> in the Runtime document, or
      <code>HOLDFAST_RETENTION_*</code> for the whole server.</div></section>`;
}
