// Data of a page that comes from one call: loading, value or error, and a way to read it again.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { ApiError, explain } from "./api.js";
import { onNews } from "./live.js";

export function useResource(load, dependencies = []) {
  const [state, setState] = useState({ loading: true, value: undefined, error: null });
  const current = useRef(0);
  const reload = async () => {
    const mine = ++current.current;
    try {
      const value = await load();
      if (mine === current.current) setState({ loading: false, value, error: null });
    } catch (error) {
      if (mine === current.current && error?.name !== "AbortError")
        setState((was) => ({ ...was, loading: false, error }));
    }
  };
  // Not after the next paint, as `useEffect` would: the answer is what the page waits for.
  useLayoutEffect(() => {
    reload();
    return () => {
      current.current += 1;
    };
  }, dependencies);
  return { ...state, reload };
}

// Calls `changed` when fitting news arrives, at most once in `every` milliseconds, and after every gap.
export function useNews(fits, changed, every = 700) {
  const latest = useRef(changed);
  latest.current = changed;
  useEffect(() => {
    let timer = 0;
    let waiting = [];
    const stop = onNews((frame) => {
      if (frame !== null && !fits(frame)) return;
      waiting.push(frame);
      timer ||= setTimeout(() => {
        const news = waiting;
        waiting = [];
        timer = 0;
        latest.current(news);
      }, every);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
}

export function Problem({ error }) {
  if (!error) return null;
  if (error instanceof ApiError && error.status === 403) {
    return html`<p class="notice warn" role="status">Your key does not include what this page needs. ${explain(error)}
      </p>`;
  }
  return html`<p class="notice bad" role="alert">${explain(error)}${error.code ? html` <code>${error.code}
    </code>` : null}</p>`;
}

export function Loading() {
  return html`<p class="muted" role="status">Loading…</p>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><strong>${title}</strong>${children}</div>`;
}
