"""Descriptions of the fields of a document, for editors and for the generated reference.

The models define what is allowed. A field with a description of its own (`Field(description=...)`) needs no entry; if
it has both, the entry here is used. `tests/workspace/test_reference.py` requires one of the two.
"""

from typing import Final

_SAME_FIELDS: Final = {"ModelOverride": "ModelSpec", "ToolMetadata": "Metadata"}
"""Models whose fields are those of another one."""

ENVELOPE: Final = {
    "apiVersion": "Always `holdfast/v1`.",
    "kind": "The kind of document.",
    "metadata": "The document's name and description.",
    "spec": "The content of the document.",
}

DESCRIPTIONS: Final[dict[str, dict[str, str]]] = {
    "Metadata": {
        "name": "Unique among the documents of its kind; other documents refer to it by this name.",
        "description": "A description. Models receive the descriptions of tools and subagents.",
        "labels": "Arbitrary labels. They have no effect.",
    },
    "RuntimeSpec": {
        "defaultAgent": "The agent for requests that name none.",
        "defaultWorkflow": "The workflow for requests that name neither agent nor workflow.",
        "routes": "The agent or workflow for each `routeId` of a request.",
        "concurrency": "Limits of runs that execute or wait at once.",
        "telemetry": "Where events are sent besides the log.",
        "busyPolicy": "What happens to a request for a thread with an active run: it waits (`enqueue`), is rejected "
        "(`reject`), cancels the active run (`interrupt`), or cancels it and removes its messages from the history "
        "(`rollback`).",
        "budgets": "Limits per run, and per tenant and day.",
        "retention": "Days after which stored data is removed.",
        "redaction": "What is redacted before anything is recorded.",
        "progress": "Progress reports during a run.",
        "cli": "Output of the command line.",
        "hooks": "Hooks for every agent, called before the agent's own hooks.",
        "trust": "Which extensions may be loaded.",
        "outgoing": "Which hosts tools may call.",
        "interrupts": "How long approvals and questions stay open.",
        "drainSeconds": "Seconds that runs have to finish when the server stops.",
    },
    "Route": {"agent": "The agent to run.", "workflow": "The workflow to run."},
    "Concurrency": {
        "runs": "Runs that execute at once in one server.",
        "perAgent": "Runs of one agent that execute at once.",
        "perTenant": "Runs of one tenant that execute at once.",
        "queuePerThread": "Active and waiting runs of one thread.",
    },
    "Budgets": {"run": "Limits of each run.", "tenant": "Limits of each tenant."},
    "TenantBudget": {
        "tokensPerDay": "Maximum number of tokens per day (UTC).",
        "costUsdPerDay": "Maximum cost per day (UTC), in US dollars.",
        "runsPerMinute": "Maximum number of new runs per minute.",
    },
    "Limits": {
        "tokens": "Maximum number of tokens of all model calls, input and output together.",
        "costUsd": "Maximum cost of all model calls in US dollars, computed from the models' `prices`.",
        "modelCalls": "Maximum number of model calls.",
        "toolCalls": "Maximum number of tool calls.",
        "wallSeconds": "Maximum duration in seconds, without the time spent waiting for a person.",
    },
    "Retention": {
        "deletedDays": "Days until a deleted thread or file is purged.",
        "threadsDays": "Days after its last event until a thread is deleted. Default: never.",
        "deltaDays": "Days after a run's end until the deltas of its completed messages are dropped. Default: never.",
    },
    "Redaction": {
        "kinds": "Kinds of text to redact, such as `card` for card numbers. `secret` is always redacted.",
        "pii": "Where personal data is redacted: in what models are sent (`prompts`), in traces and exports "
        "(`traces`), or in both.",
        "reasoning": "How much of a model's reasoning is redacted: `none`, its words (`metadata`), or `full`, which "
        "also hides how many tokens it took.",
        "traceFields": "Payload fields that may appear in exported traces.",
    },
    "Progress": {"narration": "Sentences about a run's progress, recorded as events."},
    "Narration": {
        "enabled": "Whether to record sentences.",
        "style": "How detailed the sentences are; `concise` and `brief` mean the same.",
        "provider": "What generates the sentences; `template` needs no model.",
    },
    "Telemetry": {"sinks": "Where events are sent besides the log. What a sink cannot take in time is dropped."},
    "TelemetrySink": {
        "kind": "The kind of sink: `stdout` for JSON lines, `otlp` for traces, or one of an installed package.",
        "config": "Settings of a sink of an installed package.",
    },
    "Cli": {"events": "Which events `holdfast run` shows."},
    "CliEvents": {"include": "Event types to show; `*` matches any text."},
    "Trust": {
        "extensions": "Whether unsigned extensions are rejected, reported or loaded.",
        "publishers": "Publishers whose extensions are trusted.",
    },
    "Outgoing": {
        "hosts": "The only hosts that tools may call. Default: every public host.",
        "private": "Hosts that may have a private or loopback address. Every other private address is rejected.",
    },
    "Interrupts": {"expiresSeconds": "Seconds until an open approval or question expires."},
    "ProfileSpec": {"models": "For each model name, the fields that this profile replaces; null restores the default."},
    "ModelSpec": {
        "provider": "The provider's API: openai (and compatible services), anthropic, gemini, ollama or scripted.",
        "model": "The provider's name for the model.",
        "baseUrl": "The base URL of the provider. Default: the provider's public one.",
        "apiKey": "The API key, as `${env:NAME}`. The Runtime's `env` must list the variable.",
        "headers": "Headers to send with every call.",
        "capabilities": "What the model can do. Calls that need more are not sent to it.",
        "limits": "Sizes and rates that the model accepts.",
        "prices": "Prices of tokens, for budgets and usage.",
        "timeouts": "Time limits of a call.",
        "retry": "How temporary failures are retried.",
        "breaker": "Circuit breaker: when to stop calling a model that keeps failing.",
        "fallbacks": "Models to call, in order, if this one fails.",
        "parameters": "Parameters of every call, unless the agent or the request sets them.",
        "reasoning": "Reasoning settings.",
        "script": "The rules of a `scripted` model, which needs no provider.",
    },
    "Capabilities": {
        "streaming": "The model can stream its answer.",
        "tools": "The model can call tools.",
        "parallelTools": "The model can call several tools in one turn.",
        "structuredOutput": "The model can answer according to a JSON Schema.",
        "reasoning": "The model can reason before it answers.",
        "systemMessages": "The model accepts system messages.",
        "input": "Kinds of content that the model accepts.",
        "output": "Kinds of content that the model produces.",
    },
    "ModelLimits": {
        "contextTokens": "Maximum number of tokens, input and output together.",
        "maxInputTokens": "Maximum number of input tokens.",
        "maxOutputTokens": "Maximum number of output tokens.",
        "concurrency": "Maximum number of calls at once.",
        "requestsPerMinute": "Maximum number of calls per minute.",
        "tokensPerMinute": "Maximum number of tokens per minute.",
    },
    "Prices": {
        "input": "US dollars per million input tokens.",
        "output": "US dollars per million output tokens.",
        "cachedInput": "US dollars per million cached input tokens. Default: the price of input.",
    },
    "Timeouts": {
        "connectSeconds": "Maximum time to connect, in seconds.",
        "firstTokenSeconds": "Maximum time until the first token, in seconds.",
        "idleSeconds": "Maximum time between two tokens, in seconds.",
        "totalSeconds": "Maximum time of the whole call, in seconds.",
    },
    "Retry": {
        "attempts": "Maximum number of attempts, including the first one.",
        "initialDelaySeconds": "Seconds before the second attempt; later delays are longer.",
        "maxDelaySeconds": "Maximum delay between two attempts, in seconds.",
        "budgetPerMinute": "Maximum number of retries of this model per minute, over all runs.",
        "midStream": "What to do if a stream breaks after its first token: fail, or start the message again.",
        "totalSeconds": "Seconds during which the last model of a plan is retried, beyond `attempts`.",
    },
    "Breaker": {
        "failures": "Number of failures within the window that opens the breaker.",
        "windowSeconds": "Length of the window in seconds.",
        "openSeconds": "Seconds until an open breaker lets a call probe the model.",
    },
    "Parameters": {
        "temperature": "Randomness of the answers; 0 for the lowest.",
        "topP": "Nucleus sampling: the probability mass of the tokens to sample from.",
        "maxTokens": "Maximum number of tokens of the answer.",
        "stop": "Strings that end the answer.",
        "seed": "Makes sampling repeatable, if the provider supports it.",
        "presencePenalty": "Makes tokens that occurred before less likely.",
        "frequencyPenalty": "Makes tokens less likely the more often they occurred.",
    },
    "Reasoning": {
        "effort": "Reasoning effort.",
        "budgetTokens": "Maximum number of reasoning tokens, if the provider accepts a number.",
    },
    "Script": {"rules": "Rules in order; the first match is used.", "default": "The answer if no rule matches."},
    "ScriptRule": {
        "match": "When the rule applies.",
        "reply": "What the model answers.",
        "fail": "How the call fails instead.",
    },
    "ScriptReply": {
        "text": "The answer. `{{ input }}`, `{{ turn }}` and `{{ toolResult }}` are replaced.",
        "reasoning": "Reasoning before the answer.",
        "toolCalls": "Tools that the model calls.",
        "finishReason": "The finish reason. Default: derived from the answer.",
        "delaySeconds": "Seconds before the first token.",
        "chunkDelaySeconds": "Seconds between tokens.",
        "usage": "Token counts to report.",
    },
    "ScriptToolCall": {"name": "The tool's name.", "args": "Its arguments."},
    "ScriptFailure": {
        "status": "The HTTP status of the simulated response.",
        "kind": "The kind of failure.",
        "message": "The error message.",
        "retryAfterSeconds": "Value of the Retry-After header.",
        "afterChunks": "Number of chunks before a failure in mid-stream.",
    },
    "AgentSpec": {
        "backend": "The backend that executes the agent: `native` (a model with tools), `plan_work_review` or `echo`.",
        "model": "The agent's model; the short form of `modelPlan`.",
        "modelPlan": "The agent's model, its fallbacks, and the capabilities they must have.",
        "tools": "Tools that the agent may call. It can call no others.",
        "skills": "Skills that the agent may use.",
        "subagents": "Agents that this agent may call like tools.",
        "memory": "Memories that the agent reads and writes.",
        "hooks": "Hooks for this agent's runs, called after the Runtime's hooks.",
        "guardrails": "Guardrails by the stage at which they are asked.",
        "contextPolicy": "Which part of a long thread is sent to the model.",
        "limits": "Limits of this agent's runs. If the Runtime also has a limit, the lower one applies.",
        "maxTurns": "Maximum number of turns of one run. A turn is a model call with its tool calls.",
        "maxReworks": "Maximum number of reworks after a failed review (`plan_work_review`).",
        "concurrency": "Maximum number of runs of this agent that execute at once.",
        "busyPolicy": "Like the Runtime's `busyPolicy`, for this agent.",
        "parallelTools": "Whether the tool calls of one turn execute concurrently.",
        "clientTools": "Whether requests may define tools that the client executes.",
        "parameters": "Parameters of this agent's model calls.",
        "reasoning": "Reasoning settings of this agent's model calls.",
        "outputSchema": "A JSON Schema that the final answer must satisfy.",
        "edges": "Connections between the nodes of a graph backend: `tools.<name>`, `skills.<name>`, `agents.<name>`.",
        "routers": "Which label is taken after a node, by node: the first rule whose `when` is true.",
    },
    "ModelPlan": {
        "primary": "The model that is called first.",
        "fallbacks": "Models to call, in order, if it fails.",
        "requiredCapabilities": "Capabilities that a model must have, such as `tools` or `input.image`.",
        "minProviderApiVersion": "The oldest version of the provider's interface that a model may declare in "
        "`config.apiVersion`, such as `2023-06-01` or `v1beta`. A model that declares none is not called.",
        "strictCapabilityNegotiation": "Whether a model that lacks streaming, or reasoning or structured output that "
        "the call asks for, is not called. Default: it is called without them, with a note.",
    },
    "ContextPolicy": {
        "strategy": "Omit the oldest messages (`window`), summarise them (`summarise`), or send all (`all`).",
        "maxMessages": "Maximum number of messages to send.",
        "maxTokens": "Maximum number of tokens to send.",
        "compactAtTokens": "Number of tokens beyond which older messages are summarised.",
        "keepLast": "Number of newest messages that are never summarised.",
        "summaryModel": "The model that writes summaries. Default: the agent's own.",
        "toolResultBytes": "Maximum size of a tool's result that is sent to the model, in bytes.",
    },
    "AgentGuardrails": {
        "input": "Guardrails for the input.",
        "output": "Guardrails for what the model says: text, reasoning and the arguments of tool calls.",
        "toolArguments": "Guardrails for the arguments of tool calls, before a tool is called.",
        "toolResults": "Guardrails for the results of tools, before they are stored and the model gets them.",
    },
    "Edge": {
        "from": "The node where the edge starts.",
        "to": "The node where the edge ends.",
        "condition": "The label of a route. It is compared, never evaluated.",
    },
    "RouteRule": {
        "label": "The label of an edge that leaves the node.",
        "when": "A CEL expression over `input`, `nodes` and `visits`. Without it the rule always matches.",
    },
    "ToolSpec": {
        "kind": "What executes the call: `python`, `http`, `mcp`, `builtin` or `subprocess`.",
        "entry": "The Python function, as `module:function`.",
        "input": "The JSON Schema of the arguments. Arguments that it does not name are rejected.",
        "output": "The JSON Schema of the result. A result that does not match is an error.",
        "effect": "What happens after a crash during a call. `readonly`: the call is repeated. `keyed`: it is repeated "
        "with the same idempotency key, so that the other side can recognise it and act only once. `unsafe`: it is not "
        "repeated; a person is asked.",
        "timeoutSeconds": "Maximum duration of a call in seconds.",
        "maxOutputBytes": "Maximum size of a result in bytes. A larger one is an error.",
        "excerptBytes": "Number of bytes of a result in the log and in messages to the model; the whole is stored as a "
        "blob.",
        "rules": "Checks of the arguments in addition to the schema.",
        "compensation": "How to undo the call.",
        "repair": "Which mistakes of a model are repaired instead of refusing the call.",
        "examples": "Examples of valid arguments. The model receives them.",
        "http": "The request, for tools of kind `http`.",
        "mcp": "The tool of an MCP server, for tools of kind `mcp`.",
        "subprocess": "The program, for tools of kind `subprocess`.",
    },
    "HttpTemplate": {
        "method": "The HTTP method.",
        "url": "The URL. `{{ args.name }}` inserts an argument.",
        "headers": "Headers by name.",
        "query": "Query parameters by name.",
        "text": "The body, if `body` is `text`.",
        "result": "The result: the parsed JSON, the text, or status, headers and body.",
        "okStatus": "Statuses that count as success. Default: 200 to 299.",
    },
    "Subprocess": {
        "command": "The program and its arguments, as a list. No shell is involved.",
        "env": "Environment variables of the program. It inherits none from the server.",
        "stdin": "Standard input of the program: the arguments as JSON, or nothing.",
        "result": "Format of the program's output.",
        "cpuSeconds": "Maximum CPU time in seconds.",
        "memoryBytes": "Maximum memory in bytes.",
        "maxProcesses": "Maximum number of processes and threads.",
        "network": "Whether the program may use the network.",
    },
    "McpTarget": {"server": "The McpServer document that offers the tool."},
    "Rule": {
        "check": "An expression on `args` that must be true.",
        "message": "The error message for the model if the check is false.",
        "example": "Arguments that satisfy the rule.",
    },
    "RepairPolicy": {
        "enabled": "Whether to repair calls at all.",
        "json": "Repair arguments that are almost valid JSON.",
        "names": "Repair misspelt names of tools and arguments.",
        "types": 'Repair values given as text, such as "3" for 3.',
        "enums": "Repair values that differ from an allowed one only by case.",
        "modelRound": "Ask the model once to correct its call.",
    },
    "Compensation": {"tool": "The tool that undoes the call.", "arguments": "Its arguments."},
    "McpServerSpec": {
        "command": "The server's program and its arguments (stdio).",
        "url": "The server's URL (streamable HTTP).",
        "env": "Environment variables of the program.",
        "headers": "Headers to send to the URL.",
        "tools": "Which of its tools may be used.",
        "connectSeconds": "Maximum time until the server's first response, in seconds.",
        "callSeconds": "Maximum duration of one request in seconds.",
        "sessions": "Maximum number of connections per tenant.",
        "mcpProtocolVersion": "The protocol version that must be agreed on with the server, such as `2025-11-25`. With "
        "any other the server is not used. Default: any that both know.",
    },
    "MemorySpec": {
        "kind": "How records are found: `store` by words, `vector` also by meaning.",
        "type": "What is stored: `working` is the thread's scratchpad, `episodic` what happened, `semantic` facts.",
        "namespace": "Who shares the records: a template of {tenant}, {agent}, {user}, {thread} and {memory}. "
        "It begins with the tenant. Default: `{tenant}/{agent}/{user}`; working memory has {thread} instead of {user}.",
        "read": "When it is read: before the run plans, before its final answer, or both.",
        "write": "Whether runs write it: `off`; `candidates` stores what the user said and asks a person about the "
        "rest; `auto` also stores what the model said. A person decides about what may come from a tool's output.",
        "policy": "Rules for candidates, in order; the first that holds decides. If none holds, a person is asked.",
        "recall": "How much is recalled.",
        "embedding": "The Model that makes embeddings, for the kind `vector`.",
        "retentionDays": "Days until records are forgotten.",
        "config": "Settings of the kind.",
    },
    "CandidateRule": {
        "when": "A CEL expression over `source` (user, model, tool, operator), `confidence`, `kind` and `namespace`.",
        "then": "What becomes of the candidate: `accept`, `reject`, `merge` into a similar record, or `ask` a person.",
    },
    "Recall": {
        "topK": "Maximum number of records.",
        "minScore": "Minimum score of a record, from 0 to 1.",
        "maxTokens": "Maximum length of the recalled text in tokens, estimated as bytes / 4.",
    },
    "WorkflowSpec": {
        "adapter": "What executes the workflow.",
        "nodes": "The steps.",
        "edges": "Which step follows which.",
        "entry": "The first step.",
        "maxSteps": "Maximum number of steps of one run.",
        "input": "The JSON Schema of its input.",
        "output": "The JSON Schema of its output.",
        "config": "Settings of the adapter, passed on unchanged.",
    },
    "WorkflowNode": {
        "id": "The step's name within the workflow.",
        "ref": "What the step runs, such as `agents.clerk`.",
        "config": "Settings, passed on to what it runs.",
    },
    "HookSpec": {
        "on": "Points of a run at which the hook is called.",
        "kind": "What decides: a Python function, a program, or a built-in hook.",
        "entry": "The function as `module:function`, or the name of a built-in hook.",
        "command": "The program and its arguments, as a list.",
        "env": "Environment variables of the program.",
        "priority": "The order in which the hooks of a point are called, highest first.",
        "timeoutSeconds": "Maximum duration of a call in seconds. A hook that takes longer denies.",
        "match": "Tools and agents for which the hook is called.",
        "config": "Settings of the hook, passed on unchanged.",
    },
    "HookMatch": {"tools": "Names of tools; `*` matches any text.", "agents": "Names of agents. Default: all."},
    "GuardrailSpec": {
        "kind": "How content is checked, such as `pii` or `regex`.",
        "action": "What happens where the rule applies: the run ends, the text is redacted, a person is asked, or "
        "nothing but a record of it.",
        "entry": "The function that checks, as `module:function`. For the kind `python`.",
        "model": "The model that checks. For the kind `model`.",
        "message": "The message of a blocked run, for its caller.",
        "reply": "The answer of a blocked run: with it the run completes instead of failing.",
        "timeoutSeconds": "Maximum duration of a check in seconds. A rule that takes longer blocks.",
        "config": "Settings of the kind.",
    },
    "EvaluatorSpec": {
        "kind": "How a run is judged.",
        "entry": "The function that judges, as `module:function`. For the kind `python`.",
        "model": "The model that judges. For the kind `model_judge`.",
        "timeoutSeconds": "Maximum duration of one evaluation in seconds. One that takes longer has no score.",
        "config": "Settings of the kind.",
    },
    "Gate": {
        "evaluator": "The evaluator that gives the score.",
        "minScore": "Minimum score of an output that passes.",
        "mode": "`shadow` records the verdict after the run; `blocking` decides before the answer is returned.",
        "sample": "Share of the runs that are judged, chosen by run id.",
        "onFail": "What a blocking gate does with an output that does not pass.",
        "fallbackModel": "The model that answers instead. For `onFail: fallback`.",
        "fallbackDigest": "The digest of a former workspace whose agent of the same name answers instead. For "
        "`onFail: fallback`.",
    },
    "ScheduleSpec": {
        "everySeconds": "Seconds between runs.",
        "timezone": "The time zone of `cron`.",
        "run": "What to run.",
        "enabled": "Whether the schedule is active.",
        "overlap": "What happens if the previous run has not ended: skip, or wait.",
        "maxRuns": "Maximum number of runs in total.",
    },
    "ScheduleTarget": {
        "agent": "The agent to run.",
        "workflow": "The workflow to run.",
        "tool": "The tool to call.",
        "input": "Its input.",
    },
}


def description(model: str, field: str) -> str | None:
    """The description of a field, by the model's name and the field's name in a document."""
    found = DESCRIPTIONS.get(model, {}).get(field)
    same = _SAME_FIELDS.get(model)
    return found if found is not None or same is None else DESCRIPTIONS[same].get(field)
