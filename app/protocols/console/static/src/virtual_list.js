// A list of which only the rows in sight exist. Rows have one height; `near` is called when the end comes into sight.
// A row is made again only when its item, its mark or `version` is another: scrolling makes only what comes into sight.
import { Component, html, useLayoutEffect, useRef, useState } from "./html.js";

const MARGIN_ROWS = 4;
const AHEAD_SCREENS = 12; // how early the next page is asked for

class Row extends Component {
  shouldComponentUpdate({ item, marked, version }) {
    return item !== this.props.item || marked !== this.props.marked || version !== this.props.version;
  }

  render({ index, item, marked, height, row }) {
    const style = { top: `${index * height}px`, height: `${height}px` };
    return html`<div class="virtual-row" role="listitem" style=${style}>${row(item, marked)}</div>`;
  }
}

export function VirtualList({ items, height, row, near, label, follow = false, marked = -1, version }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, size: 600 });
  const atEnd = useRef(true);
  const count = items.length;
  useLayoutEffect(() => {
    const element = box.current;
    const measure = () => look(element, setView);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (follow && atEnd.current) box.current.scrollTop = count * height;
  }, [count, follow]);
  useLayoutEffect(() => {
    if (marked >= 0) box.current.scrollTop = Math.max(0, marked * height - box.current.clientHeight / 2);
  }, [marked]);
  const scrolled = () => {
    const { top, size } = look(box.current, setView);
    atEnd.current = top + size > (count - 1) * height;
    if (near && top + AHEAD_SCREENS * size > count * height) near();
  };
  const first = Math.max(0, Math.floor(view.top / height) - MARGIN_ROWS);
  const last = Math.min(count, Math.ceil((view.top + view.size) / height) + MARGIN_ROWS);
  const rows = [];
  for (let index = first; index < last; index += 1) {
    rows.push(html`<${Row} key=${index} index=${index} item=${items[index]} marked=${index === marked}
        height=${height}
      version=${version} row=${row} />`);
  }
  return html`<div class="virtual" ref=${box} onScroll=${scrolled} tabindex="0" role="region" aria-label=${label}>
    <div class="virtual-space" role="list" aria-label=${label} style=${{ height: `${count * height}px` }}>
      ${rows}</div>
  </div>`;
}

// The same view again changes nothing: a scroll within a row paints what is there.
function look(element, setView) {
  const found = { top: element.scrollTop, size: element.clientHeight };
  setView((view) => (view.top === found.top && view.size === found.size ? view : found));
  return found;
}
