// Folds a run's events (and those of its subagents) into what the page shows. Pure: the same events give the same
// model. Folding fewer of them gives the run as it stood then.
const TERMINAL = {
  "runtime.request.completed": "completed",
  "runtime.request.failed": "failed",
  "runtime.request.cancelled": "cancelled",
};

export class RunModel {
  constructor(rootId) {
    this.rootId = rootId;
    this.depths = new Map([[rootId, 0]]);
    this.items = []; // the conversation, in order
    this.spans = []; // the timeline, in order of their start
    this.messages = new Map();
    this.calls = new Map();
    this.waits = new Map();
    this.runs = new Map();
    this.status = "queued";
    this.usage = { inputTokens: 0, outputTokens: 0, costUsd: 0, calls: 0, toolCalls: 0 };
    this.lastSeq = 0;
    this.lastHash = "";
    this.events = 0;
    this.startedAt = null;
    this.endedAt = null;
  }

  // Whether the event belongs to this run or one of its subagents.
  owns(event) {
    if (this.depths.has(event.runId)) return true;
    if (event.type !== "runtime.request.queued") return event.payload?.runId === this.rootId;
    const parent = this.depths.get(event.payload.parentRunId);
    if (parent === undefined) return false;
    this.depths.set(event.runId, parent + 1);
    return true;
  }

  apply(event) {
    this.lastSeq = event.seq;
    this.lastHash = event.hash;
    this.events += 1;
    const at = Date.parse(event.at);
    this.startedAt ??= at;
    if (!this.done) this.endedAt = at;
    const fold = FOLDS[event.type];
    if (fold) fold(this, event, event.payload, at, this.depths.get(event.runId) ?? 0);
    else if (event.type.startsWith("runtime.workflow.") || event.type.startsWith("runtime.specDriven."))
      workflow(this, event, event.payload, at);
    return this;
  }

  get done() {
    return this.status in ENDED;
  }

  item(kind, event, fields) {
    const made = {
      kind,
      key: event.id,
      seq: event.seq,
      at: event.at,
      depth: this.depths.get(event.runId) ?? 0,
      ...fields,
    };
    this.items.push(made);
    return made;
  }

  span(kind, name, event, at, depth, fields = {}) {
    const made = { kind, name, start: at, end: null, seq: event.seq, key: event.id, depth, ...fields };
    this.spans.push(made);
    return made;
  }

  message(id, event, depth) {
    let found = this.messages.get(id);
    if (!found) {
      found = this.item("message", event, {
        text: "",
        reasoning: "",
        runId: event.runId,
        open: true,
        abandoned: false,
        model: null,
        depth,
      });
      this.messages.set(id, found);
    }
    return found;
  }

  call(id, event, at, depth) {
    let found = this.calls.get(id);
    if (!found) {
      found = this.item("tool", event, {
        callId: id,
        tool: "",
        partial: "",
        arguments: undefined,
        output: undefined,
        error: null,
        state: "proposed",
        depth,
      });
      this.calls.set(id, found);
    }
    return found;
  }
}

const ENDED = { completed: 1, failed: 1, cancelled: 1 };

function addUsage(model, usage) {
  if (!usage) return;
  model.usage.inputTokens += usage.inputTokens ?? 0;
  model.usage.outputTokens += usage.outputTokens ?? 0;
  model.usage.costUsd += usage.costUsd ?? 0;
}

function workflow(model, event, payload, at) {
  const last = event.type.split(".").at(-1);
  const name = payload.node ?? payload.phase ?? payload.phaseId ?? payload.to ?? payload.workflow ?? "";
  model.item("line", event, {
    text: `workflow ${last}${name ? `: ${name}` : ""}`,
    tone: last === "aborted" || last === "blocked" ? "bad" : "",
  });
  const span = model.span("workflow", `${last} ${name}`.trim(), event, at, 0);
  span.end = at;
}

function instant(kind, text, tone = () => "") {
  return (model, event, payload, at, depth) => {
    const said = text(payload);
    model.item("line", event, { text: said, tone: tone(payload) });
    const span = model.span(kind, said, event, at, depth, { failed: tone(payload) === "bad" });
    span.start = at - (payload.durationMs ?? 0);
    span.end = at;
  };
}

