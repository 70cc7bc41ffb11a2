// Where the page starts: who is it, then the shell with the page of the route.
import { effect, html, render } from "./html.js";
import { identify, explain } from "./api.js";
import { connect, disconnect } from "./live.js";
import { isDark, me } from "./state.js";
import { Shell } from "./shell.js";
import { SignIn } from "./pages/sign_in.js";

function App() {
  if (me.value === undefined) return html`<p class="starting" role="status">Starting the console…</p>`;
  return me.value === null ? html`<${SignIn} />` : html`<${Shell} />`;
}

effect(() => {
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
});
effect(() => {
  if (me.value) connect();
  else if (me.value === null) disconnect();
});

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
identify().catch((error) => {
  root.textContent = `The server cannot be reached: ${explain(error)} Reload the page to try again.`;
});
