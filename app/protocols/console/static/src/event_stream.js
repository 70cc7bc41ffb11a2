// Follows a thread's events over SSE: from a cursor on, again after every break, each event exactly once.
import { me } from "./state.js";

const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8000;
const SILENCE_MS = 40000; // the server writes a comment every 15 s
const WORK_MS = 12; // of reading at a time; then the page is painted before more is read
const HIDDEN_MS = 100; // how long to wait for a frame that does not come

// `accept(events)` gets batches in order and answers false to stop. Returns what stops it.
export function follow(threadId, after, accept, onState = () => {}) {
  const ending = new AbortController();
  run(threadId, after, accept, onState, ending.signal);
  return () => ending.abort();
}

async function run(threadId, after, accept, onState, signal) {
  let cursor = after;
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    onState("connecting");
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop);
    try {
      const answer = await fetch(`/api/threads/${encodeURIComponent(threadId)}/stream?after=${cursor}`, {
        signal: attempt.signal,
      });
      if (answer.status === 401) me.value = null;
      if (answer.status === 401 || answer.status === 403 || answer.status === 404 || answer.status === 410)
        return onState("ended");
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      onState("live");
      let painted = 0;
      for await (const events of frames(answer.body, attempt)) {
        const fresh = events.filter((event) => event.seq > cursor);
        if (!fresh.length) continue;
        wait = FIRST_WAIT_MS;
        cursor = fresh.at(-1).seq;
        if (accept(fresh) === false) {
          stop();
          return onState("ended");
        }
        if (performance.now() - painted > WORK_MS) {
          await nextFrame();
          painted = performance.now();
        }
      }
    } catch {
      // A break of any kind: the loop continues after the last event that was seen.
    } finally {
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    onState("connecting");
    await new Promise((done) => setTimeout(done, wait * (0.75 + Math.random() / 2)));
    wait = Math.min(LONGEST_WAIT_MS, wait * 2);
  }
}

// A page in the background is not painted, and reads on.
function nextFrame() {
  return new Promise((done) => {
    const late = setTimeout(done, HIDDEN_MS);
    requestAnimationFrame(() => {
      clearTimeout(late);
      setTimeout(done);
    });
  });
}

async function* frames(body, attempt) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const quiet = setTimeout(() => attempt.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(quiet));
    if (done) return;
    rest += value;
    const end = rest.lastIndexOf("\n\n");
    if (end < 0) continue;
    const blocks = rest.slice(0, end).split("\n\n");
    rest = rest.slice(end + 2);
    yield blocks.map(parse).filter(Boolean);
  }
}

// Only frames with an id are events; `end`, `problem` and comments have none.
function parse(block) {
  let data = "";
  let id = false;
  for (const line of block.split("\n")) {
    if (line.startsWith("data:")) data += line.slice(line[5] === " " ? 6 : 5);
    else if (line.startsWith("id:")) id = true;
  }
  return id && data ? JSON.parse(data) : null;
}
