// Line icons, drawn here so that nothing is fetched.
import { html } from "./html.js";

const PATHS = {
  home: "M3 11 12 4l9 7v9h-6v-6H9v6H3z",
  runs: "M4 6h16M4 12h16M4 18h10",
  inbox: "M3 13h5l2 3h4l2-3h5M5 5h14l2 8v6H3v-6z",
  playground: "M4 5h16v11H9l-5 4z",
  workspace: "M12 3v6M12 9 5 15M12 9l7 6M3 15h4v4H3zM17 15h4v4h-4zM10 3h4",
  evals: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  memory: "M12 4a8 4 0 0 1 0 8 8 4 0 0 1 0-8zM4 8v8c0 2 4 4 8 4s8-2 8-4V8",
  operate:
    "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM12 3v3M12 18v3M3 12h3M18 12h3" +
    "M5.6 5.6l2.1 2.1M16.3 16.3l2.1 2.1M18.4 5.6l-2.1 2.1M7.7 16.3l-2.1 2.1",
};

export function Icon({ name }) {
  return html`<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"
      stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
