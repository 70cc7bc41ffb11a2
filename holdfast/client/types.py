"""The JSON objects of the API, as types: field names are those of the wire.

Generated from the OpenAPI document by `make generate`; changes are made there.
"""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Agent(TypedDict):
    name: str
    description: str
    labels: dict[str, str]
    backend: str
    available: bool
    tools: list[str]
    skills: list[str]
    subagents: list[str]


class AgentPage(TypedDict):
    items: list["Agent"]
    nextCursor: str | None


class AmendEvent(TypedDict):
    """A correction of texts of an event that is stored already."""

    reason: str
    correction: dict[str, str]


Answer: TypeAlias = dict[str, Any]


class Artifact(TypedDict):
    """What the maker said about it, and where it was made."""

    id: str
    name: str
    threadId: str
    runId: str | None
    createdAt: str


class ArtifactPage(TypedDict):
    items: list["Artifact"]
    nextCursor: str | None


class Audit(TypedDict):
    complete: bool
    missing: list["MissingFact"]
    counts: dict[str, int]
    absent: list[str]


class BeginMcpLogin(TypedDict):
    """Where the person's browser is sent back to: an address of a loopback interface, or an https one."""

    redirectUri: str


class Bus(TypedDict):
    kind: str
    connected: bool
    peers: int


class Case(TypedDict):
    id: str
    input: Any
    expected: NotRequired[Any]
    output: NotRequired[Any]
    metadata: NotRequired[dict[str, Any] | None]
    source: NotRequired[dict[str, Any] | None]


class CasePage(TypedDict):
    items: list["Case"]
    nextCursor: str | None


class ChainBreak(TypedDict):
    seq: int
    reason: str


class ChainVerification(TypedDict):
    threadId: str
    intact: bool
    events: int
    dropped: int
    lastSeq: int
    headHash: str | None
    broken: "ChainBreak | None"


class ChangeMemory(TypedDict):
    """A new text becomes a new record that supersedes this one."""

    text: NotRequired[str | None]
    confidence: NotRequired[float | None]
    expiresAt: NotRequired[str | None]


class ChangeThread(TypedDict):
    """Only what is given changes. Metadata and labels are merged; a null takes its key out."""

    title: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any] | None]
    labels: NotRequired[dict[str, str | None] | None]
    archived: NotRequired[bool | None]


class ChangeTodos(TypedDict):
    mode: NotRequired[Literal["update", "replace"]]
    items: list["TodoItem"]


class ChangeWebhook(TypedDict):
    """What is to change; fields that are left out stay."""

    url: NotRequired[str | None]
    events: NotRequired[list[str] | None]
    agents: NotRequired[list[str] | None]
    labels: NotRequired[dict[str, str] | None]
    description: NotRequired[str | None]
    enabled: NotRequired[bool | None]


class ChangedDocument(TypedDict):
    kind: str
    name: str
    change: Literal["added", "removed", "changed"]


class ChangedFile(TypedDict):
    path: str
    change: Literal["added", "removed", "changed"]
    diff: str | None


class CollectRuns(TypedDict):
    """Which stored runs become cases; all that is given must hold."""

    agent: NotRequired[str | None]
    status: NotRequired[Literal["completed", "failed", "cancelled"]]
    labels: NotRequired[dict[str, str]]
    createdFrom: NotRequired[str | None]
    createdUntil: NotRequired[str | None]
    score: NotRequired["WantedScore | None"]
    feedback: NotRequired["WantedScore | None"]
    expected: NotRequired[bool]
    limit: NotRequired[int]


class Command(TypedDict):
    """A command for a run that has not ended; it takes effect at the run's next step."""

    command: Literal["steer", "pause", "resume", "switch_model_plan", "set_limits", "checkpoint"]
    arguments: NotRequired[dict[str, Any]]


class CreateDataset(TypedDict):
    """From stored runs (`collect`), or from the cases given."""

    name: str
    description: NotRequired[str | None]
    collect: NotRequired["CollectRuns | None"]
    cases: NotRequired[list[dict[str, Any]] | None]
    redact: NotRequired[list[str] | None]


