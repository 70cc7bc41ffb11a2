// LangGraph's packages for JavaScript, unmodified, against the server at $BASE_URL. Prints what each saw as JSON.
import { HttpAgentServerAdapter } from "@langchain/react";
import * as first from "langgraph-sdk-1";
import * as second from "langgraph-sdk-2";

const apiUrl = `${process.env.BASE_URL}/langgraph`;
const says = (content) => ({ messages: [{ type: "human", content }] });
const last = (values) => values.messages.at(-1).content;

/** The first protocol: every client speaks it. */
async function rest(Client) {
  const client = new Client({ apiUrl, apiKey: "any" });
  const seen = {};
  seen.assistants = (await client.assistants.search({ graphId: "helper" })).map((one) => one.graph_id);
  const { thread_id: thread } = await client.threads.create({ metadata: { from: "js" } });
  let text = "";
  const events = new Set();
  let run;
  const options = { input: says("what time is it"), streamMode: ["values", "updates", "messages-tuple"] };
  for await (const part of client.runs.stream(thread, "helper", { ...options, onRunCreated: (made) => (run = made) })) {
    events.add(part.event);
    if (part.event === "messages" && part.data[0].type === "AIMessageChunk") text += part.data[0].content;
  }
  seen.stream = [text, [...events].sort(), run.thread_id === thread];
  const ids = [];
  for await (const part of client.runs.joinStream(thread, run.run_id, { lastEventId: "-1" })) ids.push(part.id);
  const rest = [];
  for await (const part of client.runs.joinStream(thread, run.run_id, { lastEventId: ids[2] })) rest.push(part.id);
  seen.resumed = JSON.stringify(rest) === JSON.stringify(ids.slice(3));
  const paused = await client.runs.wait(thread, "helper", { input: says("publish it") });
  seen.paused = [paused.__interrupt__[0].value.action_requests[0].name, (await client.threads.get(thread)).status];
  const command = { resume: { decisions: [{ type: "approve" }] } };
  seen.approved = last(await client.runs.wait(thread, "helper", { command }));
  const slow = await client.runs.create(thread, "helper", { input: says("endlessly") });
  await client.runs.cancel(thread, slow.run_id, true);
  seen.cancelled = (await client.runs.get(thread, slow.run_id)).status;
  seen.state = (await client.threads.getState(thread)).next;
  seen.history = (await client.threads.getHistory(thread, { limit: 2 })).length;
  await client.threads.updateState(thread, { values: { messages: [{ type: "human", content: "noted" }] } });
  seen.updated = last((await client.threads.getState(thread)).values);
  const place = ["js", thread];
  await client.store.putItem(place, "k", { text: "tide" });
  seen.item = (await client.store.getItem(place, "k")).value;
  await client.store.deleteItem(place, "k");
  seen.gone = await client.store.getItem(place, "k");
  const cron = await client.crons.createForThread(thread, "helper", { schedule: "0 9 * * 1", input: says("weekly") });
  seen.crons = (await client.crons.search({ threadId: thread })).map((one) => one.schedule);
  await client.crons.delete(cron.cron_id);
  try {
    await client.threads.get("nothing");
  } catch (error) {
    seen.error = /404/.test(String(error.status ?? error.message)) || error.status === 404;
  }
  return seen;
}

/** The second protocol: commands and events. */
async function protocol(options) {
  const client = new first.Client({ apiUrl, apiKey: "any" });
  const thread = client.threads.stream({ assistantId: "helper", ...options });
  const seen = {};
  await thread.submitRun({ input: says("publish it") });
  for await (const one of thread.values) seen.before = one.messages.length;
  while (thread.interrupts.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  seen.asked = thread.interrupts[0].payload.action_requests[0].name;
  const { interruptId, namespace } = thread.interrupts[0];
  await thread.respondInput({ interrupt_id: interruptId, namespace, response: { decisions: [{ type: "approve" }] } });
  const [run] = await client.runs.list(thread.threadId);
  seen.output = last(await client.runs.join(thread.threadId, run.run_id));
  await thread.close();
  return seen;
}

const adapter = () => new HttpAgentServerAdapter({ apiUrl, threadId: crypto.randomUUID() });
const seen = {
  "1.12.0": await rest(first.Client),
  "2.0.0": await rest(second.Client),
  events: await protocol({}),
  react: await protocol({ transport: adapter() }),
};
console.log(JSON.stringify(seen));
process.exit(0);
