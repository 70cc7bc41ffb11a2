// The runs: a live table with filters that are part of the address.
import { html, useLayoutEffect, useRef, useState } from "../html.js";
import { get } from "../api.js";
import { cost, duration, nameOf, oneLine, Status, Time } from "../format.js";
import { useKeys } from "../keyboard.js";
import { Empty, Problem, useNews, useResource } from "../resource.js";
import { go, link, route, setQuery } from "../router.js";
import { VirtualList } from "../virtual_list.js";
import { curlExample } from "../parts/first_steps.js";
import { RunFilters } from "../parts/run_filters.js";
import { ThreadList } from "../parts/thread_list.js";

const FIRST_PAGE = 60; // a screen or two, so that something is seen soon
const PAGE = 500;
const ROW = 44;
const MAX_ROWS = 100000; // what a filter cannot narrow below this is better searched than scrolled

export function wantedRuns(query) {
  const times = { "15m": 15, "1h": 60, "24h": 1440, "7d": 10080 };
  const since = times[query.since] ? new Date(Date.now() - times[query.since] * 60000).toISOString() : undefined;
  return {
    status: query.status,
    agent: query.agent,
    workflow: query.workflow,
    text: query.text,
    label: query.label,
    threadId: query.thread,
    createdFrom: since,
  };
}

// Only what the table shows is kept of a run, so that many of them fit.
const slim = (run) => ({
  id: run.id,
  status: run.status,
  name: nameOf(run),
  parent: run.parentRunId,
  input: oneLine(run.input),
  error: run.error?.code,
  cost: run.usage?.costUsd,
  createdAt: run.createdAt,
  startedAt: run.startedAt,
  finishedAt: run.finishedAt,
});

class RunList {
  constructor(query, changed) {
    Object.assign(this, {
      query,
      changed,
      rows: [],
      cursor: "",
      more: true,
      loading: false,
      error: null,
      stopped: false,
    });
    this.places = new Map();
  }

  async next() {
    if (this.loading || !this.more || this.stopped || this.rows.length >= MAX_ROWS) return;
    this.loading = true;
    try {
      const limit = this.cursor ? PAGE : FIRST_PAGE;
      const page = await get("/api/runs", { ...wantedRuns(this.query), after: this.cursor, limit });
      for (const run of page.items) this.put(slim(run));
      this.cursor = page.nextCursor ?? "";
      this.more = page.nextCursor !== null;
      this.error = null;
    } catch (error) {
      this.error = error;
      this.more = false;
    }
    this.loading = false;
    if (!this.stopped) this.changed();
  }

  put(run) {
    const place = this.places.get(run.id);
    if (place !== undefined) this.rows[place] = run;
    else this.places.set(run.id, this.rows.push(run) - 1);
  }

  putFirst(runs) {
    if (!runs.length) return;
    this.rows = [...runs, ...this.rows];
    this.places = new Map(this.rows.map((row, index) => [row.id, index]));
  }

  // The newest page again: new rows come first, known ones change in place, ones that no longer fit stay until reload.
  async refresh() {
    try {
      const page = await get("/api/runs", { ...wantedRuns(this.query), limit: 100 });
      const fresh = page.items.map(slim);
      const unknown = fresh.filter((run) => !this.places.has(run.id));
      if (unknown.length === fresh.length && this.rows.length) return this.restart();
      this.putFirst(unknown);
      for (const run of fresh) this.put(run);
      const open = this.rows
        .slice(0, 500)
        .filter((run) => run.status === "running" || run.status === "queued" || run.status === "waiting");
      const stale = open.filter((run) => !fresh.some((one) => one.id === run.id)).slice(0, 20);
      for (const run of await Promise.all(stale.map((one) => get(`/api/runs/${one.id}`).catch(() => null))))
        if (run) this.put(slim(run));
      if (!this.stopped) this.changed();
    } catch {
      /* the next news tries again */
    }
  }

  restart() {
    Object.assign(this, { rows: [], cursor: "", more: true });
    this.places = new Map();
    return this.next();
  }
}