class CreateKey(TypedDict):
    """What the key is to allow. Nobody grants what they may not do themselves."""

    name: str
    tenant: NotRequired[str | None]
    roles: NotRequired[list[str]]
    scopes: NotRequired[list[str]]
    expiresInDays: NotRequired[float | None]


class CreateSchedule(TypedDict):
    """A schedule of the caller's tenant: `spec` as in a Schedule document, without `tenant`."""

    name: str
    spec: dict[str, Any]


class CreateThread(TypedDict):
    id: NotRequired[str | None]
    title: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any]]
    labels: NotRequired[dict[str, str]]


class CreateWebhook(TypedDict):
    """Where to send which events."""

    url: str
    events: NotRequired[list[str]]
    agents: NotRequired[list[str]]
    labels: NotRequired[dict[str, str]]
    description: NotRequired[str | None]


class Dataset(TypedDict):
    name: str
    version: int
    digest: str
    cases: int
    source: Literal["collected", "imported", "sampled"]
    description: str | None
    query: dict[str, Any] | None
    redacted: list[str]
    createdAt: str
    createdBy: str


class DatasetPage(TypedDict):
    items: list["Dataset"]
    nextCursor: str | None


class DecideMemory(TypedDict):
    decision: Literal["accept", "reject"]
    reason: NotRequired[str | None]


class DeclaredMemory(TypedDict):
    name: str
    description: str
    kind: str
    type: str
    namespace: str | None
    write: str


class Delivery(TypedDict):
    id: str
    webhookId: str
    eventId: str
    type: str
    status: Literal["pending", "delivered", "dead"]
    attempts: int
    answer: str | None
    createdAt: str
    nextAttemptAt: str | None
    endedAt: str | None


class DeliveryPage(TypedDict):
    items: list["Delivery"]
    nextCursor: str | None


class DoctorFinding(TypedDict):
    about: str
    level: Literal["ok", "warning", "wrong"]
    message: str
    remedy: str | None


class DoctorReport(TypedDict):
    ok: bool
    checkedAt: str
    findings: list["DoctorFinding"]


class Entry(TypedDict):
    messageId: str
    turnId: str
    role: Literal["user", "assistant", "system"]
    type: str
    content: Any
    status: Literal["streaming", "complete", "canceled", "error"]
    details: str | None
    startedAt: int | None
    completedAt: int | None


class EntryPage(TypedDict):
    items: list["Entry"]
    nextCursor: str | None


class Evaluation(TypedDict):
    id: str
    status: Literal["running", "completed", "cancelled"]
    dataset: str
    version: int
    agent: str
    modelPlan: str | None
    workspaceDigest: str
    thresholds: dict[str, float]
    baseline: str | None
    startedAt: str
    startedBy: str
    finishedAt: str | None
    passed: bool | None
    scores: dict[str, Any] | None
    progress: "EvaluationProgress | None"


class EvaluationPage(TypedDict):
    items: list["Evaluation"]
    nextCursor: str | None


class EvaluationProgress(TypedDict):
    done: int
    total: int
    cached: int


class EvaluationReport(TypedDict):
    id: str
    dataset: str
    version: int
    datasetDigest: str | None
    agent: str
    modelPlan: str | None
    workspaceDigest: str
    thresholds: dict[str, float]
    baseline: str | None
    startedAt: str
    finishedAt: str
    cancelled: bool
    passed: bool
    scores: dict[str, Any]
    totals: dict[str, Any]
    cases: list[dict[str, Any]]


class Event(TypedDict):
    id: str
    threadId: str
    runId: str | None
    seq: int
    runSeq: int | None
    type: str
    actor: str
    at: str
    payload: dict[str, Any]
    parentId: str | None
    prevHash: str
    hash: str


class EventPage(TypedDict):
    items: list["Event"]
    nextCursor: str | None


class ExtensionList(TypedDict):
    status: Literal["ok"]
    snapshotVersion: int
    loadedAt: str
    modules: list["ExtensionModule"]
    errors: list["ExtensionProblem"]


