// Generated from the OpenAPI document by `make generate`; changes are made there.

export interface Agent {
  name: string;
  description: string;
  labels: Record<string, string>;
  backend: string;
  available: boolean;
  tools: Array<string>;
  skills: Array<string>;
  subagents: Array<string>;
}

export interface AgentPage {
  items: Array<Agent>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

/** A correction of texts of an event that is stored already. */
export interface AmendEvent {
  /** why; recorded with the correction */
  reason: string;
  /** the texts of its payload that should read otherwise, by field */
  correction: Record<string, string>;
}

/** `{decision, reason?, scope?}`, `{answers}`, `{output | error}`: the interrupt's kind says which. */
export type Answer = Record<string, unknown>;

/** What the maker said about it, and where it was made. */
export interface Artifact {
  id: string;
  name: string;
  threadId: string;
  runId: string | null;
  createdAt: string;
}

export interface ArtifactPage {
  items: Array<Artifact>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface Audit {
  complete: boolean;
  missing: Array<MissingFact>;
  counts: Record<string, number>;
  absent: Array<string>;
}

/** Where the person's browser is sent back to: an address of a loopback interface, or an https one. */
export interface BeginMcpLogin {
  redirectUri: string;
}

export interface Bus {
  /** `postgres`, `nats`, `local` or one of an installed package */
  kind: string;
  /** false: servers poll the database for what is new */
  connected: boolean;
  /** other servers on the same database that were heard lately */
  peers: number;
}

export interface Case {
  id: string;
  input: unknown;
  expected?: unknown;
  output?: unknown;
  metadata?: Record<string, unknown> | null;
  /** `{runId, threadId, seq, digest}` */
  source?: Record<string, unknown> | null;
}

export interface CasePage {
  items: Array<Case>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface ChainBreak {
  /** the first event that does not fit */
  seq: number;
  reason: string;
}

export interface ChainVerification {
  threadId: string;
  intact: boolean;
  /** how many were checked */
  events: number;
  /** deltas of completed messages that retention dropped, which the chain explains */
  dropped: number;
  lastSeq: number;
  /** of the last event; null when the chain is broken */
  headHash: string | null;
  broken: ChainBreak | null;
}

/** A new text becomes a new record that supersedes this one. */
export interface ChangeMemory {
  text?: string | null;
  confidence?: number | null;
  expiresAt?: string | null;
}

/** Only what is given changes. Metadata and labels are merged; a null takes its key out. */
export interface ChangeThread {
  title?: string | null;
  metadata?: Record<string, unknown> | null;
  labels?: Record<string, string | null> | null;
  /** only a mark: an archived thread goes on working */
  archived?: boolean | null;
}

export interface ChangeTodos {
  /** `replace` removes the items that are not listed */
  mode?: "update" | "replace";
  items: Array<TodoItem>;
}

/** What is to change; fields that are left out stay. */
export interface ChangeWebhook {
  url?: string | null;
  events?: Array<string> | null;
  agents?: Array<string> | null;
  labels?: Record<string, string> | null;
  description?: string | null;
  enabled?: boolean | null;
}

export interface ChangedDocument {
  /** such as `agents` or `tools` */
  kind: string;
  name: string;
  change: "added" | "removed" | "changed";
}

export interface ChangedFile {
  path: string;
  change: "added" | "removed" | "changed";
  /** unified; null for a file that is not text, or too long to compare */
  diff: string | null;
}

/** Which stored runs become cases; all that is given must hold. */
export interface CollectRuns {
  agent?: string | null;
  status?: "completed" | "failed" | "cancelled";
  labels?: Record<string, string>;
  createdFrom?: string | null;
  createdUntil?: string | null;
  /** the newest verdict of a gate is within this range */
  score?: WantedScore | null;
  /** the newest feedback is within this range */
  feedback?: WantedScore | null;
  /** whether the run's output becomes the expected one */
  expected?: boolean;
  limit?: number;
}

/** A command for a run that has not ended; it takes effect at the run's next step. */
export interface Command {
  command: "steer" | "pause" | "resume" | "switch_model_plan" | "set_limits" | "checkpoint";
  /** as the command needs them */
  arguments?: Record<string, unknown>;
}

/** From stored runs (`collect`), or from the cases given. */
export interface CreateDataset {
  name: string;
  description?: string | null;
  collect?: CollectRuns | null;
  cases?: Array<Record<string, unknown>> | null;
  /** kinds of personal data to replace; default: all */
  redact?: Array<string> | null;
}

/** What the key is to allow. Nobody grants what they may not do themselves. */
export interface CreateKey {
  name: string;
  tenant?: string | null;
  roles?: Array<string>;
  scopes?: Array<string>;
  expiresInDays?: number | null;
}

/** A schedule of the caller's tenant: `spec` as in a Schedule document, without `tenant`. */
export interface CreateSchedule {
  name: string;
  spec: Record<string, unknown>;
}

export interface CreateThread {
  /** null: one is made up */
  id?: string | null;
  title?: string | null;
  metadata?: Record<string, unknown>;
  labels?: Record<string, string>;
}

/** Where to send which events. */
export interface CreateWebhook {
  url: string;
  /** types, or patterns such as `runtime.job.*` */
  events?: Array<string>;
  /** only of runs of these agents */
  agents?: Array<string>;
  /** only of runs that have all of these labels */
  labels?: Record<string, string>;
  description?: string | null;
}

export interface Dataset {
  name: string;
  version: number;
  /** SHA-256 of the cases as JSON lines */
  digest: string;
  cases: number;
  source: "collected" | "imported" | "sampled";
  description: string | null;
  query: Record<string, unknown> | null;
  redacted: Array<string>;
  createdAt: string;
  createdBy: string;
}

export interface DatasetPage {
  items: Array<Dataset>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface DecideMemory {
  decision: "accept" | "reject";
  reason?: string | null;
}

export interface DeclaredMemory {
  name: string;
  description: string;
  kind: string;
  type: string;
  namespace: string | null;
  write: string;
}

export interface Delivery {
  id: string;
  webhookId: string;
  eventId: string;
  type: string;
  status: "pending" | "delivered" | "dead";
  attempts: number;
  answer: string | null;
  createdAt: string;
  nextAttemptAt: string | null;
  endedAt: string | null;
}

export interface DeliveryPage {
  items: Array<Delivery>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface DoctorFinding {
  /** what was checked, such as `database` or `disk` */
  about: string;
  level: "ok" | "warning" | "wrong";
  message: string;
  remedy: string | null;
}

export interface DoctorReport {
  /** false if something is wrong; warnings do not count */
  ok: boolean;
  checkedAt: string;
  findings: Array<DoctorFinding>;
}

export interface Entry {
  messageId: string;
  turnId: string;
  role: "user" | "assistant" | "system";
  type: string;
  content: unknown;
  status: "streaming" | "complete" | "canceled" | "error";
  details: string | null;
  startedAt: number | null;
  completedAt: number | null;
}

export interface EntryPage {
  items: Array<Entry>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface Evaluation {
  id: string;
  status: "running" | "completed" | "cancelled";
  dataset: string;
  version: number;
  agent: string;
  modelPlan: string | null;
  workspaceDigest: string;
  thresholds: Record<string, number>;
  baseline: string | null;
  startedAt: string;
  startedBy: string;
  finishedAt: string | null;
  passed: boolean | null;
  scores: Record<string, unknown> | null;
  /** null: another server works on it */
  progress: EvaluationProgress | null;
}

export interface EvaluationPage {
  items: Array<Evaluation>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface EvaluationProgress {
  done: number;
  total: number;
  cached: number;
}

export interface EvaluationReport {
  id: string;
  dataset: string;
  version: number;
  datasetDigest: string | null;
  agent: string;
  modelPlan: string | null;
  workspaceDigest: string;
  thresholds: Record<string, number>;
  baseline: string | null;
  startedAt: string;
  finishedAt: string;
  cancelled: boolean;
  passed: boolean;
  scores: Record<string, unknown>;
  totals: Record<string, unknown>;
  cases: Array<Record<string, unknown>>;
}

export interface Event {
  id: string;
  threadId: string;
  runId: string | null;
  seq: number;
  runSeq: number | null;
  type: string;
  actor: string;
  at: string;
  payload: Record<string, unknown>;
  parentId: string | null;
  prevHash: string;
  hash: string;
}

export interface EventPage {
  items: Array<Event>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface ExtensionList {
  status: "ok";
  snapshotVersion: number;
  loadedAt: string;
  modules: Array<ExtensionModule>;
  errors: Array<ExtensionProblem>;
}

export interface ExtensionModule {
  moduleName: string;
  name: string;
  version: string;
  agentId: string;
  displayName: string;
  manifestPath: string;
  entrypointPath: string;
  events: Array<string>;
  origin: Record<string, string>;
  compatibility: Record<string, unknown>;
  capabilities: Record<string, Array<string>>;
  trust: Record<string, unknown>;
  diagnostics: Array<string>;
}

export interface ExtensionProblem {
  extension: string;
  code: string;
  message: string;
}

export interface ExtensionsReloadedAnswer {
  status: "ok";
  reloadId: string;
  loadedCount: number;
  failedCount: number;
  snapshotVersion: number;
  loadedAt: string;
  modules: Array<ReloadedModule>;
}

export interface Feedback {
  runId: string;
  score: number;
  label: string | null;
  comment: string | null;
  by: string;
  seq: number;
  at: string;
}

export interface FeedbackPage {
  items: Array<Feedback>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface File {
  id: string;
  name: string;
  mime: string;
  size: number;
  sha256: string;
  createdBy: string;
  createdAt: string;
}

export interface FilePage {
  items: Array<File>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

/** The ticket of the first step, and what the browser brought back. */
export interface FinishMcpLogin {
  ticket: string;
  code: string;
  state: string;
  iss?: string | null;
}

/** UI events of any runtime. */
export interface ForeignEvents {
  events: Array<unknown>;
}

/** What to forget: records by id, everything about a user, a namespace, or what a query finds in a memory. */
export interface ForgetMemory {
  records?: Array<string>;
  user?: string | null;
  namespace?: string | null;
  search?: MemorySearch | null;
}

export interface Forgotten {
  forgotten: Array<string>;
}

export interface ForkThread {
  /** what was said up to here; null: all of it */
  seq?: number | null;
  title?: string | null;
}

export interface ForkedFrom {
  threadId: string;
  seq: number;
  hash: string;
}

export interface GateRate {
  agent: string | null;
  gate: string;
  mode: "shadow" | "blocking";
  evaluated: number;
  passed: number;
  /** verdicts without a score; they count as not passed */
  errors: number;
  passRate: number;
  meanScore: number | null;
  firstAt: string;
  lastAt: string;
}

export interface GateRatePage {
  items: Array<GateRate>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface GateReport {
  /** null: the agent has no gate of this mode */
  passRate: number | null;
  results: Array<Verdict>;
}

/** What somebody thinks of a run. */
export interface GiveFeedback {
  score: number;
  /** what the score is about */
  label?: string | null;
  comment?: string | null;
}

export interface Health {
  status: "ok";
}

export interface Interrupt {
  id: string;
  threadId: string;
  runId: string | null;
  kind: "approval" | "question" | "external" | "recovery" | "paused" | "timer";
  status: "open" | "resolved" | "expired";
  title: string;
  tool: string | null;
  callId: string | null;
  arguments: unknown;
  argumentHash: string | null;
  approver: string | null;
  questions: Array<Record<string, unknown>> | null;
  expiresAt: string;
  answer: Record<string, unknown> | null;
  answeredBy: string | null;
  createdAt: string;
}

export interface InterruptPage {
  items: Array<Interrupt>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface InvokeTool {
  metadata?: Record<string, unknown>;
  labels?: Record<string, string>;
  /** what to do when the thread has an active run; null: the agent's policy */
  busy?: "enqueue" | "reject" | "interrupt" | "rollback" | null;
  /** tighter ones than the workspace's and the agent's own */
  limits?: RunLimits | null;
  /** whose memory the run uses; needs the scope memory:delegate */
  user?: string | null;
  /** sampling and reasoning of its model calls */
  parameters?: RunParameters | null;
  /** for its first model call; null: the model chooses */
  toolChoice?: "auto" | "none" | "required" | NamedTool | null;
  /** a JSON schema that the answer must meet */
  responseSchema?: Record<string, unknown> | null;
  /** who is sent the run's end: the id of a webhook, or a URL whose host `outgoing.webhooks` lists */
  webhook?: string | null;
  arguments?: Record<string, unknown>;
  threadId?: string | null;
}

export interface Job {
  id: string;
  type: string;
  priority: "interactive" | "background";
  status: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled";
  projectId: string | null;
  sourceSessionId: string | null;
  serial: boolean;
  threadId: string;
  agent: string | null;
  tool: string | null;
  workflow: string | null;
  input: unknown;
  result: unknown;
  error: RunError | null;
  progress: Record<string, unknown> | null;
  dedupeKey: string | null;
  attempt: number;
  maxAttempts: number;
  backoffSeconds: number;
  timeoutSeconds: number | null;
  history: Array<JobAttempt>;
  notBefore: string | null;
  nextAttemptAt: string | null;
  cancelRequestedAt: string | null;
  metadata: Record<string, unknown>;
  labels: Record<string, string>;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
}

export interface JobAttempt {
  attempt: number;
  startedAt: string;
  endedAt: string | null;
  error: RunError | null;
}

export interface JobPage {
  items: Array<Job>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface JournalItem {
  eventId: string;
  runId: string | null;
  seq: number;
  at: string;
  actor: string;
  kind: string;
  type: string;
  payload: Record<string, unknown>;
  hash: string;
  link: string;
}

export interface JournalPage {
  items: Array<JournalItem>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

/** Which of the agent's gates are asked. */
export interface JudgeRun {
  mode: "shadow" | "blocking";
}

/** A key as it may be shown at any time. */
export interface Key {
  id: string;
  tenant: string;
  name: string;
  roles: Array<string>;
  scopes: Array<string>;
  createdAt: string;
  createdBy: string;
  expiresAt: string | null;
  revokedAt: string | null;
}

export interface KeyPage {
  items: Array<Key>;
  nextCursor: string | null;
}

export interface McpLogin {
  server: string;
  issuer: string;
  scope: string | null;
  expiresAt: string | null;
  renewable: boolean;
}

export interface McpLoginBegun {
  authorizationUrl: string;
  ticket: string;
  expiresAt: string;
}

export interface Me {
  id: string;
  tenant: string;
  roles: Array<string>;
  scopes: Array<string>;
  /** false: everybody on this machine may do everything */
  authentication: boolean;
  /** of a browser session; goes into the header `X-CSRF-Token` of changes */
  csrfToken: string | null;
  /** when these credentials stop counting */
  expiresAt: string | null;
  /** of the server */
  version: string;
}

export interface MemoryHit {
  id: string;
  memory: string;
  namespace: string;
  kind: string;
  status: "proposed" | "accepted" | "rejected" | "superseded" | "forgotten";
  source: string;
  text: string | null;
  attributes: Record<string, unknown>;
  confidence: number;
  sources: Array<string>;
  user: string | null;
  createdBy: string | null;
  runId: string | null;
  interruptId: string | null;
  decidedBy: string | null;
  supersededBy: string | null;
  reason: string | null;
  createdAt: string;
  updatedAt: string;
  lastUsedAt: string | null;
  expiresAt: string | null;
  score: number;
}

export interface MemoryHits {
  items: Array<MemoryHit>;
}

export interface MemoryOverview {
  memories: Array<DeclaredMemory>;
  namespaces: Record<string, number>;
}

export interface MemoryPage {
  items: Array<MemoryRecord>;
  nextCursor: string | null;
}

/** A record; its text is `[FORGOTTEN]` once it was forgotten. */
export interface MemoryRecord {
  id: string;
  memory: string;
  namespace: string;
  kind: string;
  status: "proposed" | "accepted" | "rejected" | "superseded" | "forgotten";
  source: string;
  text: string | null;
  attributes: Record<string, unknown>;
  confidence: number;
  sources: Array<string>;
  user: string | null;
  createdBy: string | null;
  runId: string | null;
  interruptId: string | null;
  decidedBy: string | null;
  supersededBy: string | null;
  reason: string | null;
  createdAt: string;
  updatedAt: string;
  lastUsedAt: string | null;
  expiresAt: string | null;
}

/** What to look for, and where. */
export interface MemorySearch {
  /** a Memory of the workspace */
  memory: string;
  /** else its template is filled with the next three */
  namespace?: string | null;
  agent?: string | null;
  /** null: the caller */
  user?: string | null;
  threadId?: string | null;
  query: string;
  limit?: number;
}

/** As a model gets it: `completion_request_v1`. */
export interface Message {
  role: "system" | "user" | "assistant" | "tool";
}

export interface MessagePage {
  items: Array<Message>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface MissingFact {
  type: string | null;
  subject: string | null;
  reason: string;
}

export interface ModelUsage {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}

export interface NamedTool {
  name: string;
}

/** A key with its secret. */
export interface NewKey {
  id: string;
  tenant: string;
  name: string;
  roles: Array<string>;
  scopes: Array<string>;
  createdAt: string;
  createdBy: string;
  expiresAt: string | null;
  revokedAt: string | null;
  key: string;
}

export interface NewWebhook {
  id: string;
  url: string;
  events: Array<string>;
  agents: Array<string>;
  labels: Record<string, string>;
  description: string | null;
  enabled: boolean;
  disabledReason: string | null;
  declared: boolean;
  createdAt: string;
  updatedAt: string;
  secret: string;
}

/** The input that the workflow would be given. */
export interface PlanRequest {
  /** a text, an object, or message parts */
  input: string | Record<string, unknown> | Array<Record<string, unknown>>;
}

export interface PolicyDecision {
  policyId: string;
  decision: "allow" | "deny" | "advisory";
  reason: string;
  phaseId?: string | null;
}

/** A message is a run on this thread. */
export interface PostMessage {
  metadata?: Record<string, unknown>;
  labels?: Record<string, string>;
  /** what to do when the thread has an active run; null: the agent's policy */
  busy?: "enqueue" | "reject" | "interrupt" | "rollback" | null;
  /** tighter ones than the workspace's and the agent's own */
  limits?: RunLimits | null;
  /** whose memory the run uses; needs the scope memory:delegate */
  user?: string | null;
  /** sampling and reasoning of its model calls */
  parameters?: RunParameters | null;
  /** for its first model call; null: the model chooses */
  toolChoice?: "auto" | "none" | "required" | NamedTool | null;
  /** a JSON schema that the answer must meet */
  responseSchema?: Record<string, unknown> | null;
  /** who is sent the run's end: the id of a webhook, or a URL whose host `outgoing.webhooks` lists */
  webhook?: string | null;
  /** null: the workspace's default */
  agent?: string | null;
  /** a text, an object, or message parts */
  input: string | Record<string, unknown> | Array<Record<string, unknown>>;
}

/** A record that the caller vouches for. */
export interface PutMemory {
  /** a Memory of the workspace */
  memory: string;
  /** else its template is filled with the next three */
  namespace?: string | null;
  agent?: string | null;
  /** null: the caller */
  user?: string | null;
  threadId?: string | null;
  text: string;
  /** what it is about; it supersedes a record about the same */
  about?: string | null;
  attributes?: Record<string, unknown>;
  confidence?: number;
}

export interface PutOutcome {
  outcome: "accepted" | "merged" | "asked";
  reason: string;
  record: MemoryRecord;
}

export interface Readiness {
  status: "ready" | "not ready";
  code?: string | null;
  /** of tools and hooks that are programs; null: not known yet */
  sandbox?: Sandbox | null;
}

/** Which delivery; without one, every dead one. */
export interface Redeliver {
  deliveryId?: string | null;
}

export interface Redelivered {
  count: number;
}

export interface Reindexed {
  counts: Record<string, number>;
}

export interface ReloadedModule {
  name: string;
  version: string;
  agentId: string;
  events: Array<string>;
}

/** Of which workspace, and how exactly. */
export interface Rerun {
  /** of now, or of the recorded run */
  workspace?: "current" | "recorded";
  /** the run's replay token */
  token?: string | null;
  /** with a token: refuse what would differ, or go on */
  mode?: "strict" | "compat";
}

export interface RetentionReport {
  items: Array<RetentionRule>;
}

export interface RetentionRule {
  /** deltas of completed messages after a run's end, threads without an event, what was deleted */
  what: "deltas" | "threads" | "deleted";
  /** how long it is kept; null: for ever */
  days: number | null;
  /** what the workspace says */
  workspaceDays: number | null;
  /** the server's own limit */
  settingDays: number | null;
}

export interface Run {
  id: string;
  threadId: string;
  agent: string | null;
  tool: string | null;
  workflow: string | null;
  mode: "interactive" | "autofix" | "report-only" | "headless" | null;
  status: "queued" | "running" | "waiting" | "completed" | "failed" | "cancelled";
  input: unknown;
  output: unknown;
  outputParts: Array<Record<string, unknown>> | null;
  error: RunError | null;
  parentRunId: string | null;
  rerunOf: string | null;
  undoOf: string | null;
  priority: "interactive" | "background" | null;
  metadata: Record<string, unknown>;
  labels: Record<string, string>;
  usage: RunUsage;
  waitingOn: Array<string>;
  cancelRequestedAt: string | null;
  lastSeq: number;
  workspaceDigest: string | null;
  createdAt: string;
  startedAt: string | null;
  finishedAt: string | null;
}

export interface RunError {
  code: string;
  message: string;
  retryable: boolean;
  causes?: Array<RunError> | null;
}

export interface RunLimits {
  tokens?: number | null;
  costUsd?: number | null;
  modelCalls?: number | null;
  toolCalls?: number | null;
  wallSeconds?: number | null;
}

export interface RunPage {
  items: Array<Run>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

/** In place of the agent's own; what is left out stays as the agent has it. */
export interface RunParameters {
  temperature?: number | null;
  topP?: number | null;
  /** of one answer; never more than the agent's */
  maxTokens?: number | null;
  /** texts that end an answer */
  stop?: Array<string> | null;
  seed?: number | null;
  presencePenalty?: number | null;
  frequencyPenalty?: number | null;
  /** how much the model reasons */
  effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
  /** false: the model calls one tool at a time */
  parallelTools?: boolean | null;
}

export interface RunUsage {
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}

export interface Sample {
  /** how many cases there were */
  of: number;
  size: number;
  seed: number;
  by: string | null;
  strata: Array<Stratum>;
  cases: Array<Case>;
  /** the new version, with `saveAs` */
  dataset: Dataset | null;
}

/** How many cases, chosen how. */
export interface SampleDataset {
  /** these runs instead of a dataset */
  runIds?: Array<string> | null;
  version?: number | null;
  size?: number;
  seed?: number;
  /** a field such as `metadata.agent` */
  by?: string | null;
  /** store the sample as a version of this dataset */
  saveAs?: string | null;
}

export interface Sandbox {
  level: "full" | "partial" | "none";
  /** what programs are not kept from; docs/security.md explains each */
  missing: Array<string>;
}

export interface Schedule {
  name: string;
  cron: string | null;
  everySeconds: number | null;
  at: string | null;
  timezone: string;
  missed: "skip" | "once" | "all";
  overlap: "skip" | "queue" | "cancel";
  run: Record<string, unknown>;
  enabled: boolean;
  paused: boolean;
  declared: boolean;
  lastDueAt: string | null;
  lastRunId: string | null;
  next: Array<string>;
}

export interface SchedulePage {
  items: Array<Schedule>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface SimilarInterrupt {
  /** null: this is the first one for its tool */
  interrupt: Interrupt | null;
}

/** What a skill would be, and the runs that are the evidence. */
export interface SkillCandidate {
  id: string;
  name: string;
  agent: string;
  status: "proposed" | "accepted";
  confidence: number;
  evidenceCount: number;
  triggers: Array<string>;
  tools: Array<string>;
  runs: Array<string>;
  proposedPath: string;
}

export interface SkillCandidateFile {
  id: string;
  name: string;
  agent: string;
  status: "proposed" | "accepted";
  confidence: number;
  evidenceCount: number;
  triggers: Array<string>;
  tools: Array<string>;
  runs: Array<string>;
  proposedPath: string;
  content: string;
}

export interface SkillCandidates {
  items: Array<SkillCandidate>;
  nextCursor: string | null;
}

export interface Snapshot {
  thread: Thread;
  runs: Array<Run>;
  upToSeq: number;
  closed: boolean;
  output: unknown;
  roles: Record<string, string>;
  toolsInvoked: Array<ToolUse>;
  phases: Array<string>;
  verdict: string | null;
  workflow: WorkflowProgress | null;
  messagesInFlight: Array<string>;
  openInterrupts: Array<string>;
  usage: TotalUsage;
}

/** Which agent, on which cases, judged how. */
export interface StartEvaluation {
  dataset: string;
  /** default: the newest */
  version?: number | null;
  agent: string;
  /** a model in place of the agent's */
  modelPlan?: string | null;
  /** evaluator to the mean score that is enough; default: those of the agent's gates */
  gates?: Record<string, number>;
  /** an evaluation's id, or `latest` */
  baseline?: string | null;
  parallel?: number;
  /** whether runs of earlier evaluations are used again if nothing changed */
  cache?: boolean;
}

export interface StatsPoint {
  /** the beginning of the interval */
  at: string;
  runs: number;
  completed: number;
  failed: number;
  cancelled: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}

export interface StatsSeries {
  from: string;
  until: string;
  stepSeconds: number;
  /** tokens and cost are those of runs from here on */
  usageSince: string;
  points: Array<StatsPoint>;
  queued: number;
  running: number;
  waiting: number;
  openInterrupts: number;
}

export interface Stratum {
  value: unknown;
  of: number;
  taken: number;
}

/** Which agent, on what input, and where. */
export interface SubmitRun {
  /** background runs let interactive ones of their tenant go first */
  priority?: "interactive" | "background" | null;
  /** no attempt begins before this time */
  notBefore?: string | null;
  /** how often it is tried when it fails with a retryable error */
  attempts?: number | null;
  /** before the second attempt; each further pause is twice as long (default 1) */
  backoffSeconds?: number | null;
  /** of one attempt */
  timeoutSeconds?: number | null;
  /** a second job with this key is answered with the first one */
  dedupeKey?: string | null;
  /** whether the key counts while the first job is active (default), or while it is stored; `merge_duplicate`: while it is active, and the second job's metadata is added to it */
  dedupe?: "single_flight" | "drop_duplicate" | "merge_duplicate" | null;
  /** a name of your own; default `run` */
  jobType?: string | null;
  /** whose job it is */
  projectId?: string | null;
  /** who asked for it */
  sourceSessionId?: string | null;
  /** true: of the serial jobs of its project one runs at a time; needs `projectId` */
  serial?: boolean | null;
  metadata?: Record<string, unknown>;
  labels?: Record<string, string>;
  /** what to do when the thread has an active run; null: the agent's policy */
  busy?: "enqueue" | "reject" | "interrupt" | "rollback" | null;
  /** tighter ones than the workspace's and the agent's own */
  limits?: RunLimits | null;
  /** whose memory the run uses; needs the scope memory:delegate */
  user?: string | null;
  /** sampling and reasoning of its model calls */
  parameters?: RunParameters | null;
  /** for its first model call; null: the model chooses */
  toolChoice?: "auto" | "none" | "required" | NamedTool | null;
  /** a JSON schema that the answer must meet */
  responseSchema?: Record<string, unknown> | null;
  /** who is sent the run's end: the id of a webhook, or a URL whose host `outgoing.webhooks` lists */
  webhook?: string | null;
  /** null: the workspace's default */
  agent?: string | null;
  /** run this tool, by no agent */
  tool?: string | null;
  /** run this workflow */
  workflow?: string | null;
  /** a route of the Runtime document, which names what runs */
  routeId?: string | null;
  /** how a cycle goes about its work; null: headless */
  mode?: "interactive" | "autofix" | "report-only" | "headless" | null;
  /** a text, an object, or message parts */
  input: string | Record<string, unknown> | Array<Record<string, unknown>>;
  threadId?: string | null;
  /** whether an unknown `threadId` is created */
  createThread?: boolean;
  /** a model in place of the agent's */
  modelPlan?: string | null;
}

export interface TenantPage {
  items: Array<string>;
  nextCursor: string | null;
}

export interface Thread {
  id: string;
  title: string | null;
  status: "idle" | "busy" | "waiting" | "closed";
  archived: boolean;
  metadata: Record<string, unknown>;
  labels: Record<string, string>;
  forkedFrom: ForkedFrom | null;
  lastSeq: number;
  createdAt: string;
  updatedAt: string;
}

export interface ThreadPage {
  items: Array<Thread>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface Todo {
  id: string;
  title: string;
  status: "pending" | "in_progress" | "blocked" | "done";
  owner: string;
}

/** Of an item that exists, what is left out stays as it is. */
export interface TodoItem {
  /** null: a new item, whose id is made up */
  id?: string | null;
  title?: string | null;
  /** of a new item: `pending` unless given */
  status?: "pending" | "in_progress" | "blocked" | "done" | null;
  /** of a new item: the caller unless given */
  owner?: string | null;
}

export interface TodoPage {
  items: Array<Todo>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface Token {
  token: string;
  createdAt: string;
}

export interface Tool {
  name: string;
  description: string;
  kind: string;
  effect: string;
  labels: Record<string, string>;
  /** JSON Schema of the arguments; null: its server describes it */
  input: Record<string, unknown> | null;
  output: Record<string, unknown> | null;
}

export interface ToolPage {
  items: Array<Tool>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface ToolUse {
  callId: string;
  tool: string;
  arguments: unknown;
}

export interface TotalUsage {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
  toolCalls: number;
}

export interface TraceItem {
  category: string;
  name: string;
  subject: string;
  status: string;
  runId: string | null;
  seq: number;
  at: string;
  endSeq?: number | null;
  endAt?: string | null;
}

export interface TracePage {
  items: Array<TraceItem>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface UiCapabilities {
  schemaVersion: string;
  runtimeId: string;
  generatedAt: string;
  capabilities: Array<UiCapability>;
  /** between servers on the same Postgres */
  bus?: Bus | null;
}

export interface UiCapability {
  id: string;
  status: string;
  scope: string;
  title: string;
}

/** An event of the Lime standard; ids of its scope and references are present where they are known. */
export interface UiEvent {
  id: string;
  schemaVersion: string;
  runtimeId: string;
  /** the thread's `seq`, or of a run its `runSeq` */
  sequence: number;
  eventClass: string;
  kind: string;
  status: string;
  title: string;
  createdAt: string;
  payload?: Record<string, unknown> | null;
}

export interface UiEventPage {
  items: Array<UiEvent>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface UiIssue {
  code: "schema_mismatch" | "missing_scope_id" | "sequence_gap" | "secret_leak_risk" | "large_payload_inline";
  path: string;
  message: string;
}

export interface UiLane {
  lane: string;
  value: unknown;
  latestSequence?: number | null;
}

/** The projection of UI events; each member is a part that can be read alone. */
export interface UiState {
  runtime: Record<string, unknown>;
  messages: Array<Record<string, unknown>>;
  timeline: Array<Record<string, unknown>>;
  graph: Array<Record<string, unknown>>;
  actions: Array<Record<string, unknown>>;
  hydration: Record<string, unknown>;
}

export interface UiValidation {
  valid: boolean;
  issues: Array<UiIssue>;
  /** starts and ends that do not fit together */
  violations: Array<UiViolation>;
}

export interface UiViolation {
  code: string;
  eventId: string;
  message: string;
  scopeId?: string | null;
  turnId?: string | null;
}

export interface UndoAction {
  callId: string;
  runId: string;
  tool: string;
  seq: number;
  status: "planned" | "impossible" | "undone";
  compensation: UndoCompensation | null;
  reason: UndoReason | null;
}

export interface UndoCheckpoint {
  label: string;
  seq: number;
}

/** Which plan, and what to do when one of its actions fails. */
export interface UndoCommand {
  /** `planHash` of the plan that is to be executed */
  planHash: string;
  /** whether the actions after it are executed */
  onFailure?: "stop" | "continue";
}

export interface UndoCompensation {
  tool: string;
  arguments: Record<string, unknown>;
}

export interface UndoPlan {
  runId: string;
  fromCheckpoint: UndoCheckpoint | null;
  planHash: string;
  actions: Array<UndoAction>;
}

/** How far back. */
export interface UndoPlanRequest {
  /** the label or `seq` of a checkpoint of the run; null: the whole run */
  toCheckpoint?: string | number | null;
}

export interface UndoReason {
  code: string;
  message: string;
}

export interface Usage {
  total: TotalUsage;
  byModel: Record<string, ModelUsage>;
}

export interface Verdict {
  runId: string;
  gate: string;
  mode: "shadow" | "blocking";
  /** null: it could not be judged, and has not passed */
  score: number | null;
  minScore: number;
  passed: boolean;
  error: string | null;
  reason: string | null;
  seq: number;
  at: string;
}

/** A range of scores, and whose. */
export interface WantedScore {
  /** the gate, or the label; default: any */
  name?: string | null;
  atLeast?: number;
  atMost?: number;
}

export interface Webhook {
  id: string;
  url: string;
  events: Array<string>;
  agents: Array<string>;
  labels: Record<string, string>;
  description: string | null;
  enabled: boolean;
  disabledReason: string | null;
  declared: boolean;
  createdAt: string;
  updatedAt: string;
}

export interface WebhookPage {
  items: Array<Webhook>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface Workflow {
  name: string;
  description: string;
  labels: Record<string, string>;
  adapter: string;
  available: boolean;
  nodes: number;
  input: Record<string, unknown> | null;
  output: Record<string, unknown> | null;
  maxVisits: number;
}

export interface WorkflowGraph {
  workflow: string;
  adapter: string;
  nodes: Array<Record<string, unknown>>;
  edges: Array<Record<string, unknown>>;
  runId?: string | null;
  status?: string | null;
  order?: Array<string> | null;
}

export interface WorkflowPage {
  items: Array<Workflow>;
  /** send it back as `after`; null: there is no more */
  nextCursor: string | null;
}

export interface WorkflowPlan {
  workflow: string;
  adapter: string;
  available: boolean;
  input: Record<string, unknown>;
  begins: Array<string>;
  steps: Array<Record<string, unknown>>;
  maxVisits: number;
  limits: Record<string, unknown>;
  asksPeople: Array<string>;
  unsafe: Array<string>;
}

export interface WorkflowProgress {
  workflowId: string;
  cycleId: string | null;
  mode: string | null;
  phase: string | null;
  verdict: string | null;
  reason: string | null;
  generation: number;
  visitedPhases: Array<string>;
  gates: Array<PolicyDecision>;
}

export interface Workspace {
  digest: string | null;
  profile: string | null;
  loadedAt: string | null;
  defaultAgent: string | null;
  agents: Array<string>;
  models: Array<string>;
  tools: Array<string>;
  skills: Array<string>;
  cli: Record<string, unknown>;
  diagnostics: Array<Record<string, unknown>>;
  rejected: Array<Record<string, unknown>> | null;
  rejectedAt: string | null;
}

export interface WorkspaceComparison {
  /** digest of the older one */
  base: string;
  /** digest of the newer one */
  head: string;
  /** null if one of them no longer compiles */
  documents: Array<ChangedDocument> | null;
  files: Array<ChangedFile>;
  /** whether there is more that changed, or a file without a diff */
  truncated: boolean;
}
