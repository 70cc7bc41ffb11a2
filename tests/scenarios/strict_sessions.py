"""A strict client of the codex-manager sessions API: each operation, the statuses it accepts, the shape of each answer.

As that API's own SDK it refuses an answer with another status, without a field, or with a value of no known set; fields
that it does not know are ignored. Leaves to the tests: what is called when.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx2

POLICY: Final = {"untrusted", "on-failure", "on-request", "never"}
NETWORK: Final = {"restricted", "enabled"}
SANDBOX: Final = {"read-only", "workspace-write", "danger-full-access"}
NUMBER: Final = (int, float)
MAYBE: Final = (str, type(None))

CONTROLS: Final = {"model": MAYBE, "approvalPolicy": POLICY, "networkAccess": NETWORK, "filesystemSandbox": SANDBOX,
                   "settings?": dict}  # fmt: skip
SUMMARY: Final = {
    "sessionId": str, "title": str, "materialized": bool, "modelProvider": str, "approvalPolicy": POLICY,
    "sessionControls": CONTROLS, "createdAt": NUMBER, "updatedAt": NUMBER, "cwd": str, "source": str,
    "projectId": MAYBE,
}  # fmt: skip
TURN: Final = {"id": str, "status": str, "items": [{"type": str, "id": str}]}
THREAD: Final = {"id": str, "preview": str, "modelProvider": str, "createdAt": NUMBER, "updatedAt": NUMBER, "cwd": str,
                 "source": object, "turns?": [TURN]}  # fmt: skip
ROW: Final = {"messageId": str, "turnId": str, "role": {"user", "assistant", "system"}, "type": str, "content": str,
              "status": {"streaming", "complete", "canceled", "error"}, "details?": str, "startedAt?": int,
              "completedAt?": int}  # fmt: skip
OPENED: Final = {"session": SUMMARY, "thread": THREAD}
OK_ID: Final = {"status": "ok", "sessionId": str}
PROJECT: Final = {"projectId": str, "name": str, "workingDirectory": MAYBE, "createdAt": str, "updatedAt": str}
JOB: Final = {
    "id": str, "type": str, "version": int, "projectId": str, "sourceSessionId": MAYBE,
    "priority": {"interactive", "background"}, "state": {"queued", "running", "completed", "failed", "canceled"},
    "dedupeKey": MAYBE, "payload": dict, "result": object, "error": MAYBE, "attempts": int, "maxAttempts": int,
    "createdAt": str, "startedAt": MAYBE, "completedAt": MAYBE, "cancelRequestedAt": MAYBE, "nextAttemptAt": MAYBE,
    "lastAttemptAt": MAYBE, "runningContext": {"threadId": str, "turnId": str},
}  # fmt: skip
PENDING: Final = {"method": str, "threadId": str, "turnId": str, "itemId": str, "summary": str, "details": dict,
                  "createdAt": str, "status": "pending"}  # fmt: skip
PAGE: Final = {"data": list, "nextCursor": MAYBE}
QUEUED: Final = {"status": "queued", "jobId": str, "requestKey": str, "sessionId": str, "projectId": str,
                 "dedupe": {"enqueued", "already_queued"}}  # fmt: skip
SETTINGS: Final = {"sessionId": str, "scope": {"session", "default"}, "settings": dict}

MISSING: Final = {"status": "not_found", "sessionId": str}
DELETED: Final = {"status": "deleted", "sessionId": str, "title?": str, "message": str, "deletedAt": str}
ERROR: Final = {"status": "error", "code": str, "message": str}
ABSENT: Final = {"status": "error", "code": "method_not_supported", "message": str}
SYSTEM: Final = {"status": "error", "code": "system_session", "sessionId": str, "message": str}
QUEUE: Final = {"status": "error", "code": {"queue_full", "job_conflict", "invalid_payload"}, "sessionId": str,
                "message": str}  # fmt: skip
LOCKED: Final = {"status": "locked", "scope": {"session", "default"}, "message": str, "sessionId": str,
                 "settings": dict}  # fmt: skip

_GATES: Final = {403: SYSTEM, 404: MISSING, 410: DELETED}
_S: Final = "/sessions/{s}"
Operation = tuple[str, str, dict[int, Any]]
OPERATIONS: Final[dict[str, Operation]] = {
    "getApiInfo": ("GET", "", {200: {"name": str, "version": str}}),
    "getHealth": ("GET", "/health", {200: {
        "status": "ok", "service": str, "codex": dict, "orchestratorQueue": {"enabled": bool}, "timestamp": str,
        "auth": {"hasOpenAiApiKey": bool, "codexHomeAuthFile": bool, "likelyUnauthenticated": bool},
    }}),
    "getCapabilities": ("GET", "/capabilities", {200: {"status": "ok", "runtime": {"initialized": bool},
                                                       "methods": dict, "details": dict, "features": dict}}),
    "listExperimentalFeatures": ("GET", "/features/experimental", {200: PAGE, 501: ABSENT}),
    "listCollaborationModes": ("GET", "/collaboration/modes", {200: PAGE, 501: ABSENT}),
    "listModels": ("GET", "/models", {200: PAGE, 501: ABSENT}),
    "listApps": ("GET", "/apps", {200: PAGE, 501: ABSENT}),
    "listSkills": ("GET", "/skills", {200: PAGE, 501: ABSENT}),
    "writeSkillConfig": ("POST", "/skills/config", {200: {}, 501: ABSENT}),
    "readRemoteSkills": ("GET", "/skills/remote", {200: PAGE, 501: ABSENT}),
    "writeRemoteSkills": ("POST", "/skills/remote", {200: {}, 501: ABSENT}),
    "reloadMcpConfig": ("POST", "/mcp/reload", {200: {"status": "ok"}, 501: ABSENT}),
    "listMcpServers": ("GET", "/mcp/servers", {200: PAGE, 501: ABSENT}),
    "startMcpOauthLogin": ("POST", "/mcp/servers/{m}/oauth/login", {200: {}, 501: ABSENT}),
    "readAccount": ("GET", "/account", {200: {}, 401: ERROR, 501: ABSENT}),
    "startAccountLogin": ("POST", "/account/login/start", {200: {}, 400: ERROR, 501: ABSENT}),
    "cancelAccountLogin": ("POST", "/account/login/cancel", {200: {}, 404: {}, 501: ABSENT}),
    "logoutAccount": ("POST", "/account/logout", {200: {}, 501: ABSENT}),
    "readAccountRateLimits": ("GET", "/account/rate-limits", {200: {}, 401: ERROR, 501: ABSENT}),
    "readConfig": ("GET", "/config", {200: {"config": dict, "origins": dict}, 501: ABSENT}),
    "readConfigRequirements": ("GET", "/config/requirements", {200: {"requirements": dict}, 501: ABSENT}),
    "writeConfigValue": ("POST", "/config/value", {200: {}, 501: ABSENT}),
    "writeConfigBatch": ("POST", "/config/batch", {200: {}, 501: ABSENT}),
    "executeCommand": ("POST", "/commands/exec", {200: {}, 501: ABSENT}),
    "uploadFeedback": ("POST", "/feedback", {200: {}, 501: ABSENT}),
    "listAgentExtensions": ("GET", "/agents/extensions", {200: {"status": "ok", "snapshotVersion": int,
                                                                "loadedAt": str, "modules": list}}),
    "reloadAgentExtensions": ("POST", "/agents/extensions/reload", {
        200: {"status": "ok", "reloadId": str, "loadedCount": int, "failedCount": int, "snapshotVersion": int,
              "loadedAt": str, "modules": list}, 400: ERROR, 403: {"status": "forbidden"}, 409: ERROR}),
    "getOrchestratorJob": ("GET", "/orchestrator/jobs/{j}", {200: {"status": "ok", "job": JOB},
                                                             404: {"status": "not_found", "jobId": str}}),
    "cancelOrchestratorJob": ("POST", "/orchestrator/jobs/{j}/cancel", {
        200: {"status": "ok", "job": JOB}, 404: {"status": "not_found", "jobId": str},
        409: {"status": "already_terminal", "jobId": str}}),
    "listProjectOrchestratorJobs": ("GET", "/projects/{p}/orchestrator/jobs", {200: {"data": [JOB]}}),
    "listProjects": ("GET", "/projects", {200: {"data": [PROJECT]}}),
    "createProject": ("POST", "/projects", {
        200: {"status": "ok", "project": PROJECT, "orchestrationSession": type(None)},
        409: {"status": "duplicate_name", "projectId": str}}),
    "renameProject": ("POST", "/projects/{p}/rename", {200: {"status": "ok", "project": PROJECT},
                                                       404: {"status": "not_found", "projectId": str},
                                                       409: {"status": "duplicate_name", "projectId": str}}),
    "deleteProject": ("DELETE", "/projects/{p}", {
        200: {"status": "ok", "projectId": str, "unassignedSessionCount": int},
        404: {"status": "not_found", "projectId": str},
        409: {"status": "project_not_empty", "projectId": str, "sessionCount": int}}),
    "listProjectAgentSessions": ("GET", "/projects/{p}/agent-sessions", {
        200: {"status": "ok", "projectId": str, "data": [{"agent": str, "sessionId": str, "systemOwned": bool}]},
        404: {"status": "not_found", "projectId": str}}),
    "moveProjectChats": ("POST", "/projects/{p}/chats/move-all", {200: {
        "status": "ok", "projectId": str, "destination": {"unassigned", "archive"}, "movedSessionCount": int,
        "archivedSessionCount": int, "alreadyArchivedSessionCount": int}}),
    "deleteProjectChats": ("POST", "/projects/{p}/chats/delete-all", {200: {
        "status": "ok", "projectId": str, "deletedSessionCount": int, "skippedSessionCount": int}}),
    "listSessions": ("GET", "/sessions", {200: {"data": [SUMMARY], "nextCursor": MAYBE, "archived": bool}}),
    "createSession": ("POST", "/sessions", {200: OPENED}),
    "readSession": ("GET", _S, {200: OPENED | {"transcript": [ROW]}, 404: MISSING, 410: DELETED}),
    "deleteSession": ("DELETE", _S, {200: OK_ID | {"title": str, "deletedFileCount": int}} | _GATES),
    "forkSession": ("POST", _S + "/fork", {200: OPENED | {"status": "ok", "sourceSessionId": str}} | _GATES),
    "compactSession": ("POST", _S + "/compact", {200: OK_ID | {"jobId": str}, 409: ERROR, 501: ABSENT} | _GATES),
    "rollbackSession": ("POST", _S + "/rollback", {200: OPENED | {"status": "ok"}, 400: ERROR, 409: ERROR} | _GATES),
    "cleanBackgroundTerminals": ("POST", _S + "/background-terminals/clean", {200: OK_ID, 501: ABSENT} | _GATES),
    "startReview": ("POST", _S + "/review", {200: OK_ID, 501: ABSENT} | _GATES),
    "steerTurn": ("POST", _S + "/turns/{t}/steer", {
        status: {"status": str, "sessionId": str, "turnId": str, "result": {"actionType": str, "status": str}} | more
        for status, more in ((200, {"status": "ok"}), (400, {"code": str}), (409, {"code": str}))} | _GATES),
    "renameSession": ("POST", _S + "/rename", {200: {"status": "ok", "session": SUMMARY}, 400: ERROR} | _GATES),
    "archiveSession": ("POST", _S + "/archive", {200: OK_ID, 409: {"status": "not_materialized",
                                                                   "sessionId": str}} | _GATES),
    "unarchiveSession": ("POST", _S + "/unarchive", {200: OPENED | {"status": "ok"}} | _GATES),
    "setSessionProject": ("POST", _S + "/project", {
        200: OK_ID | {"projectId": MAYBE, "previousProjectId": MAYBE},
        404: {"status": {"project_not_found", "not_found"}, "sessionId": str}, 410: DELETED}),
    "listSessionApprovals": ("GET", _S + "/approvals", {200: {"data": [PENDING | {"approvalId": str}]}} | _GATES),
    "listSessionToolInput": ("GET", _S + "/tool-input", {200: {"data": [PENDING | {"requestId": str, "questions": [
        {"id": str, "header": str, "question": str, "options": (list, type(None)), "isOther": bool, "isSecret": bool}
    ]}]}} | _GATES),
    "listSessionToolCalls": ("GET", _S + "/tool-calls", {200: {"data": [
        PENDING | {"requestId": str, "callId": str, "tool": str, "arguments": object}]}} | _GATES),
    "decideApproval": ("POST", "/approvals/{a}/decision", {
        200: {"status": "ok", "approvalId": str, "threadId": str}, 404: {"status": "not_found", "approvalId": str},
        409: {"status": "reconciled", "approvalId": str, "threadId": str,
              "code": {"already_resolved", "not_eligible", "conflict"}}}),
    "decideToolInput": ("POST", "/tool-input/{r}/decision", {
        200: {"status": "ok", "requestId": str, "threadId": str}, 404: {"status": "not_found", "requestId": str}}),
    "respondToolCall": ("POST", "/tool-calls/{r}/response", {
        200: {"status": "ok", "requestId": str, "threadId": str}, 404: {"status": "not_found", "requestId": str}}),
    "getSessionControls": ("GET", _S + "/session-controls", {200: OK_ID | {"controls": CONTROLS,
                                                                           "defaults": CONTROLS}} | _GATES),
    "applySessionControls": ("POST", _S + "/session-controls", {
        200: {"status": {"ok", "unchanged"}, "scope": {"session", "default"}, "applied": CONTROLS, "summary": str},
        400: ERROR, 423: {"status": "locked"}} | _GATES),
    "getSessionSettings": ("GET", _S + "/settings", {200: {
        "status": "ok", "sessionId": str, "scope": {"session", "default"}, "settings?": dict, "found?": bool,
        "key?": str, "value?": object}} | _GATES),
    "setSessionSettings": ("POST", _S + "/settings", {
        200: SETTINGS | {"status": {"ok", "unchanged"}, "key?": str}, 400: ERROR, 423: LOCKED} | _GATES),
    "deleteSessionSetting": ("DELETE", _S + "/settings/{k}", {
        200: SETTINGS | {"status": {"ok", "unchanged"}, "key": str, "removed": bool}, 423: LOCKED} | _GATES),
    "setSessionApprovalPolicy": ("POST", _S + "/approval-policy", {200: OK_ID | {"approvalPolicy": POLICY}} | _GATES),
    "resumeSession": ("POST", _S + "/resume", {200: OPENED} | _GATES),
    "sendSessionMessage": ("POST", _S + "/messages", {202: {"status": "accepted", "sessionId": str, "turnId": str},
                                                      400: ERROR} | _GATES),
    "interruptSessionTurn": ("POST", _S + "/interrupt", {200: OK_ID | {"turnId": str},
                                                         409: {"status": "no_active_turn", "sessionId": str}} | _GATES),
    "upsertSessionTranscriptEntry": ("POST", _S + "/transcript/upsert", {200: OK_ID | {"entry": ROW}, 400: ERROR}
                                     | _GATES),
    "suggestSessionRequest": ("POST", _S + "/suggested-request", {
        200: {"status": {"ok", "fallback"}, "sessionId": str, "requestKey": str, "suggestion": str}, 202: QUEUED,
        400: ERROR, 409: {"status": "no_context", "sessionId": str, "requestKey": str, "message": str}, 429: QUEUE,
        503: QUEUE} | _GATES),
    "enqueueSuggestedSessionRequest": ("POST", _S + "/suggested-request/jobs", {
        202: QUEUED, 400: ERROR, 409: QUEUE, 429: QUEUE, 503: QUEUE} | _GATES),
    "upsertSuggestedSessionRequest": ("POST", _S + "/suggested-request/upsert", {
        200: OK_ID | {"requestKey": str, "entry": {"status": {"streaming", "complete", "canceled", "error"},
                                                   "suggestion?": str, "error?": str, "updatedAt": str}},
        400: {"status": {"error", "invalid_request"}, "code": str, "message": str}} | _GATES),
}  # fmt: skip
"""All but `connectEventStream`, which is the socket: the verb, the path, and the shapes of its answers by status."""

NOT_SERVED: Final = frozenset({
    "listExperimentalFeatures", "listCollaborationModes", "writeSkillConfig", "readRemoteSkills", "writeRemoteSkills",
    "startMcpOauthLogin", "readAccount", "startAccountLogin", "cancelAccountLogin", "logoutAccount",
    "readAccountRateLimits", "writeConfigValue", "writeConfigBatch", "executeCommand", "uploadFeedback",
    "cleanBackgroundTerminals", "startReview",
})  # fmt: skip
"""What this server has nothing like."""

EVENT_TYPES: Final = frozenset({
    "notification", "server_request", "approval", "approval_resolved", "tool_user_input_requested",
    "tool_user_input_resolved", "tool_call_requested", "tool_call_resolved", "turn_plan_updated", "turn_diff_updated",
    "thread_token_usage_updated", "transcript_updated", "session_deleted", "project_upserted", "project_deleted",
    "session_project_updated", "orchestrator_job_queued", "orchestrator_job_started", "orchestrator_job_progress",
    "orchestrator_job_completed", "orchestrator_job_failed", "orchestrator_job_canceled", "suggested_request_updated",
    "app_list_updated", "account_rate_limits_updated", "account_updated", "account_login_completed",
    "mcp_oauth_completed",
})  # fmt: skip
WITHOUT_A_FACT: Final = frozenset({"account_updated", "account_login_completed", "mcp_oauth_completed"})
"""No server has accounts of a model provider, and the one of these tests has no MCP server to log in to."""


def mismatch(value: Any, shape: Any, place: str = "") -> str | None:
    """Where the value is not as the shape says; None when it is."""
    if isinstance(shape, str):
        return None if value == shape else f"{place}: {value!r} is not {shape!r}"
    if isinstance(shape, set):
        return None if value in shape else f"{place}: {value!r} is none of {sorted(shape)}"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place}: no list"
        return next((found for one in value if (found := mismatch(one, shape[0], f"{place}[]"))), None)
    if not isinstance(shape, dict):
        return None if isinstance(value, shape) else f"{place}: {value!r} is no {shape}"
    if not isinstance(value, dict):
        return f"{place}: no object"
    for name, expected in shape.items():
        key = name.removesuffix("?")
        if key not in value:
            if name == key:
                return f"{place}.{key}: missing"
        elif (found := mismatch(value[key], expected, f"{place}.{key}")) is not None:
            return found
    return None


class StrictClient:
    """Counts what it called, by operation and status."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.http, self.called = client, Counter[tuple[str, int]]()

    async def __call__(
        self, operation: str, expected: int = 200, body: Any = None, query: dict[str, str] | None = None, **ids: str
    ) -> dict[str, Any]:
        verb, path, shapes = OPERATIONS[operation]
        names = re.findall(r"{(\w)}", path)
        assert set(names) == set(ids), (operation, names, ids)
        sent = {} if body is None else {"json": body}  # without a body also without its type, as the SDK does it
        answer = await self.http.request(verb, "/api" + path.format(**ids), params=query, **sent)
        assert answer.status_code == expected, (operation, answer.status_code, answer.text)
        assert answer.headers["content-type"].startswith("application/json")
        assert (wrong := mismatch(answer.json(), shapes[expected])) is None, (operation, wrong, answer.text)
        self.called[operation, expected] += 1
        found: dict[str, Any] = answer.json()
        return found


