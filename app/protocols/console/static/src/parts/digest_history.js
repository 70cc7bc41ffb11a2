// The workspaces that were loaded or refused, from the ledger; and what changed between two of them.
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { Time } from "../format.js";
import { Empty, Loading, Problem, useNews, useResource } from "../resource.js";
import { may } from "../state.js";
import { Diff } from "./value.js";

const SHOWN = 30;
const TONES = { added: "ok", removed: "bad", changed: "info" };

export function DigestHistory({ current }) {
  const load = () => get("/api/ledger", { type: "runtime.workspace.*", limit: 1000 });
  const found = useResource(() => (may("audit:read") ? load() : { items: [] }));
  useNews((frame) => frame.type.startsWith("runtime.workspace."), found.reload);
  const items = (found.value?.items ?? []).slice(0, SHOWN);
  if (!items.length) return null;
  return html`<section class="card" aria-label="History"><header><h2>History of the digest</h2></header>
    <div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table">
      <thead><tr><th>When</th><th>What</th><th>Digest</th><th>By</th></tr></thead>
      <tbody>${items.map((event) => html`<tr key=${event.id}><td><${Time} at=${event.at} /></td>
        <td>${event.type.replace("runtime.workspace.", "")}</td>
        <td class="mono" title=${event.payload.digest}>${event.payload.digest?.slice(0, 16) ?? ""}</td>
        <td>${event.actor}</td></tr>`)}</tbody></table></div></section>
    <${Comparison} key=${current} digests=${distinct(items, current)} />`;
}

// The digests that were in use, newest first, each once.
function distinct(items, current) {
  const loaded = items.filter((event) => event.type === "runtime.workspace.loaded");
  const known = new Map([[current, null], ...loaded.reverse().map((event) => [event.payload.digest, event.at])]);
  return [...known].reverse();
}

function Comparison({ digests }) {
  const [base, setBase] = useState(digests[1]?.[0] ?? null);
  const [head, setHead] = useState(digests[0][0]);
  if (digests.length < 2)
    return html`<section class="card" aria-label="Comparison"><${Empty} title="Nothing to compare yet">
      <p>As soon as the files change, two workspaces can be compared here.</p></${Empty}></section>`;
  const choose = (label, value, set) => html`<label class="field"><span>${label}</span>
    <select class="input mono" value=${value} onChange=${(event) => set(event.target.value)}>
      ${digests.map(([digest]) => html`<option key=${digest} value=${digest}>${digest.slice(0, 16)}</option>`)}
        </select></label>`;
  return html`<section class="card" aria-label="Comparison"><header><h2>What changed</h2></header>
    <div class="body stack"><div class="filters">${choose("From", base, setBase)}${choose("To", head, setHead)}</div>
      <${Changed} key=${`${base} ${head}`} base=${base} head=${head} /></div></section>`;
}

function Changed({ base, head }) {
  const found = useResource(() => get("/api/workspace/compare", { base, head }));
  if (found.loading) return html`<${Loading} />`;
  if (found.error) return html`<${Problem} error=${found.error} />`;
  const { documents, files, truncated } = found.value;
  if (!files.length) return html`<p class="notice">These two are the same.</p>`;
  return html`
    ${documents === null && html`<p class="notice warn">One of them no longer compiles, so only its files are
      compared.</p>`}
    ${documents?.length > 0 && html`<ul class="stack tight" aria-label="Changed documents">
      ${documents.map((one) => html`<li class="row" key=${`${one.kind} ${one.name}`}>
        <span class=${`chip ${TONES[one.change]}`}>${one.change}</span><span class="muted">${one.kind}</span>
        <strong>${one.name}</strong></li>`)}</ul>`}
    ${files.map((file) => html`<details key=${file.path} open=${files.length <= 5}><summary>
      <span class=${`chip ${TONES[file.change]}`}>${file.change}</span> <span class="mono">${file.path}
        </span></summary>
      ${file.diff === null ? html`<p class="muted small">Too long to compare, or not text.</p>` : html`<${Diff}
          text=${file.diff} />`}
      </details>`)}
    ${truncated && html`<p class="muted small">Not everything that changed is shown in full.</p>`}`;
}
