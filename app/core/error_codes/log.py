"""What can go wrong with threads, runs and other stored things, and with the database."""

from typing import Final

from app.core.error_codes.code import Code

CODES: Final[dict[str, Code]] = {
    # -- log and store -----------------------------------------------------------------------------
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
    "JOB_NOT_FOUND": Code("There is no such job.", "Check the id; a run without queue attributes is not a job."),
    "JOB_MERGE_TOO_LARGE": Code(
        "The metadata of a job and of its duplicate are too large together.",
        "Send less metadata, or use another `dedupe` than `merge_duplicate`.",
    ),
    "WEBHOOK_NOT_FOUND": Code("There is no such webhook.", "Check the id."),
    "WEBHOOK_ADDRESS_REFUSED": Code(
        "A webhook may not be sent to this address.",
        "List the host in the Runtime's `outgoing.webhooks`, and use a URL that begins with https:// or http://.",
    ),
    "PUSH_LIMIT": Code("The task has too many push notification configs.", "Delete one that is not needed any more."),
    "WEBHOOK_DECLARED": Code(
        "The webhook is declared by a document of the workspace.", "Change the document instead; it is loaded at once."
    ),
    "WEBHOOK_OF_RUNS": Code(
        "This webhook stands for all URLs that runs name, and can be neither changed nor deleted.",
        "Rotate its secret, or list and repeat its deliveries; name no URL in a run to send nothing.",
    ),
    "WEBHOOK_LIMIT": Code("The tenant has as many webhooks as it may have.", "Delete one that is no longer needed."),
    "DELIVERY_NOT_FOUND": Code(
        "The webhook has no such delivery, or it is still being sent.", "List the deliveries of the webhook."
    ),
    "SCHEDULE_NOT_FOUND": Code("There is no such schedule.", "Check the name, and the tenant that the schedule names."),
    "SCHEDULE_EXISTS": Code("There is a schedule with this name.", "Choose another name, or delete it first."),
    "SCHEDULE_DECLARED": Code(
        "The schedule is declared by a document of the workspace.", "Change the document instead; it is loaded at once."
    ),
    "SCHEDULE_LIMIT": Code("There are too many schedules.", "Delete one that is no longer needed."),
    "JOB_TIMEOUT": Code(
        "An attempt of a job took longer than its timeout.",
        "Give the job more time (`timeoutSeconds`), more attempts, or less to do.",
    ),
    "ACTION_INTENTS_INVALID": Code(
        "An agent's answer was to say which actions to carry out, and cannot be read so.",
        'Have the agent answer `{"kind": "action_intents", "intents": [...]}` with 1 to 32 intents, and nothing else.',
    ),
    "ACTION_INTENT_FAILED": Code(
        "At least one action that an agent's answer asked for failed, is not allowed or is not known.",
        "The message names each by its place; the others were carried out.",
    ),
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
        "The run has not ended, or has not completed, so it cannot be judged or amended yet.",
        "Wait for the run to complete.",
    ),
    "EVENT_NOT_FOUND": Code("The thread has no event with this number.", "See the thread's events for their `seq`."),
    "EVENT_NOT_AMENDABLE": Code(
        "The event has no such text. What was asked, answered or said can be amended, and nothing else.",
        "Amend the event that says the text: see docs/http.md for the types and their fields.",
    ),
    "TOO_MANY_AMENDMENTS": Code(
        "The thread has as many amendments as one may have.", "Fork the thread: a fork begins with the amended texts."
    ),
    "ENTRY_CHANGED": Code(
        "The transcript's entry was changed while its text was being amended.", "Look at the entry, and try again."
    ),
    "TODO_INVALID": Code(
        "An item of the list of things to do is not usable, or the list would be too long.",
        "Give each new item a title and an id of its own, and keep the whole list below 12 KiB.",
    ),
    "UNDO_RUN_ACTIVE": Code(
        "The run has not ended, so its effects cannot be undone yet.", "Cancel the run, or wait for its end."
    ),
    "RUN_IS_AN_UNDO": Code(
        "The run is an undo, which can neither be undone nor run again.",
        "Rerun or undo the run that it undid; `undoOf` is its id.",
    ),
    "UNDO_CONFLICT": Code(
        "What the undo would do is no longer what was planned: something changed, or another undo came first.",
        "Request a new plan with POST /api/runs/{id}/undo/plan, and check it again.",
    ),
    "UNDO_TOO_LARGE": Code(
        "The run made more calls than one undo can take back.",
        "Undo it in steps, each to an earlier checkpoint (`toCheckpoint`).",
    ),
    "UNDO_NOT_DECLARED": Code(
        "Nothing is declared that would undo the call.",
        "Declare `compensation` in the Tool document before the next run, and undo this call by hand.",
    ),
    "UNDO_OUTCOME_UNKNOWN": Code(
        "The call failed or was cut off, and whether it took effect is not known.",
        "Check the external system, and undo the effect there if it is present.",
    ),
    "UNDO_VALUES_MISSING": Code(
        "A value that the undo needs is not in the log, or only redacted.",
        "Undo the call by hand; let the tool return what its undo needs, such as an id that is not a secret.",
    ),
    "UNDO_STOPPED": Code(
        "The action was not executed, because an action before it failed and the undo stops at a failure.",
        "Remove the cause of the failure and undo again; what was undone is not repeated.",
    ),
    "UNDO_FAILED": Code(
        "At least one action of the undo failed.",
        "See `output` of the run for what was and was not undone. Remove the cause and undo again.",
    ),
    "CHECKPOINT_NOT_FOUND": Code(
        "The run has no such checkpoint.", "See the run's `runtime.checkpoint.created` events for labels and `seq`."
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
    "PROJECT_BUSY": Code(
        "Another serial job of the project runs, or is before this one.", "No action is needed: the job starts later."
    ),
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
    "MIGRATION_LOCKED": Code(
        "Another process is migrating the database, and has not come to an end within the time that a start waits.",
        "Start the server again when that migration has ended. If the server that began it is suspended or cut off, "
        "end it, or its connection with `SELECT pg_terminate_backend(number)`: nothing is half migrated.",
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
    # -- core --------------------------------------------------------------------------------------
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
}
