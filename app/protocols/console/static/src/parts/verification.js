// Whether the log of the run's thread holds: the chain of hashes, and whether every step that began also ended.
import { html, useState } from "../html.js";
import { get, explain } from "../api.js";
import { count } from "../format.js";
import { link } from "../router.js";

export function Verification({ run }) {
  const [found, setFound] = useState(null);
  const [busy, setBusy] = useState(false);
  const check = async () => {
    setBusy(true);
    try {
      const [chain, audit] = await Promise.all([
        get(`/api/threads/${encodeURIComponent(run.threadId)}/verify`),
        get(`/api/runs/${encodeURIComponent(run.id)}/audit`).catch((error) => ({ error })),
      ]);
      setFound({ chain, audit });
    } catch (error) {
      setFound({ error });
    }
    setBusy(false);
  };
  return html`<section class="card" aria-label="Verification"><header><h2>Verification</h2>
    <button class="button small" onClick=${check} disabled=${busy}>${busy ? "Checking…" : "Verify the log"}
    </button></header>
    <div class="body stack tight">
      ${!found && html`<p class="muted">Computes the hash of every event of this thread again.</p>`}
      ${found?.error && html`<p class="notice bad" role="alert">${explain(found.error)}</p>`}
      ${
        found?.chain &&
        (found.chain.intact
          ? html`<p class="notice ok" role="status">Chain intact: ${count(found.chain.events)} events.</p>
            <p class="hash" title="Head hash">${found.chain.lastSeq}:${found.chain.headHash}</p>`
          : html`<p class="notice bad"
              role="alert">Chain broken at event ${found.chain.broken.seq}: ${found.chain.broken.reason}. <a
              href=${link("runs", run.id, "events", { at: found.chain.broken.seq })}>Show it</a></p>`)
      }
      ${found?.audit && !found.audit.error && html`<p class=${`notice ${found.audit.complete ? "ok" :
        "warn"}`}>Audit: ${found.audit.complete ? "the record of this run is complete." :
        `incomplete: ${found.audit.missing.join(", ")}`}</p>`}
    </div></section>`;
}
