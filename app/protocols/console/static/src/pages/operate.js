// Operate: jobs, schedules, webhooks, extensions, keys, the ledger, retention, and how the server is.
import { html, useState } from "../html.js";
import { attempt, get, patch, post, remove } from "../api.js";
import { nameOf, oneLine, Status, Time } from "../format.js";
import { Empty, Problem, useResource } from "../resource.js";
import { link, route } from "../router.js";
import { may, toast } from "../state.js";
import { Doctor, Retention } from "../parts/doctor.js";
import { Listing } from "../parts/listing.js";
import { Value } from "../parts/value.js";

const TABS = [
  ["jobs", "Jobs"],
  ["schedules", "Schedules"],
  ["webhooks", "Webhooks"],
  ["extensions", "Extensions"],
  ["keys", "Keys"],
  ["ledger", "Ledger"],
  ["retention", "Retention"],
  ["doctor", "Doctor"],
];

export function Page() {
  const tab = route.value.parts[1] ?? "jobs";
  const Shown =
    {
      jobs: Jobs,
      schedules: Schedules,
      webhooks: Webhooks,
      extensions: Extensions,
      keys: Keys,
      ledger: Ledger,
      retention: Retention,
      doctor: Doctor,
    }[tab] ?? Jobs;
  return html`<div class="page"><div class="page-head"><h1>Operate</h1></div>
    <nav class="tabs" aria-label="Parts">${TABS.map(([name, label]) => html`<a key=${name} href=${link("operate",
      name)} aria-current=${name === tab ? "page" : undefined}>${label}</a>`)}</nav><${Shown} /></div>`;
}

function Jobs() {
  return html`<${Listing} path="/api/jobs" query=${{ limit: 100 }} title="Jobs" news="runtime.job." heads=${["Status",
    "Job", "Input", "Attempt", "Priority", "Next attempt", "Created", ""]}
    teach=${html`<p>A job is a run on the queue with a priority, attempts and a key against duplicates: <code>POST
      /api/runs</code> with <code>priority</code>, <code>attempts</code> or <code>dedupeKey</code>.</p>`}
    row=${(job, reload) => html`<td><${Status} value=${job.status} /></td><td class="nowrap"><a
      href=${link("runs", job.id)}>${nameOf(job)}</a></td><td>${oneLine(job.input, 80)}</td>
      <td>${job.attempt} of ${job.maxAttempts}</td><td class="nowrap">${job.priority}</td>
      <td><${Time} at=${job.nextAttemptAt} /></td><td><${Time} at=${job.createdAt} /></td><td>
      ${["queued", "running", "waiting"].includes(job.status) && may("runs:write") && html`<button
      class="button small danger" onClick=${() => attempt(() =>
      post(`/api/jobs/${encodeURIComponent(job.id)}/cancel`), "Cancelling.").then(reload)}>Cancel</button>`}
      </td>`} />`;
}

function Schedules() {
  const act = (one, verb, done, reload) =>
    attempt(() => post(`/api/schedules/${encodeURIComponent(one.name)}/${verb}`), done).then(reload);
  return html`<${Listing} path="/api/schedules" title="Schedules" news="runtime.schedule." heads=${["Name", "When",
    "Next firings", "Last run", "State", ""]}
    teach=${html`<p>A schedule submits a run once per due time. It is a document of the workspace, or made
      with <code>POST /api/schedules</code>.</p>`}
    row=${(
      one,
      reload,
    ) => html`<td><strong>${one.name}</strong>${one.declared && html` <span class="chip">workspace</span>`}
      <div class="muted small">${nameOf(one.run)} ${oneLine(one.run.input, 60)}</div></td>
      <td class="mono">${one.cron ?? one.at ?? (one.everySeconds ? `every ${one.everySeconds} s` : "")}
      <div class="muted small">${one.timezone ?? ""}</div></td>
      <td>${[one.next]
        .flat()
        .filter(Boolean)
        .slice(0, 3)
        .map(
          (at) => html`<div key=${at}><${Time} at=${at} /></div>`,
        )}</td><td>${one.lastRunId ? html`<a href=${link("runs", one.lastRunId)}>
          <${Time} at=${one.lastDueAt} /></a>` : "–"}</td><td>
          ${one.paused || !one.enabled ? html`<span class="chip warn">${one.paused ? "paused" : "off"}
          </span>` : one.next.length ? html`<span class="chip ok">active</span>` : html`<span
          class="chip">ended</span>`}</td>
      <td class="nowrap">${may("schedules:manage") && html`<button class="button small" onClick=${() => act(one,
        "run", "Submitted.", reload)}>Run now</button> <button class="button small" onClick=${() => act(one,
        one.paused ? "resume" : "pause", one.paused ? "Resumed." : "Paused.", reload)}>
        ${one.paused ? "Resume" : "Pause"}</button>`}</td>`} />`;
}

