// The `@ag-ui/client` package, unmodified: steps and state of a workflow, things to do, and a run whose stream is cut.
// It checks itself that events come in an order that the protocol allows. Prints what it saw as JSON.
import { HttpAgent } from "@ag-ui/client";

const url = (agent) => `${process.env.BASE_URL}/agui/${agent}`;
const seen = {};

const flow = new HttpAgent({ url: url("workflow:ship"), initialState: { mine: 1 } });
const steps = [];
let asked = [];
const notes = {
  onStepStartedEvent: ({ event }) => void steps.push(`+${event.stepName}`),
  onStepFinishedEvent: ({ event }) => void steps.push(`-${event.stepName}`),
  onRunFinishedEvent: ({ event }) => void (asked = event.outcome.interrupts ?? []),
};
flow.addMessage({ id: "m1", role: "user", content: "the goal" });
await flow.runAgent({}, notes);
seen.waiting = flow.state;
const resume = asked.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { decision: "approve" } }));
await flow.runAgent({ resume }, notes);
seen.done = flow.state;
seen.steps = steps;

const planner = new HttpAgent({ url: url("planner") });
planner.addMessage({ id: "m1", role: "user", content: "plan it" });
await planner.runAgent();
seen.todos = planner.state.holdfast.todos.map(({ id, status }) => `${id} ${status}`);

const cut = new HttpAgent({ url: url("assistant") });
cut.addMessage({ id: "m1", role: "user", content: "slowly please" });
const asking = cut.messages.slice();
await cut.runAgent({ runId: "cut" }, { onTextMessageContentEvent: () => void cut.abortRun() }).catch(() => {});
cut.setMessages(asking);
await cut.runAgent({ runId: "cut" });
seen.cut = cut.messages.map((message) => message.content);

console.log(JSON.stringify(seen));
process.exit(0);