const FOLDS = {
  "runtime.request.queued": (model, event, payload, at, depth) => {
    const name = payload.agent ?? payload.workflow ?? payload.tool ?? "run";
    const span = model.span("run", name, event, at, depth);
    model.runs.set(event.runId, span);
    if (depth === 0) model.item("input", event, { value: payload.input, who: event.actor });
    else {
      model.item("line", event, { text: `${name} begins`, runId: event.runId });
      const call = model.calls.get(payload.callId);
      if (call) call.childRun = event.runId;
    }
  },
  "runtime.request.started": (model, event) => {
    if (event.runId === model.rootId) model.status = "running";
  },
  "runtime.request.resumed": (model, event, payload) => {
    if (event.runId === model.rootId) model.status = "running";
    model.item("line", event, { text: `resumed (${payload.reason})` });
  },
  "runtime.request.suspended": (model, event) => {
    if (event.runId === model.rootId) model.status = "waiting";
  },
  "runtime.model.requested": (model, event, payload, at, depth) => {
    const span = model.span("model", payload.model, event, at, depth, { messageId: payload.messageId });
    model.messages.get(payload.messageId)?.span ?? model.waits.set(payload.messageId, span);
    model.usage.calls += 1;
  },
  "runtime.model.completed": (model, event, payload, at, depth) => {
    const span = model.waits.get(payload.messageId);
    if (span) {
      span.end = at;
      span.costUsd = payload.usage?.costUsd;
      span.tokens = (payload.usage?.inputTokens ?? 0) + (payload.usage?.outputTokens ?? 0);
    }
    addUsage(model, payload.usage);
    if (!payload.text && !model.messages.has(payload.messageId) && !payload.reasoning) return;
    const message = model.message(payload.messageId, event, depth);
    // The whole text replaces the pieces: old pieces may have been dropped by retention.
    if (typeof payload.text === "string" && payload.text) message.text = payload.text;
    else if (payload.text?.$blob) message.blob = payload.text.$blob;
    message.open = false;
    message.model = payload.model;
    message.parts = payload.parts;
  },
  "runtime.model.failed": (model, event, payload, at, depth) => {
    const span = model.waits.get(payload.messageId);
    if (span) {
      span.end = at;
      span.failed = true;
    }
    const message = model.messages.get(payload.messageId);
    if (message) {
      message.open = false;
      message.abandoned = true;
    }
    addUsage(model, payload.usage);
    model.item("line", event, {
      text: `model ${payload.model} failed: ${payload.error?.code} ${payload.error?.message ?? ""}`,
      tone: "bad",
      depth,
    });
  },
  "runtime.model.retry.scheduled": instant(
    "model",
    (payload) => `retry ${payload.attempt} in ${payload.delayMs} ms: ${payload.reason}`,
    () => "warn",
  ),
  "runtime.adapter.event": (model, event, payload, at, depth) => {
    const signal = payload.event ?? {};
    if (signal.phase === "agent.output.delta")
      model.message(signal.messageId, event, depth).text += signal.text ?? "";
    else if (signal.phase === "agent.reasoning.delta")
      model.message(signal.messageId, event, depth).reasoning += signal.text ?? "";
    else if (signal.phase === "agent.tool.delta") {
      const call = model.call(signal.callId, event, at, depth);
      call.tool = signal.toolId ?? call.tool;
      call.partial += signal.text ?? "";
    } else if (signal.phase === "agent.tool.start") {
      const call = model.call(signal.callId ?? event.id, event, at, depth);
      call.tool = signal.toolId ?? signal.tool ?? "";
      call.arguments = signal.arguments ?? signal.input;
      call.state = "running";
    } else if (signal.phase === "agent.tool.result") {
      const call = model.call(signal.callId ?? event.id, event, at, depth);
      call.output = signal.output ?? signal.text;
      call.state = "done";
    } else if (signal.phase === "agent.node.completed" || signal.phase === "agent.node.started") {
      const state = signal.phase.split(".").at(-1);
      model.item("line", event, { text: `step ${signal.node ?? signal.nodeId ?? ""} ${state}` });
    }
  },
  "runtime.tool.guarded": (model, event, payload, at, depth) => {
    const call = model.call(payload.callId, event, at, depth);
    call.tool ||= payload.tool;
    call.guarded = payload;
    const span = model.span("guardrail", `guard ${payload.outcome} ${payload.tool}`, event, at, depth, {
      failed: payload.outcome === "refused",
    });
    span.end = at;
  },
  "runtime.tool.invoked": (model, event, payload, at, depth) => {
    const call = model.call(payload.callId, event, at, depth);
    call.tool = payload.tool;
    call.arguments = payload.arguments;
    call.effect = payload.effect;
    call.state = "running";
    call.span = model.span("tool", payload.tool, event, at, depth);
    model.usage.toolCalls += 1;
  },
  "runtime.tool.resulted": (model, event, payload, at, depth) => {
    const call = model.call(payload.callId, event, at, depth);
    call.tool ||= payload.tool;
    call.output = payload.output;
    call.error = payload.error ?? null;
    call.state = payload.ok ? "done" : "failed";
    call.durationMs = payload.durationMs;
    if (call.span) {
      call.span.end = at;
      call.span.failed = !payload.ok;
    }
  },
  "runtime.hook.fired": instant(
    "hook",
    (payload) =>
      `hook ${payload.hook} · ${payload.handler}: ${payload.decision}${payload.reason ? ` (${payload.reason})` : ""}`,
    (payload) => (payload.decision === "deny" ? "bad" : ""),
  ),
  "runtime.guardrail.triggered": instant(
    "guardrail",
    (payload) =>
      `guardrail ${payload.guardrail} on ${payload.stage}: ${payload.action}${payload.reason ?
        ` (${payload.reason})` : ""}`,
    (payload) => (payload.blocked ? "bad" : "warn"),
  ),
  "runtime.gate.evaluated": instant(
    "gate",
    (payload) => `gate ${payload.gate}: ${payload.passed ? "passed" : "not passed"}`,
    (payload) => (payload.passed ? "" : "bad"),
  ),
  "runtime.schema.violated": instant(
    "guardrail",
    (payload) => `schema violated${payload.subject ? `: ${payload.subject}` : ""}`,
    () => "bad",
  ),
  "runtime.budget.exceeded": instant(
    "guardrail",
    (payload) => `budget exceeded: ${payload.budget ?? payload.limit ?? ""}`,
    () => "bad",
  ),
  "runtime.command.injected": instant(
    "hook",
    (payload) =>
      `command ${payload.command}${payload.arguments?.message ? `: ${oneLine(payload.arguments.message)}` : ""}`,
    () => "warn",
  ),
  "runtime.checkpoint.created": instant(
    "gate",
    (payload) => `checkpoint ${payload.name ?? payload.checkpoint ?? ""}`,
  ),
  "runtime.context.compacted": instant("model", () => "context compacted"),
  "runtime.artifact.created": (model, event, payload) => {
    model.item("artifact", event, { artifact: payload.artifact ?? payload });
  },
  "runtime.skill.invoked": (model, event, payload) => model.item("line", event, { text: `skill ${payload.skill}` }),
  "runtime.role.transitioned": instant("gate", (payload) => `role ${payload.from ?? "start"} → ${payload.to}`),
  "runtime.interrupt.raised": (model, event, payload, at, depth) => {
    const item = model.item("interrupt", event, {
      id: payload.interruptId,
      what: payload.kind,
      title: payload.title,
      tool: payload.tool,
      state: "open",
    });
    item.span = model.span("wait", `${payload.kind} ${payload.tool ?? ""}`, event, at, depth);
    model.waits.set(payload.interruptId, item);
  },
  "runtime.interrupt.resolved": (model, event, payload, at) => close(model, payload, at, "resolved", event.actor),
  "runtime.interrupt.expired": (model, event, payload, at) => close(model, payload, at, "expired", ""),
};

