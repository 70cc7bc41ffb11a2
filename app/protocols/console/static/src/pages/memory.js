// Memory: what agents remember, where it comes from, and forgetting it.
import { html, useState } from "../html.js";
import { attempt, get, post, remove } from "../api.js";
import { count, Status, Time } from "../format.js";
import { Empty, Problem, useNews, useResource } from "../resource.js";
import { link, route, setQuery } from "../router.js";
import { may } from "../state.js";

const MAX_SEARCHED = 20; // namespaces; a filter narrows them
const STATUSES = ["proposed", "accepted", "rejected", "superseded", "forgotten"];

export function Page() {
  const { query } = route.value;
  const overview = useResource(() => get("/api/memory"));
  const records = useResource(
    () => get("/api/memory/records", { namespace: query.namespace, status: query.status, limit: 200 }),
    [query.namespace, query.status],
  );
  const [hits, setHits] = useState(null);
  const [chosen, choose] = useState(null);
  useNews(
    (frame) => frame.type.startsWith("runtime.memory."),
    () => {
      overview.reload();
      records.reload();
    },
  );
  const memories = overview.value?.memories ?? [];
  const namespaces = Object.entries(overview.value?.namespaces ?? {});
  const search = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    if (!given.query) {
      setHits(null);
      return;
    }
    const places = (query.namespace ? [query.namespace] : namespaces.map(([name]) => name)).slice(0, MAX_SEARCHED);
    const wanted = { query: given.query, memory: given.memory, limit: 50 };
    const found = await attempt(() =>
      Promise.all(places.map((namespace) => post("/api/memory/search", { ...wanted, namespace }))),
    );
    if (found) setHits(found.flatMap((one) => one.items).sort((one, other) => other.score - one.score));
  };
  const shown = hits ?? records.value?.items ?? [];
  const forget = async (record) => {
    await attempt(
      () => remove(`/api/memory/records/${encodeURIComponent(record.id)}`),
      "Forgotten: the text is deleted, a tombstone stays.",
    );
    choose(null);
    records.reload();
    setHits(null);
  };
  const decide = async (record, decision) => {
    await attempt(
      () => post(`/api/memory/records/${encodeURIComponent(record.id)}/decide`, { decision }),
      decision === "accept" ? "Accepted." : "Rejected.",
    );
    records.reload();
  };
  return html`<div class="page">
    <div class="page-head"><h1>Memory</h1><span class="muted small">
      ${count(namespaces.reduce((sum, [, one]) => sum + (typeof one === "number" ? one :
      Object.values(one).reduce((total, number) => total + number, 0)), 0))} records</span></div>
    <${Problem} error=${overview.error ?? records.error} />
    <div class="filters">
      ${
        memories.length > 0 &&
        html`<form class="filters" role="search" onSubmit=${search}><label class="field"><span>Search</span>
          <input class="input" data-search name="query" type="search" placeholder="What do agents know about…"
          onInput=${(
          event,
        ) => {
          if (!event.target.value) setHits(null);
        }} /></label><label class="field"><span>Memory</span><select class="input" name="memory">
          ${memories.map((one) => html`<option key=${one.name}>${one.name}</option>`)}</select></label>
          <button class="button">Search</button></form>`
      }
      <label class="field"><span>Status</span><select class="input" value=${query.status ?? ""} onChange=${(event) =>
        setQuery({ status: event.target.value })}><option value="">Any</option>
        ${STATUSES.map((one) => html`<option key=${one}>${one}</option>`)}</select></label>
      <label class="field"><span>Namespace</span><select class="input" value=${query.namespace ?? ""}
          onChange=${(event) => setQuery({ namespace: event.target.value })}><option value="">Any</option>
          ${namespaces.map(([name]) => html`<option key=${name}>${name}</option>`)}</select></label></div>
    <section class="card" aria-label="Records">${
      records.value && !shown.length
        ? html`<${Empty} title="Nothing is remembered">
          <p>An agent with <code>memory</code> in its document proposes what to keep; a policy or a person
          decides. ${memories.length ? "" : "This workspace declares no memory."}</p></${Empty}>`
        : html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table"><table class="table"><thead><tr>
          <th>Text</th><th>Status</th><th>Kind</th><th>Namespace</th><th>From</th><th>Updated</th><th>
          <span class="hidden-label">Actions</span></th></tr></thead><tbody>
        ${shown.map(
          (
            one,
          ) => html`<tr key=${one.id}><td><button class="button small plain" onClick=${() => choose(one)}>
            ${one.text ?? "(forgotten)"}</button></td><td><${Status} value=${one.status} /></td><td>${one.kind}</td>
            <td class="mono">${one.namespace}</td><td>
            ${one.runId ? html`<a href=${link("runs", one.runId)}>run</a>` : one.source}</td><td>
            <${Time} at=${one.updatedAt} /></td>
          <td class="nowrap">${one.status === "proposed" && may("interrupts:answer") && html`<button
              class="button small" onClick=${() => decide(one, "accept")}>Accept</button> <button class="button small"
              onClick=${() => decide(one, "reject")}>Reject</button>`} ${one.text !== null && may("memory:write") &&
              html`<button class="button small danger" onClick=${() => forget(one)}>Forget</button>`}</td></tr>`,
        )}</tbody></table></div>`
    }</section>
    ${
      chosen &&
      html`<section class="card" aria-label="Provenance"><header><h2>Provenance</h2>
        <button class="button small" onClick=${() => choose(null)}>Close</button></header><div class="body">
        <dl class="facts">
      <dt>Text</dt><dd>${chosen.text}</dd><dt>Id</dt><dd class="mono">${chosen.id}</dd><dt>Memory</dt><dd>
        ${chosen.memory}</dd><dt>Confidence</dt><dd>${chosen.confidence}</dd><dt>Source</dt><dd>${chosen.source}</dd>
        <dt>Created</dt><dd><${Time} at=${chosen.createdAt} /> by ${chosen.createdBy ?? "–"}</dd><dt>Decided by</dt>
        <dd>${chosen.decidedBy ?? "–"} ${chosen.reason ?? ""}</dd><dt>Last used</dt><dd>
        <${Time} at=${chosen.lastUsedAt} /></dd><dt>Expires</dt><dd><${Time} at=${chosen.expiresAt} /></dd>
        <dt>Cites</dt><dd class="mono">${(chosen.sources ?? []).map((one) => (typeof one === "string" ? one :
        (one.eventId ?? one.id))).join(", ") || "–"}</dd></dl></div></section>`
    }
  </div>`;
}
