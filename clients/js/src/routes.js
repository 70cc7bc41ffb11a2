// Generated from the OpenAPI document by `make generate`; changes are made there.

export class AgentsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The agents */
  list(options = {}) {
    const path = "/api/agents";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The agents: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** The extensions in use */
  extensions(options = {}) {
    const path = "/api/agents/extensions";
    return this.connection.json("GET", path, options);
  }

  /** Load the extensions again: all of them, or none */
  extensionsReload(options = {}) {
    const path = "/api/agents/extensions/reload";
    return this.connection.json("POST", path, options);
  }

  /** One agent */
  get(name, options = {}) {
    const path = `/api/agents/${encodeURIComponent(name)}`;
    return this.connection.json("GET", path, options);
  }
}

export class ArtifactsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** What is known about it */
  get(artifactId, options = {}) {
    const path = `/api/artifacts/${encodeURIComponent(artifactId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Its content */
  content(artifactId, options = {}) {
    const path = `/api/artifacts/${encodeURIComponent(artifactId)}/content`;
    return this.connection.bytes("GET", path, options);
  }

  /** What changed since another version */
  diff(artifactId, options = {}) {
    const path = `/api/artifacts/${encodeURIComponent(artifactId)}/diff`;
    return this.connection.bytes("GET", path, options, { query: ["against"] });
  }
}

export class DatasetsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The newest version of each dataset, by name */
  list(options = {}) {
    const path = "/api/datasets";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The newest version of each dataset, by name: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Create the next version of a dataset */
  create(body, options = {}) {
    const path = "/api/datasets";
    return this.connection.json("POST", path, options, { body });
  }

  /** One version of a dataset */
  get(name, options = {}) {
    const path = `/api/datasets/${encodeURIComponent(name)}`;
    return this.connection.json("GET", path, options, { query: ["version"] });
  }

  /** Its cases, by id */
  cases(name, options = {}) {
    const path = `/api/datasets/${encodeURIComponent(name)}/cases`;
    return this.connection.json("GET", path, options, { query: ["version", "after", "limit"] });
  }

  /** Its cases, by id: every item, page after page. */
  async *iterateCases(name, options = {}) {
    let after = options.after;
    do {
      const page = await this.cases(name, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** A version as a file */
  export(name, options = {}) {
    const path = `/api/datasets/${encodeURIComponent(name)}/export`;
    return this.connection.bytes("GET", path, options, { query: ["version", "format"] });
  }

  /** Create the next version from a file */
  importCases(name, content, options = {}) {
    const path = `/api/datasets/${encodeURIComponent(name)}/import`;
    return this.connection.json("POST", path, options, { query: ["format"], content, contentType: "application/x-ndjson" });
  }

  /** A sample: the same seed and the same cases give the same one */
  sample(name, body, options = {}) {
    const path = `/api/datasets/${encodeURIComponent(name)}/sample`;
    return this.connection.json("POST", path, options, { body });
  }
}

export class DoctorRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** Check everything that this server needs */
  get(options = {}) {
    const path = "/api/doctor";
    return this.connection.json("GET", path, options);
  }
}

export class EvalsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The evaluations, newest first */
  list(options = {}) {
    const path = "/api/evals";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The evaluations, newest first: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Start an evaluation */
  create(body, options = {}) {
    const path = "/api/evals";
    return this.connection.json("POST", path, options, { body });
  }

  /** How far it is, and its scores */
  get(evaluationId, options = {}) {
    const path = `/api/evals/${encodeURIComponent(evaluationId)}`;
    return this.connection.json("GET", path, options);
  }

  /** End it before its last case */
  cancel(evaluationId, options = {}) {
    const path = `/api/evals/${encodeURIComponent(evaluationId)}/cancel`;
    return this.connection.json("POST", path, options);
  }

  /** The results as a page with plots that needs nothing else */
  report(evaluationId, options = {}) {
    const path = `/api/evals/${encodeURIComponent(evaluationId)}/report`;
    return this.connection.bytes("GET", path, options);
  }

  /** The results of every case */
  results(evaluationId, options = {}) {
    const path = `/api/evals/${encodeURIComponent(evaluationId)}/results`;
    return this.connection.json("GET", path, options);
  }
}

export class FilesRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The files, oldest first */
  list(options = {}) {
    const path = "/api/files";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The files, oldest first: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Upload a file */
  upload(content, options = {}) {
    const path = "/api/files";
    return this.connection.json("POST", path, options, { query: ["name"], content, contentType: "application/octet-stream" });
  }

  /** Delete the file */
  delete(fileId, options = {}) {
    const path = `/api/files/${encodeURIComponent(fileId)}`;
    return this.connection.nothing("DELETE", path, options);
  }

  /** What is known about it */
  get(fileId, options = {}) {
    const path = `/api/files/${encodeURIComponent(fileId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Its content */
  content(fileId, options = {}) {
    const path = `/api/files/${encodeURIComponent(fileId)}/content`;
    return this.connection.bytes("GET", path, options);
  }
}

export class GatesRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** How often each gate was passed, by agent and mode */
  list(options = {}) {
    const path = "/api/gates";
    return this.connection.json("GET", path, options, { query: ["agent", "since"] });
  }

  /** The same as one HTML page */
  report(options = {}) {
    const path = "/api/gates/report";
    return this.connection.bytes("GET", path, options, { query: ["agent", "since"] });
  }
}

export class InterruptsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** What waits for an answer, or did */
  list(options = {}) {
    const path = "/api/interrupts";
    return this.connection.json("GET", path, options, { query: ["status", "threadId", "after", "limit"] });
  }

  /** What waits for an answer, or did: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** One of them */
  get(interruptId, options = {}) {
    const path = `/api/interrupts/${encodeURIComponent(interruptId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Answer; the first one wins */
  answer(interruptId, body, options = {}) {
    const path = `/api/interrupts/${encodeURIComponent(interruptId)}/answer`;
    return this.connection.json("POST", path, options, { body });
  }

  /** The last one before it for the same tool */
  similar(interruptId, options = {}) {
    const path = `/api/interrupts/${encodeURIComponent(interruptId)}/similar`;
    return this.connection.json("GET", path, options);
  }
}

export class JobsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The jobs, newest first */
  list(options = {}) {
    const path = "/api/jobs";
    return this.connection.json("GET", path, options, { query: ["status", "type", "priority", "projectId", "sourceSessionId", "after", "limit"] });
  }

  /** The jobs, newest first: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** The job with the history of its attempts */
  get(jobId, options = {}) {
    const path = `/api/jobs/${encodeURIComponent(jobId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Cancel the job */
  cancel(jobId, options = {}) {
    const path = `/api/jobs/${encodeURIComponent(jobId)}/cancel`;
    return this.connection.json("POST", path, options);
  }
}

export class KeysRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The keys, revoked ones included */
  list(options = {}) {
    const path = "/api/keys";
    return this.connection.json("GET", path, options, { query: ["tenant", "after", "limit"] });
  }

  /** The keys, revoked ones included: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Create a key; its secret is shown here and never again */
  create(body, options = {}) {
    const path = "/api/keys";
    return this.connection.json("POST", path, options, { body });
  }

  /** Revoke a key; what it opened is closed */
  revoke(keyId, options = {}) {
    const path = `/api/keys/${encodeURIComponent(keyId)}`;
    return this.connection.json("DELETE", path, options, { query: ["tenant"] });
  }
}

export class LedgerRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** What was recorded about the tenant, newest first */
  list(options = {}) {
    const path = "/api/ledger";
    return this.connection.json("GET", path, options, { query: ["after", "limit", "type"] });
  }

  /** What was recorded about the tenant, newest first: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }
}

export class McpServersRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** Log out of a remote MCP server */
  deleteLogin(name, options = {}) {
    const path = `/api/mcp-servers/${encodeURIComponent(name)}/login`;
    return this.connection.nothing("DELETE", path, options);
  }

  /** Begin a login to a remote MCP server */
  login(name, body, options = {}) {
    const path = `/api/mcp-servers/${encodeURIComponent(name)}/login`;
    return this.connection.json("POST", path, options, { body });
  }

  /** Finish a login to a remote MCP server */
  loginComplete(name, body, options = {}) {
    const path = `/api/mcp-servers/${encodeURIComponent(name)}/login/complete`;
    return this.connection.json("POST", path, options, { body });
  }
}

export class MeRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** Who the caller is, and what it may do */
  get(options = {}) {
    const path = "/api/me";
    return this.connection.json("GET", path, options);
  }
}