class ExtensionModule(TypedDict):
    moduleName: str
    name: str
    version: str
    agentId: str
    displayName: str
    manifestPath: str
    entrypointPath: str
    events: list[str]
    origin: dict[str, str]
    compatibility: dict[str, Any]
    capabilities: dict[str, list[str]]
    trust: dict[str, Any]
    diagnostics: list[str]


class ExtensionProblem(TypedDict):
    extension: str
    code: str
    message: str


class ExtensionsReloadedAnswer(TypedDict):
    status: Literal["ok"]
    reloadId: str
    loadedCount: int
    failedCount: int
    snapshotVersion: int
    loadedAt: str
    modules: list["ReloadedModule"]


class Feedback(TypedDict):
    runId: str
    score: float
    label: str | None
    comment: str | None
    by: str
    seq: int
    at: str


class FeedbackPage(TypedDict):
    items: list["Feedback"]
    nextCursor: str | None


class File(TypedDict):
    id: str
    name: str
    mime: str
    size: int
    sha256: str
    createdBy: str
    createdAt: str


class FilePage(TypedDict):
    items: list["File"]
    nextCursor: str | None


class FinishMcpLogin(TypedDict):
    """The ticket of the first step, and what the browser brought back."""

    ticket: str
    code: str
    state: str
    iss: NotRequired[str | None]


class ForeignEvents(TypedDict):
    """UI events of any runtime."""

    events: list[Any]


class ForgetMemory(TypedDict):
    """What to forget: records by id, everything about a user, a namespace, or what a query finds in a memory."""

    records: NotRequired[list[str]]
    user: NotRequired[str | None]
    namespace: NotRequired[str | None]
    search: NotRequired["MemorySearch | None"]


class Forgotten(TypedDict):
    forgotten: list[str]


class ForkThread(TypedDict):
    seq: NotRequired[int | None]
    title: NotRequired[str | None]


class ForkedFrom(TypedDict):
    threadId: str
    seq: int
    hash: str


class GateRate(TypedDict):
    agent: str | None
    gate: str
    mode: Literal["shadow", "blocking"]
    evaluated: int
    passed: int
    errors: int
    passRate: float
    meanScore: float | None
    firstAt: str
    lastAt: str


class GateRatePage(TypedDict):
    items: list["GateRate"]
    nextCursor: str | None


class GateReport(TypedDict):
    passRate: float | None
    results: list["Verdict"]


class GiveFeedback(TypedDict):
    """What somebody thinks of a run."""

    score: float
    label: NotRequired[str | None]
    comment: NotRequired[str | None]


class Health(TypedDict):
    status: Literal["ok"]


class Interrupt(TypedDict):
    id: str
    threadId: str
    runId: str | None
    kind: Literal["approval", "question", "external", "recovery", "paused", "timer"]
    status: Literal["open", "resolved", "expired"]
    title: str
    tool: str | None
    callId: str | None
    arguments: Any
    argumentHash: str | None
    approver: str | None
    questions: list[dict[str, Any]] | None
    expiresAt: str
    answer: dict[str, Any] | None
    answeredBy: str | None
    createdAt: str


class InterruptPage(TypedDict):
    items: list["Interrupt"]
    nextCursor: str | None


class InvokeTool(TypedDict):
    metadata: NotRequired[dict[str, Any]]
    labels: NotRequired[dict[str, str]]
    busy: NotRequired[Literal["enqueue", "reject", "interrupt", "rollback"] | None]
    limits: NotRequired["RunLimits | None"]
    user: NotRequired[str | None]
    parameters: NotRequired["RunParameters | None"]
    toolChoice: NotRequired['Literal["auto", "none", "required"] | NamedTool | None']
    responseSchema: NotRequired[dict[str, Any] | None]
    webhook: NotRequired[str | None]
    arguments: NotRequired[dict[str, Any]]
    threadId: NotRequired[str | None]


