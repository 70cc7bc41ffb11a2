// What a newcomer sees instead of an empty list.
import { html } from "../html.js";
import { link } from "../router.js";

export const curlExample = (body) =>
  [
    `curl -s '${location.origin}/api/runs?wait=10' \\`,
    "  -H 'content-type: application/json' \\",
    `  -d '${JSON.stringify(body)}'`,
  ].join("\n");

export function FirstSteps() {
  return html`<section class="card" aria-label="First steps"><header><h2>First steps</h2></header>
    <div class="body stack">
    <p>Nothing has run yet. Three ways to begin:</p>
    <p>1. Talk to an agent in the <a href=${link("playground")}>playground</a>.</p>
    <p>2. Submit a run from a program:</p>
    <pre class="json">${curlExample({ input: "hello" })}</pre>
    <p>3. Point an OpenAI client at <code>${`${location.origin}/v1`}</code>.</p>
    <p class="muted">See <a href=${link("workspace")}>the workspace</a> for the agents, tools and workflows of this
      server.</p></div></section>`;
}