export class MemoryRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The memories of the workspace, and how many records there are */
  get(options = {}) {
    const path = "/api/memory";
    return this.connection.json("GET", path, options);
  }

  /** Everything about one user, with all texts */
  export(options = {}) {
    const path = "/api/memory/export";
    return this.connection.json("GET", path, options, { query: ["user", "after", "limit"] });
  }

  /** Everything about one user, with all texts: every item, page after page. */
  async *iterateExport(options = {}) {
    let after = options.after;
    do {
      const page = await this.export({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Forget records, a user, a namespace, or what a query finds */
  forget(body, options = {}) {
    const path = "/api/memory/forget";
    return this.connection.json("POST", path, options, { body });
  }

  /** The records, oldest first */
  records(options = {}) {
    const path = "/api/memory/records";
    return this.connection.json("GET", path, options, { query: ["namespace", "status", "kind", "user", "after", "limit"] });
  }

  /** The records, oldest first: every item, page after page. */
  async *iterateRecords(options = {}) {
    let after = options.after;
    do {
      const page = await this.records({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Store a record; the policy of the memory decides */
  createRecord(body, options = {}) {
    const path = "/api/memory/records";
    return this.connection.json("POST", path, options, { body });
  }

  /** Forget a record: its text is deleted, a tombstone stays */
  deleteRecord(recordId, options = {}) {
    const path = `/api/memory/records/${encodeURIComponent(recordId)}`;
    return this.connection.json("DELETE", path, options);
  }

  /** One of them */
  getRecord(recordId, options = {}) {
    const path = `/api/memory/records/${encodeURIComponent(recordId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Change the text, confidence or expiry */
  updateRecord(recordId, body, options = {}) {
    const path = `/api/memory/records/${encodeURIComponent(recordId)}`;
    return this.connection.json("PATCH", path, options, { body });
  }

  /** Accept or reject a candidate; the first answer wins */
  decideRecord(recordId, body, options = {}) {
    const path = `/api/memory/records/${encodeURIComponent(recordId)}/decide`;
    return this.connection.json("POST", path, options, { body });
  }

  /** Rebuild the search index */
  reindex(options = {}) {
    const path = "/api/memory/reindex";
    return this.connection.json("POST", path, options);
  }

  /** Search a memory, best first */
  search(body, options = {}) {
    const path = "/api/memory/search";
    return this.connection.json("POST", path, options, { body });
  }
}

export class RetentionRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** How long this server keeps what */
  get(options = {}) {
    const path = "/api/retention";
    return this.connection.json("GET", path, options);
  }
}

export class RunsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The runs, newest first */
  list(options = {}) {
    const path = "/api/runs";
    return this.connection.json("GET", path, options, { query: ["status", "agent", "workflow", "text", "threadId", "label", "createdFrom", "createdUntil", "after", "limit"] });
  }

  /** The runs, newest first: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Submit a run */
  create(body, options = {}) {
    const path = "/api/runs";
    return this.connection.json("POST", path, options, { query: ["wait"], body, keyed: true });
  }

  /** The run as it stands */
  get(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}`;
    return this.connection.json("GET", path, options);
  }

  /** What the run made, by reference */
  artifacts(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/artifacts`;
    return this.connection.json("GET", path, options);
  }

  /** Whether its log is complete */
  audit(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/audit`;
    return this.connection.json("GET", path, options);
  }

  /** Cancel the run */
  cancel(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/cancel`;
    return this.connection.json("POST", path, options);
  }

  /** Steer, pause, resume, change the model or the limits, name a checkpoint */
  command(runId, body, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/commands`;
    return this.connection.json("POST", path, options, { body });
  }

  /** What the run changed in files */
  diff(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/diff`;
    return this.connection.bytes("GET", path, options);
  }

  /** The run's events, from a cursor on */
  events(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/events`;
    return this.connection.json("GET", path, options, { query: ["after", "limit", "type", "dialect"] });
  }

  /** The run's events, from a cursor on: every item, page after page. */
  async *iterateEvents(runId, options = {}) {
    let after = options.after;
    do {
      const page = await this.events(runId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** The evidence of a run */
  evidence(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/evidence`;
    return this.connection.bytes("GET", path, options);
  }

  /** What was said about a run, oldest first */
  feedback(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/feedback`;
    return this.connection.json("GET", path, options);
  }

  /** Say what a run that has ended was worth */
  giveFeedback(runId, body, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/feedback`;
    return this.connection.json("POST", path, options, { body, keyed: true });
  }

  /** The verdicts of the agent's gates about a completed run */
  judge(runId, body, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/gates`;
    return this.connection.json("POST", path, options, { body });
  }

  /** The graph of a workflow's run, with the state of each step */
  graph(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/graph`;
    return this.connection.json("GET", path, options, { query: ["format", "until"] });
  }

  /** What changed state, hash-linked */
  journal(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/journal`;
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** What changed state, hash-linked: every item, page after page. */
  async *iterateJournal(runId, options = {}) {
    let after = options.after;
    do {
      const page = await this.journal(runId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** What must be the same for a rerun to repeat the run */
  replayToken(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/replay-token`;
    return this.connection.json("GET", path, options);
  }

  /** Run the recorded input again */
  rerun(runId, body, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/rerun`;
    return this.connection.json("POST", path, options, { body });
  }

  /** Where the run stands, computed */
  snapshot(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/snapshot`;
    return this.connection.json("GET", path, options, { query: ["until"] });
  }

  /** The list of things to do as the run left it */
  todos(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/todos`;
    return this.connection.json("GET", path, options);
  }

  /** What happened when, in nine categories */
  trace(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/trace`;
    return this.connection.json("GET", path, options);
  }

  /** The run as UI events */
  uiEvents(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/ui/events`;
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The run as UI events: every item, page after page. */
  async *iterateUiEvents(runId, options = {}) {
    let after = options.after;
    do {
      const page = await this.uiEvents(runId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** What a page shows of it */
  uiState(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/ui/state`;
    return this.connection.json("GET", path, options);
  }

  /** One part of that */
  uiStateLane(runId, lane, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/ui/state/${encodeURIComponent(lane)}`;
    return this.connection.json("GET", path, options);
  }

  /** Undo the run as planned */
  undo(runId, body, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/undo`;
    return this.connection.json("POST", path, options, { query: ["wait"], body, keyed: true });
  }

  /** What an undo of the run would do; has no effect */
  undoPlan(runId, body, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/undo/plan`;
    return this.connection.json("POST", path, options, { body });
  }

  /** Tokens, cost and calls */
  usage(runId, options = {}) {
    const path = `/api/runs/${encodeURIComponent(runId)}/usage`;
    return this.connection.json("GET", path, options);
  }
}

export class SchedulesRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The schedules of the tenant */
  list(options = {}) {
    const path = "/api/schedules";
    return this.connection.json("GET", path, options);
  }

  /** Create a schedule */
  create(body, options = {}) {
    const path = "/api/schedules";
    return this.connection.json("POST", path, options, { body });
  }

  /** Delete a schedule that a client created */
  delete(schedule, options = {}) {
    const path = `/api/schedules/${encodeURIComponent(schedule)}`;
    return this.connection.nothing("DELETE", path, options);
  }

  /** One schedule, and when it is due next */
  get(schedule, options = {}) {
    const path = `/api/schedules/${encodeURIComponent(schedule)}`;
    return this.connection.json("GET", path, options, { query: ["count"] });
  }

  /** Pause a schedule */
  pause(schedule, options = {}) {
    const path = `/api/schedules/${encodeURIComponent(schedule)}/pause`;
    return this.connection.json("POST", path, options);
  }

  /** Resume a schedule */
  resume(schedule, options = {}) {
    const path = `/api/schedules/${encodeURIComponent(schedule)}/resume`;
    return this.connection.json("POST", path, options);
  }

  /** Run what the schedule runs, now */
  run(schedule, options = {}) {
    const path = `/api/schedules/${encodeURIComponent(schedule)}/run`;
    return this.connection.json("POST", path, options);
  }
}

export class ServerRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The process is alive */
  health(options = {}) {
    const path = "/healthz";
    return this.connection.json("GET", path, options);
  }

  /** Metrics in Prometheus' text format */
  metrics(options = {}) {
    const path = "/metrics";
    return this.connection.bytes("GET", path, options);
  }

  /** The server takes work */
  ready(options = {}) {
    const path = "/readyz";
    return this.connection.json("GET", path, options);
  }
}

export class SignInRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** Open a browser session for the key that the request shows */
  create(options = {}) {
    const path = "/api/sign-in";
    return this.connection.json("POST", path, options, { query: ["tenant"] });
  }
}

export class SignOutRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** End the browser session */
  create(options = {}) {
    const path = "/api/sign-out";
    return this.connection.nothing("POST", path, options);
  }
}

export class SkillsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** Skills that repeated runs suggest, best first */
  candidates(options = {}) {
    const path = "/api/skills/candidates";
    return this.connection.json("GET", path, options);
  }

  /** One of them, with its SKILL.md */
  candidate(candidateId, options = {}) {
    const path = `/api/skills/candidates/${encodeURIComponent(candidateId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Record that it is accepted; the caller writes the file */
  acceptCandidate(candidateId, options = {}) {
    const path = `/api/skills/candidates/${encodeURIComponent(candidateId)}/accept`;
    return this.connection.json("POST", path, options);
  }
}

export class StatsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** Runs, errors, tokens and cost over time */
  series(options = {}) {
    const path = "/api/stats/series";
    return this.connection.json("GET", path, options, { query: ["range"] });
  }
}

export class TenantsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The tenants that have keys */
  list(options = {}) {
    const path = "/api/tenants";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The tenants that have keys: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }
}

export class ThreadsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The threads, by id */
  list(options = {}) {
    const path = "/api/threads";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The threads, by id: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Create a thread */
  create(body, options = {}) {
    const path = "/api/threads";
    return this.connection.json("POST", path, options, { body });
  }

  /** Delete the thread */
  delete(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}`;
    return this.connection.nothing("DELETE", path, options);
  }

  /** The thread as it stands */
  get(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Change title, metadata, labels or the mark of an archived one */
  update(threadId, body, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}`;
    return this.connection.json("PATCH", path, options, { body });
  }

  /** What the thread's runs made, by reference */
  artifacts(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/artifacts`;
    return this.connection.json("GET", path, options, { query: ["name"] });
  }

  /** A large value that an event refers to */
  blob(threadId, sha256, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/blobs/${encodeURIComponent(sha256)}`;
    return this.connection.bytes("GET", path, options);
  }

  /** The thread's events, from a cursor on */
  events(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/events`;
    return this.connection.json("GET", path, options, { query: ["after", "limit", "type", "dialect"] });
  }

  /** The thread's events, from a cursor on: every item, page after page. */
  async *iterateEvents(threadId, options = {}) {
    let after = options.after;
    do {
      const page = await this.events(threadId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Correct a text of an event by another event */
  amendEvent(threadId, seq, body, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/events/${encodeURIComponent(seq)}/amend`;
    return this.connection.json("POST", path, options, { body });
  }

  /** The evidence of a thread */
  evidence(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/evidence`;
    return this.connection.bytes("GET", path, options);
  }

  /** The whole log of the thread as JSON lines */
  export(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/export`;
    return this.connection.bytes("GET", path, options, { query: ["format"] });
  }

  /** A new thread with this one's history */
  fork(threadId, body, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/fork`;
    return this.connection.json("POST", path, options, { body });
  }

  /** The history that the next run gets */
  messages(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/messages`;
    return this.connection.json("GET", path, options, { query: ["limit", "before"] });
  }

  /** Say something: a run on this thread */
  send(threadId, body, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/messages`;
    return this.connection.json("POST", path, options, { query: ["wait"], body, keyed: true });
  }

  /** The thread's list of things to do */
  todos(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/todos`;
    return this.connection.json("GET", path, options);
  }

  /** Add things to do, or change them */
  updateTodos(threadId, body, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/todos`;
    return this.connection.json("POST", path, options, { body });
  }

  /** What was said and done, message by message */
  transcript(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/transcript`;
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** What was said and done, message by message: every item, page after page. */
  async *iterateTranscript(threadId, options = {}) {
    let after = options.after;
    do {
      const page = await this.transcript(threadId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** The thread as UI events */
  uiEvents(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/ui/events`;
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The thread as UI events: every item, page after page. */
  async *iterateUiEvents(threadId, options = {}) {
    let after = options.after;
    do {
      const page = await this.uiEvents(threadId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** What a page shows of it */
  uiState(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/ui/state`;
    return this.connection.json("GET", path, options);
  }

  /** One part of that */
  uiStateLane(threadId, lane, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/ui/state/${encodeURIComponent(lane)}`;
    return this.connection.json("GET", path, options);
  }

  /** Whether the thread's chain of hashes is intact */
  verify(threadId, options = {}) {
    const path = `/api/threads/${encodeURIComponent(threadId)}/verify`;
    return this.connection.json("GET", path, options);
  }
}

export class ToolsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The tools of the workspace */
  list(options = {}) {
    const path = "/api/tools";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The tools of the workspace: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** One tool */
  get(name, options = {}) {
    const path = `/api/tools/${encodeURIComponent(name)}`;
    return this.connection.json("GET", path, options);
  }

  /** Run a tool, by no agent, through the same gate */
  invoke(name, body, options = {}) {
    const path = `/api/tools/${encodeURIComponent(name)}/invoke`;
    return this.connection.json("POST", path, options, { query: ["wait"], body, keyed: true });
  }
}

export class UiRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** What this runtime can do */
  capabilities(options = {}) {
    const path = "/api/ui/capabilities";
    return this.connection.json("GET", path, options);
  }

  /** Project UI events of any runtime */
  project(body, options = {}) {
    const path = "/api/ui/project";
    return this.connection.json("POST", path, options, { body });
  }

  /** Check UI events of any runtime */
  validate(body, options = {}) {
    const path = "/api/ui/validate";
    return this.connection.json("POST", path, options, { body });
  }
}

export class WebhooksRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The webhooks of the tenant */
  list(options = {}) {
    const path = "/api/webhooks";
    return this.connection.json("GET", path, options);
  }

  /** Create a webhook */
  create(body, options = {}) {
    const path = "/api/webhooks";
    return this.connection.json("POST", path, options, { body });
  }

  /** Delete a webhook and its deliveries */
  delete(webhookId, options = {}) {
    const path = `/api/webhooks/${encodeURIComponent(webhookId)}`;
    return this.connection.nothing("DELETE", path, options);
  }

  /** One webhook */
  get(webhookId, options = {}) {
    const path = `/api/webhooks/${encodeURIComponent(webhookId)}`;
    return this.connection.json("GET", path, options);
  }

  /** Change a webhook, enable or disable it */
  update(webhookId, body, options = {}) {
    const path = `/api/webhooks/${encodeURIComponent(webhookId)}`;
    return this.connection.json("PATCH", path, options, { body });
  }

  /** What was sent to the webhook, or is to be, newest first */
  deliveries(webhookId, options = {}) {
    const path = `/api/webhooks/${encodeURIComponent(webhookId)}/deliveries`;
    return this.connection.json("GET", path, options, { query: ["status", "after", "limit"] });
  }

  /** What was sent to the webhook, or is to be, newest first: every item, page after page. */
  async *iterateDeliveries(webhookId, options = {}) {
    let after = options.after;
    do {
      const page = await this.deliveries(webhookId, { ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** Send a delivery that has ended again, or every dead one */
  redeliver(webhookId, body, options = {}) {
    const path = `/api/webhooks/${encodeURIComponent(webhookId)}/redeliver`;
    return this.connection.json("POST", path, options, { body });
  }

  /** Give a webhook a new secret */
  rotateSecret(webhookId, options = {}) {
    const path = `/api/webhooks/${encodeURIComponent(webhookId)}/rotate-secret`;
    return this.connection.json("POST", path, options);
  }
}

export class WorkflowsRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The workflows */
  list(options = {}) {
    const path = "/api/workflows";
    return this.connection.json("GET", path, options, { query: ["after", "limit"] });
  }

  /** The workflows: every item, page after page. */
  async *iterate(options = {}) {
    let after = options.after;
    do {
      const page = await this.list({ ...options, after });
      yield* page.items;
      after = page.nextCursor ?? undefined;
    } while (after !== undefined);
  }

  /** One workflow */
  get(name, options = {}) {
    const path = `/api/workflows/${encodeURIComponent(name)}`;
    return this.connection.json("GET", path, options);
  }

  /** Its graph */
  graph(name, options = {}) {
    const path = `/api/workflows/${encodeURIComponent(name)}/graph`;
    return this.connection.json("GET", path, options, { query: ["format"] });
  }

  /** What it would do, without running it */
  plan(name, body, options = {}) {
    const path = `/api/workflows/${encodeURIComponent(name)}/plan`;
    return this.connection.json("POST", path, options, { body });
  }
}

export class WorkspaceRoutes {
  constructor(connection) {
    this.connection = connection;
  }

  /** The workspace in use, and the mistakes of its files */
  get(options = {}) {
    const path = "/api/workspace";
    return this.connection.json("GET", path, options);
  }

  /** What changed between two workspaces */
  compare(options = {}) {
    const path = "/api/workspace/compare";
    return this.connection.json("GET", path, options, { query: ["base", "head"] });
  }

  /** Read the workspace's files now */
  reload(options = {}) {
    const path = "/api/workspace/reload";
    return this.connection.json("POST", path, options);
  }
}

/** The resources that have nothing but their routes. */
export class Resources {
  constructor(connection) {
    this.agents = new AgentsRoutes(connection);
    this.artifacts = new ArtifactsRoutes(connection);
    this.datasets = new DatasetsRoutes(connection);
    this.doctor = new DoctorRoutes(connection);
    this.evals = new EvalsRoutes(connection);
    this.files = new FilesRoutes(connection);
    this.gates = new GatesRoutes(connection);
    this.jobs = new JobsRoutes(connection);
    this.keys = new KeysRoutes(connection);
    this.ledger = new LedgerRoutes(connection);
    this.mcpServers = new McpServersRoutes(connection);
    this.me = new MeRoutes(connection);
    this.memory = new MemoryRoutes(connection);
    this.retention = new RetentionRoutes(connection);
    this.schedules = new SchedulesRoutes(connection);
    this.server = new ServerRoutes(connection);
    this.signIn = new SignInRoutes(connection);
    this.signOut = new SignOutRoutes(connection);
    this.skills = new SkillsRoutes(connection);
    this.stats = new StatsRoutes(connection);
    this.tenants = new TenantsRoutes(connection);
    this.tools = new ToolsRoutes(connection);
    this.ui = new UiRoutes(connection);
    this.webhooks = new WebhooksRoutes(connection);
    this.workflows = new WorkflowsRoutes(connection);
    this.workspace = new WorkspaceRoutes(connection);
  }
}