class Job(TypedDict):
    id: str
    type: str
    priority: Literal["interactive", "background"]
    status: Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
    projectId: str | None
    sourceSessionId: str | None
    serial: bool
    threadId: str
    agent: str | None
    tool: str | None
    workflow: str | None
    input: Any
    result: Any
    error: "RunError | None"
    progress: dict[str, Any] | None
    dedupeKey: str | None
    attempt: int
    maxAttempts: int
    backoffSeconds: float
    timeoutSeconds: float | None
    history: list["JobAttempt"]
    notBefore: str | None
    nextAttemptAt: str | None
    cancelRequestedAt: str | None
    metadata: dict[str, Any]
    labels: dict[str, str]
    createdAt: str
    startedAt: str | None
    finishedAt: str | None


class JobAttempt(TypedDict):
    attempt: int
    startedAt: str
    endedAt: str | None
    error: "RunError | None"


class JobPage(TypedDict):
    items: list["Job"]
    nextCursor: str | None


class JournalItem(TypedDict):
    eventId: str
    runId: str | None
    seq: int
    at: str
    actor: str
    kind: str
    type: str
    payload: dict[str, Any]
    hash: str
    link: str


class JournalPage(TypedDict):
    items: list["JournalItem"]
    nextCursor: str | None


class JudgeRun(TypedDict):
    """Which of the agent's gates are asked."""

    mode: Literal["shadow", "blocking"]


class Key(TypedDict):
    """A key as it may be shown at any time."""

    id: str
    tenant: str
    name: str
    roles: list[str]
    scopes: list[str]
    createdAt: str
    createdBy: str
    expiresAt: str | None
    revokedAt: str | None


class KeyPage(TypedDict):
    items: list["Key"]
    nextCursor: str | None


class McpLogin(TypedDict):
    server: str
    issuer: str
    scope: str | None
    expiresAt: str | None
    renewable: bool


class McpLoginBegun(TypedDict):
    authorizationUrl: str
    ticket: str
    expiresAt: str


class Me(TypedDict):
    id: str
    tenant: str
    roles: list[str]
    scopes: list[str]
    authentication: bool
    csrfToken: str | None
    expiresAt: str | None
    version: str


class MemoryHit(TypedDict):
    id: str
    memory: str
    namespace: str
    kind: str
    status: Literal["proposed", "accepted", "rejected", "superseded", "forgotten"]
    source: str
    text: str | None
    attributes: dict[str, Any]
    confidence: float
    sources: list[str]
    user: str | None
    createdBy: str | None
    runId: str | None
    interruptId: str | None
    decidedBy: str | None
    supersededBy: str | None
    reason: str | None
    createdAt: str
    updatedAt: str
    lastUsedAt: str | None
    expiresAt: str | None
    score: float


class MemoryHits(TypedDict):
    items: list["MemoryHit"]


class MemoryOverview(TypedDict):
    memories: list["DeclaredMemory"]
    namespaces: dict[str, int]


class MemoryPage(TypedDict):
    items: list["MemoryRecord"]
    nextCursor: str | None


class MemoryRecord(TypedDict):
    """A record; its text is `[FORGOTTEN]` once it was forgotten."""

    id: str
    memory: str
    namespace: str
    kind: str
    status: Literal["proposed", "accepted", "rejected", "superseded", "forgotten"]
    source: str
    text: str | None
    attributes: dict[str, Any]
    confidence: float
    sources: list[str]
    user: str | None
    createdBy: str | None
    runId: str | None
    interruptId: str | None
    decidedBy: str | None
    supersededBy: str | None
    reason: str | None
    createdAt: str
    updatedAt: str
    lastUsedAt: str | None
    expiresAt: str | None


class MemorySearch(TypedDict):
    """What to look for, and where."""

    memory: str
    namespace: NotRequired[str | None]
    agent: NotRequired[str | None]
    user: NotRequired[str | None]
    threadId: NotRequired[str | None]
    query: str
    limit: NotRequired[int]


class Message(TypedDict):
    """As a model gets it: `completion_request_v1`."""

    role: Literal["system", "user", "assistant", "tool"]


class MessagePage(TypedDict):
    items: list["Message"]
    nextCursor: str | None


class MissingFact(TypedDict):
    type: str | None
    subject: str | None
    reason: str


class ModelUsage(TypedDict):
    calls: int
    inputTokens: int
    outputTokens: int
    costUsd: float


class NamedTool(TypedDict):
    name: str


