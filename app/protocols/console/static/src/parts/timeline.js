// What happened when: nested spans of model calls, tools, hooks, guardrails, gates, waits and subagents.
import { html } from "../html.js";
import { cost, duration } from "../format.js";
import { Empty } from "../resource.js";
import { VirtualList } from "../virtual_list.js";

const ROW = 32;

export function Timeline({ model, follow, choose }) {
  const { spans } = model;
  if (!spans.length)
    return html`<${Empty} title="Nothing has happened yet">
      <p>Model calls, tools and decisions appear here as they are recorded.</p></${Empty}>`;
  const from = model.startedAt ?? spans[0].start;
  const to = Math.max(model.endedAt ?? from, from + 1);
  return html`<${VirtualList} items=${spans} height=${ROW} label="Timeline" follow=${follow}
    version=${model.events} row=${(span) => html`<${Span} span=${span} from=${from} to=${to}
        choose=${choose} />`} />`;
}

function Span({ span, from, to, choose }) {
  const end = span.end ?? to;
  const left = Math.min(99.5, (Math.max(0, span.start - from) / (to - from)) * 100);
  const width = Math.max(0.5, Math.min(100 - left, ((end - Math.max(span.start, from)) / (to - from)) * 100));
  return html`<button class="span-row" onClick=${() => choose(span.seq)} title="Show the run as of this event">
    <span class="truncate" style=${{ paddingLeft: `${span.depth * 14 + (span.kind === "run" ? 0 : 12)}px` }}>
      <span class="faint small">${span.kind}</span> ${span.name}</span>
    <span class="span-track wide"><span class=${`span-bar ${span.kind} ${span.failed ? "failed" : ""}`} style=${{
      left: `${left}%`, width: `${width}%` }}></span></span>
    <span class="number small">${span.end === null ? "…" : duration(span.end - span.start)}</span>
    <span class="number small muted wide">${span.costUsd === undefined ? "" : cost(span.costUsd)}</span></button>`;
}
