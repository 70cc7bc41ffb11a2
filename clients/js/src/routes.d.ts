// Generated from the OpenAPI document by `make generate`; changes are made there.
import type * as types from "./types.d.ts";
import type { CallOptions, Connection, Content } from "./index.d.ts";

export declare class AgentsRoutes {
  constructor(connection: Connection);
  /** The agents */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.AgentPage>;
  /** The agents: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Agent, void, undefined>;
  /** The extensions in use */
  extensions(options?: CallOptions): Promise<types.ExtensionList>;
  /** Load the extensions again: all of them, or none */
  extensionsReload(options?: CallOptions): Promise<types.ExtensionsReloadedAnswer>;
  /** One agent */
  get(name: string, options?: CallOptions): Promise<types.Agent>;
}

export declare class ArtifactsRoutes {
  constructor(connection: Connection);
  /** What is known about it */
  get(artifactId: string, options?: CallOptions): Promise<types.Artifact>;
  /** Its content */
  content(artifactId: string, options?: CallOptions): Promise<Uint8Array>;
  /** What changed since another version */
  diff(artifactId: string, options?: CallOptions & { against?: string | null }): Promise<Uint8Array>;
}

export declare class DatasetsRoutes {
  constructor(connection: Connection);
  /** The newest version of each dataset, by name */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.DatasetPage>;
  /** The newest version of each dataset, by name: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Dataset, void, undefined>;
  /** Create the next version of a dataset */
  create(body: types.CreateDataset, options?: CallOptions): Promise<types.Dataset>;
  /** One version of a dataset */
  get(name: string, options?: CallOptions & { version?: number | null }): Promise<types.Dataset>;
  /** Its cases, by id */
  cases(name: string, options?: CallOptions & { version?: number | null; after?: string | number; limit?: number }): Promise<types.CasePage>;
  /** Its cases, by id: every item, page after page. */
  iterateCases(name: string, options?: CallOptions & { version?: number | null; after?: string | number; limit?: number }): AsyncGenerator<types.Case, void, undefined>;
  /** A version as a file */
  export(name: string, options?: CallOptions & { version?: number | null; format?: "jsonl" | "yaml" }): Promise<Uint8Array>;
  /** Create the next version from a file */
  importCases(name: string, content: Content, options?: CallOptions & { format?: "jsonl" | "yaml" }): Promise<types.Dataset>;
  /** A sample: the same seed and the same cases give the same one */
  sample(name: string, body: types.SampleDataset, options?: CallOptions): Promise<types.Sample>;
}

export declare class DoctorRoutes {
  constructor(connection: Connection);
  /** Check everything that this server needs */
  get(options?: CallOptions): Promise<types.DoctorReport>;
}

export declare class EvalsRoutes {
  constructor(connection: Connection);
  /** The evaluations, newest first */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.EvaluationPage>;
  /** The evaluations, newest first: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Evaluation, void, undefined>;
  /** Start an evaluation */
  create(body: types.StartEvaluation, options?: CallOptions): Promise<types.Evaluation>;
  /** How far it is, and its scores */
  get(evaluationId: string, options?: CallOptions): Promise<types.Evaluation>;
  /** End it before its last case */
  cancel(evaluationId: string, options?: CallOptions): Promise<types.Evaluation>;
  /** The results as a page with plots that needs nothing else */
  report(evaluationId: string, options?: CallOptions): Promise<Uint8Array>;
  /** The results of every case */
  results(evaluationId: string, options?: CallOptions): Promise<types.EvaluationReport>;
}

export declare class FilesRoutes {
  constructor(connection: Connection);
  /** The files, oldest first */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.FilePage>;
  /** The files, oldest first: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.File, void, undefined>;
  /** Upload a file */
  upload(content: Content, options?: CallOptions & { name?: string | null }): Promise<types.File>;
  /** Delete the file */
  delete(fileId: string, options?: CallOptions): Promise<void>;
  /** What is known about it */
  get(fileId: string, options?: CallOptions): Promise<types.File>;
  /** Its content */
  content(fileId: string, options?: CallOptions): Promise<Uint8Array>;
}

export declare class GatesRoutes {
  constructor(connection: Connection);
  /** How often each gate was passed, by agent and mode */
  list(options?: CallOptions & { agent?: string | null; since?: string | null }): Promise<types.GateRatePage>;
  /** The same as one HTML page */
  report(options?: CallOptions & { agent?: string | null; since?: string | null }): Promise<Uint8Array>;
}

