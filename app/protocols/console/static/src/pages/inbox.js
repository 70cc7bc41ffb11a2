// The inbox: everything that waits for a person, across threads. One keystroke decides.
import { html, useEffect, useState } from "../html.js";
import { attempt, get, post } from "../api.js";
import { ago, nameOf, oneLine, Time } from "../format.js";
import { useKeys } from "../keyboard.js";
import { askPermission, granted, supported } from "../desktop_notice.js";
import { Empty, Loading, Problem, useNews, useResource } from "../resource.js";
import { link, route } from "../router.js";
import { may, now } from "../state.js";
import { Changes, Value } from "../parts/value.js";
import { QuestionForm, RecoveryForm } from "../parts/answer_forms.js";

const KINDS = {
  approval: "Approval",
  question: "Question",
  external: "Your tool",
  recovery: "Recovery",
  paused: "Paused",
};

export function Page() {
  const list = useResource(() => get("/api/interrupts", { status: "open", limit: 200 }));
  const [notify, setNotify] = useState(granted());
  useNews(
    (frame) => frame.type.startsWith("runtime.interrupt.") || frame.type.startsWith("runtime.memory."),
    list.reload,
  );
  const items = list.value?.items ?? [];
  const wanted = route.value.parts[1];
  const index = Math.max(
    0,
    items.findIndex((one) => one.id === wanted),
  );
  const current = items[index];
  const select = (to) => {
    const one = items[Math.max(0, Math.min(items.length - 1, to))];
    if (one)
      (history.replaceState(null, "", link("inbox", one.id)),
        (route.value = { ...route.value, parts: ["inbox", one.id] }));
  };
  const decide = async (decision, more = {}) => {
    if (!current || current.kind !== "approval") return;
    await attempt(
      () => post(`/api/interrupts/${encodeURIComponent(current.id)}/answer`, { decision, ...more }),
      decision === "approve" ? "Approved." : "Denied.",
    );
    list.reload();
  };
  useKeys({
    j: () => select(index + 1),
    k: () => select(index - 1),
    a: () => decide("approve"),
    d: () => decide("deny"),
  });
  return html`<div class="page full">
    <div class="page-head"><h1>Inbox</h1><span class="muted small" role="status">${items.length} waiting</span>
      <div class="actions">${supported && !notify && html`<button class="button small" onClick=${async () =>
        setNotify(await askPermission())}>Notify me on this desktop</button>`}</div></div>
    <${Problem} error=${list.error} />
    ${list.loading && html`<${Loading} />`}
    ${
      !list.loading &&
      !items.length &&
      html`<div class="card"><${Empty} title="Nothing waits for you">
      <p>Approvals, questions, memory candidates and calls whose outcome is unknown appear here, from every thread. A
        tool asks when its document says <code>approval: required</code>.</p></${Empty}></div>`
    }
    ${
      items.length > 0 &&
      html`<div class="master-detail">
      <section class="card" aria-label="Waiting" style=${{ overflowY: "auto" }}>
        ${items.map(
          (
            one,
            place,
          ) => html`<button class="list-item" key=${one.id} aria-current=${place === index ? "true" : undefined}
              onClick=${() => select(place)} data-interrupt=${one.id}>
          <div class="row"><span class="chip warn">${KINDS[one.kind] ?? one.kind}</span><strong class="truncate grow">
            ${one.tool ?? one.title}</strong><span class="small muted"><${Time} at=${one.createdAt} /></span></div>
          <div class="truncate muted small">${oneLine(one.arguments ?? one.title, 100)}</div></button>`,
        )}
      </section>
      ${current && html`<${Detail} key=${current.id} interrupt=${current} decide=${decide} reload=${list.reload} />`}
    </div>`
    }
  </div>`;
}

