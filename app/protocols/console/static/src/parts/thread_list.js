// The threads, newest first: what they are called, and a way to their runs.
import { html } from "../html.js";
import { get } from "../api.js";
import { Status, Time } from "../format.js";
import { useResource } from "../resource.js";
import { link } from "../router.js";
import { Listing } from "./listing.js";

export function ThreadList() {
  return html`<${Listing} path="/api/threads" query=${{ limit: 200 }} title="Threads" news="runtime.request."
    heads=${["Title", "Status", "Labels", "Events", "Changed"]}
    teach=${html`<p>A thread is a conversation: its runs see what was said before. Every run belongs to one.</p>`}
    row=${(one) => html`<td><a href=${link("runs", { thread: one.id })}><strong>${one.title ?? "Untitled"}</strong>
        <div class="mono muted small">${one.id}</div></a></td><td><${Status} value=${one.status} /></td>
      <td>${Object.entries(one.labels).map(([name, value]) => html`<span class="chip" key=${name}>${name}: ${value}
        </span> `)}</td>
      <td class="number">${one.lastSeq}</td><td><${Time} at=${one.updatedAt} /></td>`} />`;
}

// A thread by its title, or by the end of its id.
export function ThreadTitle({ id }) {
  const thread = useResource(() => get(`/api/threads/${encodeURIComponent(id)}`), [id]);
  return html`<span class="truncate" title=${id}>${thread.value?.title ?? `thread …${id.slice(-6)}`}</span>`;
}