class NewKey(TypedDict):
    """A key with its secret."""

    id: str
    tenant: str
    name: str
    roles: list[str]
    scopes: list[str]
    createdAt: str
    createdBy: str
    expiresAt: str | None
    revokedAt: str | None
    key: str


class NewWebhook(TypedDict):
    id: str
    url: str
    events: list[str]
    agents: list[str]
    labels: dict[str, str]
    description: str | None
    enabled: bool
    disabledReason: str | None
    declared: bool
    createdAt: str
    updatedAt: str
    secret: str


class PlanRequest(TypedDict):
    """The input that the workflow would be given."""

    input: str | dict[str, Any] | list[dict[str, Any]]


class PolicyDecision(TypedDict):
    policyId: str
    decision: Literal["allow", "deny", "advisory"]
    reason: str
    phaseId: NotRequired[str | None]


class PostMessage(TypedDict):
    """A message is a run on this thread."""

    metadata: NotRequired[dict[str, Any]]
    labels: NotRequired[dict[str, str]]
    busy: NotRequired[Literal["enqueue", "reject", "interrupt", "rollback"] | None]
    limits: NotRequired["RunLimits | None"]
    user: NotRequired[str | None]
    parameters: NotRequired["RunParameters | None"]
    toolChoice: NotRequired['Literal["auto", "none", "required"] | NamedTool | None']
    responseSchema: NotRequired[dict[str, Any] | None]
    webhook: NotRequired[str | None]
    agent: NotRequired[str | None]
    input: str | dict[str, Any] | list[dict[str, Any]]


class PutMemory(TypedDict):
    """A record that the caller vouches for."""

    memory: str
    namespace: NotRequired[str | None]
    agent: NotRequired[str | None]
    user: NotRequired[str | None]
    threadId: NotRequired[str | None]
    text: str
    about: NotRequired[str | None]
    attributes: NotRequired[dict[str, Any]]
    confidence: NotRequired[float]


class PutOutcome(TypedDict):
    outcome: Literal["accepted", "merged", "asked"]
    reason: str
    record: "MemoryRecord"


class Readiness(TypedDict):
    status: Literal["ready", "not ready"]
    code: NotRequired[str | None]
    sandbox: NotRequired["Sandbox | None"]


class Redeliver(TypedDict):
    """Which delivery; without one, every dead one."""

    deliveryId: NotRequired[str | None]


class Redelivered(TypedDict):
    count: int


class Reindexed(TypedDict):
    counts: dict[str, int]


class ReloadedModule(TypedDict):
    name: str
    version: str
    agentId: str
    events: list[str]


class Rerun(TypedDict):
    """Of which workspace, and how exactly."""

    workspace: NotRequired[Literal["current", "recorded"]]
    token: NotRequired[str | None]
    mode: NotRequired[Literal["strict", "compat"]]


class RetentionReport(TypedDict):
    items: list["RetentionRule"]


class RetentionRule(TypedDict):
    what: Literal["deltas", "threads", "deleted"]
    days: int | None
    workspaceDays: int | None
    settingDays: int | None


class Run(TypedDict):
    id: str
    threadId: str
    agent: str | None
    tool: str | None
    workflow: str | None
    mode: Literal["interactive", "autofix", "report-only", "headless"] | None
    status: Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
    input: Any
    output: Any
    outputParts: list[dict[str, Any]] | None
    error: "RunError | None"
    parentRunId: str | None
    rerunOf: str | None
    undoOf: str | None
    priority: Literal["interactive", "background"] | None
    metadata: dict[str, Any]
    labels: dict[str, str]
    usage: "RunUsage"
    waitingOn: list[str]
    cancelRequestedAt: str | None
    lastSeq: int
    workspaceDigest: str | None
    createdAt: str
    startedAt: str | None
    finishedAt: str | None


class RunError(TypedDict):
    code: str
    message: str
    retryable: bool
    causes: NotRequired[list["RunError"] | None]


class RunLimits(TypedDict):
    tokens: NotRequired[int | None]
    costUsd: NotRequired[float | None]
    modelCalls: NotRequired[int | None]
    toolCalls: NotRequired[int | None]
    wallSeconds: NotRequired[float | None]


