"""Reviews file changes that wait for an approval: declines those that would write a credential, notes the others.

A change that it does not decline still waits for a person, who sees the note in the transcript.
"""

import json
import re

CREDENTIAL = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:api[_-]?key|secret|password|token)\s*[=:]\s*\S{12,}", re.I
)
LARGE = 20_000  # characters


def review(event):
    asked = event["payload"]
    if asked["kind"] != "approval" or not asked.get("changesFiles"):
        return None
    arguments = asked.get("arguments") or {}
    text = json.dumps(arguments, ensure_ascii=False)
    if CREDENTIAL.search(text):
        reason = "the file would contain a credential; refer to an environment variable instead"
        return request("approval.decide", approvalId=asked["interruptId"], decision="decline", reason=reason)
    path, size = arguments.get("path", "a file"), len(str(arguments.get("content", "")))
    verdict = f"{path}: {size} characters, no credentials" + (", unusually large" if size > LARGE else "")
    return request(
        "transcript.upsert",
        messageId=f"review-{asked['interruptId']}",
        role="system",
        type="fileChange.review",
        content=verdict,
        status="complete",
    )


def request(action, **payload):
    return {"kind": "action_request", "actionType": action, "payload": payload}


def register(events):
    events.on("runtime.interrupt.raised", review, timeout=5)
