"""All error codes with their meaning and remedy.

`docs/errors.md` is generated from this table. Add a code here before using it; never change the meaning of one.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Code:
    meaning: str
    remedy: str


CODES: Final[dict[str, Code]] = {
    # -- input -----------------------------------------------------------------------------------
    "JSON_INVALID": Code(
        "The text is not JSON.",
        "Send one JSON document in UTF-8, without NaN, infinities or lone surrogates.",
    ),
    "JSON_DUPLICATE_KEY": Code("An object contains the same key twice.", "Send each key once."),
    "JSON_NUMBER_RANGE": Code("An integer does not fit in 64 bits.", "Send such numbers as strings."),
    "JSON_NUL": Code("A string contains the NUL character.", "Remove it, or send the bytes as a file."),
    "JSON_TOO_DEEP": Code("Values are nested too deeply.", "Flatten the document; the limit is 32 levels."),
    "JSON_TOO_MANY_VALUES": Code(
        "The document has too many values.",
        "Send at most 100,000 values in one body, or upload the data as a file and refer to it.",
    ),
    "JSON_UNENCODABLE": Code(
        "A value cannot be written as JSON.", "Use only strings, 64-bit numbers, booleans, lists and objects."
    ),
    "INVALID_REQUEST": Code("A field of the request is missing or invalid.", "Correct the fields that `issues` lists."),
    "UNKNOWN_PARAMETER": Code(
        "The URL has a parameter that this route does not accept.",
        "Correct the parameters that `issues` lists; it suggests the nearest name.",
    ),
    "BODY_TOO_LARGE": Code(
        "The body is larger than the limit.", "Send a smaller body, or upload a file and refer to it."
    ),
    "RANGE_NOT_SATISFIABLE": Code(
        "The range begins after the end of the content.", "Request a range within the size that `Content-Range` gives."
    ),
    "NOT_FOUND": Code("The caller's tenant has nothing with this id.", "Check the id and the key that was used."),
    "METHOD_NOT_ALLOWED": Code("The path does not support this method.", "See /docs for the methods of each path."),
    "THREAD_DELETED": Code("The thread was deleted.", "Start a new thread; deletion cannot be undone."),
    "THREAD_CLOSED": Code("The thread was closed and accepts no new runs.", "Start a new thread or fork this one."),
    "THREAD_RESERVED": Code("The thread belongs to the system.", "Use a thread whose id does not begin with `sys_`."),
    "THREAD_EXISTS": Code("A thread with this id already exists.", "Use it, or choose another id."),
    # -- log and store ---------------------------------------------------------------------------
    "UNKNOWN_EVENT_TYPE": Code(
        "There is no event type with this name.",
        "Use a type from schemas/events/.",
    ),
    "PAYLOAD_INVALID": Code(
        "An event's payload does not match its schema.", "Compare it with schemas/events/<type>_v1.json."
    ),
    "PAYLOAD_TOO_LARGE": Code(
        "An event's payload is larger than 1 MiB.", "Store the content as a blob or an artifact and refer to it."
    ),
    "STALE_EPOCH": Code(
        "Another server has taken over the run.",
        "No action is needed: the other server continues the run.",
    ),
    "COMMAND_UNSEEN": Code(
        "A command was accepted shortly before the end of the run.",
        "No action is needed: the run takes one more turn to handle it.",
    ),
    "RUN_TERMINAL": Code("The run has ended.", "Start another run."),
    "RUN_NOT_FOUND": Code("There is no such run.", "Check the id."),
    "THREAD_NOT_FOUND": Code("There is no such thread.", "Check the id, or send createThread: true to create it."),
    "THREAD_BUSY": Code(
        "Another run of this thread is active.", "Wait for it, cancel it, or use the busy policy `enqueue`."
    ),
    "QUEUE_FULL": Code("The thread's queue is full.", "Try again after runs of this thread have ended."),
    "RUNS_PER_MINUTE": Code(
        "The tenant has reached its limit of new runs per minute.",
        "Try again after the number of seconds in Retry-After, or raise `budgets.tenant.runsPerMinute` of the Runtime.",
    ),
    "TRACES_NOT_INSTALLED": Code(
        "Traces are switched on, but the OpenTelemetry SDK is not installed.",
        "Install the extra: `pip install 'holdfast[otel]'`, or set HOLDFAST_TRACES=off.",
    ),
    "INTERRUPT_NOT_OPEN": Code(
        "The interrupt has already been answered or has expired.", "Read the interrupt to see its answer."
    ),
    "IDEMPOTENCY_KEY_REUSED": Code(
        "The Idempotency-Key was already used with a different body.", "Use a new key for a different request."
    ),
    "IDEMPOTENCY_KEY_SEEN": Code(
        "A request with this key was already accepted.", "No action is needed: the response is the run that it started."
    ),
    "AGENT_NOT_FOUND": Code("The workspace has no such agent.", "See GET /api/agents for the names."),
    "AGENT_REQUIRED": Code(
        "The request names no agent, and the workspace has no default agent.",
        "Name an agent, or set defaultAgent in runtime.yaml.",
    ),
    "AGENT_HAS_NO_MODEL": Code("The agent has no model.", "Set `model` or `modelPlan` in its document."),
    "BACKEND_NOT_DETERMINISTIC": Code(
        "A strict rerun was resumed and did not repeat its recorded steps.",
        "Make the backend depend only on its context, then start a new run.",
    ),
    "TOOL_NAME_TAKEN": Code(
        "A backend offers the model a tool of its own under the name of one of the agent's tools.",
        "Rename the tool in the workspace, or take it from the agent's list.",
    ),
    "STATE_TOO_LARGE": Code(
        "The state that a backend wants to leave for the thread's next run exceeds 4 MiB.",
        "Keep large values in artifacts or files, and only references in the state.",
    ),
    "ARTIFACT_INVALID": Code(
        "An artifact has no content, two contents, or an unusable name or media type.",
        "Pass either data or a path, a name of at most 200 characters and a media type such as text/plain.",
    ),
    "ARTIFACT_TOO_LARGE": Code(
        "An artifact exceeds 16 MiB.", "Store it in parts, or keep it elsewhere and store a reference."
    ),
    "RUN_KILLED_SERVER": Code(
        "The server crashed three times while it executed this run, before the run completed a step.",
        "Find the cause in the server's log and memory use, then rerun the run.",
    ),
    "BACKEND_CANNOT_RESUME": Code("The backend cannot resume an interrupted run.", "Start a new run."),
    "MAX_TURNS": Code(
        "The agent reached its maximum number of turns without an answer.",
        "Raise the agent's maxTurns, or simplify the request.",
    ),
    "TOOL_OUTCOME_UNKNOWN": Code(
        "A tool call was interrupted, and it is unknown whether it took effect.",
        "Check the external system. Start a new run if the effect is missing.",
    ),
    "QUESTION_EXPIRED": Code("A question was not answered in time.", "Start a new run and answer its question."),
    "INTERRUPT_NOT_FOUND": Code("There is no such interrupt.", "See GET /api/interrupts for the ids."),
    "ANSWER_INVALID": Code(
        "The answer is not valid for this kind of interrupt.",
        "Correct the fields that `issues` lists; docs/http.md shows the answer for each kind.",
    ),
    "APPROVER_NOT_ALLOWED": Code(
        "The tool's `approver` rule does not allow this caller to answer.",
        "With `other`, another person than the one who submitted the run must answer; with `role:<name>`, a caller "
        "with that role.",
    ),
    "BACKEND_NOT_AVAILABLE": Code(
        "The agent's backend is not part of this installation.", "Use an agent with another backend."
    ),
    "WORKSPACE_GONE": Code("The workspace with which the run started can no longer be compiled.", "Start a new run."),
    "BACKEND_OUTSIDE_RUN": Code(
        "A model or tool of Holdfast was called outside a run.",
        "Call it from a graph that an agent runs, not when its module is imported.",
    ),
    "BACKEND_UNGOVERNED": Code(
        "A graph used a model or a tool of its own, which bypasses budgets, approvals and the log.",
        "Use the model and tools that the graph is given, or set `config.langgraph.ungoverned: true`.",
    ),
    "BACKEND_CONFIG_INVALID": Code(
        "The agent's settings for its backend do not fit what it runs.",
        "Correct `config` of the agent as the message says.",
    ),
    "WORKFLOW_NOT_FOUND": Code("The workspace has no such workflow.", "See GET /api/workflows for the names."),
    "ROUTE_NOT_FOUND": Code(
        "The workspace has no such route.", "Use a name of `routes` in the Runtime document, or name an agent."
    ),
    "WORKFLOW_INPUT_INVALID": Code(
        "The input breaks the `input` schema of the workflow.", "Correct the value that the message names."
    ),
    "WORKFLOW_OUTPUT_INVALID": Code(
        "The result breaks the `output` schema of the workflow.",
        "Correct `result`, the step that made it, or the schema.",
    ),
    "WORKFLOW_RESULT_MISSING": Code(
        "The `result` of the workflow reads a value that no step made.",
        "Read a step that every way through the workflow passes, or leave `result` out.",
    ),
    "WORKFLOW_DENIED": Code(
        "A hook denied the start or the end of the workflow.", "See the reason in `runtime.hook.fired`."
    ),
    "ADAPTER_NOT_AVAILABLE": Code(
        "The adapter that the workflow names is not available on this server.",
        "Install the extra or package that brings it, or use `adapter: native`.",
    ),
    "NODE_TIMEOUT": Code(
        "A step of a workflow took longer than its `timeoutSeconds`.",
        "Raise the limit, allow `retry`, or add an edge with the label `failed`.",
    ),
    "NODE_OUTPUT_TOO_LARGE": Code(
        "The output of a step of a workflow exceeds 1 MiB.", "Return less, or store the content as an artifact."
    ),
    "FOREACH_INVALID": Code(
        "The `foreach` of a step is not a list.", "Name a list, or give the step an output schema."
    ),
    "FOREACH_TOO_LARGE": Code(
        "The `foreach` of a step has more items than `maxItems`.", "Pass fewer items, or raise `maxItems`."
    ),
    "ROUTER_FAILED": Code(
        "A router of an agent's graph or of a workflow chose no label.",
        "Correct its rules; a last rule without `when` always matches.",
    ),
    "NODE_VISITS_EXCEEDED": Code(
        "A node of a graph ran as often as it may.", "Correct the routers, or raise `maxVisits`."
    ),
    "GATE_NOT_PASSED": Code(
        "The answer did not reach the score that a blocking gate of the agent requires, or could not be judged.",
        "See the score and the reason in the run's `runtime.gate.evaluated` events, then change the agent or the gate.",
    ),
    "EVALUATOR_INVALID": Code(
        "An evaluator cannot be used, or gave something else than a score from 0 to 1.",
        "Correct the Evaluator document or its function; `holdfast check` shows what is wrong with the document.",
    ),
    "EVALUATOR_FAILED": Code(
        "An evaluator failed, so there is no score.",
        "See the reason in the verdict, and correct the evaluator. Without a score nothing passes.",
    ),
    "EVALUATOR_TIMEOUT": Code(
        "An evaluator did not give a score in time.",
        "Make the evaluator faster, or raise its `timeoutSeconds`. Without a score nothing passes.",
    ),
    "RUN_NOT_ENDED": Code(
        "The run has not ended, or has not completed, so it cannot be judged yet.", "Wait for the run to complete."
    ),
    "DATASET_INVALID": Code(
        "The cases are not a valid dataset.",
        "Correct the case or line that the message names; docs/evaluations.md shows the formats.",
    ),
    "DATASET_NOT_FOUND": Code("There is no such dataset or version.", "See GET /api/datasets for the names."),
    "DATASET_BUSY": Code("Too many versions of the dataset are being created at once.", "Try again."),
    "EVALUATOR_NOT_FOUND": Code(
        "The workspace has no such evaluator.", "Use the name of an Evaluator document of the workspace."
    ),
    "EVALUATION_NOT_FOUND": Code("There is no such evaluation.", "See GET /api/evals for the ids."),
    "EVALUATION_RUNNING": Code("The evaluation has not ended yet.", "Try again when its status is `completed`."),
    "EVALUATION_LIMIT": Code(
        "The tenant has too many evaluations in progress.", "Try again when one of them has ended."
    ),
    "EVALUATION_DONE": Code(
        "The run has already been judged by its shadow gates.", "No action is needed: the first verdict counts."
    ),
    "BACKEND_FAILED": Code(
        "The agent's backend failed with an unexpected error.", "Search the server's log for the run's id."
    ),
    "RUN_EXISTS": Code("A run with this id already exists.", "Omit the id; the server assigns one."),
    "RUN_NOT_CLAIMABLE": Code("The run waits for an answer, or does not exist.", "Answer its interrupt first."),
    "RUN_NOT_RUNNING": Code("No server works on the run at the moment.", "No action is needed."),
    "LEASE_HELD": Code("Another server executes the run.", "No action is needed."),
    "STORAGE_FULL": Code(
        "The disk or the database is full.",
        "Free some space. The server recovers without a restart.",
    ),
    "STORAGE_DOWN": Code(
        "The database does not respond.", "Check that the database is running. The server reconnects automatically."
    ),
    "BUS_DOWN": Code(
        "The bus between servers does not respond. Nothing is lost: servers poll the database meanwhile.",
        "Check that the bus in HOLDFAST_BUS is running. The server reconnects automatically.",
    ),
    "STORAGE_FAILED": Code(
        "Reading or writing on the disk failed, because of an I/O error or a missing permission.",
        "Check the server's and the kernel's log, the permissions, and whether the mount is writable. "
        "The server recovers without a restart.",
    ),
    "STORAGE_CORRUPT": Code(
        "A part of the database is damaged.",
        "Stop the server, copy the data folder, run `holdfast log verify` and restore a backup: see "
        "docs/operations.md.",
    ),
    "STORAGE_BROKEN": Code(
        "Syncing data to the disk failed.",
        "Check the disk. The server has stopped, because the state of the disk is unknown.",
    ),
    "BACKUP_FAILED": Code(
        "The data folder could not be copied.",
        "Read the message for the cause. Free some space or choose another folder, and try again.",
    ),
    "QUEUE_OVERFLOW": Code("Too many events are waiting to be written.", "Send less at once, and try again shortly."),
    "SCHEMA_NEWER": Code(
        "The database was migrated by a newer version, which no longer supports this one.",
        "Use that version, or restore a backup that was made before the upgrade.",
    ),
    "CANNOT_PARTITION": Code(
        "The log cannot be put into partitions now.",
        "Read the message for the reason: stop all servers of the database, or start one first if it is empty.",
    ),
    "DATABASE_POOLED": Code(
        "The database's URL leads through a pooler that gives each transaction another session, and the settings do "
        "not say so, or they name another database.",
        "Set HOLDFAST_DATABASE_DIRECT_URL to a URL that leads to the same database without the pooler, or use the "
        "pooler in session mode.",
    ),
    "WORKERS_NEED_POSTGRES": Code(
        "Several worker processes cannot share an SQLite database, which belongs to one process.",
        "Set HOLDFAST_DATABASE_URL to a Postgres database, or use one worker (HOLDFAST_WORKERS=1).",
    ),
    "WORKERS_FAILED": Code(
        "The worker processes of the server ended and could not be started again.",
        "Read the log of the workers for the cause, and start the server again when it is removed.",
    ),
    "DATA_DIR_UNUSABLE": Code(
        "The data folder is not writable.",
        "Make it writable for the server's user, or choose another HOLDFAST_DATA_DIR.",
    ),
    "DATA_DIR_LOCKED": Code(
        "Another Holdfast process uses this data folder.", "Stop it, or choose another HOLDFAST_DATA_DIR."
    ),
    "CHAIN_BROKEN": Code(
        "An event of the log was changed, removed, inserted or moved.",
        "Compare the log with an export or a backup, starting at the `seq` that the message names.",
    ),
    "EXPORT_INVALID": Code("The file is not a log export.", "Use the output of `holdfast log export`."),
    "BLOB_NOT_FOUND": Code("There is no such blob.", "Check the reference. Blobs of deleted threads are purged."),
    # -- core ------------------------------------------------------------------------------------
    "SCHEMA_NOT_FOUND": Code("There is no schema with this id.", "Use the id of a file in schemas/."),
    "SCHEMA_TOO_COMPLEX": Code(
        "A JSON Schema is too large, too deeply nested, or expands to too many branches.",
        "Simplify the schema; the message names the limit. Use fewer patterns, and fewer `anyOf` branches that "
        "refer to each other.",
    ),
    "SCHEMA_INVALID": Code(
        "The document is not a JSON Schema, or refers to one outside itself.",
        "Check it against draft 2020-12; use $ref only within the document.",
    ),
    "SETTINGS_INVALID": Code("A setting is missing or invalid.", "Correct the named HOLDFAST_ variable or file entry."),
    "INTERNAL": Code(
        "An unexpected error occurred in the server.",
        "Search the server's log for the request id, and report the error.",
    ),
    "NOT_READY": Code("The server is starting or stopping.", "Try again shortly."),
    # -- workspace -------------------------------------------------------------------------------
    "WORKSPACE_INVALID": Code(
        "The workspace has mistakes and was not loaded.",
        "Run `holdfast check`. It reports file, line and remedy of each mistake.",
    ),
    "WORKSPACE_UNAVAILABLE": Code(
        "Another server of the installation loaded a workspace that this server cannot load, so it takes no new runs.",
        "Send the request to another server. Deploy the same packages and settings to every server.",
    ),
    "WORKSPACE_NOT_LOADED": Code(
        "No workspace has been loaded yet.",
        "Wait until the server has started, or correct what `holdfast check` reports.",
    ),
    "EXPRESSION_INVALID": Code(
        "A CEL expression does not compile to a boolean.", "Correct it at the named position; it must be a bool."
    ),
    "EXPRESSION_FAILED": Code(
        "A CEL expression could not be evaluated on these values.",
        "Test optional fields with has(...) and compare values of one type.",
    ),
    "EXPRESSION_TOO_COSTLY": Code(
        "A CEL expression needs more work than the limit allows.",
        "Send less data, or rewrite the expression without nested loops over lists.",
    ),
    "SECRET_MISSING": Code(
        "An environment variable to which the workspace refers is not set.", "Set it in the server's environment."
    ),
    "TEMPLATE_VALUE_MISSING": Code(
        "A template refers to a value that does not exist.", "Send the argument, or give it a default in the schema."
    ),
    # -- outside ---------------------------------------------------------------------------------
    "ADDRESS_REFUSED": Code(
        "An outgoing request to this address is not allowed.",
        "Use a public http(s) address. To allow an internal server, list its host in `outgoing.private` of the "
        "Runtime, and in `outgoing.hosts` if the Runtime has that list (docs/workspace.md, Internal hosts).",
    ),
    "REDIRECT_REFUSED": Code(
        "An outgoing request was redirected to an address that is not allowed.", "Use the final address directly."
    ),
    "OUTSIDE_UNREACHABLE": Code(
        "The connection to a remote host failed.", "Check the address and that the host is running, then try again."
    ),
    "OUTSIDE_TIMEOUT": Code("A remote host did not respond in time.", "Try again, or raise the timeout."),
    "OUTSIDE_CUT_OFF": Code("A remote host closed the connection early.", "Try again, or check the remote host's log."),
    "OUTSIDE_TOO_LARGE": Code(
        "The response of a remote host is larger than the limit.", "Request less data, or raise the limit."
    ),
    "OUTSIDE_UNSENDABLE": Code(
        "An outgoing request has a method, path or header that is not valid in HTTP.",
        "Look for a line break or a control character, often at the end of an API key.",
    ),
    # -- models ----------------------------------------------------------------------------------
    "NEGOTIATION_FAILED": Code(
        "No model of the plan has the required capabilities.",
        "`candidates` lists what each model lacks. Declare the capability, require less, or add a fallback.",
    ),
    "MCP_PROTOCOL_MISMATCH": Code(
        "An MCP server does not speak the required version of the protocol.",
        "`candidates` lists what it has and lacks. Update the server, or change `mcpProtocolVersion` of its document.",
    ),
    "PROVIDER_ERROR": Code("No model of the plan returned an answer.", "`causes` lists what happened at each attempt."),
    "PROVIDER_UNREACHABLE": Code(
        "The connection to the model provider failed.",
        "Check `baseUrl`, the network and the provider's status.",
    ),
    "PROVIDER_TIMEOUT": Code(
        "The provider did not respond in time.",
        "Try again, or raise the model's timeout that `timeout` names.",
    ),
    "PROVIDER_CUT_OFF": Code(
        "The provider's answer ended early.",
        "Try again, or set the model's `retry.midStream: restart` to retry automatically.",
    ),
    "PROVIDER_UNAVAILABLE": Code(
        "The provider reported an internal error.", "Try again later, or add a fallback model."
    ),
    "PROVIDER_RATE_LIMITED": Code(
        "The provider's rate limit was reached.", "Lower the model's `limits`, or ask the provider for more."
    ),
    "PROVIDER_DENIED": Code("The provider rejected the API key.", "Check the variable that `apiKey` refers to."),
    "PROVIDER_KEY_MISSING": Code("A model's API key is not set.", "Set the variable that `apiKey` refers to."),
    "PROVIDER_REJECTED": Code(
        "The provider rejected the request.",
        "Read the provider's message. Check the model's name, parameters and capabilities.",
    ),
    "PROVIDER_MALFORMED": Code(
        "The provider's response does not have the expected format.",
        "Check that `baseUrl` points to the API that `provider` names.",
    ),
    "PROVIDER_CIRCUIT_OPEN": Code(
        "The circuit breaker of the model is open, because calls failed too often.",
        "Wait; the model is probed automatically. Give the agent a fallback, or the model a longer "
        "`retry.totalSeconds`.",
    ),
    "MODEL_QUEUE_FULL": Code(
        "Too many model calls are waiting.", "Try again shortly, or raise the concurrency limits."
    ),
    "MODEL_CANCELLED": Code("The model call was cancelled together with its run.", "No action is needed."),
    "MODEL_REQUEST_INVALID": Code(
        "A completion request does not match its schema.",
        "Compare it with schemas/contracts/completion_request_v1.json.",
    ),
    "MODEL_OUTPUT_INVALID": Code(
        "The model's answer does not match the requested schema.",
        "Try again with the issues in the prompt, or loosen the schema.",
    ),
    "INPUT_TOO_LONG": Code(
        "The input is too long for the model.", "Shorten it, or use a model with a larger context window."
    ),
    "BUDGET_EXCEEDED": Code(
        "The call could exceed the remaining budget.",
        "Raise the budget, or lower the call's `max_tokens`.",
    ),
    # -- tools -----------------------------------------------------------------------------------
    "TOOL_NOT_FOUND": Code("There is no tool with this name.", "Use the exact name of one of the agent's tools."),
    "TOOL_NOT_ALLOWED": Code(
        "The tool exists, but the caller may not use it.",
        "Add it to the agent's tools or the skill's allowed-tools.",
    ),
    "INVALID_ARGUMENTS": Code(
        "The arguments of a tool call are invalid.",
        "Correct the arguments; each finding has a location, a message and an example.",
    ),
    "GATE_DENIED": Code(
        "A hook denied the call, failed, timed out, or returned an invalid change.",
        "See the event runtime.hook.fired of this call. A hook that fails denies.",
    ),
    "APPROVAL_DENIED": Code("The call was not approved.", "Change the call, or ask a person who may approve it."),
    "TOOL_TIMEOUT": Code("The tool did not finish in time.", "Request less, or raise the tool's timeoutSeconds."),
    "TOOL_FAILED": Code("The tool was executed and reported an error.", "Read the message, which comes from the tool."),
    "TOOL_CANCELLED": Code("The run was cancelled before the tool finished.", "No action is needed."),
    "TOOL_UNAVAILABLE": Code(
        "The tool is currently unavailable.", "Check that its server or program is available, then try again."
    ),
    "TOOL_SCHEMA_CHANGED": Code(
        "The tool has changed since it was pinned, or since its approval was requested.",
        "Review the change, then pin the new hash in the McpServer document, or let the agent ask for approval again.",
    ),
    "TOOL_INVALID": Code(
        "The definition of a tool is invalid.",
        "Correct the field that the message names. Until then the tool is not available.",
    ),
    "OUTPUT_INVALID": Code("The tool's output does not match its schema.", "Correct the tool or its `output` schema."),
    "OUTPUT_TOO_LARGE": Code(
        "The tool's output is larger than its limit.", "Request less, or raise the tool's maxOutputBytes."
    ),
    "WRITE_CONFLICT": Code(
        "The file has changed since it was read.",
        "Read it again and repeat the write with the new hash.",
    ),
    "PATH_REFUSED": Code(
        "A path leads out of its folder, or is not a regular file.", "Use a relative path within the folder."
    ),
    "FILE_NOT_FOUND": Code("There is no such file.", "List the folder and use an existing name."),
    "SANDBOX_INCOMPLETE": Code(
        "A program was not started, because this machine cannot provide the required sandbox.",
        "`holdfast doctor` and `/readyz` show what is missing; docs/security.md says what provides it. Without "
        "`sandbox: required` in the Runtime document, only the protection of the data folder is required.",
    ),
    "PROCESS_FAILED": Code(
        "A program could not be started.", "Check that it is installed and that the server may execute it."
    ),
    # -- runs ---------------------------------------------------------------------------
    "MODEL_NOT_FOUND": Code("The workspace has no such model.", "Use a name that `holdfast check` lists."),
    "EVIDENCE_MISSING": Code(
        "The agent answered without results of the tools in its `evidence`.",
        "Correct the instructions or the agent's `evidence`; the message names the missing tools.",
    ),
    "GUARDRAIL_DENIED": Code("A guardrail rejected the content.", "Change the content, or the guardrail."),
    "PAUSE_EXPIRED": Code("A paused run was not resumed in time.", "Rerun it, or raise interrupts.expiresSeconds."),
    "AGENT_NOT_ALLOWED": Code("The agent has no subagent with this name.", "Add it to the agent's `subagents`."),
    "SUBAGENTS_TOO_DEEP": Code("Subagents are nested too deeply.", "Use fewer levels of subagents."),
    "SUBAGENT_FAILED": Code("A subagent's run did not complete.", "Read the subagent's run for the cause."),
    "LIMITS_INVALID": Code(
        "The limits of a run are invalid.",
        "Use tokens, costUsd, modelCalls, toolCalls and wallSeconds, each above zero.",
    ),
    "CLIENT_TOOLS_REFUSED": Code(
        "The agent does not accept client tools, or a tool's name is already used or malformed.",
        "Set `clientTools: true` for the agent, and use names that none of its own tools has.",
    ),
    "COMMAND_INVALID": Code(
        "The command or its arguments are invalid.",
        "Use steer {message or hint}, pause, resume, switch_model_plan {model}, set_limits or checkpoint {label}.",
    ),
    "RUN_HAS_NO_GRAPH": Code("The run is not that of a workflow.", "Ask for the graph of a run with `workflow`."),
    "RUN_IS_A_SUBAGENT": Code("The run belongs to a subagent.", "Send the command to the run in `parentRunId`."),
    "REPLAY_MISMATCH": Code(
        "A strict rerun would differ from the recorded run.", "Read the differences, or rerun with the mode `compat`."
    ),
    "REPLAY_TOKEN_INVALID": Code(
        "The replay token was not signed by this server, or belongs to another run.",
        "Use the token from GET /api/runs/{id}/replay-token unchanged. Request a new one if the server's secret was "
        "replaced.",
    ),
    "REPLAY_TOKEN_UNSIGNED": Code(
        "The replay token has no signature.", "Request a new one with GET /api/runs/{id}/replay-token."
    ),
    "FORK_POINT_NOT_FOUND": Code(
        "The thread has no event with this `seq`.", "Use a `seq` from 1 to the thread's lastSeq."
    ),
    # -- guardrails ------------------------------------------------------------------------------
    "GUARDRAIL_INVALID": Code(
        "The definition of a guardrail is invalid.",
        "Correct the Guardrail that the message names. Until then all runs of its workspace fail.",
    ),
    # -- hooks -----------------------------------------------------------------------------------
    "HOOK_INVALID": Code(
        "The definition of a hook is invalid.",
        "Correct the Hook that the message names. Until then all runs of its workspace fail.",
    ),
    "PROMPT_DENIED": Code(
        "A UserPromptSubmit hook denied the request.", "Read the reason in the event runtime.hook.fired of the run."
    ),
    "SESSION_DENIED": Code(
        "A SessionStart hook denied the run.", "Read the reason in the event runtime.hook.fired of the run."
    ),
    "SKILL_DENIED": Code(
        "A SkillStart hook denied the skill that the request triggered.",
        "Read the reason, or rephrase the request without the skill's trigger words.",
    ),
    # -- roles -----------------------------------------------------------------------------------
    "MALFORMED_AGENT_MESSAGE": Code(
        "A role returned an invalid message twice.",
        "See the event runtime.schema.violated for the mistakes. Correct the role's prompt or use a stronger model.",
    ),
    "REVIEW_FAILED": Code(
        "The reviewer rejected the work, and the maximum number of reworks is reached.",
        "Read the reviewer's feedback. Raise maxReworks, or set config.plan_work_review.escalate to ask a person.",
    ),
    # -- cycles ----------------------------------------------------------------------------------
    "POLICY_DENIED": Code(
        "A policy of a cycle denied what it was about to do.",
        "Read the reason in the event runtime.workflow.policy_gated. Without a matching rule or a default, it denies.",
    ),
    "POLICY_FAILED": Code(
        "A rule of a policy, or the grade of a loop, could not be evaluated.",
        "Correct the expression; check with `has(...)` what may be missing.",
    ),
    "SIGNAL_FAILED": Code(
        "A signal or a condition of a cycle could not be evaluated.",
        "Correct the expression; it reads something that the outputs of the phase do not have.",
    ),
    "SCHEMA_VIOLATION": Code(
        "What a phase takes or gives breaks the schema that is declared for it.",
        "Compare the value at the named place with the schema, and correct the phase before or the schema.",
    ),
    "CYCLE_ABORTED": Code(
        "A halt signal or the abort condition of a cycle became true.",
        "Read the event runtime.workflow.aborted, and the outputs of the phase that it names.",
    ),
    "VERIFICATION_FAILED": Code(
        "The artifact of a phase did not pass its verification.",
        "Read what the rule, the schema or the reviewing agent objects to, and start the workflow again.",
    ),
    "ARTIFACT_NOT_DELIVERED": Code(
        "A phase needs an artifact that was not delivered in time.",
        "Answer the question of the phase with the content, or store the artifact on the thread first.",
    ),
    # -- http ------------------------------------------------------------------------------------
    "READER_TOO_SLOW": Code("The client reads the stream too slowly.", "Reconnect with the last `seq` as the cursor."),
    "CURSOR_INVALID": Code("The cursor does not come from this list.", "Send `nextCursor` unchanged, or no cursor."),
    "VIEW_TOO_LARGE": Code(
        "The run or thread has too many events to compute this view.",
        "Read its events page by page, or export the thread.",
    ),
    "ARTIFACT_NOT_FOUND": Code("There is no such artifact.", "See the artifacts of the run for the ids."),
    "ARTIFACT_HAS_NO_CONTENT": Code(
        "The artifact is a reference; its content is not stored on this server.", "Follow the reference in its fields."
    ),
    "ARTIFACT_HAS_NO_DIFF": Code(
        "The artifact has no earlier version, or one of the two is not a text of at most 1 MiB.",
        "Fetch both contents and compare them yourself, or name another artifact with `against`.",
    ),
    "UPLOAD_NOT_FOUND": Code("There is no such uploaded file.", "Check the id, or upload the file again."),
    "UPLOAD_DELETED": Code("The uploaded file was deleted.", "Upload it again."),
    "UPLOAD_INVALID": Code(
        "The upload cannot be read.", "Send the bytes as the body, or one file as multipart/form-data."
    ),
    # -- access ----------------------------------------------------------------------------------
    "UNAUTHENTICATED": Code(
        "The request has no valid credentials.",
        "Send `Authorization: Bearer <key>` with a key that is neither revoked nor expired.",
    ),
    "FORBIDDEN": Code("The caller does not have the required permission.", "Use a key with the scope in `needs`."),
    "MEMORY_NOT_FOUND": Code(
        "There is no such memory record, or its text was forgotten.", "See GET /api/memory/records for the ids."
    ),
    "MEMORY_RECORD_EXISTS": Code("There is a memory record with that id already.", "Change it, or leave the id out."),
    "MEMORY_RECORD_CHANGED": Code(
        "The memory record was decided, superseded or forgotten meanwhile.", "Read the record again before you act."
    ),
    "MEMORY_NOT_DECLARED": Code(
        "The workspace has no such memory.", "Name a Memory document of the workspace; GET /api/memory lists them."
    ),
    "MEMORY_NOT_AVAILABLE": Code(
        "The caller has no memory that it may use here.", "Give the agent a Memory in `memory` of its document."
    ),
    "MEMORY_KIND_GONE": Code(
        "The kind of a memory is not installed on this server.", "Install the package that brings the kind."
    ),
    "MEMORY_SEARCH_FAILED": Code(
        "A kind of memory failed while it searched; the run went on without it.",
        "Find the cause in the server's log, and correct the kind or its settings.",
    ),
    "MEMORY_PUT_FAILED": Code(
        "A kind of memory failed while it indexed records. They are stored, and are indexed later.",
        "Find the cause in the server's log, and correct the kind or its settings.",
    ),
    "EMBEDDING_NOT_AVAILABLE": Code(
        "The provider of a model makes no embeddings.",
        "Use a Model of the provider openai, gemini or ollama for `embedding`.",
    ),
    "SKILL_CANDIDATE_NOT_FOUND": Code(
        "There is no such skill candidate.", "See `holdfast skills candidates` or GET /api/skills/candidates."
    ),
    "MEMORY_REJECTED": Code(
        "The memory did not accept the text.", "Read the reason; the policy of the Memory document decides."
    ),
    "KEY_NOT_FOUND": Code("There is no such key.", "See `holdfast keys list` or GET /api/keys for the ids."),
    "HOST_REFUSED": Code(
        "The Host header is not one of this server's names.", "Add the name to HOLDFAST_TRUSTED_HOSTS."
    ),
    "ORIGIN_REFUSED": Code(
        "The request comes from a web page of another origin.", "Add the exact origin to HOLDFAST_CORS_ORIGINS."
    ),
    "HEADERS_TOO_LARGE": Code(
        "The URL and headers of the request are larger than 16 KiB.", "Send fewer or shorter headers."
    ),
    "BODY_TIMEOUT": Code("The body did not arrive in time.", "Send it faster, or upload a file and refer to it."),
    "RATE_LIMITED": Code(
        "The caller has sent too many requests.", "Try again after the number of seconds in Retry-After."
    ),
    "TENANT_BUSY": Code(
        "Too many requests or runs of this tenant are active.",
        "Try again after the number of seconds in Retry-After, or send fewer at once.",
    ),
    "OVERLOADED": Code(
        "The server has reached its maximum number of requests.",
        "Try again after the number of seconds in Retry-After.",
    ),
    "ROUTE_UNGUARDED": Code(
        "A route has no permission, so the server cannot start.", "Add it to app/protocols/auth/permissions.py."
    ),
    # -- OpenAI clients --------------------------------------------------------------------------
    "RESPONSE_NOT_FOUND": Code(
        "There is no such response.", "Use the id of a response that belongs to the caller's tenant."
    ),
    "TOOL_OUTPUTS_MISSING": Code(
        "The request does not have the outputs of all tool calls.",
        "Send one tool message for each call of the last answer, all in one request.",
    ),
    "RUN_WAITING": Code(
        "The run waits for a person.",
        "Answer its interrupt with /api/interrupts, then read the run or the response again.",
    ),
    "RUN_CANCELLED": Code(
        "The run was cancelled before it had an answer.", "Send the request again if you still need the answer."
    ),
    # -- overload --------------------------------------------------------------------------------
    "SERVER_BUSY": Code(
        "Too many runs wait for a worker.", "Try again after the number of seconds in Retry-After, or add servers."
    ),
}