class RunPage(TypedDict):
    items: list["Run"]
    nextCursor: str | None


class RunParameters(TypedDict):
    """In place of the agent's own; what is left out stays as the agent has it."""

    temperature: NotRequired[float | None]
    topP: NotRequired[float | None]
    maxTokens: NotRequired[int | None]
    stop: NotRequired[list[str] | None]
    seed: NotRequired[int | None]
    presencePenalty: NotRequired[float | None]
    frequencyPenalty: NotRequired[float | None]
    effort: NotRequired[Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None]
    parallelTools: NotRequired[bool | None]


class RunUsage(TypedDict):
    inputTokens: int
    outputTokens: int
    costUsd: float


class Sample(TypedDict):
    of: int
    size: int
    seed: int
    by: str | None
    strata: list["Stratum"]
    cases: list["Case"]
    dataset: "Dataset | None"


class SampleDataset(TypedDict):
    """How many cases, chosen how."""

    runIds: NotRequired[list[str] | None]
    version: NotRequired[int | None]
    size: NotRequired[int]
    seed: NotRequired[int]
    by: NotRequired[str | None]
    saveAs: NotRequired[str | None]


class Sandbox(TypedDict):
    level: Literal["full", "partial", "none"]
    missing: list[str]


class Schedule(TypedDict):
    name: str
    cron: str | None
    everySeconds: float | None
    at: str | None
    timezone: str
    missed: Literal["skip", "once", "all"]
    overlap: Literal["skip", "queue", "cancel"]
    run: dict[str, Any]
    enabled: bool
    paused: bool
    declared: bool
    lastDueAt: str | None
    lastRunId: str | None
    next: list[str]


class SchedulePage(TypedDict):
    items: list["Schedule"]
    nextCursor: str | None


class SimilarInterrupt(TypedDict):
    interrupt: "Interrupt | None"


class SkillCandidate(TypedDict):
    """What a skill would be, and the runs that are the evidence."""

    id: str
    name: str
    agent: str
    status: Literal["proposed", "accepted"]
    confidence: float
    evidenceCount: int
    triggers: list[str]
    tools: list[str]
    runs: list[str]
    proposedPath: str


class SkillCandidateFile(TypedDict):
    id: str
    name: str
    agent: str
    status: Literal["proposed", "accepted"]
    confidence: float
    evidenceCount: int
    triggers: list[str]
    tools: list[str]
    runs: list[str]
    proposedPath: str
    content: str


class SkillCandidates(TypedDict):
    items: list["SkillCandidate"]
    nextCursor: str | None


class Snapshot(TypedDict):
    thread: "Thread"
    runs: list["Run"]
    upToSeq: int
    closed: bool
    output: Any
    roles: dict[str, str]
    toolsInvoked: list["ToolUse"]
    phases: list[str]
    verdict: str | None
    workflow: "WorkflowProgress | None"
    messagesInFlight: list[str]
    openInterrupts: list[str]
    usage: "TotalUsage"


class StartEvaluation(TypedDict):
    """Which agent, on which cases, judged how."""

    dataset: str
    version: NotRequired[int | None]
    agent: str
    modelPlan: NotRequired[str | None]
    gates: NotRequired[dict[str, float]]
    baseline: NotRequired[str | None]
    parallel: NotRequired[int]
    cache: NotRequired[bool]


class StatsPoint(TypedDict):
    at: str
    runs: int
    completed: int
    failed: int
    cancelled: int
    inputTokens: int
    outputTokens: int
    costUsd: float


StatsSeries = TypedDict(
    "StatsSeries",
    {
        "from": str,
        "until": str,
        "stepSeconds": float,
        "usageSince": str,
        "points": list["StatsPoint"],
        "queued": int,
        "running": int,
        "waiting": int,
        "openInterrupts": int,
    },
)


class Stratum(TypedDict):
    value: Any
    of: int
    taken: int


