// One run: conversation, timeline, graph, events, changes, as they happen; or as of any event before.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { get, text } from "../api.js";
import { follow } from "../event_stream.js";
import { clockTime, cost, count, duration, ended, nameOf, oneLine, Status, Time } from "../format.js";
import { useKeys } from "../keyboard.js";
import { Empty, Loading, Problem, useResource } from "../resource.js";
import { link, route, setQuery } from "../router.js";
import { foldUpTo, RunModel } from "../run_model.js";
import { Conversation } from "../parts/conversation.js";
import { RawEvents } from "../parts/raw_events.js";
import { RunActions } from "../parts/run_actions.js";
import { ThreadTitle } from "../parts/thread_list.js";
import { Timeline } from "../parts/timeline.js";
import { Diff, Value } from "../parts/value.js";
import { Verification } from "../parts/verification.js";
import { WorkflowGraph } from "../parts/workflow_graph.js";

const TABS = [
  ["conversation", "Conversation"],
  ["timeline", "Timeline"],
  ["graph", "Graph"],
  ["events", "Events"],
  ["changes", "Changes"],
  ["output", "Output"],
];
const MAX_EVENTS = 50000; // about 60 MB; a longer run is read by its export

// The events of a run as they are stored: backfill, then live, painted once per frame.
function useRunEvents(runId) {
  const [version, paint] = useState(0);
  const [state, setState] = useState("connecting");
  const held = useRef(null);
  useLayoutEffect(() => {
    let stop = () => {};
    let over = false;
    const data = { events: [], model: new RunModel(runId), full: false };
    held.current = data;
    let frame = 0;
    const repaint = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (!over) paint((one) => one + 1);
      });
    };
    const accept = (events) => {
      for (const event of events) {
        if (!data.model.owns(event)) continue;
        if (data.events.length >= MAX_EVENTS) {
          data.full = true;
          break;
        }
        data.events.push(event);
        data.model.apply(event);
      }
      repaint();
      return !data.full && !data.model.done;
    };
    get(`/api/runs/${encodeURIComponent(runId)}/events`, { limit: 1 }).then(
      ({ items }) => {
        if (!over && items.length)
          stop = follow(items[0].threadId, items[0].seq - 1, accept, (word) => {
            if (!over) setState(word);
          });
      },
      () => setState("ended"),
    );
    return () => {
      over = true;
      stop();
      cancelAnimationFrame(frame);
    };
  }, [runId]);
  return { ...(held.current ?? { events: [], model: new RunModel(runId), full: false }), version, state };
}

export function Page() {
  const [, runId, tab = "conversation"] = route.value.parts;
  const at = Number(route.value.query.at) || 0;
  const loaded = useResource(() => get(`/api/runs/${encodeURIComponent(runId)}`), [runId]);
  const run = loaded.value;
  const { events, model, version, state, full } = useRunEvents(runId);
  useEffect(() => {
    if (run && model.status !== run.status) loaded.reload();
  }, [model.status]);
  const shown = useMemo(() => (at ? foldUpTo(runId, events, at) : model), [at, at ? version : 0, model]);
  const visible = useMemo(() => (at ? events.filter((event) => event.seq <= at) : events), [at, version]);
  const step = (by) => {
    const index = at ? events.findIndex((event) => event.seq >= at) : events.length - 1;
    const next = events[Math.max(0, Math.min(events.length - 1, index + by))];
    if (next) setQuery({ at: next === events.at(-1) && by > 0 ? "" : next.seq });
  };
  useKeys({ "[": () => step(-1), "]": () => step(1), Escape: () => setQuery({ at: "" }) });
  if (loaded.error && !run) return html`<div class="page"><h1>Run</h1><${Problem} error=${loaded.error} /></div>`;
  if (!run) return html`<div class="page"><h1>Run</h1><${Loading} /></div>`;
  const tabs = TABS.filter(([name]) => name !== "graph" || run.workflow);
  return html`<div class="page full">
    <div class="page-head"><a class="crumb" href=${link("runs")}>Runs</a><span class="faint">/</span>
      <h1 class="truncate">${nameOf(run)}</h1><${Status} value=${shown.events ? shown.status : run.status} />
      <${LiveMark} state=${state} done=${model.done} />
      <div class="actions"><${RunActions} run=${run} at=${at} paused=${model.items.some((item) =>
        item.kind === "interrupt" && item.what === "paused" && item.state === "open")} reload=${loaded.reload} />
        </div></div>
    ${run.error && html`<p class="notice bad"><strong>${run.error.code}</strong> ${run.error.message}</p>`}
    ${full && html`<p class="notice warn">Only the first ${count(MAX_EVENTS)} events are shown. <a
        href=${`/api/threads/${encodeURIComponent(run.threadId)}/export`}
        download>Export the log</a> for the rest.</p>`}
    <div class="run-layout">
      <section class="card run-main" aria-label="Run">
        <nav class="tabs" aria-label="Views of the run">
          ${tabs.map(([name, label]) => html`<a key=${name} href=${link("runs", runId, name, at ? { at } : {})}
          aria-current=${name === tab ? "page" : undefined}>${label}</a>`)}</nav>
        ${tab === "conversation" && html`<${Conversation} model=${shown} threadId=${run.threadId} follow=${!at} />`}
        ${tab === "timeline" && html`<${Timeline} model=${shown} follow=${!at && !ended(run.status)} choose=${(seq) =>
          setQuery({ at: seq })} />`}
        ${tab === "graph" && html`<${WorkflowGraph} source=${`/api/runs/${encodeURIComponent(runId)}/graph`}
            query=${at ? { until: at } : {}} version=${`${shown.items.length} ${shown.status}`} />`}
        ${tab === "events" && html`<${RawEvents} events=${visible} version=${version} threadId=${run.threadId}
            follow=${!at && !ended(run.status)} />`}
        ${tab === "changes" && html`<${FileChanges} run=${run} status=${model.status} />`}
        ${tab === "output" && html`<div class="conversation">
          ${run.output === null ? html`<${Empty} title="No output yet" />` : html`<${Value} value=${run.output}
          threadId=${run.threadId} label="Output" />`}</div>`}
        <${Scrubber} events=${events} at=${at} />
      </section>
      <aside class="run-side" aria-label="About the run"><${Facts} run=${run} model=${shown} />
        <${Verification} run=${run} /></aside>
    </div>
  </div>`;
}

