// The live connection: one websocket for news of all runs. It only says that something changed; pages read it again.
import { liveState, me } from "./state.js";

const TYPES = [
  "runtime.request.*",
  "runtime.interrupt.*",
  "runtime.workspace.*",
  "runtime.memory.*",
  "runtime.job.*",
  "runtime.schedule.*",
];
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10000;
const PING_MS = 25000;
const listeners = new Set();
let socket = null;
let wait = FIRST_WAIT_MS;
let wanted = false;
let pinging = 0;

// Calls back with a frame, or with null after a gap: then whatever is shown must be read again.
export function onNews(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(frame) {
  for (const listener of [...listeners]) listener(frame);
}

function open() {
  if (!wanted || socket) return;
  liveState.value = "connecting";
  const url = new URL("/api/stream", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(url);
  socket.onopen = () => socket.send(JSON.stringify({ type: "subscribe", types: TYPES }));
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(data);
    if (frame.type === "ready") {
      wait = FIRST_WAIT_MS;
      liveState.value = "live";
      tell(null);
    } else if (frame.type !== "pong" && frame.part === 0) {
      tell(frame);
    }
  };
  socket.onclose = ({ code }) => {
    socket = null;
    if (!wanted) return;
    liveState.value = navigator.onLine === false ? "offline" : "connecting";
    if (code === 4401) me.value = null;
    setTimeout(open, wait * (0.75 + Math.random() / 2));
    wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    if (wait >= LONGEST_WAIT_MS) liveState.value = "offline";
  };
}

export function connect() {
  wanted = true;
  open();
  pinging ||= setInterval(() => {
    if (socket?.readyState === WebSocket.OPEN) socket.send('{"type":"ping"}');
  }, PING_MS);
}

export function disconnect() {
  wanted = false;
  socket?.close();
  socket = null;
}

addEventListener("online", () => {
  wait = FIRST_WAIT_MS;
  open();
});