function Extensions() {
  const found = useResource(() => get("/api/agents/extensions"));
  const modules = found.value?.modules ?? [];
  return html`<section class="card" aria-label="Extensions"><header><h2>Extensions</h2><span class="muted small">
    ${modules.length}</span></header><${Problem} error=${found.error} />
    ${found.value && !modules.length && html`<${Empty} title="No extensions yet">
      <p>An extension handles events of the log, from a stored cursor on, at least once.</p></${Empty}>`}
    ${(found.value?.errors ?? []).map((one, index) => html`<p class="notice bad" key=${index}>
      ${one.extension ?? ""} ${one.message}</p>`)}
    ${modules.length > 0 && html`<div class="scroll-x" tabindex="0" role="region" aria-label="Table">
      <table class="table"><thead><tr><th>Name</th><th>Version</th><th>Origin</th><th>Trust</th>
      <th>Events</th></tr></thead><tbody>${modules.map((one) => html`<tr key=${one.name}><td><strong>
      ${one.displayName ?? one.name}</strong></td><td>${one.version ?? "–"}</td><td>${oneLine(one.origin, 60)}</td>
      <td>${oneLine(one.trust, 60)}</td><td>${oneLine(one.events, 120)}</td></tr>`)}</tbody></table></div>`}
      </section>`;
}

function Webhooks() {
  const [chosen, choose] = useState(null);
  const [made, setMade] = useState(null);
  const [version, again] = useState(0);
  const create = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const found = await attempt(() =>
      post("/api/webhooks", { url: given.url, events: given.events.split(/[\s,]+/).filter(Boolean) }),
    );
    if (found) {
      setMade(found);
      again(version + 1);
      event.target.reset();
    }
  };
  const path = (one) => `/api/webhooks/${encodeURIComponent(one)}`;
  return html`${made && html`<div class="notice ok" role="status">
    <p>The secret that signs its deliveries, shown only now:</p><pre class="json">${made.secret}</pre>
    <button class="button small" onClick=${() => setMade(null)}>I have kept it</button></div>`}
    <${Listing} key=${version} path="/api/webhooks" title="Webhooks" heads=${["Address", "Events", "State", ""]}
        teach=${html`<p>A webhook posts events to an address of yours, signed, at least once.</p>`}
      row=${(
        one,
        reload,
      ) => html`<td class="mono">${one.url}<div class="muted small">${one.description ?? ""}</div></td><td>
        ${(one.events ?? []).join(", ")}</td><td>${one.enabled ? html`<span class="chip ok">on</span>` : html`<span
        class="chip bad">off</span> ${one.disabledReason ?? ""}`}</td>
        <td class="nowrap"><button class="button small" onClick=${() =>
          choose(one.id)}>Deliveries</button> ${!one.declared && may("webhooks:manage") && html`<button
          class="button small" onClick=${() => attempt(() => patch(path(one.id), { enabled:
          !one.enabled })).then(reload)}>${one.enabled ? "Switch off" : "Switch on"}
          </button> <button class="button small danger" onClick=${() => attempt(() => remove(path(one.id)),
          "Deleted.").then(reload)}>Delete</button>`}</td>`}>
      ${may("webhooks:manage") && html`<form class="composer" onSubmit=${create}><label class="field grow">
        <span>Address</span><input class="input" name="url" type="url" required /></label><label class="field">
        <span>Events</span><input class="input" name="events" required placeholder="runtime.request.*" /></label>
        <button class="button primary">Create a webhook</button></form>`}</${Listing}>
    ${
      chosen &&
      html`<${Listing} key=${chosen} path=${`${path(chosen)}/deliveries`} query=${{ limit: 100 }} title="Deliveries"
          heads=${["Status", "Event", "Attempts", "Created", "Next attempt", ""]}
          teach=${html`<p>Nothing was delivered yet.</p>`} unsettled=${(one) => !one.endedAt}
      row=${(one, reload) => html`<td><${Status} value=${one.status} />
        <div class="muted small">${one.answer ?? ""}</div></td><td class="mono">${one.type}</td><td>
        ${Array.isArray(one.attempts) ? one.attempts.length : one.attempts}</td><td>
        <${Time} at=${one.createdAt} /></td><td><${Time} at=${one.nextAttemptAt} /></td><td>
        ${one.endedAt && html`<button class="button small" onClick=${() => attempt(() =>
        post(`${path(chosen)}/redeliver`, { deliveryId: one.id }),
        "Sent again.").then(reload)}>Deliver again</button>`}</td>`} />`
    }`;
}