function LiveMark({ state, done }) {
  if (done) return null;
  const word = state === "live" ? "Live" : state === "ended" ? "Stopped" : "Reconnecting…";
  return html`<span class="live small muted" data-state=${state === "ended" ? "offline" : state} role="status">
    <span class="dot"></span>${word}</span>`;
}

function Scrubber({ events, at }) {
  if (events.length < 2) return null;
  const index = at ? events.findLastIndex((event) => event.seq <= at) : events.length - 1;
  const event = events[Math.max(0, index)];
  const move = (to) => setQuery({ at: to >= events.length - 1 ? "" : events[to].seq });
  return html`<div class="scrub"><label class="hidden-label" for="scrub">As of event</label>
    <input id="scrub" type="range" min="0" max=${events.length - 1} value=${index} onInput=${(change) =>
      move(Number(change.target.value))} aria-valuetext=${`event ${event.seq}`} />
    <span class="small muted nowrap" data-at=${event.seq}>
      ${at ? `as of event ${event.seq}, ${clockTime(event.at)}` : `${count(events.length)} events`}</span>
    ${at ? html`<button class="button small" onClick=${() => setQuery({ at: "" })}>Back to now</button>` : null}
      </div>`;
}

function Facts({ run, model }) {
  const took = run.startedAt ? new Date(run.finishedAt ?? Date.now()) - new Date(run.startedAt) : null;
  return html`<section class="card" aria-label="Facts"><div class="body"><dl class="facts">
    <dt>Run</dt><dd class="mono">${run.id}</dd>
    <dt>Thread</dt><dd><a href=${link("runs", { thread: run.threadId })}>
      <${ThreadTitle} id=${run.threadId} /></a></dd>
    ${run.parentRunId && html`<dt>Parent</dt><dd><a href=${link("runs", run.parentRunId)} class="mono">
      ${run.parentRunId}</a></dd>`}
    ${run.rerunOf && html`<dt>Rerun of</dt><dd><a href=${link("runs", run.rerunOf)} class="mono">${run.rerunOf}
      </a></dd>`}
    ${run.undoOf && html`<dt>Undo of</dt><dd><a href=${link("runs", run.undoOf)} class="mono">${run.undoOf}</a></dd>`}
    <dt>Created</dt><dd><${Time} at=${run.createdAt} /></dd>
    <dt>Duration</dt><dd>${duration(took)}</dd>
    <dt>Model calls</dt><dd>${count(model.usage.calls)}</dd>
    <dt>Tool calls</dt><dd>${count(model.usage.toolCalls)}</dd>
    <dt>Tokens</dt><dd>${count(model.usage.inputTokens)} in, ${count(model.usage.outputTokens)} out</dd>
    <dt>Cost</dt><dd>${cost(model.usage.costUsd)}</dd>
    <dt>Events</dt><dd>${count(model.events)}</dd>
    <dt>Workspace</dt><dd class="hash">${run.workspaceDigest?.slice(0, 16) ?? "–"}</dd>
    ${Object.entries(run.labels ?? {}).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>
      <a href=${link("runs", { label: `${name}:${value}` })}>${oneLine(value, 80)}</a></dd>`)}
    <dt>Head</dt><dd class="hash" title=${model.lastHash}>
      ${model.lastHash ? `${model.lastSeq}:${model.lastHash.slice(0, 16)}…` : "–"}</dd>
  </dl></div></section>`;
}

function FileChanges({ run, status }) {
  const found = useResource(
    () =>
      Promise.all([
        text(`/api/runs/${encodeURIComponent(run.id)}/diff`),
        get(`/api/runs/${encodeURIComponent(run.id)}/artifacts`),
      ]),
    [run.id, status],
  );
  if (found.loading) return html`<div class="conversation"><${Loading} /></div>`;
  if (found.error) return html`<div class="conversation"><${Problem} error=${found.error} /></div>`;
  const [diff, artifacts] = found.value;
  if (!diff && !artifacts.items.length)
    return html`<${Empty} title="Nothing was changed">
      <p>Files that tools write, and artifacts that the run makes, appear here.</p></${Empty}>`;
  return html`<div class="conversation">${diff && html`<${Diff} text=${diff} />`}
    ${artifacts.items.map((one) => html`<div class="row" key=${one.id}>
      <a href=${`/api/artifacts/${encodeURIComponent(one.id)}/content`} download=${one.name}>${one.name}</a>
      <span class="muted small">${one.mimeType ?? one.mime ?? ""}</span></div>`)}</div>`;
}
