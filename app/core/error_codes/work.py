"""What can go wrong while a run works: models, tools, guardrails, hooks, roles, cycles."""

from typing import Final

from app.core.error_codes.code import Code

CODES: Final[dict[str, Code]] = {
    # -- models ------------------------------------------------------------------------------------
    "NEGOTIATION_FAILED": Code(
        "No model of the plan has the required capabilities.",
        "`candidates` lists what each model lacks. Declare the capability, require less, or add a fallback.",
    ),
    "MCP_PROTOCOL_MISMATCH": Code(
        "An MCP server does not speak the required version of the protocol.",
        "`candidates` lists what it has and lacks. Update the server, or change `mcpProtocolVersion` of its document.",
    ),
    "MCP_LOGIN_REQUIRED": Code(
        "An MCP server asks for a login that the tenant does not have, or that it no longer accepts.",
        "Run `holdfast mcp login SERVER` with a key of the tenant. Calls of the server's other tenants go on.",
    ),
    "MCP_LOGIN_FAILED": Code(
        "Logging in to an MCP server failed.",
        "The message says at which step. Check `oauth` of the McpServer document, then log in again.",
    ),
    "MCP_OAUTH_NOT_DECLARED": Code(
        "The MCP server's document does not ask for a login.",
        "Add `oauth: {}` to the McpServer document. With the grant `clientCredentials` no login is needed.",
    ),
    "MCP_SERVER_NOT_FOUND": Code(
        "The workspace has no such MCP server.", "`GET /api/mcp/servers` lists those that it has."
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
    # -- tools -------------------------------------------------------------------------------------
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
    # -- runs --------------------------------------------------------------------------------------
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
    # -- guardrails --------------------------------------------------------------------------------
    "GUARDRAIL_INVALID": Code(
        "The definition of a guardrail is invalid.",
        "Correct the Guardrail that the message names. Until then all runs of its workspace fail.",
    ),
    # -- hooks -------------------------------------------------------------------------------------
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
    # -- roles -------------------------------------------------------------------------------------
    "MALFORMED_AGENT_MESSAGE": Code(
        "A role returned an invalid message twice.",
        "See the event runtime.schema.violated for the mistakes. Correct the role's prompt or use a stronger model.",
    ),
    "REVIEW_FAILED": Code(
        "The reviewer rejected the work, and the maximum number of reworks is reached.",
        "Read the reviewer's feedback. Raise maxReworks, or set config.plan_work_review.escalate to ask a person.",
    ),
    # -- cycles ------------------------------------------------------------------------------------
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
}
