// A list of the API in a table, with what it teaches while it is empty.
import { html, useEffect } from "../html.js";
import { get } from "../api.js";
import { Empty, Loading, Problem, useNews, useResource } from "../resource.js";

const REFRESH_MS = 1500;

// `unsettled(item)`: whether it will change without an event that the page hears of; then the list is read again.
export function Listing({ path, query, title, teach, heads, row, news, unsettled = () => false, children }) {
  const found = useResource(() => get(path, query), [path]);
  useNews((frame) => frame.type.startsWith(news ?? "runtime.none."), found.reload, 1500);
  const items = found.value?.items ?? [];
  const moving = items.some(unsettled);
  useEffect(() => {
    if (!moving) return undefined;
    const timer = setInterval(found.reload, REFRESH_MS);
    return () => clearInterval(timer);
  }, [moving]);
  return html`<section class="card" aria-label=${title}><header><h2>${title}</h2><span class="muted small">
    ${items.length}${found.value?.nextCursor ? "+" : ""}</span></header><${Problem} error=${found.error} />
    ${found.loading && html`<div class="body"><${Loading} /></div>`}
    ${found.value && !items.length && html`<${Empty} title=${`No ${title.toLowerCase()} yet`}>${teach}</${Empty}>`}
    ${items.length > 0 && html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table">
      <table class="table"><thead><tr>${heads.map((head) => html`<th key=${head}>${head}</th>`)}</tr></thead><tbody>
      ${items.map((one) => html`<tr key=${one.id ?? one.name}>${row(one, found.reload)}</tr>`)}
      </tbody></table></div>`}
    ${children}</section>`;
}
