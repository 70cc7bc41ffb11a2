// How a program in TypeScript uses the client: checked by the compiler, never run. Each expected error is a mistake that
// the types must catch.
import { ApiError, Client } from "./client/src/index.js";
import type { Run } from "./client/src/index.js";

const client = new Client({ url: "http://127.0.0.1:8700", key: "key", timeoutMs: 1000 });

export async function use(signal: AbortSignal): Promise<string> {
  const run: Run = await client.runs.create({ agent: "assistant", input: "hello" }, { wait: 10 });
  for await (const event of client.runs.follow(run.id, { after: 0, signal })) {
    const seq: number = event.seq;
    if (seq > 100) break;
  }
  for await (const piece of client.runs.followText(run.id)) piece.toUpperCase();
  for await (const one of client.runs.iterate({ status: "waiting" })) one.waitingOn;
  await client.interrupts.approve("int_1", { reason: "fine" });
  const forgotten: Promise<unknown> = client.runs.output(run.id);
  // @ts-expect-error: there is no such status
  await client.runs.list({ status: "sleeping" });
  // @ts-expect-error: a run is found by its id
  await client.runs.get();
  // @ts-expect-error: nothing is called so
  await client.runs.begin({ agent: "assistant" });
  // @ts-expect-error: the field of a run has another name
  run.thread_id;
  try {
    await forgotten;
  } catch (error) {
    if (error instanceof ApiError) return `${error.status} ${error.code}: ${error.remedy}`;
  }
  return run.threadId;
}