class SubmitRun(TypedDict):
    """Which agent, on what input, and where."""

    priority: NotRequired[Literal["interactive", "background"] | None]
    notBefore: NotRequired[str | None]
    attempts: NotRequired[int | None]
    backoffSeconds: NotRequired[float | None]
    timeoutSeconds: NotRequired[float | None]
    dedupeKey: NotRequired[str | None]
    dedupe: NotRequired[Literal["single_flight", "drop_duplicate", "merge_duplicate"] | None]
    jobType: NotRequired[str | None]
    projectId: NotRequired[str | None]
    sourceSessionId: NotRequired[str | None]
    serial: NotRequired[bool | None]
    metadata: NotRequired[dict[str, Any]]
    labels: NotRequired[dict[str, str]]
    busy: NotRequired[Literal["enqueue", "reject", "interrupt", "rollback"] | None]
    limits: NotRequired["RunLimits | None"]
    user: NotRequired[str | None]
    parameters: NotRequired["RunParameters | None"]
    toolChoice: NotRequired['Literal["auto", "none", "required"] | NamedTool | None']
    responseSchema: NotRequired[dict[str, Any] | None]
    webhook: NotRequired[str | None]
    agent: NotRequired[str | None]
    tool: NotRequired[str | None]
    workflow: NotRequired[str | None]
    routeId: NotRequired[str | None]
    mode: NotRequired[Literal["interactive", "autofix", "report-only", "headless"] | None]
    input: str | dict[str, Any] | list[dict[str, Any]]
    threadId: NotRequired[str | None]
    createThread: NotRequired[bool]
    modelPlan: NotRequired[str | None]


class TenantPage(TypedDict):
    items: list[str]
    nextCursor: str | None


class Thread(TypedDict):
    id: str
    title: str | None
    status: Literal["idle", "busy", "waiting", "closed"]
    archived: bool
    metadata: dict[str, Any]
    labels: dict[str, str]
    forkedFrom: "ForkedFrom | None"
    lastSeq: int
    createdAt: str
    updatedAt: str


class ThreadPage(TypedDict):
    items: list["Thread"]
    nextCursor: str | None


class Todo(TypedDict):
    id: str
    title: str
    status: Literal["pending", "in_progress", "blocked", "done"]
    owner: str


class TodoItem(TypedDict):
    """Of an item that exists, what is left out stays as it is."""

    id: NotRequired[str | None]
    title: NotRequired[str | None]
    status: NotRequired[Literal["pending", "in_progress", "blocked", "done"] | None]
    owner: NotRequired[str | None]


class TodoPage(TypedDict):
    items: list["Todo"]
    nextCursor: str | None


class Token(TypedDict):
    token: str
    createdAt: str


class Tool(TypedDict):
    name: str
    description: str
    kind: str
    effect: str
    labels: dict[str, str]
    input: dict[str, Any] | None
    output: dict[str, Any] | None


class ToolPage(TypedDict):
    items: list["Tool"]
    nextCursor: str | None


class ToolUse(TypedDict):
    callId: str
    tool: str
    arguments: Any


class TotalUsage(TypedDict):
    calls: int
    inputTokens: int
    outputTokens: int
    costUsd: float
    toolCalls: int


class TraceItem(TypedDict):
    category: str
    name: str
    subject: str
    status: str
    runId: str | None
    seq: int
    at: str
    endSeq: NotRequired[int | None]
    endAt: NotRequired[str | None]


class TracePage(TypedDict):
    items: list["TraceItem"]
    nextCursor: str | None


class UiCapabilities(TypedDict):
    schemaVersion: str
    runtimeId: str
    generatedAt: str
    capabilities: list["UiCapability"]
    bus: NotRequired["Bus | None"]


class UiCapability(TypedDict):
    id: str
    status: str
    scope: str
    title: str


class UiEvent(TypedDict):
    """An event of the Lime standard; ids of its scope and references are present where they are known."""

    id: str
    schemaVersion: str
    runtimeId: str
    sequence: int
    eventClass: str
    kind: str
    status: str
    title: str
    createdAt: str
    payload: NotRequired[dict[str, Any] | None]


class UiEventPage(TypedDict):
    items: list["UiEvent"]
    nextCursor: str | None


