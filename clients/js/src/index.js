// The client of a Holdfast server for browsers and Node: requests with retries, and streams that go on where they
// were cut. The methods of each resource are generated (`routes.js`); what they send and what comes back is typed in
// `types.d.ts`. It needs nothing but `fetch`.
import { InterruptsRoutes, Resources, RunsRoutes, ThreadsRoutes } from "./routes.js";

const ATTEMPTS = 4;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
/** How long a stream that was cut is tried anew without a single event. */
const PATIENCE_MS = 120_000;
/** The server sends a comment every 15 seconds: a stream that is silent for longer than this is dead. */
const SILENCE_MS = 40_000;
const BUSY = new Set([429, 502, 503, 504]);
const STOPS = new Set([
  "runtime.request.completed",
  "runtime.request.failed",
  "runtime.request.cancelled",
  "runtime.interrupt.raised",
]);

/** Whatever this package throws. */
export class HoldfastError extends Error {}

/** The server did not answer, or stopped in the middle of an answer. */
export class ConnectionLost extends HoldfastError {
  name = "ConnectionLost";
}

/** An answer of 400 and above. `code` is stable and has its entry in the server's list of error codes. */
export class ApiError extends HoldfastError {
  name = "ApiError";

  constructor(status, code, message, remedy = "", issues = []) {
    super([`${code}: ${message}`, remedy].filter(Boolean).join(" "));
    Object.assign(this, { status, code, remedy, issues });
  }
}

/** `run` says how it ended, or which interrupts it waits on. */
export class RunNotCompleted extends HoldfastError {
  name = "RunNotCompleted";

  constructor(run) {
    const reason = run.error ? `${run.error.code}: ${run.error.message}` : `it is ${run.status}`;
    super(`run ${run.id} was not completed: ${reason}`);
    this.run = run;
  }
}

async function errorOf(answer) {
  const text = await answer.text().catch(() => "");
  try {
    const { code, message, remedy, issues } = JSON.parse(text).error;
    return new ApiError(answer.status, code, message, remedy, issues ?? []);
  } catch {
    const message = `The answer (${answer.status}) is not from a Holdfast server.`;
    return new ApiError(answer.status, "NOT_HOLDFAST", message, "Check the URL.");
  }
}

function pauseBefore(attempt, retryAfter) {
  const wanted = /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : FIRST_PAUSE_MS * 2 ** (attempt - 1);
  return Math.min(wanted, LONGEST_PAUSE_MS);
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stopped = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stopped);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stopped();
    else signal?.addEventListener("abort", stopped, { once: true });
  });
}

/** The events of a stream, line by line. */
class EventLines {
  ended = false;
  #name = "";
  #data = [];

  constructor(after) {
    this.after = after;
  }

  /** What had arrived of an event in pieces is sent again. */
  connectAgain() {
    this.#name = "";
    this.#data = [];
  }

  /** The event that this line completes, if it does. */
  feed(line) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (line === "" && this.#data.length > 0) {
      const name = this.#name;
      const data = JSON.parse(this.#data.join("\n"));
      this.connectAgain();
      return this.#frame(name, data);
    }
    return undefined;
  }

  #frame(name, data) {
    if (name === "end") this.ended = true;
    // After a problem the server closes; what stands in the way of the next connection is said there.
    if (name === "end" || name === "problem" || data.seq <= this.after) return undefined;
    this.after = data.seq;
    return data;
  }
}

/** Sends requests, and sends them again where that can do no harm. */
export class Connection {
  #url;
  #headers;
  #fetch;
  #timeout;

