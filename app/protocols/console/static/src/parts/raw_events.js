// The raw events, with search; the chosen one in full.
import { html, useMemo, useState } from "../html.js";
import { clockTime, oneLine } from "../format.js";
import { VirtualList } from "../virtual_list.js";
import { Value } from "./value.js";

const ROW = 28;
const SHOWN = 110; // characters of a payload: what fits into a row
const word = (event) =>
  event.type === "runtime.adapter.event"
    ? `adapter · ${event.payload.event?.phase ?? ""}`
    : event.type.replace("runtime.", "");

function EventRow({ event, chosen, choose }) {
  return html`<button class="event-row" aria-pressed=${chosen ? "true" : "false"} onClick=${() => choose(event)}
      data-seq=${event.seq}>
    <span class="muted">${event.seq}</span><span class="muted wide">${clockTime(event.at)}</span>
    <span class="truncate">${word(event)}</span>
    <span class="truncate muted wide">${oneLine(event.payload, SHOWN)}</span></button>`;
}

export function RawEvents({ events, version, threadId, follow }) {
  const [search, setSearch] = useState("");
  const [chosen, choose] = useState(null);
  const found = useMemo(() => {
    const wanted = search.trim().toLowerCase();
    return wanted ? events.filter((event) => JSON.stringify(event).toLowerCase().includes(wanted)) : events;
  }, [search, version, events]);
  return html`<div class="filters" style=${{ padding: "10px 14px" }}>
      <label class="field grow"><span class="hidden-label">Search events</span>
        <input class="input" data-search type="search" placeholder="Search type, actor, payload…" value=${search}
        onInput=${(event) => setSearch(event.target.value)} /></label>
      <span class="muted small" role="status">${found.length} of ${events.length} events</span></div>
    <${VirtualList} items=${found} height=${ROW} label="Events" follow=${follow && !search} version=${chosen}
      row=${(event) => html`<${EventRow} event=${event} chosen=${event === chosen} choose=${choose} />`} />
    ${
      chosen &&
      html`<div class="event-detail"><div class="row between"><h3 class="mono">${chosen.type}</h3>
        <button class="button small" onClick=${() => choose(null)}>Close</button></div>
      <dl class="facts small spaced"><dt>actor</dt><dd>${chosen.actor}</dd><dt>at</dt><dd>${chosen.at}</dd><dt>id</dt>
        <dd class="mono">${chosen.id}</dd><dt>hash</dt><dd class="hash">${chosen.hash}</dd></dl>
      <div class="spaced"><${Value} value=${chosen.payload} threadId=${threadId} label="Payload" /></div></div>`
    }`;
}
