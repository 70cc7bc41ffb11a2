// The `@ag-ui/client` package, unmodified: leaves a run at each of its events, and asks for it again in another process.
// `PHASE=cut` leaves, `PHASE=again` asks again. Prints, by the number of events that had come, what the messages are.
import { HttpAgent } from "@ag-ui/client";

const { BASE_URL, PHASE, TAG } = process.env;
const events = Number(process.env.EVENTS);

async function conversation(number) {
  const agent = new HttpAgent({ url: `${BASE_URL}/agui/assistant`, threadId: `${TAG}-${number}` });
  agent.addMessage({ id: "m1", role: "user", content: "calculate it" });
  let come = 0;
  const leave = { onEvent: () => void (++come === number && agent.abortRun()) };
  const running = agent.runAgent({ runId: `${TAG}-${number}` }, PHASE === "cut" ? leave : {});
  await (PHASE === "cut" ? running.catch(() => {}) : running);
  return agent.messages.map((message) => [message.role, message.content ?? ""]);
}

const numbers = Array.from({ length: events }, (_, n) => n + 1);
console.log(JSON.stringify(await Promise.all(numbers.map(conversation))));
process.exit(0);