  constructor({ url, key, fetch: given, timeoutMs = 30_000 }) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    this.#fetch = given ?? globalThis.fetch.bind(globalThis);
    this.#timeout = timeoutMs;
  }

  async json(method, path, options = {}, request = {}) {
    return (await this.#send(method, path, options, request)).json();
  }

  async bytes(method, path, options = {}, request = {}) {
    return new Uint8Array(await (await this.#send(method, path, options, request)).arrayBuffer());
  }

  async nothing(method, path, options = {}, request = {}) {
    await (await this.#send(method, path, options, request)).arrayBuffer();
  }

  async #send(method, path, options, { query = [], body, content, contentType, keyed }) {
    const { signal } = options;
    const search = new URLSearchParams();
    for (const name of query) for (const value of [options[name] ?? []].flat()) search.append(name, value);
    const headers = { ...this.#headers };
    if (body !== undefined || contentType) headers["content-type"] = contentType ?? "application/json";
    if (keyed) headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();
    const sent = body === undefined ? content : JSON.stringify(body);
    const streamed = typeof ReadableStream !== "undefined" && sent instanceof ReadableStream;
    const repeatable = (keyed || ["GET", "PUT", "DELETE"].includes(method)) && !streamed;
    const address = `${this.#url}${path}${search.size ? `?${search}` : ""}`;
    for (let attempt = 1; ; attempt += 1) {
      let answer;
      let lost;
      try {
        // A long wait for a run's end is the server's to bound; everything else has a time limit.
        const limit = AbortSignal.timeout(this.#timeout + 1000 * Number(options.wait ?? 0));
        const stop = signal ? AbortSignal.any([signal, limit]) : limit;
        const duplex = streamed ? { duplex: "half" } : {};
        answer = await this.#fetch(address, { method, headers, body: sent, signal: stop, ...duplex });
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        lost = error;
      }
      if (answer?.ok) return answer;
      if (!repeatable || attempt >= ATTEMPTS || (answer && !BUSY.has(answer.status))) {
        if (answer) throw await errorOf(answer);
        throw new ConnectionLost(`${method} ${path}: ${lost}`, { cause: lost });
      }
      await pause(pauseBefore(attempt, answer?.headers.get("retry-after")), signal);
    }
  }

  /** The events after `after`, until the server says that nothing follows. */
  async *events(path, after = 0, signal = undefined) {
    const lines = new EventLines(after);
    let triedSince = Date.now();
    let attempt = 0;
    while (!lines.ended) {
      const before = lines.after;
      let lost;
      try {
        yield* this.#connected(path, lines, signal);
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        if (error instanceof HoldfastError) throw error;
        lost = error;
      }
      if (lines.ended) return;
      if (lines.after > before) [triedSince, attempt] = [Date.now(), 0];
      else if (Date.now() - triedSince > PATIENCE_MS) {
        throw new ConnectionLost(`${path}: the stream was cut, and no attempt to resume it succeeded`, { cause: lost });
      }
      attempt = Math.min(attempt + 1, 6);
      await pause(pauseBefore(attempt), signal);
    }
  }

  async *#connected(path, lines, signal) {
    lines.connectAgain();
    const silence = new AbortController();
    const dead = () => silence.abort(new ConnectionLost("the stream is silent"));
    let timer = setTimeout(dead, SILENCE_MS);
    try {
      const headers = { ...this.#headers, accept: "text/event-stream", "last-event-id": String(lines.after) };
      const stop = signal ? AbortSignal.any([signal, silence.signal]) : silence.signal;
      const answer = await this.#fetch(`${this.#url}${path}`, { headers, signal: stop, cache: "no-store" });
      if (BUSY.has(answer.status)) return;
      if (!answer.ok) throw await errorOf(answer);
      let rest = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      try {
        for (;;) {
          const { value, done } = await reader.read();
          if (done) return;
          clearTimeout(timer);
          timer = setTimeout(dead, SILENCE_MS);
          const found = (rest + value).split("\n");
          rest = found.pop();
          for (const line of found) {
            const event = lines.feed(line.endsWith("\r") ? line.slice(0, -1) : line);
            if (event !== undefined) yield event;
          }
        }
      } finally {
        await reader.cancel().catch(() => undefined);
      }
    } catch (error) {
      if (silence.signal.aborted) throw new Error("the stream is silent", { cause: error });
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Runs, and ways to stay with one. */
export class Runs extends RunsRoutes {
  /** The run's events, stored ones first, then new ones, to its end. `after` is the last `seq` you have. */
  follow(runId, { after = 0, signal } = {}) {
    return this.connection.events(`/api/runs/${encodeURIComponent(runId)}/stream`, after, signal);
  }

  /** The answer, piece by piece as it is written. If a model call is repeated, so are its pieces. */
  async *followText(runId, options = {}) {
    for await (const event of this.follow(runId, options)) {
      const signal = event.runId === runId ? event.payload.event : undefined;
      if (signal?.phase === "agent.output.delta" && signal.text) yield signal.text;
    }
  }

  /** The run when it has ended, or waits for an answer. */
  async wait(runId, { signal } = {}) {
    let after = 0;
    for (;;) {
      for await (const event of this.follow(runId, { after, signal })) {
        after = event.seq;
        if (event.runId === runId && STOPS.has(event.type)) break;
      }
      const run = await this.get(runId, { signal });
      if (run.status !== "queued" && run.status !== "running") return run;
    }
  }

  /** What a completed run answered. Throws `RunNotCompleted` for any other. */
  async output(runId, options = {}) {
    const run = await this.wait(runId, options);
    if (run.status !== "completed") throw new RunNotCompleted(run);
    return run.output;
  }
}

/** Threads, and their events as they happen. */
export class Threads extends ThreadsRoutes {
  /** The thread's events, stored ones first, then new ones, without end. */
  follow(threadId, { after = 0, signal } = {}) {
    return this.connection.events(`/api/threads/${encodeURIComponent(threadId)}/stream`, after, signal);
  }
}

/** What waits for an answer, and the usual answers. */
export class Interrupts extends InterruptsRoutes {
  approve(interruptId, details = {}) {
    return this.answer(interruptId, { decision: "approve", ...details });
  }

  deny(interruptId, details = {}) {
    return this.answer(interruptId, { decision: "deny", ...details });
  }

  /** To questions, in the shape that they ask for. */
  reply(interruptId, answers) {
    return this.answer(interruptId, { answers });
  }
}

/** Everything that the server offers, by resource. */
export class Client extends Resources {
  constructor({ url = "http://127.0.0.1:8700", key = undefined, fetch = undefined, timeoutMs = undefined } = {}) {
    const connection = new Connection({ url, key, fetch, timeoutMs });
    super(connection);
    this.runs = new Runs(connection);
    this.threads = new Threads(connection);
    this.interrupts = new Interrupts(connection);
  }
}
