// A run as a conversation: what was asked, what the model writes, what tools did. All of it is text.
import { html, useLayoutEffect, useRef } from "../html.js";
import { duration, oneLine, Time } from "../format.js";
import { link } from "../router.js";
import { Parts, Value } from "./value.js";

const MAX_ITEMS = 2000; // the newest; older ones are in the timeline and the raw events
const nested = (item) => (item.depth > 0 ? "nested" : "");

export function Conversation({ model, threadId, follow }) {
  const box = useRef(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (follow && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const scrolled = () => {
    atEnd.current = box.current.scrollTop + box.current.clientHeight > box.current.scrollHeight - 40;
  };
  const items = model.items.length > MAX_ITEMS ? model.items.slice(-MAX_ITEMS) : model.items;
  return html`<div class="conversation" ref=${box} onScroll=${scrolled} tabindex="0" role="region"
      aria-label="Conversation">
    ${items.length < model.items.length && html`<p
        class="muted small">Only the last ${MAX_ITEMS} of ${model.items.length} entries are shown here.</p>`}
    ${items.map((item) => html`<${Item} key=${item.key} item=${item} threadId=${threadId} />`)}
  </div>`;
}

function Item({ item, threadId }) {
  if (item.kind === "input")
    return html`<div class="bubble user"><div class="who">${item.who} <${Time} at=${item.at} /></div>
      <${Parts} value=${item.value} threadId=${threadId} /></div>`;
  if (item.kind === "message") return html`<${Message} item=${item} threadId=${threadId} />`;
  if (item.kind === "tool") return html`<${ToolCall} item=${item} threadId=${threadId} />`;
  if (item.kind === "output")
    return html`<div class="bubble"><div class="who">output</div>
      <${Parts} value=${item.value} threadId=${threadId} /></div>`;
  if (item.kind === "error")
    return html`<p class="notice bad"><strong>${item.error?.code}</strong> ${item.error?.message}</p>`;
  if (item.kind === "interrupt")
    return html`<div class=${`notice ${item.state === "open" ? "warn" : ""} ${nested(item)}`}>
    ${item.what}${item.tool ? html` of <code>${item.tool}</code>` : null}: ${item.state}
      ${item.by ? ` by ${item.by}` : ""}${item.answer?.decision ? ` (${item.answer.decision})` : ""}
    ${item.state === "open" && html` · <a href=${link("inbox", item.id)}>decide</a>`}</div>`;
  if (item.kind === "artifact")
    return html`<div class="event-line">made <a
        href=${`/api/artifacts/${encodeURIComponent(item.artifact.id)}/content`} download=${item.artifact.name}>
        ${item.artifact.name}</a></div>`;
  return html`<div class=${`event-line ${nested(item)}`}><span class=${`chip ${item.tone ?? ""}`}>${item.seq}</span>
    <span>${item.text}</span>${item.runId && html`<a href=${link("runs", item.runId)}>open</a>`}</div>`;
}

function Message({ item, threadId }) {
  return html`<div class=${`bubble ${item.open ? "streaming" : ""} ${nested(item)}`}>
    <div class="who">${item.model ?? "assistant"}${item.abandoned ? html`<span class="chip bad">cut off</span>` :
      null}</div>
    ${item.reasoning && html`<details class="muted small"><summary>Reasoning</summary><div class="text">
      ${item.reasoning}</div></details>`}
    ${item.blob ? html`<${Value} value=${{ $blob: item.blob }} threadId=${threadId} />` : html`<div class="text">
      ${item.text}</div>`}
    ${item.parts?.some((part) => part.type !== "text") && html`<${Parts} value=${item.parts.filter((part) =>
      part.type !== "text")} threadId=${threadId} />`}
  </div>`;
}

const TOOL_TONES = { done: "ok", failed: "bad", running: "info moving", proposed: "" };

function ToolCall({ item, threadId }) {
  const given = item.arguments === undefined ? item.partial : item.arguments;
  return html`<details class=${`tool ${nested(item)}`}>
    <summary><span class=${`chip ${TOOL_TONES[item.state]}`}>${item.state}</span><strong class="mono">${item.tool}
      </strong>
      <span class="truncate muted small grow">${oneLine(given, 120)}</span>
        ${item.durationMs !== undefined && html`<span class="small muted">${duration(item.durationMs)}</span>`}
        </summary>
    <div class="inside">
      <h3>Arguments</h3><${Value} value=${given} threadId=${threadId} label=${`Arguments of ${item.tool}`} />
      ${item.guarded && html`<p class=${`notice ${item.guarded.outcome === "refused" ? "bad" :
        "warn"}`}>Guard ${item.guarded.outcome}: ${item.guarded.findings.map((one) => one.message).join("; ")}</p>`}
      ${item.output !== undefined && item.output !== null && html`<h3>Result</h3>
        <${Value} value=${item.output} threadId=${threadId} label=${`Result of ${item.tool}`} />`}
      ${item.error && html`<p class="notice bad">${item.error.code}: ${item.error.message}</p>`}
      ${item.childRun && html`<a href=${link("runs", item.childRun)}>Open the subagent's run</a>`}
    </div>
  </details>`;
}
