// Values of any shape, as text: JSON, large values by reference, unified diffs, message parts with media.
import { html, useState } from "../html.js";
import { attempt, text } from "../api.js";
import { bytes, pretty } from "../format.js";

const SHOWN = 20000; // characters; the rest on demand
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function Value({ value, threadId, label = "Value" }) {
  const [all, showAll] = useState(false);
  const [fetched, setFetched] = useState(null);
  if (value?.$blob && fetched === null) {
    const load = async () => {
      const content = await attempt(() =>
        text(`/api/threads/${encodeURIComponent(threadId)}/blobs/${value.$blob.sha256}`),
      );
      if (content !== undefined) setFetched(content ?? "");
    };
    return html`<button class="button small" onClick=${load}>Load ${bytes(value.$blob.size)}</button>`;
  }
  const said = fetched ?? pretty(value);
  if (looksLikeDiff(said)) return html`<${Diff} text=${said} />`;
  return html`<pre class="json" tabindex="0" role="region" aria-label=${label}>${all ? said : said.slice(0, SHOWN)}
    ${said.length > SHOWN && !all ? html`\n<button class="button small" onClick=${() =>
    showAll(true)}>Show all ${bytes(said.length)}</button>` : null}</pre>`;
}

export const looksLikeDiff = (said) => /^(diff --git|--- )[^\n]*\n(?:[^\n]*\n)?\+\+\+ /m.test(said);

export function Diff({ text: said }) {
  const lines = said.split("\n").slice(0, 5000);
  const kind = (line) =>
    line.startsWith("@@") ? "at" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";
  return html`<div class="diff" tabindex="0" role="region" aria-label="Changes">
    ${lines.map((line, index) => html`<div key=${index} class=${kind(line)}>${line}</div>`)}</div>`;
}

// What differs between two values, line by line of their JSON: enough to see which argument changed.
export function Changes({ before, after }) {
  const old = pretty(before).split("\n");
  const fresh = pretty(after).split("\n");
  const rows = compare(old, fresh);
  return html`<div class="diff" tabindex="0" role="region" aria-label="What changed">
    ${rows.map(([mark, line], index) => html`<div key=${index} class=${mark === "+" ? "add" : mark === "-" ? "del" :
    ""}>${mark} ${line}</div>`)}</div>`;
}

const MAX_LINES = 400; // the table below has their square

export function compare(old, fresh) {
  const a = old.slice(0, MAX_LINES);
  const b = fresh.slice(0, MAX_LINES);
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  const rows = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      rows.push([" ", a[i]]);
      i += 1;
      j += 1;
    } else if (j < b.length && (i === a.length || lengths[i][j + 1] >= lengths[i + 1][j])) rows.push(["+", b[j++]]);
    else rows.push(["-", a[i++]]);
  }
  return rows;
}

// The parts of a message: text, and pictures that the server stored.
export function Parts({ value, threadId }) {
  if (typeof value === "string") return html`<div class="text">${value}</div>`;
  if (!Array.isArray(value) || !value.every((part) => typeof part === "object" && part !== null && part.type))
    return html`<${Value} value=${value} threadId=${threadId} />`;
  return html`<div class="stack tight">${value.map((part, index) => html`<${Part} key=${index} part=${part}
      threadId=${threadId} />`)}</div>`;
}

function Part({ part, threadId }) {
  if (typeof part.text === "string") return html`<div class="text">${part.text}</div>`;
  const mime = part.mimeType ?? part.mime ?? part.mediaType ?? "";
  const name = part.name ?? "file";
  const blob = part.blob ?? part.content?.$blob ?? part.data?.$blob ?? part.$blob;
  const source = part.fileId
    ? `/api/files/${encodeURIComponent(part.fileId)}/content`
    : blob
      ? `/api/threads/${encodeURIComponent(threadId)}/blobs/${blob.sha256}`
      : null;
  if (source && PICTURES.has(mime || blob?.mime))
    return html`<img src=${source} alt=${name} title=${name} style=${{ maxWidth: "100%", maxHeight: "320px" }} />`;
  if (source)
    return html`<a class="attachment" href=${source} download=${name}>${name} <span class="muted">${mime}</span></a>`;
  return html`<${Value} value=${part} threadId=${threadId} />`;
}
