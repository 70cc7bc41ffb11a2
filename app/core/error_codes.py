"""Every stable error code with one sentence of meaning and one of remedy.

`docs/errors.md` is generated from this table. Add a code here before using it; never change what one means.
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
    "JSON_DUPLICATE_KEY": Code("An object names the same key twice.", "Send each key once."),
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
    "INVALID_REQUEST": Code("A field of the request is missing or wrong.", "Read `issues`: it names each field."),
    "UNKNOWN_PARAMETER": Code(
        "The address has a parameter that this call does not take.",
        "Read `issues`: it names each one, and the parameter that was probably meant.",
    ),
    "BODY_TOO_LARGE": Code("The body is larger than the limit.", "Send less, or upload a file and refer to it."),
    "RANGE_NOT_SATISFIABLE": Code(
        "The range begins after the end of the content.", "Read `Content-Range`: it says how many bytes there are."
    ),
    "NOT_FOUND": Code("There is nothing with that id for this caller.", "Check the id and the key that was used."),
    "METHOD_NOT_ALLOWED": Code("The path exists, the method does not.", "See /docs for the methods of a path."),
    "THREAD_DELETED": Code("The thread was deleted.", "Start a new thread; deletion cannot be undone."),
    "THREAD_CLOSED": Code("The thread was closed and takes no new runs.", "Start a new thread or fork this one."),
    "THREAD_RESERVED": Code("The thread belongs to the system.", "Use a thread whose id does not begin with `sys_`."),
    "THREAD_EXISTS": Code("There is a thread with that id already.", "Use it, or choose another id."),
    # -- log and store ---------------------------------------------------------------------------
    "UNKNOWN_EVENT_TYPE": Code(
        "No event of that type is in the catalog.",
        "Use a type of schemas/events/, or add one to the catalog.",
    ),
    "PAYLOAD_INVALID": Code("An event's payload breaks its schema.", "Compare it with schemas/events/<type>_v1.json."),
    "PAYLOAD_TOO_LARGE": Code(
        "An event's payload is over 1 MiB.", "Store the content as a blob or an artifact and refer to it."
    ),
    "STALE_EPOCH": Code(
        "The run was taken over by another executor.",
        "Stop working on it; its new owner goes on from the log.",
    ),
    "COMMAND_UNSEEN": Code(
        "A command was accepted before the run's end, and the run had not seen it.",
        "Nothing to do: the run looks at it and takes one more turn.",
    ),
    "RUN_TERMINAL": Code("The run has ended.", "Nothing more can happen to it; start another run."),
    "RUN_NOT_FOUND": Code("There is no such run.", "Check the id."),
    "THREAD_NOT_FOUND": Code("There is no such thread.", "Check the id, or send createThread: true to create it."),
    "THREAD_BUSY": Code(
        "Another run of the thread is active.", "Wait for it, cancel it, or use the busy policy `enqueue`."
    ),
    "QUEUE_FULL": Code("The thread's queue is full.", "Wait until runs of this thread have ended, then try again."),
    "RUNS_PER_MINUTE": Code(
        "The tenant has started as many runs as it may in a minute.",
        "Wait for the seconds in Retry-After, or raise `budgets.tenant.runsPerMinute` of the Runtime.",
    ),
    "TRACES_NOT_INSTALLED": Code(
        "Traces are switched on, but the OpenTelemetry SDK is not installed.",
        "Install the extra: `pip install 'holdfast[otel]'`, or set HOLDFAST_TRACES=off.",
    ),
    "INTERRUPT_NOT_OPEN": Code("The interrupt was already answered or has expired.", "Read who answered it and how."),
    "IDEMPOTENCY_KEY_REUSED": Code(
        "The Idempotency-Key was used with another body.", "Use a fresh key for a different request."
    ),
    "IDEMPOTENCY_KEY_SEEN": Code(
        "The request was accepted before under this key.", "Nothing to do: the answer is the run it started."
    ),
    "AGENT_NOT_FOUND": Code("The workspace has no such agent.", "See GET /api/agents for the names."),
    "AGENT_REQUIRED": Code(
        "No agent was named and the workspace has no default one.",
        "Name an agent, or set defaultAgent in runtime.yaml.",
    ),
    "AGENT_HAS_NO_MODEL": Code("The agent names no model.", "Set `model` or `modelPlan` in its document."),
    "BACKEND_NOT_DETERMINISTIC": Code(
        "A resumed run did something else than the recorded one.",
        "Make the backend depend only on its context; then start the run anew.",
    ),
    "RUN_KILLED_SERVER": Code(
        "The server died three times while it worked on the run alone, before the run completed a step.",
        "Look for the cause in the server's log and memory use; a rerun tries the run again.",
    ),
    "BACKEND_CANNOT_RESUME": Code("The backend cannot go on after an interruption.", "Start the run anew."),
    "MAX_TURNS": Code("The agent used up its turns without an answer.", "Raise maxTurns, or ask for less."),
    "TOOL_OUTCOME_UNKNOWN": Code(
        "A tool was cut off, and it is not known whether it took effect.",
        "Look at the outside system; then start a new run if the effect is missing.",
    ),
    "QUESTION_EXPIRED": Code("Nobody answered a question in time.", "Start the run anew and answer it."),
    "INTERRUPT_NOT_FOUND": Code("There is no such interrupt.", "See GET /api/interrupts."),
    "ANSWER_INVALID": Code(
        "The answer does not fit the kind of interrupt.", "Read `issues`; docs have the shape of each kind's answer."
    ),
    "APPROVER_NOT_ALLOWED": Code(
        "The tool's `approver` rule does not let this caller answer the approval.",
        "Let somebody else than who submitted the run answer (`other`), or a caller with the role (`role:<name>`).",
    ),
    "BACKEND_NOT_AVAILABLE": Code(
        "The agent's backend is not part of this installation.", "Use an agent with another backend."
    ),
    "WORKSPACE_GONE": Code(
        "The workspace that the run started with cannot be compiled any more.", "Start the run anew."
    ),
    "BACKEND_FAILED": Code("The agent's backend raised an error.", "See the server's log by the run's id."),
    "RUN_EXISTS": Code("There is a run with that id already.", "Let the server choose the id."),
    "RUN_NOT_CLAIMABLE": Code("The run waits for an answer, or is unknown.", "Answer its interrupt first."),
    "LEASE_HELD": Code("Another executor holds the run.", "Nothing to do: it is being worked on."),
    "STORAGE_FULL": Code(
        "The disk or the database is full.",
        "Free some space; the server goes on by itself, no restart is needed.",
    ),
    "STORAGE_DOWN": Code("The database does not answer.", "Check that it runs; the server reconnects by itself."),
    "STORAGE_FAILED": Code(
        "The disk or its file system refused to read or write: an I/O error or a missing permission.",
        "Look at the server's log and the kernel's, at permissions and at whether the mount is writable. "
        "The server goes on by itself once the disk does.",
    ),
    "STORAGE_CORRUPT": Code(
        "A part of the database is damaged.",
        "Stop the server, copy the data folder, run `holdfast log verify` and restore a backup: see "
        "docs/operations.md.",
    ),
    "STORAGE_BROKEN": Code(
        "The disk failed to keep written data.",
        "Check the disk. The server stopped so that nothing is lost unseen.",
    ),
    "BACKUP_FAILED": Code(
        "The data folder could not be copied.", "Read the message; make room or choose another folder, and try again."
    ),
    "QUEUE_OVERFLOW": Code("Too many events are waiting to be written.", "Slow down; try again shortly."),
    "SCHEMA_NEWER": Code(
        "The database was written by a newer version.",
        "Run that version, or restore a backup made before it.",
    ),
    "DATA_DIR_UNUSABLE": Code(
        "The data folder cannot be written.",
        "Make it writable for the server's user, or choose another HOLDFAST_DATA_DIR.",
    ),
    "DATA_DIR_LOCKED": Code(
        "Another Holdfast process uses this data folder.", "Stop it, or choose another HOLDFAST_DATA_DIR."
    ),
    "CHAIN_BROKEN": Code(
        "An event of the log was changed, removed, added or moved.",
        "Compare with an export or a backup; the first bad seq is named.",
    ),
    "EXPORT_INVALID": Code("The file is not a log export.", "Use the output of `holdfast log export`."),
    "BLOB_NOT_FOUND": Code("There is no such blob.", "Check the reference; a deleted thread's blobs are purged."),
    # -- core ------------------------------------------------------------------------------------
    "SCHEMA_NOT_FOUND": Code("No schema has that id.", "Use an id of the files under schemas/."),
    "SCHEMA_TOO_COMPLEX": Code(
        "A JSON Schema is too large, too deeply nested, or its references stand for too many branches.",
        "Simplify it: the message names the limit. Fewer `anyOf` branches that refer to each other, fewer patterns.",
    ),
    "SCHEMA_INVALID": Code(
        "The document is not a JSON Schema, or refers to one outside itself.",
        "Check it against draft 2020-12; use $ref only within the document.",
    ),
    "SETTINGS_INVALID": Code("A setting is missing or wrong.", "Correct the named HOLDFAST_ variable or file entry."),
    "INTERNAL": Code("Something failed that should not.", "See the server's log by the request id; report it."),
    "NOT_READY": Code("The server is starting or stopping.", "Try again shortly."),
    # -- workspace -------------------------------------------------------------------------------
    "WORKSPACE_INVALID": Code(
        "The workspace has mistakes and was not loaded.", "Run `holdfast check`: it names file, line and remedy."
    ),
    "WORKSPACE_NOT_LOADED": Code(
        "No workspace has been loaded yet.", "Wait for start-up, or correct what `holdfast check` reports."
    ),
    "EXPRESSION_INVALID": Code(
        "A CEL expression does not compile to a boolean.", "Correct it at the named position; it must be a bool."
    ),
    "EXPRESSION_FAILED": Code(
        "A CEL expression could not be evaluated on these values.",
        "Test optional fields with has(...) and compare values of one type.",
    ),
    "EXPRESSION_TOO_COSTLY": Code(
        "A CEL expression met more data than it may work through.",
        "Send less data, or write the rule without nested loops over lists.",
    ),
    "SECRET_MISSING": Code(
        "An environment variable that the workspace refers to is not set.", "Set it for the server's process."
    ),
    "TEMPLATE_VALUE_MISSING": Code(
        "A template refers to a value that is not there.", "Send the argument, or give it a default in the schema."
    ),
    # -- outside ---------------------------------------------------------------------------------
    "ADDRESS_REFUSED": Code(
        "An outgoing request was aimed at an address that is not allowed.",
        "Use a public http(s) address. For an internal server list its host in `outgoing.private` of the Runtime, and "
        "in `outgoing.hosts` if the Runtime has that list (docs/workspace.md, Internal hosts).",
    ),
    "REDIRECT_REFUSED": Code(
        "An outgoing request was redirected where it may not follow.", "Use the final address directly."
    ),
    "OUTSIDE_UNREACHABLE": Code(
        "No connection to a remote host could be made.", "Check its address and that it runs; then try again."
    ),
    "OUTSIDE_TIMEOUT": Code("A remote host did not answer in time.", "Try again, or raise the timeout."),
    "OUTSIDE_CUT_OFF": Code("A remote host broke the connection off.", "Try again; see the remote host's log."),
    "OUTSIDE_TOO_LARGE": Code("A remote host answered with more than the limit.", "Ask for less, or raise the limit."),
    "OUTSIDE_UNSENDABLE": Code(
        "An outgoing request has a method, path or header that HTTP cannot carry.",
        "Look for a line break or a control character, often at the end of a key.",
    ),
    # -- models ----------------------------------------------------------------------------------
    "NEGOTIATION_FAILED": Code(
        "No model of the plan has the required capabilities.",
        "Read `candidates`: it names what each model lacks; declare it, require less, or add a fallback.",
    ),
    "PROVIDER_ERROR": Code(
        "No model of the plan gave an answer.", "Read `causes`: it names what happened at each attempt."
    ),
    "PROVIDER_UNREACHABLE": Code(
        "No connection to the model provider could be made.",
        "Check `baseUrl`, the network and the provider's status.",
    ),
    "PROVIDER_TIMEOUT": Code(
        "The provider did not answer in time.",
        "Try again, or raise the model's `timeouts`; `timeout` names which.",
    ),
    "PROVIDER_CUT_OFF": Code(
        "The provider broke its answer off.",
        "Try again; set the model's `retry.midStream: restart` to do so by itself.",
    ),
    "PROVIDER_UNAVAILABLE": Code("The provider has a fault of its own.", "Try again later, or add a fallback model."),
    "PROVIDER_RATE_LIMITED": Code(
        "The provider's rate limit was reached.", "Lower the model's `limits`, or ask the provider for more."
    ),
    "PROVIDER_DENIED": Code("The provider refused the API key.", "Check the variable that `apiKey` refers to."),
    "PROVIDER_KEY_MISSING": Code("A model's API key is not set.", "Set the variable that `apiKey` refers to."),
    "PROVIDER_REJECTED": Code(
        "The provider refused the request.",
        "Read its message; check the model's name, parameters and capabilities.",
    ),
    "PROVIDER_MALFORMED": Code(
        "The provider's answer is not in its own format.", "Check that `baseUrl` is the right interface."
    ),
    "PROVIDER_CIRCUIT_OPEN": Code(
        "The provider failed so often that it is not asked for a while.",
        "Wait; it is probed and used again by itself. Give the agent a fallback, or the model a longer "
        "`retry.totalSeconds`.",
    ),
    "MODEL_QUEUE_FULL": Code("Too many model calls are waiting.", "Try again shortly; raise the concurrency limits."),
    "MODEL_CANCELLED": Code("The model call was cancelled with its run.", "Nothing to do."),
    "MODEL_REQUEST_INVALID": Code(
        "A completion request breaks its schema.",
        "Compare it with schemas/contracts/completion_request_v1.json.",
    ),
    "MODEL_OUTPUT_INVALID": Code(
        "The model's answer breaks the requested schema.", "Ask again with the issues, or loosen the schema."
    ),
    "INPUT_TOO_LONG": Code("The input does not fit the model.", "Shorten it, or use a model with a larger window."),
    "BUDGET_EXCEEDED": Code(
        "The call might use more than the budget has left.",
        "Raise the budget, or lower the call's `max_tokens`.",
    ),
    # -- tools -----------------------------------------------------------------------------------
    "TOOL_NOT_FOUND": Code("No tool has that name.", "Use one of the tools that the agent was given; names are exact."),
    "TOOL_NOT_ALLOWED": Code(
        "The tool exists, but not for this caller.",
        "Add it to the agent's tools or the skill's allowed-tools.",
    ),
    "INVALID_ARGUMENTS": Code(
        "The guard refused a tool call's arguments.",
        "Read the findings: each says where, what and an example.",
    ),
    "GATE_DENIED": Code(
        "A hook denied the call, failed, took too long or gave an invalid change.",
        "See runtime.hook.fired of this call; a hook that cannot answer denies.",
    ),
    "APPROVAL_DENIED": Code(
        "The person asked did not approve the call.", "Change the call, or ask somebody who may approve it."
    ),
    "TOOL_TIMEOUT": Code(
        "The tool did not finish within its time.", "Ask for less, or raise the tool's timeoutSeconds."
    ),
    "TOOL_FAILED": Code("The tool ran and reported a failure.", "Read the message; it comes from the tool."),
    "TOOL_CANCELLED": Code("The run was cancelled while the tool was to run.", "Nothing to do."),
    "TOOL_UNAVAILABLE": Code(
        "The tool cannot be run at the moment.", "Check that its server or program is there; then try again."
    ),
    "TOOL_SCHEMA_CHANGED": Code(
        "The tool was changed after it was pinned, or after its approval was asked for.",
        "Review the change, then pin the new hash in the McpServer document, or let the agent ask for approval again.",
    ),
    "TOOL_INVALID": Code(
        "A tool's definition cannot work.", "Correct the named field; the tool is not registered until then."
    ),
    "OUTPUT_INVALID": Code(
        "The tool's output breaks its declared schema.", "Correct the tool, or its `output` schema."
    ),
    "OUTPUT_TOO_LARGE": Code(
        "The tool's output is over its limit.", "Ask for less, or raise the tool's maxOutputBytes."
    ),
    "WRITE_CONFLICT": Code(
        "The file is not what the writer last saw.",
        "Read it again and repeat the write with the hash you get.",
    ),
    "PATH_REFUSED": Code(
        "A path leaves its folder, or is not a plain file in it.", "Use a relative path beneath the folder."
    ),
    "FILE_NOT_FOUND": Code("There is no such file.", "List the folder and use a name that is there."),
    "SANDBOX_INCOMPLETE": Code(
        "A program was not started, because this machine cannot give it the sandbox that it needs.",
        "`holdfast doctor` and `/readyz` say what is missing; docs/security.md says what provides it. Without "
        "`sandbox: required` in the Runtime document only what protects the data folder is demanded.",
    ),
    "PROCESS_FAILED": Code(
        "A program could not be started.", "Check that it is installed and may be executed by the server."
    ),
    # -- runs ---------------------------------------------------------------------------
    "MODEL_NOT_FOUND": Code("The workspace has no such model.", "Use a name that `holdfast check` lists."),
    "EVIDENCE_MISSING": Code(
        "The agent answered without results of tools that its contract names.",
        "Look at which tools are missing; correct the instructions or the agent's `evidence`.",
    ),
    "GUARDRAIL_DENIED": Code("A guardrail refused the content.", "Change the content, or the guardrail."),
    "PAUSE_EXPIRED": Code("A paused run was not resumed in time.", "Rerun it; raise interrupts.expiresSeconds."),
    "AGENT_NOT_ALLOWED": Code(
        "The agent has no such subagent.", "Name it under `subagents` of the agent that asks for it."
    ),
    "SUBAGENTS_TOO_DEEP": Code("Subagents are nested too deep.", "Let the work be done nearer to the root."),
    "SUBAGENT_FAILED": Code("A subagent's run did not complete.", "Look at the subagent's run for the reason."),
    "LIMITS_INVALID": Code(
        "The limits of a run are not understood.",
        "Use tokens, costUsd, modelCalls, toolCalls and wallSeconds, each above zero.",
    ),
    "CLIENT_TOOLS_REFUSED": Code(
        "The agent takes no tools of the client, or a name is taken or malformed.",
        "Set `clientTools: true` on the agent and use names that none of its tools has.",
    ),
    "COMMAND_INVALID": Code(
        "The command or its arguments are not understood.",
        "Use steer {message or hint}, pause, resume, switch_model_plan {model}, set_limits or checkpoint {label}.",
    ),
    "RUN_IS_A_SUBAGENT": Code("The run belongs to another one.", "Name its parent: parentRunId."),
    "REPLAY_MISMATCH": Code(
        "A strict rerun would not repeat the recorded run.", "Look at what differs, or rerun with mode `compat`."
    ),
    "REPLAY_TOKEN_INVALID": Code(
        "The replay token was not signed by this server, or belongs to another run.",
        "Use the answer of GET /api/runs/{id}/replay-token unchanged; ask again if the server's secret was replaced.",
    ),
    "REPLAY_TOKEN_UNSIGNED": Code(
        "The replay token is from before tokens were signed.", "Ask again: GET /api/runs/{id}/replay-token."
    ),
    "FORK_POINT_NOT_FOUND": Code("The thread has no such event.", "Use a `seq` from 1 to the thread's lastSeq."),
    # -- hooks -----------------------------------------------------------------------------------
    "HOOK_INVALID": Code(
        "A hook's definition cannot work.", "Correct the named Hook; nothing runs in its workspace until then."
    ),
    "PROMPT_DENIED": Code(
        "A UserPromptSubmit hook refused the request.", "Read the reason; see runtime.hook.fired of the run."
    ),
    "SESSION_DENIED": Code(
        "A SessionStart hook refused the run.", "Read the reason; see runtime.hook.fired of the run."
    ),
    "SKILL_DENIED": Code(
        "A SkillStart hook refused the skill that the request asked for.",
        "Read the reason, or ask without the words that trigger the skill.",
    ),
    # -- roles -----------------------------------------------------------------------------------
    "MALFORMED_AGENT_MESSAGE": Code(
        "A role answered twice with something that breaks its schema.",
        "See runtime.schema.violated for the places; correct the role's prompt or use a stronger model.",
    ),
    "REVIEW_FAILED": Code(
        "The reviewer did not pass the work, and the reworks are used up.",
        "Read the reviewer's feedback; raise maxReworks, or set config.plan_work_review.escalate to ask a person.",
    ),
    # -- http ------------------------------------------------------------------------------------
    "READER_TOO_SLOW": Code(
        "More events arrived than the reader of a stream took.", "Connect again with the last `seq` as the cursor."
    ),
    "CURSOR_INVALID": Code("The cursor is none that this list gave.", "Send `nextCursor` back as it was, or none."),
    "VIEW_TOO_LARGE": Code(
        "The run or thread has more events than a view is computed from.", "Read its events by cursor, or export it."
    ),
    "ARTIFACT_NOT_FOUND": Code("There is no such artifact.", "See the artifacts of its run for the ids."),
    "ARTIFACT_HAS_NO_CONTENT": Code(
        "The artifact is only referred to; its content is not stored here.", "Follow the reference in its fields."
    ),
    "UPLOAD_NOT_FOUND": Code("There is no such uploaded file.", "Check the id, or upload the file again."),
    "UPLOAD_DELETED": Code("The uploaded file was deleted.", "Upload it again."),
    "UPLOAD_INVALID": Code(
        "The upload cannot be read.", "Send the bytes as the body, or one file as multipart/form-data."
    ),
    # -- access ----------------------------------------------------------------------------------
    "UNAUTHENTICATED": Code(
        "The request shows no credentials that count.",
        "Send `Authorization: Bearer <key>` with a key that is neither revoked nor expired.",
    ),
    "FORBIDDEN": Code("The caller may not do this.", "Use a key with the scope that `needs` names."),
    "KEY_NOT_FOUND": Code("There is no such key.", "See `holdfast keys list` or GET /api/keys."),
    "HOST_REFUSED": Code(
        "The Host header names a host that this server does not go by.", "Add the name to HOLDFAST_TRUSTED_HOSTS."
    ),
    "ORIGIN_REFUSED": Code(
        "A page of another origin made the request.", "Add the exact origin to HOLDFAST_CORS_ORIGINS."
    ),
    "HEADERS_TOO_LARGE": Code("The request's headers are over 16 KiB.", "Send fewer or shorter headers."),
    "BODY_TIMEOUT": Code("The body did not arrive in time.", "Send it faster, or upload a file and refer to it."),
    "RATE_LIMITED": Code("The key has made too many requests.", "Wait for the seconds of Retry-After."),
    "TENANT_BUSY": Code(
        "Too many requests or runs of this tenant are under way.",
        "Wait for the seconds of Retry-After; use fewer at once.",
    ),
    "OVERLOADED": Code("The server serves as many requests as it can.", "Wait for the seconds of Retry-After."),
    "ROUTE_UNGUARDED": Code(
        "A route has no permission, so the server does not start.", "Add it to app/protocols/auth/permissions.py."
    ),
    # -- OpenAI clients --------------------------------------------------------------------------
    "RESPONSE_NOT_FOUND": Code("There is no such response.", "Use the id of a response of the same tenant."),
    "TOOL_OUTPUTS_MISSING": Code(
        "The run waits for more tool outputs than the request carries.",
        "Send one tool message for every call of the last answer, all in one request.",
    ),
    "RUN_WAITING": Code(
        "The run waits for a person.",
        "Answer its interrupt under /api/interrupts, then read the run or the response again.",
    ),
    "RUN_CANCELLED": Code("The run was cancelled before it gave an answer.", "Ask again if it is still wanted."),
    # -- overload --------------------------------------------------------------------------------
    "SERVER_BUSY": Code("Too many runs wait for a worker.", "Try again after the time in Retry-After; add replicas."),
}
