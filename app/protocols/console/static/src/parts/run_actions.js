// What can be done with a run: cancel, pause, steer, rerun, fork, undo, evidence. Each is one call of the API.
import { html, useState } from "../html.js";
import { attempt, post } from "../api.js";
import { ended, pretty } from "../format.js";
import { go } from "../router.js";
import { may } from "../state.js";

export function RunActions({ run, at, paused, reload }) {
  const [steering, steer] = useState(false);
  const [plan, setPlan] = useState(null);
  const path = `/api/runs/${encodeURIComponent(run.id)}`;
  const over = ended(run.status);
  const command = (name, args, done) =>
    attempt(() => post(`${path}/commands`, { command: name, arguments: args ?? {} }), done).then(reload);
  const rerun = async () => {
    const made = await attempt(() => post(`${path}/rerun`, {}), "Started again on a fork.");
    if (made) go("runs", made.id);
  };
  const fork = async () => {
    const made = await attempt(
      () => post(`/api/threads/${encodeURIComponent(run.threadId)}/fork`, at ? { seq: at } : {}),
      "Forked.",
    );
    if (made) go("playground", { thread: made.id, agent: run.agent ?? "" });
  };
  const planUndo = async () => {
    const made = await attempt(() => post(`${path}/undo/plan`, {}));
    if (made) setPlan(made);
  };
  if (!may("runs:write")) return html`<${Evidence} run=${run} />`;
  return html`
    ${!over && html`<button class="button danger" onClick=${() => attempt(() => post(`${path}/cancel`),
      "Cancelling.").then(reload)}>Cancel</button>`}
    ${!over && !paused && html`<button class="button" onClick=${() => command("pause", {},
      "Pauses before the next step.")}>Pause</button>`}
    ${!over && paused && html`<button class="button" onClick=${() => command("resume", {},
      "Resumed.")}>Resume</button>`}
    ${!over && html`<button class="button" onClick=${() => steer(true)}>Steer</button>`}
    ${over && html`<button class="button" onClick=${rerun}>Rerun</button>`}
    <button class="button" onClick=${fork}>Fork${at ? ` from ${at}` : ""}</button>
    ${over && html`<button class="button" onClick=${planUndo}>Undo plan</button>`}
    <${Evidence} run=${run} />
    ${
      steering &&
      html`<${Steer} close=${() => steer(false)} send=${(message) => {
        steer(false);
        command("steer", { message }, "Sent; the run takes it up at its next step.");
      }} />`
    }
    ${plan && html`<${UndoPlan} run=${run} plan=${plan} close=${() => setPlan(null)} />`}`;
}

function Evidence({ run }) {
  if (!may("audit:read")) return null;
  return html`<a class="button" href=${`/api/runs/${encodeURIComponent(run.id)}/evidence`}
      download>Export evidence</a>`;
}

function Dialog({ title, close, children }) {
  return html`<div class="veil" onClick=${(event) => {
    if (event.target === event.currentTarget) close();
  }} onKeyDown=${(event) => {
    if (event.key === "Escape") close();
  }}>
    <div class="dialog" role="dialog" aria-modal="true" aria-label=${title}><header><h2>${title}</h2></header>
      <div class="body stack">${children}</div></div></div>`;
}

function Steer({ close, send }) {
  const submit = (event) => {
    event.preventDefault();
    send(new FormData(event.target).get("message"));
  };
  return html`<${Dialog} title="Steer the run" close=${close}><form class="stack" onSubmit=${submit}>
    <label class="field"><span>Message</span><textarea class="input" name="message" required autofocus rows="4"
        placeholder="What the agent should know or do instead"></textarea></label>
    <div class="row"><button class="button primary">Send</button>
      <button class="button" type="button" onClick=${close}>Close</button></div></form></${Dialog}>`;
}

function UndoPlan({ run, plan, close }) {
  const actions = plan.actions ?? [];
  const execute = async () => {
    const made = await attempt(
      () => post(`/api/runs/${encodeURIComponent(run.id)}/undo`, { planHash: plan.planHash }),
      "Undoing.",
    );
    close();
    if (made) go("runs", made.id);
  };
  return html`<${Dialog} title="Undo plan" close=${close}>
    <p class="muted">What an undo of this run would do. Nothing has been changed yet.</p>
    ${actions.length === 0 && html`<p class="notice">This run made nothing that can be undone.</p>`}
    ${actions.map((action, index) => html`<div class="tool" key=${index}><div class="inside spaced"><div class="row">
      <span class="chip">${action.status}</span><strong class="mono">${action.tool}</strong>
      ${action.compensation && html`<span class="muted">→ ${action.compensation.tool}</span>`}</div><pre class="json">
      ${pretty(action.compensation?.arguments ?? action.reason ?? {})}</pre></div></div>`)}
    <div class="row">${actions.some((action) => action.compensation) && html`<button class="button danger"
        onClick=${execute}>Undo now</button>`}<button class="button" onClick=${close}>Close</button></div>
        </${Dialog}>`;
}
