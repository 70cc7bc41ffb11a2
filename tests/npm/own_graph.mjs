// A graph of the user's own through LangGraph's packages for JavaScript, unmodified. The server is killed between the
// stages of $STAGE: begin, answer, again. $KEPT is a file in which one stage leaves what the next one needs.
import { readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { HttpAgentServerAdapter as ReactAdapter } from "@langchain/react";
import * as first from "langgraph-sdk-1";
import * as second from "langgraph-sdk-2";

const apiUrl = `${process.env.BASE_URL}/langgraph`;
const { STAGE: stage, KEPT: file } = process.env;
const kept = stage === "begin" ? {} : JSON.parse(readFileSync(file));
const seen = {};
const says = (content) => ({ messages: [{ type: "human", content }] });
const plain = (value) => JSON.parse(JSON.stringify(value ?? null));
const alike = (one, other) => isDeepStrictEqual(plain(one), plain(other)); // objects have no order
const difference = (one, other) => {
  const at = one.findIndex((each, number) => !alike(each, other[number]));
  return [one.length, other.length, at, JSON.stringify([one[at], other[at]]).slice(0, 1500)];
};
const insist = (holds, ...about) => {
  if (!holds) throw new Error(about.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(" "));
};

// -- the first protocol ---------------------------------------------------------------------------------

const modes = ["values", "updates", "messages-tuple", "custom", "checkpoints"];
const options = { streamMode: modes, streamSubgraphs: true, streamResumable: true };

/** Every frame of a run, and what a client gets that was cut off after each of them. */
async function cutEverywhere(client, { thread, run, parts }) {
  for (let number = -1; number < parts.length; number++) {
    const rest = [];
    const lastEventId = number < 0 ? "-1" : parts[number].id;
    for await (const part of client.runs.joinStream(thread, run, { lastEventId, streamMode: modes })) rest.push(part);
    insist(alike(rest, parts.slice(number + 1)), run, "was not resumed at", lastEventId, difference(rest, parts.slice(number + 1)));
  }
  return parts.length;
}

async function followed(client, thread, more) {
  let run;
  const parts = [];
  const onRunCreated = (made) => (run = made.run_id);
  for await (const part of client.runs.stream(thread, "own", { ...options, ...more, onRunCreated })) parts.push(part);
  return { thread, run, parts };
}

async function rest(name, Client) {
  const client = new Client({ apiUrl, apiKey: "any" });
  if (stage === "begin") {
    const { thread_id: thread } = await client.threads.create();
    kept[name] = [await followed(client, thread, { input: says(name) })];
    seen[name] = [...new Set(kept[name][0].parts.map((part) => part.event.split("|")[0]))].sort();
    return;
  }
  const thread = kept[name][0].thread;
  const cuts = [];
  for (const run of kept[name]) cuts.push((await cutEverywhere(client, run)) > 5);
  if (stage === "answer") {
    const [{ id, value }] = (await client.threads.getState(thread)).tasks[0].interrupts;
    await client.threads.updateState(thread, { values: { notes: ["meanwhile"] } });
    kept[name].push(await followed(client, thread, { command: { resume: { [id]: "fine" } } }));
    seen[name] = [cuts, value, (await client.runs.get(thread, kept[name][0].run)).status];
    return;
  }
  const { values, next } = await client.threads.getState(thread);
  const statuses = (await client.runs.list(thread)).map((run) => run.status);
  seen[name] = [cuts, values.verdict, values.notes, next, statuses, (await client.threads.get(thread)).status];
}

// -- the second protocol --------------------------------------------------------------------------------

const channels = ["values", "updates", "messages", "lifecycle", "input", "checkpoints", "tasks", "custom"];
const ends = new Set(["completed", "failed", "interrupted"]);
const isEnd = ({ method, params }) =>
  method === "lifecycle" && params.namespace.length === 0 && ends.has(params.data.event);

/** What a client gets from `since` on, until there is nothing more that it waits for. */
async function events(open, since, isLast) {
  const transport = await open();
  const frames = [];
  const source = await transport.subscribe({ channels, ...(since === undefined ? {} : { since }) });
  for await (const frame of source) {
    if (frame.type !== "event") continue;
    frames.push(frame);
    if (isLast(frame, frames)) break;
  }
  await transport.close();
  return frames;
}

async function cutEverywhereInEvents(open, frames) {
  const last = frames.at(-1).event_id;
  for (let number = 0; number < frames.length - 1; number++) {
    const had = frames.slice(0, number + 1);
    const since = Math.max(0, ...had.map((frame) => frame.seq ?? 0));
    const known = new Set(had.map((frame) => frame.event_id));
    const rest = (await events(open, since, (frame) => frame.event_id === last)).filter((one) => !known.has(one.event_id));
    const both = [...had, ...rest];
    insist(alike(both, frames), "the events were not resumed after", had.at(-1).event_id, difference(both, frames));
  }
  return frames.length;
}

const overHttp = (Adapter) => (threadId) => async () => {
  const adapter = new Adapter({ apiUrl, threadId });
  return {
    send: (command) => adapter.send(command),
    subscribe: async (params) => {
      const opened = adapter.openEventStream(params);
      await opened.ready;
      return opened.events;
    },
    close: () => adapter.close(),
  };
};
const overSocket = (Adapter) => (threadId) => async () => {
  const adapter = new Adapter({ apiUrl, threadId, webSocketFactory: (url) => new WebSocket(url) });
  await adapter.open();
  const source = adapter.events();
  return {
    send: (command) => adapter.send(command),
    subscribe: async (params) => {
      const made = await adapter.send({ id: 1, method: "subscription.subscribe", params });
      insist(made.type === "success", made);
      return source;
    },
    close: () => adapter.close(),
  };
};

async function commanded(open, method, params) {
  const transport = await open();
  const answer = await transport.send({ id: 7, method, params });
  insist(answer.type === "success", method, answer);
  await transport.close();
}

async function protocol(name, transports) {
  const thread = stage === "begin" ? `js-${name}-${process.env.RUN}` : kept[name].thread;
  const open = transports(thread);
  if (stage === "begin") {
    await commanded(open, "run.start", { assistant_id: "own", input: says(name) });
    kept[name] = { thread, frames: await events(open, undefined, isEnd) };
    seen[name] = [...new Set(kept[name].frames.map((frame) => frame.method))].sort();
    return;
  }
  const cuts = (await cutEverywhereInEvents(open, kept[name].frames)) > 10;
  if (stage === "answer") {
    const asked = kept[name].frames.find((frame) => frame.method === "input.requested").params.data;
    await commanded(open, "input.respond", { namespace: [], interrupt_id: asked.interrupt_id, response: "fine" });
    const twice = (frame, frames) => frames.filter(isEnd).length === 2;
    const frames = await events(open, undefined, twice);
    insist(alike(frames.slice(0, kept[name].frames.length), kept[name].frames), name, "tells another story now");
    kept[name].frames = frames;
    seen[name] = [cuts, asked.payload, frames.at(-1).params.data.event];
    return;
  }
  const values = kept[name].frames.filter((frame) => frame.method === "values").at(-1).params.data;
  seen[name] = [cuts, values.verdict, values.messages.at(-1).content];
}

await rest("1.12.0", first.Client);
await rest("2.0.0", second.Client);
const transports = {
  events: overHttp(first.HttpAgentServerAdapter),
  socket: overSocket(first.HttpAgentServerAdapter),
  react: overHttp(ReactAdapter),
  "react-socket": overSocket(ReactAdapter),
};
for (const name of process.env.PROTOCOLS.split(",")) await protocol(name, transports[name]);
writeFileSync(file, JSON.stringify(kept));
console.log(JSON.stringify(seen));
process.exit(0);
