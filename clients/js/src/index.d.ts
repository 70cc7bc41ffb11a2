// Types of the hand-written half of the client; those of the routes and of all objects are generated.
import type { Event, Interrupt, Run } from "./types.d.ts";
import { InterruptsRoutes, Resources, RunsRoutes, ThreadsRoutes } from "./routes.js";

export type * from "./types.d.ts";

/** A body that is not JSON. */
export type Content = Blob | Uint8Array<ArrayBuffer> | string | ReadableStream<Uint8Array>;

export interface CallOptions {
  /** Ends the request, and every attempt to repeat it. */
  signal?: AbortSignal;
}

export interface ClientOptions {
  /** The server's address; `http://127.0.0.1:8700` without it. */
  url?: string;
  /** An API key of the server. */
  key?: string;
  /** In place of the global one. */
  fetch?: typeof globalThis.fetch;
  /** The time limit of one request; 30 seconds without it. */
  timeoutMs?: number;
}

export interface FollowOptions extends CallOptions {
  /** The `seq` of the last event you have. */
  after?: number;
}

export declare class HoldfastError extends Error {}
export declare class ConnectionLost extends HoldfastError {}
export declare class ApiError extends HoldfastError {
  status: number;
  code: string;
  remedy: string;
  issues: Array<{ path: string; message: string }>;
}
export declare class RunNotCompleted extends HoldfastError {
  run: Run;
}

export declare class Connection {
  constructor(options: ClientOptions & { url: string });
  events(path: string, after?: number, signal?: AbortSignal): AsyncGenerator<Event, void, undefined>;
}

export declare class Runs extends RunsRoutes {
  follow(runId: string, options?: FollowOptions): AsyncGenerator<Event, void, undefined>;
  followText(runId: string, options?: FollowOptions): AsyncGenerator<string, void, undefined>;
  wait(runId: string, options?: CallOptions): Promise<Run>;
  output(runId: string, options?: CallOptions): Promise<unknown>;
}

export declare class Threads extends ThreadsRoutes {
  follow(threadId: string, options?: FollowOptions): AsyncGenerator<Event, void, undefined>;
}

export declare class Interrupts extends InterruptsRoutes {
  approve(interruptId: string, details?: { reason?: string; scope?: "session" }): Promise<Interrupt>;
  deny(interruptId: string, details?: { reason?: string }): Promise<Interrupt>;
  reply(interruptId: string, answers: unknown): Promise<Interrupt>;
}

export declare class Client extends Resources {
  constructor(options?: ClientOptions);
  runs: Runs;
  threads: Threads;
  interrupts: Interrupts;
}