class UiIssue(TypedDict):
    code: Literal["schema_mismatch", "missing_scope_id", "sequence_gap", "secret_leak_risk", "large_payload_inline"]
    path: str
    message: str


class UiLane(TypedDict):
    lane: str
    value: Any
    latestSequence: NotRequired[int | None]


class UiState(TypedDict):
    """The projection of UI events; each member is a part that can be read alone."""

    runtime: dict[str, Any]
    messages: list[dict[str, Any]]
    timeline: list[dict[str, Any]]
    graph: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    hydration: dict[str, Any]


class UiValidation(TypedDict):
    valid: bool
    issues: list["UiIssue"]
    violations: list["UiViolation"]


class UiViolation(TypedDict):
    code: str
    eventId: str
    message: str
    scopeId: NotRequired[str | None]
    turnId: NotRequired[str | None]


class UndoAction(TypedDict):
    callId: str
    runId: str
    tool: str
    seq: int
    status: Literal["planned", "impossible", "undone"]
    compensation: "UndoCompensation | None"
    reason: "UndoReason | None"


class UndoCheckpoint(TypedDict):
    label: str
    seq: int


class UndoCommand(TypedDict):
    """Which plan, and what to do when one of its actions fails."""

    planHash: str
    onFailure: NotRequired[Literal["stop", "continue"]]


class UndoCompensation(TypedDict):
    tool: str
    arguments: dict[str, Any]


class UndoPlan(TypedDict):
    runId: str
    fromCheckpoint: "UndoCheckpoint | None"
    planHash: str
    actions: list["UndoAction"]


class UndoPlanRequest(TypedDict):
    """How far back."""

    toCheckpoint: NotRequired[str | int | None]


class UndoReason(TypedDict):
    code: str
    message: str


class Usage(TypedDict):
    total: "TotalUsage"
    byModel: dict[str, "ModelUsage"]


class Verdict(TypedDict):
    runId: str
    gate: str
    mode: Literal["shadow", "blocking"]
    score: float | None
    minScore: float
    passed: bool
    error: str | None
    reason: str | None
    seq: int
    at: str


class WantedScore(TypedDict):
    """A range of scores, and whose."""

    name: NotRequired[str | None]
    atLeast: NotRequired[float]
    atMost: NotRequired[float]


class Webhook(TypedDict):
    id: str
    url: str
    events: list[str]
    agents: list[str]
    labels: dict[str, str]
    description: str | None
    enabled: bool
    disabledReason: str | None
    declared: bool
    createdAt: str
    updatedAt: str


class WebhookPage(TypedDict):
    items: list["Webhook"]
    nextCursor: str | None


class Workflow(TypedDict):
    name: str
    description: str
    labels: dict[str, str]
    adapter: str
    available: bool
    nodes: int
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    maxVisits: int


class WorkflowGraph(TypedDict):
    workflow: str
    adapter: str
    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    runId: NotRequired[str | None]
    status: NotRequired[str | None]
    order: NotRequired[list[str] | None]


class WorkflowPage(TypedDict):
    items: list["Workflow"]
    nextCursor: str | None


class WorkflowPlan(TypedDict):
    workflow: str
    adapter: str
    available: bool
    input: dict[str, Any]
    begins: list[str]
    steps: list[dict[str, Any]]
    maxVisits: int
    limits: dict[str, Any]
    asksPeople: list[str]
    unsafe: list[str]


class WorkflowProgress(TypedDict):
    workflowId: str
    cycleId: str | None
    mode: str | None
    phase: str | None
    verdict: str | None
    reason: str | None
    generation: int
    visitedPhases: list[str]
    gates: list["PolicyDecision"]


class Workspace(TypedDict):
    digest: str | None
    profile: str | None
    loadedAt: str | None
    defaultAgent: str | None
    agents: list[str]
    models: list[str]
    tools: list[str]
    skills: list[str]
    cli: dict[str, Any]
    diagnostics: list[dict[str, Any]]
    rejected: list[dict[str, Any]] | None
    rejectedAt: str | None


class WorkspaceComparison(TypedDict):
    base: str
    head: str
    documents: list["ChangedDocument"] | None
    files: list["ChangedFile"]
    truncated: bool
