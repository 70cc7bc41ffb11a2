// The filters of lists of runs. Typing is passed on after a pause.
import { html, useEffect, useRef } from "../html.js";
import { attempt, get, signInto } from "../api.js";
import { useResource } from "../resource.js";
import { may, me } from "../state.js";
import { ThreadTitle } from "./thread_list.js";

const STATUSES = ["queued", "running", "waiting", "completed", "failed", "cancelled"];
const TIMES = [
  ["", "Any time"],
  ["15m", "Last 15 minutes"],
  ["1h", "Last hour"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
];
const PAUSE_MS = 300;

// Whoever may manage all tenants looks at one at a time: the session acts in it, on every page.
function TenantFilter({ query, change }) {
  const allowed = may("tenants:manage") && Boolean(me.value?.csrfToken);
  const tenants = useResource(() => (allowed ? get("/api/tenants", { limit: 1000 }) : { items: [] }), [allowed]);
  const enter = async (tenant) => {
    change({ tenant });
    if ((await attempt(() => signInto(tenant))) !== undefined) location.reload();
  };
  const wanted = query.tenant;
  useEffect(() => {
    if (allowed && wanted && wanted !== me.value.tenant) enter(wanted);
  }, [wanted]);
  const names = [...new Set([me.value.tenant, ...(tenants.value?.items ?? [])])].sort();
  if (!allowed || names.length < 2) return null;
  return html`<label class="field"><span>Tenant</span>
    <select class="input" value=${me.value.tenant} onChange=${(event) => enter(event.target.value)}>
      ${names.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>`;
}

export function RunFilters({ query, change }) {
  const agents = useResource(() => get("/api/agents"));
  const workflows = useResource(() => get("/api/workflows"));
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const later = (name) => (event) => {
    const value = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => change({ [name]: value }), PAUSE_MS);
  };
  const pick = (name) => (event) => change({ [name]: event.target.value });
  return html`<form class="filters" role="search" aria-label="Filter runs" onSubmit=${(event) =>
    event.preventDefault()}>
    <label class="field"><span>Text of input</span><input class="input" data-search type="search"
        value=${query.text ?? ""} onInput=${later("text")} placeholder="Any words…  /" /></label>
    <label class="field"><span>Status</span><select class="input" value=${query.status ?? ""}
        onChange=${pick("status")}><option value="">Any status</option>
        ${STATUSES.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
    <label class="field"><span>Agent</span><select class="input" value=${query.agent ?? ""} onChange=${pick("agent")}>
      <option value="">Any agent</option>${(agents.value?.items ?? []).map((one) => html`<option key=${one.name}
      value=${one.name}>${one.name}</option>`)}</select></label>
    ${workflows.value?.items.length > 0 && html`<label class="field"><span>Workflow</span>
      <select class="input" value=${query.workflow ?? ""} onChange=${pick("workflow")}>
      <option value="">Any workflow</option>${workflows.value.items.map((one) => html`<option key=${one.name}
      value=${one.name}>${one.name}</option>`)}</select></label>`}
    <label class="field"><span>Label</span><input class="input" size="12" value=${query.label ?? ""}
        onInput=${later("label")} placeholder="name:value" /></label>
    <label class="field"><span>Created</span><select class="input" value=${query.since ?? ""}
        onChange=${pick("since")}>${TIMES.map(([value, name]) => html`<option key=${value} value=${value}>${name}
        </option>`)}</select></label>
    <${TenantFilter} query=${query} change=${change} />
    ${query.thread && html`<span class="chip"><${ThreadTitle} id=${query.thread} /><button class="button small plain"
        type="button" aria-label="Clear the thread filter" onClick=${() => change({ thread: "" })}>×</button></span>`}
  </form>`;
}