export declare class InterruptsRoutes {
  constructor(connection: Connection);
  /** What waits for an answer, or did */
  list(options?: CallOptions & { status?: "open" | "resolved" | "expired" | null; threadId?: string | null; after?: string | number; limit?: number }): Promise<types.InterruptPage>;
  /** What waits for an answer, or did: every item, page after page. */
  iterate(options?: CallOptions & { status?: "open" | "resolved" | "expired" | null; threadId?: string | null; after?: string | number; limit?: number }): AsyncGenerator<types.Interrupt, void, undefined>;
  /** One of them */
  get(interruptId: string, options?: CallOptions): Promise<types.Interrupt>;
  /** Answer; the first one wins */
  answer(interruptId: string, body: types.Answer, options?: CallOptions): Promise<types.Interrupt>;
  /** The last one before it for the same tool */
  similar(interruptId: string, options?: CallOptions): Promise<types.SimilarInterrupt>;
}

export declare class JobsRoutes {
  constructor(connection: Connection);
  /** The jobs, newest first */
  list(options?: CallOptions & { status?: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled" | null; type?: string | null; priority?: "interactive" | "background" | null; projectId?: string | null; sourceSessionId?: string | null; after?: string | number; limit?: number }): Promise<types.JobPage>;
  /** The jobs, newest first: every item, page after page. */
  iterate(options?: CallOptions & { status?: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled" | null; type?: string | null; priority?: "interactive" | "background" | null; projectId?: string | null; sourceSessionId?: string | null; after?: string | number; limit?: number }): AsyncGenerator<types.Job, void, undefined>;
  /** The job with the history of its attempts */
  get(jobId: string, options?: CallOptions): Promise<types.Job>;
  /** Cancel the job */
  cancel(jobId: string, options?: CallOptions): Promise<types.Job>;
}

export declare class KeysRoutes {
  constructor(connection: Connection);
  /** The keys, revoked ones included */
  list(options?: CallOptions & { tenant?: string | null; after?: string | number; limit?: number }): Promise<types.KeyPage>;
  /** The keys, revoked ones included: every item, page after page. */
  iterate(options?: CallOptions & { tenant?: string | null; after?: string | number; limit?: number }): AsyncGenerator<types.Key, void, undefined>;
  /** Create a key; its secret is shown here and never again */
  create(body: types.CreateKey, options?: CallOptions): Promise<types.NewKey>;
  /** Revoke a key; what it opened is closed */
  revoke(keyId: string, options?: CallOptions & { tenant?: string | null }): Promise<types.Key>;
}

export declare class LedgerRoutes {
  constructor(connection: Connection);
  /** What was recorded about the tenant, newest first */
  list(options?: CallOptions & { after?: string | number; limit?: number; type?: string | null }): Promise<types.EventPage>;
  /** What was recorded about the tenant, newest first: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number; type?: string | null }): AsyncGenerator<types.Event, void, undefined>;
}

export declare class McpServersRoutes {
  constructor(connection: Connection);
  /** Log out of a remote MCP server */
  deleteLogin(name: string, options?: CallOptions): Promise<void>;
  /** Begin a login to a remote MCP server */
  login(name: string, body: types.BeginMcpLogin, options?: CallOptions): Promise<types.McpLoginBegun>;
  /** Finish a login to a remote MCP server */
  loginComplete(name: string, body: types.FinishMcpLogin, options?: CallOptions): Promise<types.McpLogin>;
}

export declare class MeRoutes {
  constructor(connection: Connection);
  /** Who the caller is, and what it may do */
  get(options?: CallOptions): Promise<types.Me>;
}

export declare class MemoryRoutes {
  constructor(connection: Connection);
  /** The memories of the workspace, and how many records there are */
  get(options?: CallOptions): Promise<types.MemoryOverview>;
  /** Everything about one user, with all texts */
  export(options: CallOptions & { user: string; after?: string | number; limit?: number }): Promise<types.MemoryPage>;
  /** Everything about one user, with all texts: every item, page after page. */
  iterateExport(options: CallOptions & { user: string; after?: string | number; limit?: number }): AsyncGenerator<types.MemoryRecord, void, undefined>;
  /** Forget records, a user, a namespace, or what a query finds */
  forget(body: types.ForgetMemory, options?: CallOptions): Promise<types.Forgotten>;
  /** The records, oldest first */
  records(options?: CallOptions & { namespace?: string | null; status?: "proposed" | "accepted" | "rejected" | "superseded" | "forgotten" | null; kind?: "working" | "episodic" | "semantic" | null; user?: string | null; after?: string | number; limit?: number }): Promise<types.MemoryPage>;
  /** The records, oldest first: every item, page after page. */
  iterateRecords(options?: CallOptions & { namespace?: string | null; status?: "proposed" | "accepted" | "rejected" | "superseded" | "forgotten" | null; kind?: "working" | "episodic" | "semantic" | null; user?: string | null; after?: string | number; limit?: number }): AsyncGenerator<types.MemoryRecord, void, undefined>;
  /** Store a record; the policy of the memory decides */
  createRecord(body: types.PutMemory, options?: CallOptions): Promise<types.PutOutcome>;
  /** Forget a record: its text is deleted, a tombstone stays */
  deleteRecord(recordId: string, options?: CallOptions): Promise<types.Forgotten>;
  /** One of them */
  getRecord(recordId: string, options?: CallOptions): Promise<types.MemoryRecord>;
  /** Change the text, confidence or expiry */
  updateRecord(recordId: string, body: types.ChangeMemory, options?: CallOptions): Promise<types.MemoryRecord>;
  /** Accept or reject a candidate; the first answer wins */
  decideRecord(recordId: string, body: types.DecideMemory, options?: CallOptions): Promise<types.MemoryRecord>;
  /** Rebuild the search index */
  reindex(options?: CallOptions): Promise<types.Reindexed>;
  /** Search a memory, best first */
  search(body: types.MemorySearch, options?: CallOptions): Promise<types.MemoryHits>;
}

export declare class RetentionRoutes {
  constructor(connection: Connection);
  /** How long this server keeps what */
  get(options?: CallOptions): Promise<types.RetentionReport>;
}

export declare class RunsRoutes {
  constructor(connection: Connection);
  /** The runs, newest first */
  list(options?: CallOptions & { status?: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled" | null; agent?: string | null; workflow?: string | null; text?: string | null; threadId?: string | null; label?: Array<string> | null; createdFrom?: string | null; createdUntil?: string | null; after?: string | number; limit?: number }): Promise<types.RunPage>;
  /** The runs, newest first: every item, page after page. */
  iterate(options?: CallOptions & { status?: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled" | null; agent?: string | null; workflow?: string | null; text?: string | null; threadId?: string | null; label?: Array<string> | null; createdFrom?: string | null; createdUntil?: string | null; after?: string | number; limit?: number }): AsyncGenerator<types.Run, void, undefined>;
  /** Submit a run */
  create(body: types.SubmitRun, options?: CallOptions & { wait?: number | null; idempotencyKey?: string }): Promise<types.Run>;
  /** The run as it stands */
  get(runId: string, options?: CallOptions): Promise<types.Run>;
  /** What the run made, by reference */
  artifacts(runId: string, options?: CallOptions): Promise<types.ArtifactPage>;
  /** Whether its log is complete */
  audit(runId: string, options?: CallOptions): Promise<types.Audit>;
  /** Cancel the run */
  cancel(runId: string, options?: CallOptions): Promise<types.Run>;
  /** Steer, pause, resume, change the model or the limits, name a checkpoint */
  command(runId: string, body: types.Command, options?: CallOptions): Promise<types.Run>;
  /** What the run changed in files */
  diff(runId: string, options?: CallOptions): Promise<Uint8Array>;
  /** The run's events, from a cursor on */
  events(runId: string, options?: CallOptions & { after?: string | number; limit?: number; type?: string | null; dialect?: "native" | "stable-harness" }): Promise<types.EventPage>;
  /** The run's events, from a cursor on: every item, page after page. */
  iterateEvents(runId: string, options?: CallOptions & { after?: string | number; limit?: number; type?: string | null; dialect?: "native" | "stable-harness" }): AsyncGenerator<types.Event, void, undefined>;
  /** The evidence of a run */
  evidence(runId: string, options?: CallOptions): Promise<Uint8Array>;
  /** What was said about a run, oldest first */
  feedback(runId: string, options?: CallOptions): Promise<types.FeedbackPage>;
  /** Say what a run that has ended was worth */
  giveFeedback(runId: string, body: types.GiveFeedback, options?: CallOptions & { idempotencyKey?: string }): Promise<types.Feedback>;
  /** The verdicts of the agent's gates about a completed run */
  judge(runId: string, body: types.JudgeRun, options?: CallOptions): Promise<types.GateReport>;
  /** The graph of a workflow's run, with the state of each step */
  graph(runId: string, options?: CallOptions & { format?: "json" | "mermaid" | "svg"; until?: number | null }): Promise<types.WorkflowGraph>;
  /** What changed state, hash-linked */
  journal(runId: string, options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.JournalPage>;
  /** What changed state, hash-linked: every item, page after page. */
  iterateJournal(runId: string, options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.JournalItem, void, undefined>;
  /** What must be the same for a rerun to repeat the run */
  replayToken(runId: string, options?: CallOptions): Promise<types.Token>;
  /** Run the recorded input again */
  rerun(runId: string, body: types.Rerun, options?: CallOptions): Promise<types.Run>;
  /** Where the run stands, computed */
  snapshot(runId: string, options?: CallOptions & { until?: number | null }): Promise<types.Snapshot>;
  /** The list of things to do as the run left it */
  todos(runId: string, options?: CallOptions): Promise<types.TodoPage>;
  /** What happened when, in nine categories */
  trace(runId: string, options?: CallOptions): Promise<types.TracePage>;
  /** The run as UI events */
  uiEvents(runId: string, options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.UiEventPage>;
  /** The run as UI events: every item, page after page. */
  iterateUiEvents(runId: string, options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.UiEvent, void, undefined>;
  /** What a page shows of it */
  uiState(runId: string, options?: CallOptions): Promise<types.UiState>;
  /** One part of that */
  uiStateLane(runId: string, lane: string, options?: CallOptions): Promise<types.UiLane>;
  /** Undo the run as planned */
  undo(runId: string, body: types.UndoCommand, options?: CallOptions & { wait?: number | null; idempotencyKey?: string }): Promise<types.Run>;
  /** What an undo of the run would do; has no effect */
  undoPlan(runId: string, body: types.UndoPlanRequest, options?: CallOptions): Promise<types.UndoPlan>;
  /** Tokens, cost and calls */
  usage(runId: string, options?: CallOptions): Promise<types.Usage>;
}

export declare class SchedulesRoutes {
  constructor(connection: Connection);
  /** The schedules of the tenant */
  list(options?: CallOptions): Promise<types.SchedulePage>;
  /** Create a schedule */
  create(body: types.CreateSchedule, options?: CallOptions): Promise<types.Schedule>;
  /** Delete a schedule that a client created */
  delete(schedule: string, options?: CallOptions): Promise<void>;
  /** One schedule, and when it is due next */
  get(schedule: string, options?: CallOptions & { count?: number }): Promise<types.Schedule>;
  /** Pause a schedule */
  pause(schedule: string, options?: CallOptions): Promise<types.Schedule>;
  /** Resume a schedule */
  resume(schedule: string, options?: CallOptions): Promise<types.Schedule>;
  /** Run what the schedule runs, now */
  run(schedule: string, options?: CallOptions): Promise<types.Run>;
}

export declare class ServerRoutes {
  constructor(connection: Connection);
  /** The process is alive */
  health(options?: CallOptions): Promise<types.Health>;
  /** Metrics in Prometheus' text format */
  metrics(options?: CallOptions): Promise<Uint8Array>;
  /** The server takes work */
  ready(options?: CallOptions): Promise<types.Readiness>;
}

export declare class SignInRoutes {
  constructor(connection: Connection);
  /** Open a browser session for the key that the request shows */
  create(options?: CallOptions & { tenant?: string | null }): Promise<types.Me>;
}

export declare class SignOutRoutes {
  constructor(connection: Connection);
  /** End the browser session */
  create(options?: CallOptions): Promise<void>;
}

export declare class SkillsRoutes {
  constructor(connection: Connection);
  /** Skills that repeated runs suggest, best first */
  candidates(options?: CallOptions): Promise<types.SkillCandidates>;
  /** One of them, with its SKILL.md */
  candidate(candidateId: string, options?: CallOptions): Promise<types.SkillCandidateFile>;
  /** Record that it is accepted; the caller writes the file */
  acceptCandidate(candidateId: string, options?: CallOptions): Promise<types.SkillCandidateFile>;
}

export declare class StatsRoutes {
  constructor(connection: Connection);
  /** Runs, errors, tokens and cost over time */
  series(options?: CallOptions & { range?: "15m" | "1h" | "6h" | "24h" | "7d" }): Promise<types.StatsSeries>;
}

export declare class TenantsRoutes {
  constructor(connection: Connection);
  /** The tenants that have keys */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.TenantPage>;
  /** The tenants that have keys: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<string, void, undefined>;
}

export declare class ThreadsRoutes {
  constructor(connection: Connection);
  /** The threads, by id */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.ThreadPage>;
  /** The threads, by id: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Thread, void, undefined>;
  /** Create a thread */
  create(body: types.CreateThread, options?: CallOptions): Promise<types.Thread>;
  /** Delete the thread */
  delete(threadId: string, options?: CallOptions): Promise<void>;
  /** The thread as it stands */
  get(threadId: string, options?: CallOptions): Promise<types.Thread>;
  /** Change title, metadata, labels or the mark of an archived one */
  update(threadId: string, body: types.ChangeThread, options?: CallOptions): Promise<types.Thread>;
  /** What the thread's runs made, by reference */
  artifacts(threadId: string, options?: CallOptions & { name?: string | null }): Promise<types.ArtifactPage>;
  /** A large value that an event refers to */
  blob(threadId: string, sha256: string, options?: CallOptions): Promise<Uint8Array>;
  /** The thread's events, from a cursor on */
  events(threadId: string, options?: CallOptions & { after?: string | number; limit?: number; type?: string | null; dialect?: "native" | "stable-harness" }): Promise<types.EventPage>;
  /** The thread's events, from a cursor on: every item, page after page. */
  iterateEvents(threadId: string, options?: CallOptions & { after?: string | number; limit?: number; type?: string | null; dialect?: "native" | "stable-harness" }): AsyncGenerator<types.Event, void, undefined>;
  /** Correct a text of an event by another event */
  amendEvent(threadId: string, seq: string, body: types.AmendEvent, options?: CallOptions): Promise<types.Event>;
  /** The evidence of a thread */
  evidence(threadId: string, options?: CallOptions): Promise<Uint8Array>;
  /** The whole log of the thread as JSON lines */
  export(threadId: string, options?: CallOptions & { format?: "native" | "agent-os" }): Promise<Uint8Array>;
  /** A new thread with this one's history */
  fork(threadId: string, body: types.ForkThread, options?: CallOptions): Promise<types.Thread>;
  /** The history that the next run gets */
  messages(threadId: string, options?: CallOptions & { limit?: number | null; before?: number | null }): Promise<types.MessagePage>;
  /** Say something: a run on this thread */
  send(threadId: string, body: types.PostMessage, options?: CallOptions & { wait?: number | null; idempotencyKey?: string }): Promise<types.Run>;
  /** The thread's list of things to do */
  todos(threadId: string, options?: CallOptions): Promise<types.TodoPage>;
  /** Add things to do, or change them */
  updateTodos(threadId: string, body: types.ChangeTodos, options?: CallOptions): Promise<types.TodoPage>;
  /** What was said and done, message by message */
  transcript(threadId: string, options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.EntryPage>;
  /** What was said and done, message by message: every item, page after page. */
  iterateTranscript(threadId: string, options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Entry, void, undefined>;
  /** The thread as UI events */
  uiEvents(threadId: string, options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.UiEventPage>;
  /** The thread as UI events: every item, page after page. */
  iterateUiEvents(threadId: string, options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.UiEvent, void, undefined>;
  /** What a page shows of it */
  uiState(threadId: string, options?: CallOptions): Promise<types.UiState>;
  /** One part of that */
  uiStateLane(threadId: string, lane: string, options?: CallOptions): Promise<types.UiLane>;
  /** Whether the thread's chain of hashes is intact */
  verify(threadId: string, options?: CallOptions): Promise<types.ChainVerification>;
}

export declare class ToolsRoutes {
  constructor(connection: Connection);
  /** The tools of the workspace */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.ToolPage>;
  /** The tools of the workspace: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Tool, void, undefined>;
  /** One tool */
  get(name: string, options?: CallOptions): Promise<types.Tool>;
  /** Run a tool, by no agent, through the same gate */
  invoke(name: string, body: types.InvokeTool, options?: CallOptions & { wait?: number | null; idempotencyKey?: string }): Promise<types.Run>;
}

export declare class UiRoutes {
  constructor(connection: Connection);
  /** What this runtime can do */
  capabilities(options?: CallOptions): Promise<types.UiCapabilities>;
  /** Project UI events of any runtime */
  project(body: types.ForeignEvents, options?: CallOptions): Promise<types.UiState>;
  /** Check UI events of any runtime */
  validate(body: types.ForeignEvents, options?: CallOptions): Promise<types.UiValidation>;
}

export declare class WebhooksRoutes {
  constructor(connection: Connection);
  /** The webhooks of the tenant */
  list(options?: CallOptions): Promise<types.WebhookPage>;
  /** Create a webhook */
  create(body: types.CreateWebhook, options?: CallOptions): Promise<types.NewWebhook>;
  /** Delete a webhook and its deliveries */
  delete(webhookId: string, options?: CallOptions): Promise<void>;
  /** One webhook */
  get(webhookId: string, options?: CallOptions): Promise<types.Webhook>;
  /** Change a webhook, enable or disable it */
  update(webhookId: string, body: types.ChangeWebhook, options?: CallOptions): Promise<types.Webhook>;
  /** What was sent to the webhook, or is to be, newest first */
  deliveries(webhookId: string, options?: CallOptions & { status?: "pending" | "delivered" | "dead" | null; after?: string | number; limit?: number }): Promise<types.DeliveryPage>;
  /** What was sent to the webhook, or is to be, newest first: every item, page after page. */
  iterateDeliveries(webhookId: string, options?: CallOptions & { status?: "pending" | "delivered" | "dead" | null; after?: string | number; limit?: number }): AsyncGenerator<types.Delivery, void, undefined>;
  /** Send a delivery that has ended again, or every dead one */
  redeliver(webhookId: string, body: types.Redeliver, options?: CallOptions): Promise<types.Redelivered>;
  /** Give a webhook a new secret */
  rotateSecret(webhookId: string, options?: CallOptions): Promise<types.NewWebhook>;
}

export declare class WorkflowsRoutes {
  constructor(connection: Connection);
  /** The workflows */
  list(options?: CallOptions & { after?: string | number; limit?: number }): Promise<types.WorkflowPage>;
  /** The workflows: every item, page after page. */
  iterate(options?: CallOptions & { after?: string | number; limit?: number }): AsyncGenerator<types.Workflow, void, undefined>;
  /** One workflow */
  get(name: string, options?: CallOptions): Promise<types.Workflow>;
  /** Its graph */
  graph(name: string, options?: CallOptions & { format?: "json" | "mermaid" | "svg" }): Promise<types.WorkflowGraph>;
  /** What it would do, without running it */
  plan(name: string, body: types.PlanRequest, options?: CallOptions): Promise<types.WorkflowPlan>;
}

export declare class WorkspaceRoutes {
  constructor(connection: Connection);
  /** The workspace in use, and the mistakes of its files */
  get(options?: CallOptions): Promise<types.Workspace>;
  /** What changed between two workspaces */
  compare(options: CallOptions & { base: string; head: string }): Promise<types.WorkspaceComparison>;
  /** Read the workspace's files now */
  reload(options?: CallOptions): Promise<types.Workspace>;
}

export declare class Resources {
  constructor(connection: Connection);
  agents: AgentsRoutes;
  artifacts: ArtifactsRoutes;
  datasets: DatasetsRoutes;
  doctor: DoctorRoutes;
  evals: EvalsRoutes;
  files: FilesRoutes;
  gates: GatesRoutes;
  jobs: JobsRoutes;
  keys: KeysRoutes;
  ledger: LedgerRoutes;
  mcpServers: McpServersRoutes;
  me: MeRoutes;
  memory: MemoryRoutes;
  retention: RetentionRoutes;
  schedules: SchedulesRoutes;
  server: ServerRoutes;
  signIn: SignInRoutes;
  signOut: SignOutRoutes;
  skills: SkillsRoutes;
  stats: StatsRoutes;
  tenants: TenantsRoutes;
  tools: ToolsRoutes;
  ui: UiRoutes;
  webhooks: WebhooksRoutes;
  workflows: WorkflowsRoutes;
  workspace: WorkspaceRoutes;
}