export function Page() {
  const threads = route.value.query.by === "thread";
  return threads ? html`<div class="page"><${Head} threads=${true} /><${ThreadList} /></div>` : html`<${Runs} />`;
}

function Runs() {
  const { query } = route.value;
  const list = useRef(null);
  const [, paint] = useState(0);
  const [selected, select] = useState(-1);
  const key = JSON.stringify(wantedRuns({ ...query, since: undefined })) + (query.since ?? "");
  useLayoutEffect(() => {
    const made = new RunList(query, () => paint((count) => count + 1));
    list.current = made;
    select(-1);
    made.next();
    return () => {
      made.stopped = true;
    };
  }, [key]);
  useNews(
    (frame) => frame.type.startsWith("runtime.request.") || frame.type.startsWith("runtime.interrupt."),
    () => list.current?.refresh(),
  );
  const rows = list.current?.rows ?? [];
  useKeys({
    j: () => select(Math.min(rows.length - 1, selected + 1)),
    k: () => select(Math.max(0, selected - 1)),
    Enter: () => {
      if (rows[selected]) go("runs", rows[selected].id);
    },
  });
  const loading = list.current?.loading ?? true;
  return html`<div class="page full">
    <${Head} shown=${`${rows.length}${list.current?.more ? "+" : ""} shown`} />
    <${RunFilters} query=${query} change=${setQuery} />
    <${Problem} error=${list.current?.error} />
    <section class="card runs-table" aria-label="Runs">
      <div class="runs-head" aria-hidden="true"><span>Status</span><span>Agent</span><span class="wide">Input</span>
        <span class="wide number">Duration</span><span class="wide number">Cost</span>
        <span class="number">Created</span></div>
      ${
        rows.length === 0 && !loading
          ? html`<${NoRuns} filtered=${Object.keys(query).length > 0} />`
          : html`<${VirtualList} items=${rows} height=${ROW} label="Runs, newest first" marked=${selected}
            near=${() => list.current?.next()} row=${(run, marked) => html`<${RunRow} run=${run}
                selected=${marked} />`} />`
      }
    </section>
  </div>`;
}

function Head({ threads = false, shown = "" }) {
  return html`<div class="page-head"><h1>Runs</h1>
    <nav class="tabs" aria-label="Kind of list">
      <a href=${link("runs")} aria-current=${threads ? undefined : "page"}>Runs</a>
      <a href=${link("runs", { by: "thread" })} aria-current=${threads ? "page" : undefined}>Threads</a></nav>
    <span class="muted small" role="status">${shown}</span></div>`;
}

function RunRow({ run, selected }) {
  const took = run.startedAt ? new Date(run.finishedAt ?? Date.now()) - new Date(run.startedAt) : null;
  return html`<a class="run-row" href=${link("runs", run.id)} data-selected=${selected ? "true" : undefined}
      data-run=${run.id}>
    <span><${Status} value=${run.status} /></span><span class="truncate">${run.parent ? "↳ " : ""}${run.name}</span>
    <span class="truncate muted wide">${run.error ? html`<span class="chip bad">${run.error}</span> ` : null}
      ${run.input}</span>
    <span class="number wide">${duration(took)}</span><span class="number wide">${cost(run.cost)}</span>
      <span class="number muted"><${Time} at=${run.createdAt} /></span></a>`;
}

function NoRuns({ filtered }) {
  const agents = useResource(() => get("/api/agents"));
  if (filtered)
    return html`<${Empty} title="No run fits these filters">
      <button class="button" onClick=${() => go("runs")}>Clear the filters</button></${Empty}>`;
  const name = agents.value?.items[0]?.name ?? "echo";
  return html`<${Empty} title="No runs yet">
    <p>A run is one execution of an agent, a workflow or a tool. Start one in the <a
        href=${link("playground")}>playground</a>, or from a program:</p>
    <pre>${curlExample({ agent: name, input: "hello" })}</pre>
  </${Empty}>`;
}
