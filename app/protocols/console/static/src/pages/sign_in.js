// Signing in: the key goes to the server once and comes back as a cookie that scripts cannot read.
import { html, useState } from "../html.js";
import { explain, signIn } from "../api.js";

export function SignIn() {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const key = new FormData(event.target).get("key").trim();
    setBusy(true);
    setProblem("");
    try {
      await signIn(key);
    } catch (error) {
      setProblem(error.code === "UNAUTHENTICATED" ? "This key is not valid, or it was revoked." : explain(error));
      setBusy(false);
    }
  };
  return html`<main class="sign-in">
    <form class="card" onSubmit=${submit}>
      <div class="body stack">
        <div class="row"><img src="mark.svg" alt="" width="28" height="28" /><h1>Holdfast</h1></div>
        <p class="muted">Sign in with an API key of this server. It is exchanged for a session of 12 hours; the page
          itself keeps no key.</p>
        <label class="field"><span>API key</span>
          <input class="input mono" name="key" type="password" autocomplete="current-password" required autofocus />
            </label>
        ${problem && html`<p class="notice bad" role="alert">${problem}</p>`}
        <button class="button primary" disabled=${busy}>${busy ? "Signing in…" : "Sign in"}</button>
        <p class="small muted">No key yet? <code>holdfast keys create --role admin</code> makes one on the server.</p>
      </div>
    </form>
  </main>`;
}
