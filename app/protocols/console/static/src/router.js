// Routes in the fragment of the address: #/runs/run_1/timeline?at=7. A page's filters live there, so links keep them.
import { signal } from "./html.js";

// What cannot be decoded was not made by `link`, and is looked for as it stands.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function read() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return {
    parts: path.split("/").filter(Boolean).map(decoded),
    query: Object.fromEntries(new URLSearchParams(query ?? "")),
  };
}

export const route = signal(read());
addEventListener("hashchange", () => {
  route.value = read();
});

export function link(...parts) {
  const last = parts.at(-1);
  const query = typeof last === "object" && last !== null ? parts.pop() : {};
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${search}`;
}

export function go(...parts) {
  location.hash = link(...parts);
}

// Changes the query in place: the back button leaves the page rather than undoing each keystroke of a filter.
export function setQuery(changes) {
  const { parts, query } = route.value;
  history.replaceState(null, "", link(...parts, { ...query, ...changes }));
  route.value = read();
}