WORKSPACE: Final = """apiVersion: holdfast/v1
kind: Runtime
metadata: {name: drop-in, description: Everything that the sessions API can show.}
spec: {defaultAgent: worker, retention: {deletedDays: 0}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker, description: Works with tools.}
spec: {model: script, instructions: You work., clientTools: true, tools: [write_file, todos, ask_user]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: broken, description: Cannot answer.}
spec: {model: broken, instructions: You fail.}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: slow, description: Takes its time.}
spec: {model: slow, instructions: You wait., clientTools: true}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: write_file, description: Writes a file.}
spec: {kind: builtin, effect: unsafe, approval: always}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: todos, description: The plan.}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: ask_user, description: Asks.}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script, description: Follows a script.}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - match: {afterTool: ask_user}
        reply: {text: "You chose: {{ toolResult }}"}
      - match: {afterTool: todos}
        reply: {text: "Planned."}
      - match: {afterTool: lookup}
        reply: {text: "The client said: {{ toolResult }}"}
      - match: {afterTool: write_file}
        reply: {text: "The file: {{ toolResult }}"}
      - match: {equals: plan it}
        reply: {toolCalls: [{name: todos, args: {items: [{id: a, title: First, status: pending}]}}]}
      - match: {equals: ask me}
        reply:
          toolCalls: [{name: ask_user, args: {questions: [{id: colour, question: Which?, options: [red, blue]}]}}]
      - match: {equals: look it up}
        reply: {toolCalls: [{name: lookup, args: {key: a}}]}
      - match: {contains: write}
        reply:
          toolCalls:
            - name: write_file
              args:
                path: "{{ input }}.txt"
                content: hello
                claim: {who: w, why: asked, expected_hash: "", schema_version: v1}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: broken, description: Fails.}
spec:
  provider: scripted
  model: broken
  capabilities: {streaming: true}
  retry: {totalSeconds: 0}
  script: {rules: [{match: {}, reply: {text: x}, fail: {status: 400, message: broken on purpose}}]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: slow, description: Waits.}
spec:
  provider: scripted
  model: slow
  capabilities: {streaming: true, tools: true}
  script: {rules: [], default: {text: late, delaySeconds: 300}}
"""


def make_workspace(folder: Path) -> Path:
    folder.mkdir()
    (folder / "holdfast.yaml").write_text(WORKSPACE)
    return folder
