// What users of the package write, against the server at $BASE_URL. Prints what it saw as JSON.
import { ApiError, Client, ConnectionLost, RunNotCompleted } from "../src/index.js";

const url = process.env.BASE_URL;
const client = new Client({ url });
const seen = {};

const run = await client.runs.create({ agent: "assistant", input: "please calculate", labels: { by: "javascript" } });
const events = [];
for await (const event of client.runs.follow(run.id)) events.push(event);
seen.dense = events.every((event, at) => event.runSeq === at + 1);
let text = "";
for await (const piece of client.runs.followText(run.id)) text += piece;
seen.text = [text, text === (await client.runs.output(run.id))];

const rest = [];
for await (const event of client.runs.follow(run.id, { after: events.at(-3).seq })) rest.push(event.seq);
seen.rest = rest.length;

const found = new Set();
for await (const one of client.runs.iterate({ limit: 1, label: ["by:javascript"] })) found.add(one.id);
seen.found = found.has(run.id);

const asked = await client.runs.wait((await client.runs.create({ agent: "assistant", input: "please publish" })).id);
seen.waiting = [asked.status, await client.runs.output(asked.id).catch((error) => error instanceof RunNotCompleted)];
await client.interrupts.approve(asked.waitingOn[0]);
seen.approved = (await client.runs.wait(asked.id)).status;

const file = await client.files.upload(new Uint8Array([1, 2, 3]), { name: "numbers.bin" });
seen.file = [...(await client.files.content(file.id))];
await client.files.delete(file.id);

const wrong = await client.runs.get("run_of_nobody").catch((error) => error);
seen.wrong = [wrong instanceof ApiError, wrong.status, wrong.code];

// The answer to the first attempt is lost; the second one has the same key.
const ids = [];
const losing = async (address, init) => {
  const answer = await fetch(address, init);
  if (init.method === "POST" && ids.push((await answer.clone().json()).id) === 1) throw new TypeError("lost");
  return answer;
};
await new Client({ url, fetch: losing }).runs.create({ agent: "echo", input: "once" });
seen.once = [ids.length, new Set(ids).size];

// Every stream is cut after a few bytes.
let cuts = 0;
const cutting = async (address, init) => {
  const answer = await fetch(address, init);
  if (!String(address).includes("/stream")) return answer;
  cuts += 1;
  let left = 500 * cuts;
  const cut = new TransformStream({
    transform(chunk, controller) {
      const piece = chunk.slice(0, left);
      left -= piece.length;
      controller.enqueue(piece);
      if (left === 0) controller.error(new TypeError("cut"));
    },
  });
  return new Response(answer.body.pipeThrough(cut), { status: answer.status, headers: answer.headers });
};
const pieces = [];
for await (const event of new Client({ url, fetch: cutting }).runs.follow(run.id)) pieces.push(event.seq);
seen.cut = [cuts > 2, JSON.stringify(pieces) === JSON.stringify(events.map((event) => event.seq))];

const stop = new AbortController();
const thread = client.threads.follow(run.threadId, { signal: stop.signal });
await thread.next();
stop.abort(new Error("enough"));
seen.stopped = await thread.next().then(async (one) => {
  let next = one;
  while (!next.done) next = await thread.next();
  return "ended";
}).catch((error) => error.message);

seen.nobody = await new Client({ url: "http://127.0.0.1:9" }).server.health().catch((e) => e instanceof ConnectionLost);
console.log(JSON.stringify(seen));