function Keys() {
  const [made, setMade] = useState(null);
  const [version, again] = useState(0);
  if (!may("keys:manage")) return html`<p class="notice warn">Your key may not manage keys.</p>`;
  const create = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const found = await attempt(() =>
      post("/api/keys", {
        name: given.name,
        roles: [given.role],
        ...(given.days ? { expiresInDays: Number(given.days) } : {}),
      }),
    );
    if (found) {
      setMade(found);
      again(version + 1);
      event.target.reset();
    }
  };
  return html`${
    made &&
    html`<div class="notice ok" role="status"><p>The key <strong>${made.name}</strong>, shown only now:</p>
      <pre class="json">${made.key}</pre><button class="button small" onClick=${() => {
      navigator.clipboard?.writeText(made.key);
      toast("Copied.", "ok");
    }}>Copy</button> <button class="button small" onClick=${() => setMade(null)}>I have kept it</button></div>`
  }
    <${Listing} key=${version} path="/api/keys" query=${{ limit: 200 }} title="Keys" heads=${["Name", "Roles",
      "Created", "Expires", "State", ""]}
      teach=${html`<p>A key belongs to a tenant and has roles. Its secret is shown once.</p>`}
      row=${(one, reload) => html`<td><strong>${one.name}</strong><div class="mono small muted">${one.id}</div></td>
        <td>${[...one.roles, ...one.scopes].join(", ")}</td><td><${Time} at=${one.createdAt} /></td><td>
        <${Time} at=${one.expiresAt} /></td><td>${one.revokedAt ? html`<span class="chip bad">revoked</span>` :
        html`<span class="chip ok">valid</span>`}</td><td>
        ${!one.revokedAt && html`<button class="button small danger" onClick=${() => attempt(() =>
        remove(`/api/keys/${encodeURIComponent(one.id)}`),
        "Revoked; its sessions have ended.").then(reload)}>Revoke</button>`}</td>`}>
      <form class="composer" onSubmit=${create}><label class="field"><span>Name</span>
        <input class="input" name="name" required maxlength="200" /></label><label class="field"><span>Role</span>
        <select class="input" name="role">${["viewer", "member", "operator", "admin"].map((one) => html`<option
        key=${one}>${one}</option>`)}</select></label><label class="field"><span>Days</span>
        <input class="input" name="days" type="number" min="1" max="3650" placeholder="no end" /></label>
        <button class="button primary">Create a key</button></form></${Listing}>`;
}

function Ledger() {
  const [chosen, choose] = useState(null);
  if (!may("audit:read")) return html`<p class="notice warn">Your key may not read the ledger.</p>`;
  return html`<${Listing} path="/api/ledger" query=${{ limit: 200 }} title="Ledger" heads=${["When", "What", "Who",
    "Details"]}
    teach=${html`<p>Keys, reloads of the workspace and denied accesses are recorded here, in a chain of hashes of
      their own.</p>`}
    row=${(event) => html`<td><${Time} at=${event.at} /></td><td class="mono">${event.type.replace("runtime.", "")}
      </td><td>${event.actor}</td><td><button class="button small plain" onClick=${() => choose(event)}>
      ${oneLine(event.payload, 90) || "–"}</button></td>`} />
    ${chosen && html`<section class="card" aria-label="Entry"><header><h2>Entry ${chosen.seq}</h2></header>
      <div class="body"><${Value} value=${chosen} threadId="sys_ledger" label="Entry" /></div></section>`}`;
}
