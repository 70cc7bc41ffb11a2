// How values are written for people: times in the reader's zone, durations, sizes, costs, states.
import { html } from "./html.js";
import { now } from "./state.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const short = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const dated = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

export const clockTime = (at) => clock.format(new Date(at));
export const count = (value) => whole.format(value ?? 0);
export const brief = (value) => compact.format(value ?? 0);

export function ago(at, current = Date.now()) {
  const seconds = Math.round((current - new Date(at)) / 1000);
  if (seconds < 5 && seconds > -5) return "now";
  const ahead = seconds < 0;
  const size = Math.abs(seconds);
  const said =
    size < 60
      ? `${size} s`
      : size < 3600
        ? `${Math.floor(size / 60)} min`
        : size < 86400
          ? `${Math.floor(size / 3600)} h`
          : size < 604800
            ? `${Math.floor(size / 86400)} d`
            : null;
  if (said === null) {
    const sameYear = new Date(at).getFullYear() === new Date(current).getFullYear();
    return (sameYear ? short : dated).format(new Date(at));
  }
  return ahead ? `in ${said}` : `${said} ago`;
}

export function Time({ at }) {
  if (!at) return html`<span class="faint">–</span>`;
  return html`<time class="nowrap" datetime=${at} title=${`${full.format(new Date(at))}\n${at}`}>${ago(at, now.value)}
    </time>`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
  return `${Math.floor(ms / 3600000)} h ${Math.round((ms % 3600000) / 60000)} min`;
}

export function cost(usd) {
  if (!usd) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(5)}` : `$${usd.toFixed(usd < 1 ? 3 : 2)}`;
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1048576 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1048576).toFixed(1)} MiB`;
}

const KINDS = {
  completed: "ok",
  failed: "bad",
  cancelled: "",
  running: "info",
  queued: "",
  waiting: "warn",
  open: "warn",
  resolved: "ok",
  expired: "bad",
  accepted: "ok",
  rejected: "bad",
  proposed: "warn",
  delivered: "ok",
  dead: "bad",
  pending: "",
};
const MOVING = new Set(["running"]);

export function Status({ value }) {
  return html`<span class=${`chip ${KINDS[value] ?? ""} ${MOVING.has(value) ? "moving" : ""}`}>${value}</span>`;
}

export const ended = (status) => status === "completed" || status === "failed" || status === "cancelled";

// One line of any input or output.
export function oneLine(value, limit = 200) {
  if (value === null || value === undefined) return "";
  const said =
    typeof value === "string"
      ? value
      : Array.isArray(value) && value.every((part) => typeof part === "object" && part !== null)
        ? value.map((part) => part.text ?? `[${part.type ?? "part"}]`).join(" ")
        : JSON.stringify(value);
  return said
    .slice(0, limit * 2)
    .replace(/\s+/g, " ")
    .slice(0, limit);
}

export const pretty = (value) => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));
export const nameOf = (run) => run.agent ?? run.workflow ?? run.tool ?? (run.undoOf ? "undo" : "–");
export const shortId = (id) => (id ? `${id.slice(0, 4)}…${id.slice(-6)}` : "");
