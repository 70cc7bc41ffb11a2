// The `@ag-ui/client` package, unmodified, against the server at $BASE_URL. Prints what it saw as JSON.
import { HttpAgent } from "@ag-ui/client";

const url = (agent) => `${process.env.BASE_URL}/agui/${agent}`;
const seen = {};

const agent = new HttpAgent({ url: url("assistant") });
const kinds = [];
const note = { onEvent: ({ event }) => void (kinds.at(-1) !== event.type && kinds.push(event.type)) };
agent.addMessage({ id: "m1", role: "user", content: "calculate it" });
await agent.runAgent({}, note);
seen.kinds = kinds;
seen.messages = agent.messages.map((message) => message.role);
seen.text = agent.messages.at(-1).content.split(" ").slice(0, 2).join(" ");

const approver = new HttpAgent({ url: url("assistant") });
approver.addMessage({ id: "m1", role: "user", content: "publish it now" });
let asked = [];
await approver.runAgent({}, { onRunFinishedEvent: ({ event }) => void (asked = event.outcome.interrupts) });
const resume = asked.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { decision: "approve" } }));
await approver.runAgent({ resume });
seen.approved = [asked.length, approver.messages.at(-1).content];

const page = new HttpAgent({ url: url("helper") });
const weather = {
  name: "weather",
  description: "The weather of a city.",
  parameters: { type: "object", required: ["city"], properties: { city: { type: "string" } } },
};
page.addMessage({ id: "m1", role: "user", content: "the weather" });
await page.runAgent({ tools: [weather] });
const call = page.messages.findLast((message) => message.toolCalls?.length).toolCalls[0];
page.addMessage({ id: "m2", role: "tool", toolCallId: call.id, content: `${JSON.parse(call.function.arguments).city}: fine` });
await page.runAgent({ tools: [weather] });
seen.tools = page.messages.at(-1).content;

const nobody = new HttpAgent({ url: url("nobody") });
nobody.addMessage({ id: "m1", role: "user", content: "x" });
seen.error = await nobody.runAgent({}).then(
  () => "no error",
  (error) => /404|AGENT_NOT_FOUND/.test(String(error.message)),
);

console.log(JSON.stringify(seen));
process.exit(0);
