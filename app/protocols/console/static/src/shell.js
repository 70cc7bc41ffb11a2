// The frame around every page: navigation, live state, notices; and the page that the route names.
import { html, signal, useEffect, useLayoutEffect } from "./html.js";
import { get, signOut } from "./api.js";
import { Icon } from "./icons.js";
import { installKeys } from "./keyboard.js";
import { helpOpen, isDark, liveState, me, openInterrupts, paletteOpen, setTheme, toasts } from "./state.js";
import { link, route } from "./router.js";
import { useNews } from "./resource.js";
import { Help, Palette } from "./palette.js";
import { announce } from "./desktop_notice.js";

export const PAGES = [
  { path: "home", label: "Home", key: "h", load: () => import("./pages/home.js") },
  { path: "runs", label: "Runs", key: "r", load: () => import("./pages/runs.js") },
  { path: "inbox", label: "Inbox", key: "i", load: () => import("./pages/inbox.js") },
  { path: "playground", label: "Playground", key: "p", load: () => import("./pages/playground.js") },
  { path: "workspace", label: "Workspace", key: "w", load: () => import("./pages/workspace.js") },
  { path: "evals", label: "Evals", key: "e", load: () => import("./pages/evals.js") },
  { path: "memory", label: "Memory", key: "m", load: () => import("./pages/memory.js") },
  { path: "operate", label: "Operate", key: "o", load: () => import("./pages/operate.js") },
];
const RUN = { path: "run", label: "Run", load: () => import("./pages/run.js") };
const MAX_COUNTED = 100;

const loaded = signal({ name: null, component: null, failed: null });

function wanted() {
  const [first, second] = route.value.parts;
  if (first === "runs" && second) return RUN;
  return PAGES.find((page) => page.path === (first ?? PAGES[0].path)) ?? PAGES[0];
}

function Page() {
  const page = wanted();
  useLayoutEffect(() => {
    let current = true;
    document.title = `${page.label} · Holdfast`;
    page.load().then(
      (module) => {
        if (current) loaded.value = { name: page.path, component: module.Page, failed: null };
      },
      (error) => {
        if (current) loaded.value = { name: page.path, component: null, failed: error };
      },
    );
    return () => {
      current = false;
    };
  }, [page.path]);
  const { name, component: Component, failed } = loaded.value;
  if (name !== page.path) return html`<div class="page"><h1 class="hidden-label">${page.label}</h1></div>`;
  if (failed)
    return html`<div class="page"><h1>${page.label}</h1>
      <p class="notice bad">This page could not be loaded: ${String(failed.message)}</p></div>`;
  return html`<${Component} key=${route.value.parts.join("/").split("/").slice(0, 2).join("/")} />`;
}

async function countInterrupts(news) {
  const found = await get("/api/interrupts", { status: "open", limit: MAX_COUNTED }).catch(() => null);
  if (!found) return;
  const waiting = found.items.filter((one) => one.kind !== "timer");
  const raised = (news ?? []).filter((frame) => frame?.type === "runtime.interrupt.raised");
  const fresh = raised.map((frame) => waiting.find((one) => one.id === frame.payload?.interruptId)).filter(Boolean);
  announce(fresh.at(-1));
  openInterrupts.value = waiting.length;
}

const waiting = () => (openInterrupts.value >= MAX_COUNTED ? "99+" : openInterrupts.value);
const LIVE_WORDS = { live: "Live", connecting: "Reconnecting…", offline: "Offline" };

export function Shell() {
  useLayoutEffect(() => installKeys(PAGES), []); // before anything is seen: keys work from the first picture on
  useEffect(() => {
    countInterrupts();
  }, []);
  useNews((frame) => frame.type.startsWith("runtime.interrupt."), countInterrupts);
  const current = wanted();
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    }}>Skip to content</a>
    <div class="side">
      <a class="brand" href=${link(PAGES[0].path)} aria-label="Holdfast"><img src="mark.svg" alt="" />
        <span>Holdfast</span></a>
      <nav aria-label="Pages">
        ${PAGES.map(
          (
            page,
          ) => html`<a class="nav-link" key=${page.path} href=${link(page.path)}
              title=${`${page.label} (g ${page.key})`}
          aria-current=${page === current || (page.path === "runs" && current === RUN) ? "page" : undefined}>
          <${Icon} name=${page.path} /><span class="label">${page.label}</span>
          ${page.path === "inbox" && openInterrupts.value > 0 && html` <span class="count">${waiting()}</span>`}</a>`,
        )}
      </nav>
      <div class="side-foot">
        <span class="live" data-state=${liveState.value} role="status"><span class="dot"></span>
          ${LIVE_WORDS[liveState.value]}</span>
        <div class="row wide">
          <button class="button small" onClick=${() => {
            paletteOpen.value = true;
          }} title="Command palette (Ctrl+K)">Search <kbd>Ctrl K</kbd></button>
        </div>
        <div class="row wide">
          <button class="button small plain" onClick=${() => setTheme(isDark.value ? "light" : "dark")}>
            ${isDark.value ? "Light theme" : "Dark theme"}</button>
          <button class="button small plain" onClick=${() => {
            helpOpen.value = true;
          }} aria-label="Keyboard shortcuts">?</button>
        </div>
        <div class="wide small truncate" title=${`${me.value.id} in the tenant ${me.value.tenant}`}>
          ${me.value.id} · ${me.value.tenant}</div>
        ${me.value.csrfToken && html`<button class="button small wide" onClick=${signOut}>Sign out</button>`}
      </div>
    </div>
    <main class="main" id="main" tabindex="-1"><${Page} /></main>
    <div class="toasts" role="status" aria-live="polite">
      ${toasts.value.map((one) => html`<div class=${`notice ${one.kind}`} key=${one.id}>${one.text}</div>`)}</div>
    ${paletteOpen.value && html`<${Palette} pages=${PAGES} />`}
    ${helpOpen.value && html`<${Help} pages=${PAGES} />`}
  </div>`;
}