function close(model, payload, at, state, by) {
  const item = model.waits.get(payload.interruptId);
  if (!item) return;
  Object.assign(item, { state, answer: payload.answer, by });
  item.span.end = at;
}

for (const [type, status] of Object.entries(TERMINAL)) {
  FOLDS[type] = (model, event, payload, at) => {
    const span = model.runs.get(event.runId);
    if (span) {
      span.end = at;
      span.failed = status === "failed";
    }
    const isRoot = event.runId === model.rootId;
    for (const message of model.messages.values())
      if (isRoot || message.runId === event.runId) message.open = false;
    if (!isRoot) return;
    model.status = status;
    model.endedAt = at;
    if (status === "failed") model.item("error", event, { error: payload.error });
    else if (status === "cancelled")
      model.item("line", event, { text: `cancelled${payload.by ? ` by ${payload.by}` : ""}`, tone: "warn" });
    else if (payload.messageId === undefined || !model.messages.has(payload.messageId))
      model.item("output", event, { value: payload.output });
  };
}

function oneLine(value) {
  return (typeof value === "string" ? value : JSON.stringify(value)).replace(/\s+/g, " ").slice(0, 200);
}

export function foldUpTo(rootId, events, seq) {
  const model = new RunModel(rootId);
  for (const event of events) {
    if (event.seq > seq) break;
    if (model.owns(event)) model.apply(event);
  }
  return model;
}