function Detail({ interrupt, decide, reload }) {
  const before = useResource(
    () => get(`/api/interrupts/${encodeURIComponent(interrupt.id)}/similar`),
    [interrupt.id],
  );
  const asking = useResource(
    async () => interrupt.runId && (await get(`/api/runs/${encodeURIComponent(interrupt.runId)}`)),
    [interrupt.runId],
  );
  const [reason, setReason] = useState("");
  const run = asking.value;
  const last = before.value?.interrupt;
  const answer = (body, done) =>
    attempt(() => post(`/api/interrupts/${encodeURIComponent(interrupt.id)}/answer`, body), done).then(reload);
  const can = may("interrupts:answer");
  useEffect(() => {
    document.title = `${interrupt.title} · Inbox · Holdfast`;
  }, [interrupt.id]);
  const why = reason ? { reason } : {};
  return html`<section class="card" aria-label="Details" style=${{ overflowY: "auto" }}>
    <header><span class="chip warn">${KINDS[interrupt.kind] ?? interrupt.kind}</span><h2 class="grow">
      ${interrupt.title}</h2>
      ${interrupt.runId && html`<a class="button small" href=${link("runs", interrupt.runId)}>Open the run</a>`}
        </header>
    <div class="body stack">
      <dl class="facts">${run && html`<dt>Asked by</dt><dd>${nameOf(run)}
        <span class="muted"> ${oneLine(run.input, 160)}</span></dd>`}
        <dt>Who may decide</dt><dd>${interrupt.approver ?? (interrupt.kind === "recovery" ?
        "operators" : "anybody who may answer")}</dd>
        <dt>Time left</dt><dd>${interrupt.expiresAt ? html`<span title=${interrupt.expiresAt}>
          ${ago(interrupt.expiresAt, now.value).replace(/^in /, "")}</span>` : "no limit"}</dd>
        ${interrupt.tool && html`<dt>Tool</dt><dd class="mono">${interrupt.tool}</dd>`}</dl>
      ${interrupt.arguments !== null && html`<div class="stack tight"><h3>
        ${interrupt.kind === "external" ? "What is asked of you" : "Arguments"}</h3>
        <${Value} value=${interrupt.arguments} threadId=${interrupt.threadId} label="Arguments" /></div>`}
      ${last && html`<details class="stack tight" open>
        <summary class="small muted">Changed since the last call of <span class="mono">${interrupt.tool}
        </span> (<${Time} at=${last.createdAt} />, ${last.answer?.decision ?? last.status})</summary>
        <${Changes} before=${last.arguments} after=${interrupt.arguments} /></details>`}
      ${
        interrupt.kind === "approval" &&
        (can
          ? html`<div class="stack">
        <label class="field"><span>Reason (optional)</span>
          <input class="input" value=${reason} onInput=${(event) => setReason(event.target.value)} /></label>
        <div class="row wrap"><button class="button primary" onClick=${() => decide("approve",
          why)}>Approve <kbd>a</kbd></button><button class="button danger" onClick=${() => decide("deny",
          why)}>Deny <kbd>d</kbd></button>
          ${interrupt.tool && html`<button class="button" onClick=${() => decide("approve", { scope: "session",
            ...why })}>Approve for this thread</button>`}</div></div>`
          : html`<p class="notice warn">Your key may look but not answer.</p>`)
      }
      ${interrupt.kind === "question" && can && html`<${QuestionForm} interrupt=${interrupt} answer=${answer} />`}
      ${interrupt.kind === "recovery" && html`<${RecoveryForm} answer=${answer} />`}
      ${interrupt.kind === "paused" && can && html`<div class="row">
        <button class="button primary" onClick=${() => attempt(() =>
        post(`/api/runs/${encodeURIComponent(interrupt.runId)}/commands`, { command: "resume", arguments: {} }),
        "Resumed.").then(reload)}>Resume the run</button></div>`}
      ${interrupt.kind === "external" && html`<p
          class="notice">A client's own tool is asked for; the client that submitted the run answers it.</p>`}
    </div></section>`;
}
